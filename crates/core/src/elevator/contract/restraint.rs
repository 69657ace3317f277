//! Limits clients that are ahead of their share while a client that is behind is briefly absent.
//!
//! An absent client has all its requests in the drive, or is about to send the next one. Anything
//! that others dispatch now delays it, at the expense of its share. Clients that are ahead may
//! therefore use only a *part* of the window.
//!
//! The size of the part is found by trial, in rounds. It shrinks as long as the drive completes at
//! least the work that it completes without restraint, minus a price, and grows otherwise. The
//! price is `sacrifice`, or less if the absent client would get little more without contention.
//! Work is measured as the cost of whole requests, so that cutting them does not count as work. To
//! find the speed without restraint, the whole window is open in three of every 33 rounds. Rounds
//! with the largest part also count, because they hardly differ. (Shen and Park's scheduler for
//! flash, ATC 2013, throttles dispatch to a fixed depth, which is right for one drive and one
//! load.) The time in which only a flush keeps the drive busy is left
//! out of a round, because it depends on what was written before.
//!
//! The callers use [`Restraint::bound`] before they dispatch a piece, and
//! [`Restraint::observe_completion`] for each piece that completes. They use
//! [`Restraint::observe_flush`] for each flush that ends.

use super::constants::{
    BUSY, CREDIT_MAX, FIRST, FREE, GAIN_PART, PART_GROWTH, RESTRAINED, RESTRAINED_LONGER, ROUND,
    WINDOWS,
};
use super::unit::Cost;
use crate::{Instant, Span};

/// The whole window, in the units of [`Restraint::part`].
const WHOLE: u64 = 32;

/// The size of the part, and the measurements from which it follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restraint {
    /// The part of the window that clients may use, in 1/[`WHOLE`]. It is never the whole window.
    part: u64,
    /// True while the rounds are without restraint.
    is_free: bool,
    /// Number of rounds until this changes.
    left: u32,
    /// Speed of the drive without restraint: cost completed per 1,024 ns. Zero if it is not known.
    free_speed: u64,
    /// Work above the required minimum in recent rounds, in the unit of `free_speed`. It is
    /// negative if the drive did less than it had to.
    credit: i64,
    /// Beginning of the current round.
    since: Instant,
    /// The time of the last completion in the current round, of a piece or of a flush.
    last: Instant,
    /// Minimum length of the current round.
    round: Span,
    /// Cost completed in the current round.
    work: Cost,
    /// True while a round is measured.
    counts: bool,
    /// The largest gain of an absent client in the rounds without restraint, in percent.
    gain: u32,
    /// The part of the drive's speed that restraint may cost, in percent.
    price: u32,
    /// The largest price, in percent.
    sacrifice: u32,
}

impl Restraint {
    /// Creates a restraint that gives up at most `sacrifice` percent of the drive's speed.
    pub(super) fn new(sacrifice: u32) -> Self {
        Self {
            part: WHOLE - 1,
            is_free: true,
            left: FIRST,
            round: ROUND,
            sacrifice,
            ..Self::default()
        }
    }

    /// Returns the work that may be in flight together with a piece of a client that is ahead.
    /// `None` if only the window limits it. Without contention, the absent client would get
    /// `gain` percent more.
    #[inline]
    pub(super) fn bound(&mut self, now: Instant, window: Cost, gain: u32) -> Option<Cost> {
        if !self.counts {
            (self.counts, self.since) = (true, now);
            // A round of a few windows contains enough pieces to measure a drive with long
            // latencies.
            self.round = ROUND.max(Span::from_nanos(window.as_nanos()).saturating_mul(WINDOWS));
            self.work = Cost::ZERO;
        }
        if self.is_free {
            self.gain = self.gain.max(gain);
        }
        let holds = !self.is_free && self.price > 0;
        holds.then(|| window * self.part / WHOLE)
    }

    /// Returns true while a round is measured.
    #[inline]
    pub(super) fn is_measuring(&self) -> bool {
        self.counts
    }

    /// Discards the current round, because the drive was idle for some time and the round shows
    /// nothing about its speed.
    pub(super) fn spoil_round(&mut self) {
        self.counts = false;
    }

    /// Accounts for a flush that began at `begun` and ends now. The time since then in which
    /// nothing completed does not count, because the flush has kept the drive from its other work.
    pub(super) fn observe_flush(&mut self, now: Instant, begun: Instant) {
        self.since += now.since(begun.max(self.last).max(self.since));
        self.last = now;
    }

    /// Accounts for a piece that completed. `work` is the cost of its part of the uncut request.
    pub(super) fn observe_completion(&mut self, now: Instant, work: Cost) {
        self.work += work;
        self.last = now;
        let lasted = now.since(self.since);
        if lasted < self.round {
            return;
        }
        self.judge(self.work.as_nanos().saturating_mul(1_024) / lasted.as_nanos().max(1));
        self.counts = false;
    }

    /// Ends a round in which the drive completed `speed`: adjusts the part after a round with
    /// restraint, and the speed of reference after rounds without.
    fn judge(&mut self, speed: u64) {
        self.left -= 1;
        if !self.is_free {
            let least = self.free_speed * u64::from(100 - self.price) / 100;
            // The credit averages over rounds. Of two neighbouring parts, one may cost too much and
            // the other nothing, and then the two alternate.
            let most = self.free_speed.cast_signed();
            self.credit = (self.credit + speed.cast_signed() - least.cast_signed())
                .clamp(-most, most / CREDIT_MAX);
            // The largest part hardly restrains a client, so the round also shows the speed without
            // restraint. The rounds without may have shown that of a cache that was filling up.
            if self.part == WHOLE - 1 {
                self.free_speed = self.free_speed.midpoint(speed);
            }
            // The part grows faster than it shrinks, so that restraint that costs too much ends
            // soon.
            self.part = if self.credit < 0 {
                (self.part + 1 + self.part / PART_GROWTH).min(WHOLE - 1)
            } else {
                self.part.saturating_sub(1)
            };
        // Only the last of the rounds without restraint counts, because in the first ones the drive
        // and its write cache fill up.
        } else if self.left == 0 {
            let before = if self.free_speed == 0 {
                speed
            } else {
                self.free_speed
            };
            self.free_speed = before.midpoint(speed);
        }
        if self.left == 0 {
            // If the drive is not busy as far as the costs show, no work in flight delays anybody.
            let is_busy = self.free_speed >= BUSY;
            self.is_free = !self.is_free || !is_busy;
            if !self.is_free {
                let gain = core::mem::take(&mut self.gain);
                self.price = self.sacrifice.min(gain / GAIN_PART);
            }
            self.left = match (self.is_free, self.part) {
                (true, _) => FREE,
                // Even the smallest part costs no more than it may. That is likely to stay so for a
                // while, so the next measurement comes later.
                (false, 0) => RESTRAINED_LONGER * RESTRAINED,
                (false, _) => RESTRAINED,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays rounds on a drive that reaches `speed` percent of its speed, as a function of the part
    /// of the window.
    fn play(restraint: &mut Restraint, rounds: u64, gain: u32, speed: impl Fn(u64) -> u64) -> u64 {
        // A round lasts 10 ms, in which ten pieces complete.
        let (mut now, mut done) = (restraint.since, 0);
        for _ in 0..rounds {
            let bound = restraint.bound(now, Cost::from_nanos(WHOLE), gain);
            let speed = speed(bound.map_or(WHOLE, Cost::as_nanos));
            done += speed;
            for _ in 0..10 {
                now += Span::from_millis(1);
                restraint.observe_completion(now, Cost::from_nanos(10_000 * speed));
            }
        }
        done / rounds
    }

    #[test]
    fn the_part_is_the_smallest_with_a_permitted_sacrifice() {
        let mut restraint = Restraint::new(15);
        // Restraint costs nothing, so the part shrinks until it is zero.
        play(&mut restraint, 100, u32::MAX, |_| 100);
        assert_eq!(restraint.part, 0);
        // Each step of the part below ten costs 3 % of the speed, and parts below four cost half of
        // it. The sacrifice of 15 % permits a part of five, which reaches 85 %.
        let speed = |part: u64| if part < 4 { 50 } else { 70 + 3 * part.min(10) };
        play(&mut restraint, 400, u32::MAX, speed);
        let average = play(&mut restraint, 400, u32::MAX, speed);
        assert!((85..=88).contains(&average), "{average}");
        // A client that would get 8 % more without contention is worth 1 % of the speed.
        play(&mut restraint, 400, 8, speed);
        let average = play(&mut restraint, 400, 8, speed);
        assert!((98..=100).contains(&average), "{average}");
        // A client that would get 7 % more is not worth any.
        play(&mut restraint, 400, 7, speed);
        assert_eq!(play(&mut restraint, 400, 7, speed), 100);
    }

    #[test]
    fn a_burst_into_a_cache_does_not_become_the_speed_of_reference() {
        let mut restraint = Restraint::new(15);
        // Without restraint, the cache of the drive fills up at 130 % of the drive's speed. The
        // drive can never complete 85 % of that while others are restrained.
        let speed = |part| if part == WHOLE { 130 } else { 100 };
        play(&mut restraint, 400, u32::MAX, speed);
        // Restraint costs nothing, so the part has become zero.
        assert_eq!(restraint.part, 0);
    }

    #[test]
    fn the_time_of_a_flush_does_not_count_as_lost_speed() {
        let (mut restraint, mut now) = (Restraint::new(15), Instant::ZERO);
        for _ in 0..100 {
            let holds = restraint
                .bound(now, Cost::from_nanos(WHOLE), u32::MAX)
                .is_some();
            let begun = now + Span::from_millis(2);
            for n in 0..10 {
                now += Span::from_millis(1);
                restraint.observe_completion(now, Cost::from_nanos(1_000_000));
                // A piece completes 1 ms after the beginning of the flush, which lasts for 30 ms.
                if holds && n == 2 {
                    now += Span::from_millis(29);
                    restraint.observe_flush(now, begun);
                }
            }
        }
        // Restraint costs nothing, so the part has become zero.
        assert_eq!(restraint.part, 0);
    }

    #[test]
    fn a_drive_that_is_not_busy_has_no_bound() {
        let mut restraint = Restraint::new(15);
        play(&mut restraint, 100, u32::MAX, |_| 45);
        assert_eq!(
            restraint.bound(Instant::ZERO, Cost::from_nanos(WHOLE), u32::MAX),
            None
        );
    }

    #[test]
    fn a_window_without_a_bound_stays_large_enough_for_all() {
        let mut restraint = Restraint::new(15);
        play(&mut restraint, 20, u32::MAX, |_| 100);
        let bound = restraint.bound(Instant::ZERO, Cost::MAX, u32::MAX);
        assert_eq!(bound, Some(Cost::MAX / WHOLE));
    }

    #[test]
    fn a_restraint_without_sacrifice_sets_no_bound() {
        let mut restraint = Restraint::new(0);
        play(&mut restraint, 100, u32::MAX, |_| 100);
        assert_eq!(
            restraint.bound(Instant::ZERO, Cost::from_nanos(WHOLE), u32::MAX),
            None
        );
    }
}
