//! Commands whose end is known.

use crate::Ended;
use alloc::vec::Vec;
use weir_core::{Completion, Instant, Tag};

/// When a command ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: Instant,
    /// When the drive began to work on it.
    pub(crate) began: Instant,
    /// Its place in the order of submission.
    pub(crate) sequence: u64,
    pub(crate) tag: Tag,
    /// Its hardware queue.
    pub(crate) queue: u16,
}

impl End {
    /// As the drive reports it.
    pub(crate) fn ended(&self) -> Ended {
        Ended {
            at: self.at,
            began: self.began,
            completion: Completion::ok(self.tag),
        }
    }
}

/// Ends in order: by time, and at the same time by the order of submission.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The next one last.
    list: Vec<End>,
}

impl Ends {
    /// Room for so many.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            list: Vec::with_capacity(room),
        }
    }

    pub(crate) fn push(&mut self, end: End) {
        let key = |e: &End| (e.at, e.sequence);
        let place = self.list.partition_point(|e| key(e) > key(&end));
        self.list.insert(place, end);
    }

    /// When the next one is.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.list.last().map(|e| e.at)
    }

    /// The next one if it is not later than `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<End> {
        self.list.pop_if(|e| e.at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_by_time_and_then_in_the_order_of_submission() {
        let mut ends = Ends::new(4);
        for (sequence, at) in [(1, 20), (2, 10), (3, 20), (4, 30)] {
            ends.push(End {
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
