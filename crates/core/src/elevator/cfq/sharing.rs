//! The state of a queue that streams share, or are going to share.

use crate::list::NIL;

/// The relations of a queue to its streams and to other queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct CfqSharing {
    /// The number of streams that send to the queue, or that will because their queue merges with
    /// it (Linux: `cfqq_process_refs`).
    pub(super) users: u32,
    /// The queue that this one merges with as its streams send their next requests, or [`NIL`]
    /// (Linux: `new_cfqq`).
    pub(super) into: u32,
    /// True if streams of other queues were merged into this one (Linux: `coop`).
    pub(super) is_shared: bool,
    /// True if each stream gets its own queue again with its next request (Linux: `split_coop`).
    pub(super) split_pending: bool,
    /// True if all streams have left. The queue is removed when its last request is served.
    pub(super) lingers: bool,
}

impl CfqSharing {
    pub(super) const NONE: Self = Self {
        users: 0,
        into: NIL,
        is_shared: false,
        split_pending: false,
        lingers: false,
    };
}
