//! A queue of requests that are scheduled together (Linux: `bfq_queue`).
//!
//! It contains the synchronous requests of one stream, or the asynchronous requests of all streams
//! of a group with the same priority.

use super::idle::Intensity;
use super::inject::Injection;
use super::merge::BfqSharing;
use super::raising::Raising;
use crate::StreamId;
use crate::elevator::common::seek::{SeekHistory, SeekPosition};
use crate::elevator::common::think::Think;
use crate::list::{List, NIL};
use crate::tree::Tree;

/// The number of priority levels in a class, as in Linux.
pub(super) const LEVELS: usize = 8;

/// Returns the weight of a level among the queues of a group (Linux: `bfq_ioprio_to_weight`).
pub(super) const fn weight(level: u8) -> u32 {
    (LEVELS as u32 - level as u32) * 10
}

/// The requests, measurements and heuristics of one queue.
#[derive(Debug)]
pub(super) struct BfqQueue {
    pub(super) group: u32,
    pub(super) class: u8,
    pub(super) level: u8,
    pub(super) sync: bool,
    /// The stream in whose name turns are published, and for which the drive idles. It is the
    /// queue's only stream, the stream whose request is next, or the stream that sent last.
    pub(super) stream: StreamId,
    pub(super) sorted: Tree,
    pub(super) fifo: List,
    /// The request to send next, or [`NIL`].
    pub(super) next: u32,
    /// True once the age of the oldest request was checked in this turn.
    pub(super) fifo_checked: bool,
    /// Pieces of the queue in the drive.
    pub(super) dispatched: u32,
    /// True while the queue is in the scheduler, because it has requests or is treated as if it
    /// had.
    pub(super) busy: bool,
    /// True while the queue is counted among those with requests waiting or in the drive.
    pub(super) pending: bool,
    /// True if the last turn ended because the queue had no request, with a part of the budget left
    /// (Linux: `non_blocking_wait_rq`).
    pub(super) waits: bool,
    /// The budget of the queue's next turn, in sectors.
    pub(super) max_budget: u64,
    pub(super) history: SeekHistory,
    /// The end of the queue's last request, from which seeks are measured.
    pub(super) last_end: SeekPosition,
    pub(super) think: Think,
    pub(super) intensity: Intensity,
    pub(super) raising: Raising,
    pub(super) injection: Injection,
    pub(super) sharing: BfqSharing,
}

impl BfqQueue {
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
        history: SeekHistory::NEW,
        last_end: SeekPosition::START,
        think: Think::NEW,
        intensity: Intensity::NEW,
        raising: Raising::NEW,
        injection: Injection::NEW,
        sharing: BfqSharing::NONE,
    };

    /// Returns the number of waiting requests.
    pub(super) fn queued(&self) -> u32 {
        self.fifo.len()
    }

    /// Returns the number of requests that wait or are in the drive.
    pub(super) fn outstanding(&self) -> u32 {
        self.queued() + self.dispatched
    }
}
