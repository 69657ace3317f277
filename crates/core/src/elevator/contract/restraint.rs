//! How much clients that are ahead of their share may have in flight while one that is behind has nothing to send for a moment.
//!
//! Such a client has its requests in the drive, or is about to ask: what others add now delays it, and takes from its share. Those
//! that are ahead may fill up a *part* of the window only, and that part is found by what it costs: as long as the drive does no less,
//! in what its requests cost whole, than without restraint by more than `sacrifice`, the part shrinks; else it grows. How much the drive
//! does without is seen in two rounds of each thirty-two, in which the whole window is open. (Shen and
//! Park's scheduler for flash, ATC 2013, throttles dispatch to a fixed depth: that is right for one drive and one load.)

use super::constants::{
    BUSY, CREDIT_MAX, FIRST, FREE, PART_GROWTH, RESTRAINED, RESTRAINED_LONGER, ROUND,
    SACRIFICE_PART, WINDOWS,
};
use super::unit::Cost;
use crate::{Instant, Span};

/// The whole window.
const WHOLE: u64 = 32;

/// What is learned of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restraint {
    /// In parts of [`WHOLE`], and never all of it.
    part: u64,
    /// The rounds to come are without restraint, and this is their number; else those with restraint.
    is_free: bool,
    left: u32,
    /// What the drive does without restraint: what its requests cost, in 1,024 ns. Zero: not known.
    free_speed: u64,
    /// By how much more than it has to do the drive has done of late.
    credit: i64,
    /// The round that runs.
    since: Instant,
    round: Span,
    work: Cost,
    /// There is one; and a client was ahead in it of one that would get more alone.
    counts: bool,
    suffers: bool,
    sacrifice: u32,
}

impl Restraint {
    /// Gives up at most `sacrifice` hundredths of what the drive does.
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

    /// A client that is ahead would send a piece: what may be in flight with it; `None`: whatever may be else.
    #[inline]
    pub(super) fn bound(&mut self, now: Instant, window: Cost, suffers: bool) -> Option<Cost> {
        if !self.counts {
            (self.counts, self.since) = (true, now);
            self.round = ROUND.max(Span::from_nanos(window.as_nanos()).saturating_mul(WINDOWS));
            self.work = Cost::ZERO;
        }
        self.suffers |= suffers;
        let holds = !self.is_free && self.sacrifice > 0;
        holds.then(|| window * self.part / WHOLE)
    }

    /// True while what the drive does is measured.
    #[inline]
    pub(super) fn is_measuring(&self) -> bool {
        self.counts
    }

    /// The drive did nothing for some time: the round that runs says nothing.
    pub(super) fn spoil_round(&mut self) {
        (self.counts, self.suffers) = (false, false);
    }

    /// A piece came back, which was `work` for the drive, however its request was cut.
    pub(super) fn observe_completion(&mut self, now: Instant, work: Cost) {
        self.work += work;
        let lasted = now.since(self.since);
        if lasted < self.round {
            return;
        }
        self.judge(self.work.as_nanos().saturating_mul(1_024) / lasted.as_nanos().max(1));
        (self.counts, self.suffers) = (false, false);
    }

    fn judge(&mut self, speed: u64) {
        self.left -= 1;
        if !self.is_free {
            let sacrifice = if self.suffers {
                self.sacrifice
            } else {
                self.sacrifice / SACRIFICE_PART
            };
            let least = self.free_speed * u64::from(100 - sacrifice) / 100;
            // On average over rounds, so that two parts of which one costs too much and the other nothing take turns.
            let most = self.free_speed.cast_signed();
            self.credit = (self.credit + speed.cast_signed() - least.cast_signed())
                .clamp(-most, most / CREDIT_MAX);
            self.part = if self.credit < 0 {
                (self.part + 1 + self.part / PART_GROWTH).min(WHOLE - 1)
            } else {
                self.part.saturating_sub(1)
            };
        } else if self.left == 0 {
            let before = if self.free_speed == 0 {
                speed
            } else {
                self.free_speed
            };
            self.free_speed = before.midpoint(speed);
        }
        if self.left == 0 {
            // Where the drive is not busy as far as can be told, what is in flight keeps it from nobody.
            let is_busy = self.free_speed >= BUSY;
            self.is_free = !self.is_free || !is_busy;
            self.left = match (self.is_free, self.part) {
                (true, _) => FREE,
                // The least that may be in flight costs no more than it may: that will be so for a while.
                (false, 0) => RESTRAINED_LONGER * RESTRAINED,
                (false, _) => RESTRAINED,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays rounds on a drive that does `speed` hundredths of what it might where the part of the window is as large as that.
    fn play(
        restraint: &mut Restraint,
        rounds: u64,
        suffers: bool,
        speed: impl Fn(u64) -> u64,
    ) -> u64 {
        let (mut now, mut done) = (restraint.since, 0);
        for _ in 0..rounds {
            let bound = restraint.bound(now, Cost::from_nanos(WHOLE), suffers);
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
    fn the_part_is_the_smallest_that_costs_no_more_than_it_may() {
        let mut restraint = Restraint::new(15);
        // It costs nothing.
        play(&mut restraint, 100, true, |_| 100);
        assert_eq!(restraint.part, 0);
        // It costs three hundredths for each part below ten, and then half.
        let speed = |part: u64| if part < 4 { 50 } else { 70 + 3 * part.min(10) };
        play(&mut restraint, 400, true, speed);
        let average = play(&mut restraint, 400, true, speed);
        assert!((85..=88).contains(&average), "{average}");
        // For those that would have no more alone next to nothing is given up.
        play(&mut restraint, 400, false, speed);
        let average = play(&mut restraint, 400, false, speed);
        assert!((98..=100).contains(&average), "{average}");
    }

    #[test]
    fn a_drive_that_is_not_busy_is_left_to_all() {
        let mut restraint = Restraint::new(15);
        play(&mut restraint, 100, true, |_| 45);
        assert_eq!(
            restraint.bound(Instant::ZERO, Cost::from_nanos(WHOLE), true),
            None
        );
    }

    #[test]
    fn a_window_without_a_bound_stays_large_enough_for_all() {
        let mut restraint = Restraint::new(15);
        play(&mut restraint, 20, true, |_| 100);
        let bound = restraint.bound(Instant::ZERO, Cost::MAX, true);
        assert_eq!(bound, Some(Cost::MAX / WHOLE));
    }

    #[test]
    fn nothing_is_given_up_if_nothing_may_be() {
        let mut restraint = Restraint::new(0);
        play(&mut restraint, 100, true, |_| 100);
        assert_eq!(
            restraint.bound(Instant::ZERO, Cost::from_nanos(WHOLE), true),
            None
        );
    }
}
