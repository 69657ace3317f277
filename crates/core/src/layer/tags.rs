//! Scheduler tags (Linux: `nr_requests`): a number for each hardware queue.

use crate::{DriveShape, QueueId, Sizes};
use alloc::vec;
use alloc::vec::Vec;

/// Those that no request holds.
#[derive(Debug)]
pub(super) struct SchedulerTags {
    /// Of all queues together.
    left: u32,
    /// Of each queue, where there are several.
    queues: Vec<u32>,
    /// Of each queue at most.
    each: u32,
}

impl SchedulerTags {
    pub(super) fn new(sizes: &Sizes, shape: &DriveShape) -> Self {
        let each = sizes.scheduler_tags;
        let queues = match shape.queues {
            1 => vec![],
            several => vec![each; several.into()],
        };
        Self {
            left: each.saturating_mul(shape.queues.into()),
            queues,
            each,
        }
    }

    /// Some queue has one. Where there is only one queue, that is all there is to know.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.left > 0
    }

    /// A queue has one.
    pub(super) fn has(&self, queue: QueueId) -> bool {
        match self.queues.get(usize::from(queue.0)) {
            Some(left) => *left > 0,
            None => self.any(),
        }
    }

    /// One of the only queue is taken.
    #[inline]
    pub(super) fn take_only(&mut self) {
        debug_assert!(self.left > 0 && self.queues.is_empty(), "no tag is free");
        self.left -= 1;
    }

    /// One of a queue is taken.
    pub(super) fn take(&mut self, queue: QueueId) {
        debug_assert!(self.has(queue), "no tag is free");
        self.left -= 1;
        if let Some(left) = self.queues.get_mut(usize::from(queue.0)) {
            *left -= 1;
        }
    }

    /// One of a queue, or perhaps none, is free again; where there are several queues, [`Self::release_in`] says of which.
    #[inline]
    pub(super) fn release_any(&mut self, one: bool) {
        self.left += u32::from(one);
    }

    /// The one that was given is of this queue.
    pub(super) fn release_in(&mut self, queue: QueueId) {
        if let Some(left) = self.queues.get_mut(usize::from(queue.0)) {
            *left += 1;
            debug_assert!(*left <= self.each, "a tag is free twice");
        } else {
            debug_assert!(self.left <= self.each, "a tag is free twice");
        }
    }

    /// One of a queue is free again.
    pub(super) fn release(&mut self, queue: QueueId) {
        self.release_any(true);
        self.release_in(queue);
    }

    /// Those of all queues together.
    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// With those that requests hold there are as many as at the beginning: `held` has their number by queue.
    #[cfg(debug_assertions)]
    pub(super) fn invariants(&self, held: &[u64]) {
        let each = u64::from(self.each);
        for (queue, (&left, held)) in self.queues.iter().zip(held).enumerate() {
            assert_eq!(u64::from(left) + held, each, "tags of queue {queue}");
        }
        let all = each * held.len() as u64;
        let held: u64 = held.iter().sum();
        let left = all.min(u32::MAX.into()) - held;
        assert_eq!(u64::from(self.left), left, "scheduler tags");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_its_own() {
        let sizes = Sizes::default().scheduler_tags(2);
        let shape = DriveShape::default().queues(2);
        let (one, other) = (QueueId(0), QueueId(1));
        let mut tags = SchedulerTags::new(&sizes, &shape);
        tags.take(one);
        tags.take(one);
        assert!(tags.any() && !tags.has(one) && tags.has(other));
        tags.release(one);
        assert!(tags.has(one));
        assert_eq!(tags.left(), 3);
    }
}
