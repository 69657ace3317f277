//! A queue: the synchronous requests of one stream, or of several that cooperate, or the asynchronous ones of all streams of a group with
//! the same priority (Linux: `struct cfq_queue`).

use super::service::{Class, Kind};
use super::sharing::Sharing;
use crate::StreamId;
use crate::elevator::common::seek::{History, Place};
use crate::list::{List, NIL};
use crate::tree::Tree;

/// Levels of priority in a class.
pub(super) const LEVELS: usize = 8;
/// More seeky requests of the last 32 than this make a queue seeky (Linux: `CFQQ_SEEKY`).
const SEEKY: u32 = 4;
/// A queue in which this number of requests wait is deep (Linux: in `cfq_update_idle_window`).
pub(super) const DEEP: u32 = 4;

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) group: u32,
    pub(super) class: Class,
    pub(super) level: u8,
    pub(super) sync: bool,
    /// In whose name its turns are published: its stream, or the one that last sent to it.
    pub(super) stream: StreamId,
    pub(super) sorted: Tree,
    pub(super) fifo: List,
    /// The request to send next, or [`NIL`].
    pub(super) next: u32,
    /// Requests waiting that are metadata (Linux: `prio_pending`).
    pub(super) metas: u32,
    /// Pieces in the drive.
    pub(super) dispatched: u32,
    /// The service tree that it is in, as long as it is busy: it has requests, or its turn is not over (Linux: `on_rr`).
    pub(super) tree: Option<Kind>,
    /// It is worth waiting for its next request (Linux: `idle_window`).
    pub(super) idles: bool,
    /// It had several requests at a time, so that it may be waited for although it is seeky.
    pub(super) deep: bool,
    /// What was left of its slice, in nanoseconds; negative: by how much it was exceeded.
    pub(super) residue: i64,
    pub(super) history: History,
    /// Where its last request ended.
    pub(super) last_end: Option<Place>,
    pub(super) sharing: Sharing,
}

impl Queue {
    pub(super) const UNUSED: Self = Self {
        group: 0,
        class: Class::BestEffort,
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
        history: History::CALM,
        last_end: None,
        sharing: Sharing::NONE,
    };

    /// Where it belongs as it is now (Linux: `cfqq_class`, `cfqq_type`).
    pub(super) fn kind(&self) -> Kind {
        Kind::of(self.class, self.sync, self.idles)
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
