//! What the drive sent back because a hardware queue of it was busy.

use crate::list::{Links, List};
use crate::{DriveShape, Instant, QueueId, Reason, Span, Tag, Wake};
use alloc::vec;
use alloc::vec::Vec;

/// A queue that is busy with nothing of ours in it is asked again after this long (Linux: `BLK_MQ_RESOURCE_DELAY`).
const RETRY: Span = Span::from_millis(3);

/// A hardware queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// Tags whose piece was sent back.
    tags: List,
    /// When they are sent again at the latest; `None`: at once.
    retry: Option<Instant>,
}

/// The pieces that were sent back. They keep their tags.
#[derive(Debug)]
pub(super) struct Busy {
    queues: Vec<Queue>,
    links: Links,
    /// Queues that are busy.
    number: u32,
}

impl Busy {
    pub(super) fn new(shape: &DriveShape, names: u32) -> Self {
        let queue = Queue {
            tags: List::EMPTY,
            retry: None,
        };
        Self {
            queues: vec![queue; shape.queues.into()],
            links: Links::new(names),
            number: 0,
        }
    }

    /// No queue is busy.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.number == 0
    }

    pub(super) fn contains(&self, tag: Tag) -> bool {
        self.links.contains(tag.0)
    }

    /// A piece was sent back.
    pub(super) fn add(&mut self, now: Instant, queue: QueueId, tag: Tag) {
        let busy = &mut self.queues[usize::from(queue.0)];
        self.number += u32::from(busy.tags.is_empty());
        self.links.push_back(&mut busy.tags, tag.0);
        busy.retry = Some(now + RETRY);
    }

    /// Something in a queue ended, so that there is room again for what it sent back.
    pub(super) fn ended(&mut self, queue: QueueId) {
        self.queues[usize::from(queue.0)].retry = None;
    }

    /// A queue that can be asked again, if there is one.
    pub(super) fn due(&self, now: Instant) -> Option<QueueId> {
        let mut queues = self.queues.iter();
        let at = queues.position(|q| !q.tags.is_empty() && q.retry.is_none_or(|at| at <= now))?;
        Some(QueueId(at as u16))
    }

    /// The piece that a queue sent back first.
    pub(super) fn pop(&mut self, queue: QueueId) -> Option<Tag> {
        let busy = &mut self.queues[usize::from(queue.0)];
        let tag = self.links.pop_front(&mut busy.tags)?;
        self.number -= u32::from(busy.tags.is_empty());
        Some(Tag(tag))
    }

    /// The tags whose piece was sent back, with the queue that did so.
    #[cfg(debug_assertions)]
    pub(super) fn checked(&self) -> impl Iterator<Item = (QueueId, Tag)> + '_ {
        let busy = self.queues.iter().filter(|q| !q.tags.is_empty());
        assert_eq!(self.number as usize, busy.count(), "busy queues");
        let queues = (0..).map(QueueId).zip(&self.queues);
        queues.flat_map(|(queue, q)| self.links.checked(&q.tags).map(move |t| (queue, Tag(t))))
    }

    /// When the next queue is to be asked again.
    #[cold]
    pub(super) fn wake(&self) -> Option<Wake> {
        let busy = self.queues.iter().filter(|q| !q.tags.is_empty());
        let at = busy.filter_map(|q| q.retry).min()?;
        Some(Wake {
            at,
            reason: Reason::Retry,
        })
    }
}
