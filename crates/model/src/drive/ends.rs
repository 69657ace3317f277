//! Completions whose time is already known, in the order in which a drive reports them.

use crate::drive::TimedCompletion;
use weir_core::{Completion, Instant, Tag};

/// A command with the time of its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduledEnd {
    pub(crate) at: Instant,
    /// The time at which the drive began to serve the command.
    pub(crate) began: Instant,
    /// The command's position in the order of submission.
    pub(crate) sequence: u64,
    pub(crate) tag: Tag,
    /// The command's hardware queue.
    pub(crate) queue: u16,
}

impl ScheduledEnd {
    /// The completion as the drive reports it.
    pub(crate) fn timed_completion(&self) -> TimedCompletion {
        TimedCompletion {
            at: self.at,
            began: self.began,
            completion: Completion::ok(self.tag),
        }
    }
}

/// Completions sorted by time, and those of the same time by the order of submission.
#[derive(Debug)]
pub(crate) struct ScheduledEnds {
    /// In descending order, so that the next one is the last element.
    list: Vec<ScheduledEnd>,
}

impl ScheduledEnds {
    /// Creates an empty list with space for `room` commands, which is never reallocated.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            list: Vec::with_capacity(room),
        }
    }

    /// Inserts a completion at its position in the order.
    pub(crate) fn push(&mut self, end: ScheduledEnd) {
        // The list holds at most one entry per tag, so moving entries is cheap.
        debug_assert!(end.began <= end.at, "a command ends after it began");
        let key = |e: &ScheduledEnd| (e.at, e.sequence);
        let place = self.list.partition_point(|e| key(e) > key(&end));
        debug_assert!(
            self.list.len() < self.list.capacity(),
            "there is room for every tag"
        );
        self.list.insert(place, end);
    }

    /// The time of the next completion.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.list.last().map(|e| e.at)
    }

    /// Removes the next completion if it is due by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<ScheduledEnd> {
        self.list.pop_if(|e| e.at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_by_time_and_then_in_the_order_of_submission() {
        let mut ends = ScheduledEnds::new(4);
        for (sequence, at) in [(1, 20), (2, 10), (3, 20), (4, 30)] {
            ends.push(ScheduledEnd {
                at: Instant::from_nanos(at),
                began: Instant::ZERO,
                sequence,
                tag: Tag(sequence as u32),
                queue: 0,
            });
        }
        let now = Instant::from_nanos(20);
        assert_eq!(ends.first(), Some(Instant::from_nanos(10)));
        let order: [_; 4] = core::array::from_fn(|_| ends.pop(now).map(|e| e.tag.0));
        assert_eq!(order, [Some(2), Some(1), Some(3), None]);
    }
}
