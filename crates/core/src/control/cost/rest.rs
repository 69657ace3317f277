//! Groups that do nothing but wait: the end of a period passes them by.
//!
//! Linux looks after each active group at the end of each period (`ioc_check_iocgs`, and again for donation). Where thousands wait for
//! their budget, nearly all are found as they were left: what the first waiter lacks, it still lacks, and its timer stands where it
//! would be set. Such a group *rests*. What can be told without looking at it is when its first waiter has its budget, in the drive's
//! vtime, and from what distance between the drive's two clocks on its timer would be moved. Whatever happens to the group itself ends its rest.

use super::vtime::{Clock, Now, ahead};
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// Microseconds by which roundings can move a timer.
const ROUNDINGS: u64 = 4;

/// When a group has to be looked at again.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// The generation of weights for which it holds; zero: it does not rest.
    generation: u64,
    /// When its first waiter has its budget, in the drive's vtime.
    until: u64,
    /// Where its timer stands: the distance between the drive's clocks at which it would be set there again.
    offset: u64,
}

impl Rest {
    const NONE: Self = Self {
        generation: 0,
        until: 0,
        offset: 0,
    };
}

/// The groups that rest. Numbers are slots of groups.
#[derive(Debug)]
pub(super) struct Rests {
    groups: Vec<Rest>,
    /// As of the last period: vtime in a microsecond, and how late timers may be, in microseconds.
    base_rate: u64,
    slack: u64,
}

/// The instant at which groups are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance {
    v: u64,
    /// How far vtime is from where the base rate alone would have it.
    distance: u64,
    /// How much of it leaves timers where they are.
    tolerance: u64,
}

impl Rests {
    pub(super) fn new(groups: u32) -> Self {
        Self {
            groups: vec![Rest::NONE; groups as usize],
            base_rate: 0,
            slack: 0,
        }
    }

    /// A period ends. Nobody rests whose timer was set by another rate.
    pub(super) fn glance(&mut self, clock: &Clock, now: &Now) -> Glance {
        let slack = clock.slack.as_nanos() / 1_000;
        if (self.base_rate, self.slack) != (clock.base_rate, slack) {
            (self.base_rate, self.slack) = (clock.base_rate, slack);
            self.end_all();
        }
        Glance {
            v: now.v,
            distance: self.distance(now.v, now.us),
            tolerance: slack.saturating_sub(ROUNDINGS) * self.base_rate,
        }
    }

    /// The first waiter of a group has its budget when the drive's vtime is `until`, and its timer stands at `timer`.
    pub(super) fn begin(&mut self, group: u32, generation: u64, until: u64, timer: Instant) {
        if self.slack > ROUNDINGS {
            let timer = (timer.as_nanos() / 1_000).wrapping_sub(2 * self.slack);
            self.groups[group as usize] = Rest {
                generation,
                until,
                offset: self.distance(until, timer),
            };
        }
    }

    /// Something happens to a group.
    #[inline]
    pub(super) fn end(&mut self, group: u32) {
        self.groups[group as usize].generation = 0;
    }

    /// Something happens to all of them.
    pub(super) fn end_all(&mut self) {
        self.groups.fill(Rest::NONE);
    }

    /// True if a group would be found as it was left.
    #[inline]
    pub(super) fn has(&self, group: u32, generation: u64, at: &Glance) -> bool {
        let rest = &self.groups[group as usize];
        let moved = rest.offset.wrapping_sub(at.distance);
        rest.generation == generation
            && ahead(rest.until, at.v) > 0
            && moved.wrapping_add(at.tolerance) <= 2 * at.tolerance
    }

    fn distance(&self, v: u64, us: u64) -> u64 {
        v.wrapping_sub(us.wrapping_mul(self.base_rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_rests_until_it_can_pay_or_its_timer_moves_or_something_happens_to_it() {
        let clock = Clock::new(10_000);
        let mut rests = Rests::new(2);
        let at = |us: u64| clock.now(Instant::from_nanos(us * 1_000));
        let begun = at(5_000);
        rests.glance(&clock, &begun);
        let slack = clock.slack.as_nanos() / 1_000;
        // It lacks the budget of 20 ms, and its timer is late by twice the slack.
        let until = at(25_000).v;
        let timer = Instant::from_nanos((25_000 + 2 * slack) * 1_000);
        rests.begin(1, 7, until, timer);
        let glance = rests.glance(&clock, &at(15_000));
        assert!(rests.has(1, 7, &glance));
        assert!(!rests.has(1, 8, &glance), "its weight has changed");
        assert!(!rests.has(0, 7, &glance));
        let paid = rests.glance(&clock, &at(25_000));
        assert!(!rests.has(1, 7, &paid), "it has its budget");
        // The drive's clock ran ahead of the base rate.
        for (us, rests_still) in [(slack - ROUNDINGS - 1, true), (slack, false)] {
            let now = at(15_000);
            let v = now.v + us * clock.base_rate;
            let glance = rests.glance(&clock, &Now { v, ..now });
            assert_eq!(rests.has(1, 7, &glance), rests_still, "{us} us");
        }
        rests.end(1);
        assert!(!rests.has(1, 7, &glance));
        rests.begin(1, 7, until, timer);
        let mut faster = clock.clone();
        faster.set_base_rate(clock.base_rate + 1);
        let glance = rests.glance(&faster, &at(15_000));
        assert!(!rests.has(1, 7, &glance), "the rate has changed");
    }
}
