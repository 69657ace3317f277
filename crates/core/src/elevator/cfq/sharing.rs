//! What it is to a queue to be shared.

use crate::list::NIL;

/// What sharing a queue is to streams and other queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Streams that send to it, or that will because their queue is to merge with it (Linux: `cfqq_process_refs`).
    pub(super) users: u32,
    /// The queue that its streams go to as they come with their next requests, or [`NIL`] (Linux: `new_cfqq`).
    pub(super) into: u32,
    /// Streams were merged into it (Linux: `coop`).
    pub(super) is_shared: bool,
    /// Its streams part (Linux: `split_coop`).
    pub(super) parts: bool,
    /// All streams have left; it goes when what it has is served.
    pub(super) lingers: bool,
}

impl Sharing {
    pub(super) const NONE: Self = Self {
        users: 0,
        into: NIL,
        is_shared: false,
        parts: false,
        lingers: false,
    };
}
