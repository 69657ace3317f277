//! Detection of bursts, which are queues that are created at about the same time (Linux:
//! `bfq_handle_burst`).
//!
//! The queues of a large burst belong to the start of a service or to a build, for which throughput
//! matters more than latency. They are not raised.

use crate::list::{Links, List};
use crate::{Instant, Span};

/// The number of queues from which on a burst is large (Linux: `bfq_large_burst_thresh`).
const LARGE: u32 = 8;
/// The largest time between two queues of the same burst (Linux: `bfq_burst_interval`).
const INTERVAL: Span = Span::from_millis(180);

/// The burst in progress, or the last one.
#[derive(Debug)]
pub(super) struct Burst {
    members: List,
    links: Links,
    size: u32,
    is_large: bool,
    last: Instant,
    group: u32,
}

impl Burst {
    pub(super) fn new(queues: u32) -> Self {
        Self {
            members: List::EMPTY,
            links: Links::new(queues),
            size: 0,
            is_large: false,
            last: Instant::ZERO,
            group: 0,
        }
    }

    /// Returns true if a queue began a burst while no other queue had requests.
    pub(super) fn is_under_way(&self) -> bool {
        self.size > 0
    }

    /// Adds a queue of `group` with its first request. `alone` means that no other queue has
    /// requests. Calls `mark` for each queue that is found to be part of a large burst.
    pub(super) fn join(
        &mut self,
        now: Instant,
        q: u32,
        group: u32,
        alone: bool,
        mut mark: impl FnMut(u32),
    ) {
        let is_late = self.last + INTERVAL < now;
        self.last = now;
        // Queues of another group belong to another application.
        if is_late || group != self.group {
            self.is_large = false;
            while self.links.pop_front(&mut self.members).is_some() {}
            // A burst begins only while no other queue has requests. Otherwise this queue is not
            // counted.
            self.size = u32::from(alone);
            self.group = group;
            if alone {
                self.links.push_back(&mut self.members, q);
            }
        // Once a burst is large, its members need not be listed any more.
        } else if self.is_large {
            mark(q);
        } else {
            self.size += 1;
            self.links.push_back(&mut self.members, q);
            if self.size == LARGE {
                self.is_large = true;
                while let Some(member) = self.links.pop_front(&mut self.members) {
                    mark(member);
                }
            }
        }
    }

    /// Removes a queue that is closed or has been idle for too long to count. The size does not
    /// change.
    pub(super) fn forget(&mut self, q: u32) {
        if self.links.contains(q) {
            self.links.remove(&mut self.members, q);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn eight_queues_at_most_180_ms_apart_are_a_large_burst() {
        let mut burst = Burst::new(20);
        let mut large = Vec::new();
        for q in 0..7 {
            // Intervals of exactly 180 ms still belong to the burst.
            burst.join(ms(500 + u64::from(q) * 180), q, 0, q == 0, |m| {
                large.push(m);
            });
        }
        assert!(large.is_empty() && burst.is_under_way());
        burst.forget(3);
        burst.join(ms(1_700), 7, 0, false, |m| large.push(m));
        assert_eq!(large, [0, 1, 2, 4, 5, 6, 7]);
        burst.join(ms(1_880), 8, 0, false, |m| large.push(m));
        assert_eq!(large.pop(), Some(8), "a later one is of it too");
        burst.join(ms(2_061), 9, 0, false, |m| large.push(m));
        assert_eq!(large.pop(), Some(7), "too late");
        assert!(!burst.is_under_way(), "others have requests");
    }

    #[test]
    fn another_group_begins_another_burst() {
        let mut burst = Burst::new(20);
        for q in 0..16 {
            burst.join(ms(500), q, q / 7, true, |m| panic!("{m} is of a large one"));
        }
    }
}
