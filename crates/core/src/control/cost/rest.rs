//! Groups that do nothing but wait: the end of a period passes them by.
//!
//! Linux looks after each active group at the end of each period (`ioc_check_iocgs`, and again for donation). Where thousands wait for
//! their budget, nearly all are found as they were left: what the first waiter lacks, it still lacks, and its timer stands where it
//! would be set. Such a group *rests*. What can be told without looking at it is when its first waiter has its budget, in the drive's
//! vtime, and from what distance between the drive's two clocks on its timer would be moved. Whatever happens to the group itself ends its
//! rest ([`Active::wake`](super::active::Active::wake)).

use super::vtime::{Clock, Now, ahead};
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// Microseconds by which roundings can move a timer.
const ROUNDINGS: u64 = 4;

/// When a group has to be looked at again.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// The generation of weights for which it is known; zero: it is not.
    generation: u64,
    /// When its first waiter has its budget, in the drive's vtime.
    until: u64,
    /// Where its timer stands: the distance between the drive's clocks at which it would be set there again.
    offset: u64,
}

/// What is known of groups that wait for their budget, and of those that rest. Numbers are slots of groups.
#[derive(Debug)]
pub(super) struct Rests {
    groups: Vec<Rest>,
    /// As of the last period: vtime in a microsecond, and how late timers may be, in microseconds.
    base_rate: u64,
    slack: u64,
    /// The generation of weights for which it holds.
    generation: u64,
    /// No group that rests has a lower offset, or a higher one; `None`: none rests.
    offsets: Option<(u64, u64)>,
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
        let none = Rest {
            generation: 0,
            until: 0,
            offset: 0,
        };
        Self {
            groups: vec![none; groups as usize],
            base_rate: 0,
            slack: 0,
            generation: 0,
            offsets: None,
        }
    }

    /// A period ends. True if timers were set by another rate.
    pub(super) fn is_new_rate(&mut self, clock: &Clock) -> bool {
        let before = (self.base_rate, self.slack);
        self.base_rate = clock.base_rate;
        self.slack = clock.slack.as_nanos() / 1_000;
        let is_new = before != (self.base_rate, self.slack);
        if is_new {
            self.offsets = None;
        }
        is_new
    }

    /// True if this is another generation of weights, for which nobody rests.
    pub(super) fn is_new_generation(&mut self, generation: u64) -> bool {
        let is_new = core::mem::replace(&mut self.generation, generation) != generation;
        if is_new {
            self.offsets = None;
        }
        is_new
    }

    pub(super) fn glance(&self, now: &Now) -> Glance {
        Glance {
            v: now.v,
            distance: self.distance(now.v, now.us),
            tolerance: self.slack.saturating_sub(ROUNDINGS) * self.base_rate,
        }
    }

    /// The first waiter of a group has its budget when the drive's vtime is `until`, and its timer stands at `timer`, as of a generation of
    /// weights. Nothing is known of it if timers are too near to be told by.
    #[inline]
    pub(super) fn note(&mut self, group: u32, generation: u64, until: u64, timer: Instant) {
        let timer = (timer.as_nanos() / 1_000).wrapping_sub(2 * self.slack);
        let is_told = self.slack > ROUNDINGS;
        self.groups[group as usize] = Rest {
            generation: if is_told { generation } else { 0 },
            until,
            offset: self.distance(until, timer),
        };
    }

    /// What was noted of a group holds no longer.
    #[inline]
    pub(super) fn forget(&mut self, group: u32) {
        self.groups[group as usize].generation = 0;
    }

    /// A group rests from now on, if what was noted of it holds.
    pub(super) fn begin(&mut self, group: u32, generation: u64) -> bool {
        let rest = self.groups[group as usize];
        let begins = rest.generation == generation;
        if begins {
            self.span(rest.offset);
        }
        begins
    }

    /// True if what was noted of a group holds, and it would be found as it was left.
    #[inline]
    pub(super) fn waits(&self, group: u32, generation: u64, at: &Glance) -> bool {
        let rest = &self.groups[group as usize];
        rest.generation == generation && at.leaves(rest)
    }

    /// When the first waiter of a group that rests has its budget, in the drive's vtime.
    pub(super) fn until(&self, group: u32) -> u64 {
        self.groups[group as usize].until
    }

    /// True if the timers of all groups that rest would be set where they are.
    pub(super) fn all_timers_stay(&self, at: &Glance) -> bool {
        (self.offsets).is_none_or(|(low, high)| at.stays(low) && at.stays(high))
    }

    /// The groups that rest are told anew, by [`Self::still_rests`].
    pub(super) fn forget_offsets(&mut self) {
        self.offsets = None;
    }

    /// True if a group that rests would be found as it was left.
    pub(super) fn still_rests(&mut self, group: u32, at: &Glance) -> bool {
        let rest = self.groups[group as usize];
        let rests = at.leaves(&rest);
        if rests {
            self.span(rest.offset);
        }
        rests
    }

    /// Where no timer is moved, the first waiters of groups with a timer at or behind this do not have their budget yet.
    pub(super) fn horizon(&self, now: &Now) -> Instant {
        now.at + Span::from_micros(3 * self.slack + 1)
    }

    fn span(&mut self, offset: u64) {
        let (low, high) = self.offsets.unwrap_or((offset, offset));
        let low = if ahead(offset, low) < 0 { offset } else { low };
        let high = if ahead(offset, high) > 0 {
            offset
        } else {
            high
        };
        self.offsets = Some((low, high));
    }

    fn distance(&self, v: u64, us: u64) -> u64 {
        v.wrapping_sub(us.wrapping_mul(self.base_rate))
    }
}

impl Glance {
    /// A group's first waiter does not have its budget yet, and its timer stays.
    #[inline]
    fn leaves(&self, rest: &Rest) -> bool {
        ahead(rest.until, self.v) > 0 && self.stays(rest.offset)
    }

    /// A timer that stands there would be set there.
    #[inline]
    fn stays(&self, offset: u64) -> bool {
        let moved = offset.wrapping_sub(self.distance);
        moved.wrapping_add(self.tolerance) <= 2 * self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_rests_until_it_can_pay_or_its_timer_moves() {
        let clock = Clock::new(10_000, Span::ZERO);
        let mut rests = Rests::new(2);
        let at = |us: u64| clock.now(Instant::from_nanos(us * 1_000));
        assert!(rests.is_new_rate(&clock) && !rests.is_new_rate(&clock));
        assert!(rests.is_new_generation(7) && !rests.is_new_generation(7));
        let slack = clock.slack.as_nanos() / 1_000;
        // It lacks the budget of 20 ms, and its timer is late by twice the slack.
        let until = at(25_000).v;
        let timer = Instant::from_nanos((25_000 + 2 * slack) * 1_000);
        rests.note(1, 7, until, timer);
        assert!(!rests.begin(1, 8) && rests.begin(1, 7));
        let glance = rests.glance(&at(15_000));
        assert!(rests.waits(1, 7, &glance) && !rests.waits(1, 8, &glance));
        assert!(rests.still_rests(1, &glance) && rests.all_timers_stay(&glance));
        let paid = rests.glance(&at(25_000));
        assert!(!rests.still_rests(1, &paid), "it has its budget");
        // The drive's clock ran ahead of the base rate.
        for (us, stays) in [(slack - ROUNDINGS - 1, true), (slack, false)] {
            let now = at(15_000);
            let v = now.v + us * clock.base_rate;
            let glance = rests.glance(&Now { v, ..now });
            assert_eq!(rests.still_rests(1, &glance), stays, "{us} us");
            assert_eq!(rests.waits(1, 7, &glance), stays, "{us} us");
            assert_eq!(rests.all_timers_stay(&glance), stays, "{us} us");
        }
        let mut faster = clock.clone();
        faster.set_base_rate(clock.base_rate + 1);
        assert!(rests.is_new_rate(&faster));
        assert!(rests.is_new_generation(8));
        rests.forget(1);
        assert!(!rests.begin(1, 7));
    }

    /// Whatever the distance between the clocks, as long as it moves no timer.
    #[test]
    fn who_has_its_timer_behind_the_horizon_does_not_have_its_budget() {
        let clock = Clock::new(10_000, Span::ZERO);
        let mut rests = Rests::new(1);
        rests.is_new_rate(&clock);
        let slack = clock.slack.as_nanos() / 1_000;
        let begun = clock.now(Instant::from_nanos(5_000_000));
        for lacks in 1..40 * slack {
            let until = begun.v + lacks * clock.base_rate - lacks % 3;
            let timer = Instant::from_nanos((5_000 + lacks + 2 * slack) * 1_000);
            rests.note(0, 1, until, timer);
            assert!(rests.begin(0, 1));
            let (mut behind, mut paid) = (0, 0);
            for us in (5_000..5_000 + 40 * slack).step_by(50) {
                for ahead in [0, slack / 2, slack - ROUNDINGS] {
                    let now = clock.now(Instant::from_nanos(us * 1_000));
                    let v = now.v + ahead * clock.base_rate;
                    let now = Now { v, ..now };
                    let glance = rests.glance(&now);
                    if !rests.all_timers_stay(&glance) {
                        continue;
                    }
                    let is_behind = timer >= rests.horizon(&now);
                    assert!(!is_behind || rests.still_rests(0, &glance));
                    behind += u32::from(is_behind);
                    paid += u32::from(!rests.still_rests(0, &glance));
                }
            }
            assert!(paid > 0 && (behind > 0 || lacks < 2 * slack));
            rests.forget_offsets();
        }
    }
}
