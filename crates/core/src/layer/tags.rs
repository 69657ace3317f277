//! Scheduler tags (Linux: `nr_requests`): the number of free tags of each hardware queue.

use crate::{DriveShape, QueueId, Sizes};
use alloc::vec;
use alloc::vec::Vec;

/// The scheduler tags that are free.
#[derive(Debug)]
pub(super) struct SchedulerTags {
    /// The free tags of all queues together.
    left: u32,
    /// The free tags of each queue, or nothing if there is only one queue.
    queues: Vec<u32>,
    /// The number of tags of each queue.
    each: u32,
}

impl SchedulerTags {
    pub(super) fn new(sizes: &Sizes, shape: &DriveShape) -> Self {
        let each = sizes.scheduler_tags;
        // With one queue, its count would only repeat `left` on the path of every request.
        let queues = match shape.queues {
            1 => vec![],
            several => vec![each; several.into()],
        };
        Self {
            // `scheduler_tags` has no upper bound, so the product may exceed 32 bits.
            left: each.saturating_mul(shape.queues.into()),
            queues,
            each,
        }
    }

    /// Returns true if any queue has a free tag. If there is only one queue, no other check is
    /// necessary.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.left > 0
    }

    /// Returns true if a queue has a free tag.
    pub(super) fn has(&self, queue: QueueId) -> bool {
        match self.queues.get(usize::from(queue.0)) {
            Some(left) => *left > 0,
            None => self.any(),
        }
    }

    /// Takes a tag of the only queue.
    #[inline]
    pub(super) fn take_only(&mut self) {
        debug_assert!(self.left > 0 && self.queues.is_empty(), "no tag is free");
        self.left -= 1;
    }

    /// Takes a tag of a queue.
    pub(super) fn take(&mut self, queue: QueueId) {
        debug_assert!(self.has(queue), "no tag is free");
        self.left -= 1;
        if let Some(left) = self.queues.get_mut(usize::from(queue.0)) {
            *left -= 1;
        }
    }

    /// Frees a tag if `one` is true. If there are several queues, [`Self::release_in`] must follow
    /// with its queue.
    #[inline]
    pub(super) fn release_any(&mut self, one: bool) {
        self.left += u32::from(one);
    }

    /// Notes that the tag freed by [`Self::release_any`] belongs to this queue.
    pub(super) fn release_in(&mut self, queue: QueueId) {
        if let Some(left) = self.queues.get_mut(usize::from(queue.0)) {
            *left += 1;
            debug_assert!(*left <= self.each, "a tag is free twice");
        } else {
            debug_assert!(self.left <= self.each, "a tag is free twice");
        }
    }

    /// Frees a tag of a queue.
    pub(super) fn release(&mut self, queue: QueueId) {
        self.release_any(true);
        self.release_in(queue);
    }

    /// Returns the number of free tags of all queues together.
    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Checks that the free tags and those in use are as many as at the beginning. `held` has the
    /// number of tags in use for each queue.
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
    fn each_queue_has_scheduler_tags_of_its_own() {
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
