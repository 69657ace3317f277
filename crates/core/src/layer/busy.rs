//! The pieces that the drive returned because a hardware queue was busy.
//!
//! See `docs/decisions/busy-pieces.md` for the reasons.

use crate::list::{Links, List};
use crate::{DriveShape, Instant, QueueId, Reason, Span, Tag, Wake};
use alloc::vec;
use alloc::vec::Vec;

/// The time after which a busy queue is tried again if none of its pieces has ended by then (Linux:
/// `BLK_MQ_RESOURCE_DELAY`).
const RETRY: Span = Span::from_millis(3);

/// The returned pieces of a hardware queue.
#[derive(Clone, Copy, Debug)]
struct BusyQueue {
    /// The tags of the returned pieces, in the order of their return.
    tags: List,
    /// The latest time at which they are sent again, or `None` if they can be sent now.
    retry: Option<Instant>,
}

/// The returned pieces of all hardware queues. They keep their tags.
#[derive(Debug)]
pub(super) struct Busy {
    queues: Vec<BusyQueue>,
    links: Links,
    /// The number of busy queues.
    number: u32,
}

impl Busy {
    pub(super) fn new(shape: &DriveShape, names: u32) -> Self {
        let queue = BusyQueue {
            tags: List::EMPTY,
            retry: None,
        };
        Self {
            queues: vec![queue; shape.queues.into()],
            links: Links::new(names),
            number: 0,
        }
    }

    /// Returns true if no queue is busy.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.number == 0
    }

    pub(super) fn contains(&self, tag: Tag) -> bool {
        self.links.contains(tag.0)
    }

    /// Adds a piece that was returned.
    pub(super) fn add(&mut self, now: Instant, queue: QueueId, tag: Tag) {
        let busy = &mut self.queues[usize::from(queue.0)];
        self.number += u32::from(busy.tags.is_empty());
        self.links.push_back(&mut busy.tags, tag.0);
        // Each returned piece starts the delay again.
        busy.retry = Some(now + RETRY);
    }

    /// Notes that a piece of a queue ended, so that the queue has room for returned pieces.
    pub(super) fn on_completion(&mut self, queue: QueueId) {
        self.queues[usize::from(queue.0)].retry = None;
    }

    /// Returns a busy queue that can be tried again, if there is one.
    pub(super) fn due(&self, now: Instant) -> Option<QueueId> {
        let mut queues = self.queues.iter();
        let at = queues.position(|q| !q.tags.is_empty() && q.retry.is_none_or(|at| at <= now))?;
        Some(QueueId(at as u16))
    }

    /// Removes and returns the piece that a queue returned first.
    pub(super) fn pop(&mut self, queue: QueueId) -> Option<Tag> {
        let busy = &mut self.queues[usize::from(queue.0)];
        let tag = self.links.pop_front(&mut busy.tags)?;
        self.number -= u32::from(busy.tags.is_empty());
        Some(Tag(tag))
    }

    /// Returns the tags of the returned pieces with their queues, after checking the counts.
    #[cfg(debug_assertions)]
    pub(super) fn checked(&self) -> impl Iterator<Item = (QueueId, Tag)> + '_ {
        let busy = self.queues.iter().filter(|q| !q.tags.is_empty());
        assert_eq!(self.number as usize, busy.count(), "busy queues");
        let queues = (0..).map(QueueId).zip(&self.queues);
        queues.flat_map(|(queue, q)| self.links.checked(&q.tags).map(move |t| (queue, Tag(t))))
    }

    /// Returns the time at which the next queue must be tried again.
    #[cold]
    pub(super) fn wake(&self) -> Option<Wake> {
        // A queue without a time is sent again at once, so it needs no wake-up.
        let busy = self.queues.iter().filter(|q| !q.tags.is_empty());
        let at = busy.filter_map(|q| q.retry).min()?;
        Some(Wake {
            at,
            reason: Reason::Retry,
        })
    }
}
