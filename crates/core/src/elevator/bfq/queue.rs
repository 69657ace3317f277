//! A queue: the synchronous requests of one stream, or the asynchronous ones of all streams of a group with the same priority
//! (Linux: `bfq_queue`).

use super::idle::Intensity;
use super::inject::Injection;
use super::merge::Sharing;
use super::raising::Raising;
use crate::StreamId;
use crate::elevator::common::seek::{History, Place};
use crate::elevator::common::think::Think;
use crate::list::{List, NIL};
use crate::tree::Tree;

/// Levels of priority in a class, as in Linux.
pub(super) const LEVELS: usize = 8;

/// The weight of a queue of a level among the queues of its group (Linux: `bfq_ioprio_to_weight`).
pub(super) const fn weight(level: u8) -> u32 {
    (LEVELS as u32 - level as u32) * 10
}

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) group: u32,
    pub(super) class: u8,
    pub(super) level: u8,
    pub(super) sync: bool,
    /// In whose name its turns are published: its stream, or the one whose request is next; and the one that is idled for: the stream that
    /// last sent to it.
    pub(super) stream: StreamId,
    pub(super) sorted: Tree,
    pub(super) fifo: List,
    /// The request to send next.
    pub(super) next: u32,
    /// Its oldest request was looked at in this turn.
    pub(super) fifo_checked: bool,
    /// Pieces in the drive.
    pub(super) dispatched: u32,
    /// In the scheduler: it has requests, or is treated so.
    pub(super) busy: bool,
    /// Counted among those with requests waiting or in the drive.
    pub(super) pending: bool,
    /// Went out of service because it waits for its next request, with budget left over
    /// (Linux: `non_blocking_wait_rq`).
    pub(super) waits: bool,
    /// The budget it gets next, in sectors.
    pub(super) max_budget: u64,
    pub(super) history: History,
    /// Where its last request ended.
    pub(super) last_end: Place,
    pub(super) think: Think,
    pub(super) intensity: Intensity,
    pub(super) raising: Raising,
    pub(super) injection: Injection,
    pub(super) sharing: Sharing,
}

impl Queue {
    pub(super) const UNUSED: Self = Self {
        group: 0,
        class: 0,
        level: 0,
        sync: true,
        stream: StreamId::from_bits(0),
        sorted: Tree::EMPTY,
        fifo: List::EMPTY,
        next: NIL,
        fifo_checked: false,
        dispatched: 0,
        busy: false,
        pending: false,
        waits: false,
        max_budget: 0,
        history: History::NEW,
        last_end: Place::START,
        think: Think::NEW,
        intensity: Intensity::NEW,
        raising: Raising::NEW,
        injection: Injection::NEW,
        sharing: Sharing::NONE,
    };

    /// Requests waiting.
    pub(super) fn queued(&self) -> u32 {
        self.fifo.len()
    }

    /// Requests waiting and in the drive.
    pub(super) fn outstanding(&self) -> u32 {
        self.queued() + self.dispatched
    }
}
