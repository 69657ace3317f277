//! Groups that only wait for their budget, which the end of a period skips.
//!
//! Linux checks each active group at the end of each period (`ioc_check_iocgs`, and again for
//! donation). If thousands of groups wait, nearly all checks change nothing: the first waiter still
//! lacks its budget, and the timer would be set to its present time. Such a group *rests*.
//!
//! Two figures are enough to know that a check would change nothing: the vtime at which the first
//! waiter has its budget, and the distance between the drive's two clocks from which on the timer
//! would be moved. Any event of the group itself ends its rest
//! ([`Active::wake`](super::active::Active::wake)).

use super::vtime::{Now, VtimeClock, ahead};
use crate::time::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The number of microseconds by which rounding can move a timer.
const ROUNDINGS: u64 = 4;

/// The condition under which a waiting group must be checked again.
#[derive(Clone, Copy, Debug)]
struct RestCondition {
    /// The generation of weights for which the figures apply, or zero if none are known.
    generation: u64,
    /// The drive's vtime at which the first waiter has its budget.
    until: u64,
    /// The distance between the drive's clocks at which the timer would be set to its present time.
    offset: u64,
}

/// The figures of waiting and resting groups. Numbers are slots of groups.
#[derive(Debug)]
pub(super) struct Rests {
    groups: Vec<RestCondition>,
    /// The base rate in the last period. `slack` is the permitted lateness of timers in
    /// microseconds.
    base_rate: u64,
    slack: u64,
    /// The generation of weights for which groups rest.
    generation: u64,
    /// The lowest and the highest offset of resting groups, or bounds of them. `None` means that no
    /// group rests.
    offsets: Option<(u64, u64)>,
}

/// The state of the drive's clocks at the instant of a check.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    v: u64,
    /// The distance of vtime from the value at which the base rate alone would have it.
    distance: u64,
    /// The change of the distance that leaves timers where they are.
    tolerance: u64,
}

impl Rests {
    pub(super) fn new(groups: u32) -> Self {
        let none = RestCondition {
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

    /// Adopts the clock's rate at the end of a period. Returns true if timers were set for another
    /// rate.
    pub(super) fn is_new_rate(&mut self, clock: &VtimeClock) -> bool {
        let before = (self.base_rate, self.slack);
        self.base_rate = clock.base_rate;
        self.slack = clock.slack.as_nanos() / 1_000;
        let is_new = before != (self.base_rate, self.slack);
        if is_new {
            self.offsets = None;
        }
        is_new
    }

    /// Adopts a generation of weights. Returns true if it is a new one, in which no group rests.
    pub(super) fn is_new_generation(&mut self, generation: u64) -> bool {
        let is_new = core::mem::replace(&mut self.generation, generation) != generation;
        if is_new {
            self.offsets = None;
        }
        is_new
    }

    pub(super) fn glance(&self, now: &Now) -> ClockReading {
        ClockReading {
            v: now.v,
            distance: self.distance(now.v, now.us),
            tolerance: self.slack.saturating_sub(ROUNDINGS) * self.base_rate,
        }
    }

    /// Notes that the first waiter of a group has its budget at vtime `until`, and that its timer
    /// is set to `timer`. If the slack is too small to allow for rounding, nothing is noted.
    #[inline]
    pub(super) fn note(&mut self, group: u32, generation: u64, until: u64, timer: Instant) {
        // The timer without its intended lateness of twice the slack.
        let timer = (timer.as_nanos() / 1_000).wrapping_sub(2 * self.slack);
        let is_told = self.slack > ROUNDINGS;
        self.groups[group as usize] = RestCondition {
            generation: if is_told { generation } else { 0 },
            until,
            offset: self.distance(until, timer),
        };
    }

    /// Discards the figures of a group.
    #[inline]
    pub(super) fn forget(&mut self, group: u32) {
        self.groups[group as usize].generation = 0;
    }

    /// Lets a group rest if its figures apply to this generation. Returns true if it rests.
    pub(super) fn begin(&mut self, group: u32, generation: u64) -> bool {
        let rest = self.groups[group as usize];
        let begins = rest.generation == generation;
        if begins {
            self.span(rest.offset);
        }
        begins
    }

    /// Returns true if the figures of a group apply, and a check would change nothing.
    #[inline]
    pub(super) fn waits(&self, group: u32, generation: u64, at: &ClockReading) -> bool {
        let rest = &self.groups[group as usize];
        rest.generation == generation && at.leaves(rest)
    }

    /// Returns the drive's vtime at which the first waiter of a resting group has its budget.
    pub(super) fn until(&self, group: u32) -> u64 {
        self.groups[group as usize].until
    }

    /// Returns true if the timers of all resting groups would stay where they are.
    pub(super) fn all_timers_stay(&self, at: &ClockReading) -> bool {
        (self.offsets).is_none_or(|(low, high)| at.stays(low) && at.stays(high))
    }

    /// Forgets the bounds of offsets, which [`Self::still_rests`] then collects again.
    pub(super) fn forget_offsets(&mut self) {
        self.offsets = None;
    }

    /// Returns true if a check would not change a resting group.
    pub(super) fn still_rests(&mut self, group: u32, at: &ClockReading) -> bool {
        let rest = self.groups[group as usize];
        let rests = at.leaves(&rest);
        if rests {
            self.span(rest.offset);
        }
        rests
    }

    /// Returns a time such that groups with a timer at or after it do not have their budget yet, as
    /// long as no timer is moved.
    pub(super) fn horizon(&self, now: &Now) -> Instant {
        // A timer is late by twice the slack, and may differ by one more.
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
        // Both clocks wrap, so only differences of distances have a meaning.
        v.wrapping_sub(us.wrapping_mul(self.base_rate))
    }
}

impl ClockReading {
    /// Returns true if the first waiter does not have its budget yet and the timer would stay.
    #[inline]
    fn leaves(&self, rest: &RestCondition) -> bool {
        ahead(rest.until, self.v) > 0 && self.stays(rest.offset)
    }

    /// Returns true if a timer with this offset would be set to the same time.
    #[inline]
    fn stays(&self, offset: u64) -> bool {
        // The comparison is for |moved| <= tolerance, in numbers that wrap around.
        let moved = offset.wrapping_sub(self.distance);
        moved.wrapping_add(self.tolerance) <= 2 * self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_rests_until_it_can_pay_or_its_timer_moves() {
        let clock = VtimeClock::new(10_000, Span::ZERO);
        let mut rests = Rests::new(2);
        let at = |us: u64| clock.now(Instant::from_nanos(us * 1_000));
        assert!(rests.is_new_rate(&clock) && !rests.is_new_rate(&clock));
        assert!(rests.is_new_generation(7) && !rests.is_new_generation(7));
        let slack = clock.slack.as_nanos() / 1_000;
        // The first waiter lacks the budget of 20 ms, and the timer is late by twice the slack.
        let until = at(25_000).v;
        let timer = Instant::from_nanos((25_000 + 2 * slack) * 1_000);
        rests.note(1, 7, until, timer);
        assert!(!rests.begin(1, 8) && rests.begin(1, 7));
        let glance = rests.glance(&at(15_000));
        assert!(rests.waits(1, 7, &glance) && !rests.waits(1, 8, &glance));
        assert!(rests.still_rests(1, &glance) && rests.all_timers_stay(&glance));
        let paid = rests.glance(&at(25_000));
        assert!(!rests.still_rests(1, &paid), "it has its budget");
        // The drive's clock is ahead of the base rate by this time.
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

    /// Checks every distance between the clocks that moves no timer.
    #[test]
    fn a_group_with_a_timer_after_the_horizon_lacks_budget() {
        let clock = VtimeClock::new(10_000, Span::ZERO);
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
