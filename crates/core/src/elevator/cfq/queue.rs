//! A queue of requests that are scheduled together (Linux: `struct cfq_queue`).
//!
//! It contains the synchronous requests of one stream or of several that cooperate, or the
//! asynchronous requests of all streams of a group with the same priority.

use super::service::{CfqClass, TreeKind};
use super::sharing::CfqSharing;
use crate::StreamId;
use crate::elevator::common::seek::{SeekHistory, SeekPosition};
use crate::list::{List, NIL};
use crate::tree::Tree;

/// The number of priority levels in a class.
pub(super) const LEVELS: usize = 8;
/// The number of seeks among the last 32 requests above which a queue is seeky (Linux:
/// `CFQQ_SEEKY`).
const SEEKY: u32 = 4;
/// The number of waiting requests from which on a queue is deep (Linux: in
/// `cfq_update_idle_window`).
pub(super) const DEEP: u32 = 4;

/// The requests, observations and position of one queue.
#[derive(Debug)]
pub(super) struct CfqQueue {
    pub(super) group: u32,
    pub(super) class: CfqClass,
    pub(super) level: u8,
    pub(super) sync: bool,
    /// The stream in whose name turns are published. It is the queue's only stream, or the one
    /// whose request began the turn.
    pub(super) stream: StreamId,
    pub(super) sorted: Tree,
    pub(super) fifo: List,
    /// The request to send next, or [`NIL`].
    pub(super) next: u32,
    /// The number of waiting requests for metadata (Linux: `prio_pending`).
    pub(super) metas: u32,
    /// Pieces of the queue in the drive.
    pub(super) dispatched: u32,
    /// The service tree of the queue while it is busy, because it has requests or its turn is not
    /// over (Linux: `on_rr`).
    pub(super) tree: Option<TreeKind>,
    /// True if idling for the queue's next request is worthwhile (Linux: `idle_window`).
    pub(super) idles: bool,
    /// True if the queue had several requests at once, so that the drive may idle for it although
    /// it is seeky.
    pub(super) deep: bool,
    /// The unused rest of the last slice in nanoseconds, or the excess as a negative number.
    pub(super) residue: i64,
    pub(super) history: SeekHistory,
    /// The end of the queue's last request, from which seeks are measured.
    pub(super) last_end: Option<SeekPosition>,
    pub(super) sharing: CfqSharing,
}

impl CfqQueue {
    pub(super) const UNUSED: Self = Self {
        group: 0,
        class: CfqClass::BestEffort,
        level: 4,
        sync: false,
        stream: StreamId::from_bits(0),
        sorted: Tree::EMPTY,
        fifo: List::EMPTY,
        next: NIL,
        metas: 0,
        dispatched: 0,
        tree: None,
        idles: false,
        deep: false,
        residue: 0,
        history: SeekHistory::CALM,
        last_end: None,
        sharing: CfqSharing::NONE,
    };

    /// Returns the service tree that the queue belongs to in its present state (Linux:
    /// `cfqq_class`, `cfqq_type`).
    pub(super) fn kind(&self) -> TreeKind {
        TreeKind::of(self.class, self.sync, self.idles)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.tree.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next == NIL
    }

    pub(super) fn queued(&self) -> u32 {
        self.fifo.len()
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.history.is_seeky(SEEKY)
    }
}
