//! Work that the drive has yet to do for writes that it has answered.
//!
//! A write is answered when it is in a cache, and what it costs comes later: reads that find nothing in flight wait all the same. If a
//! promised request that had the drive to itself takes far longer than it usually does, the drive hides work: from then on a written
//! piece is taken to keep the drive busy for what it costs from when it went there, answered or not; and if that is not enough for
//! twice that, again and again, until it happens no longer; and a little less every second, to see whether it still is so (Gimbal's
//! write cost: Min et al., "Gimbal", SIGCOMM 2021). A flush that had to wait shows it, too, and leaves nothing of what was written
//! before it; a drive with turns is always taken to hide what it was given to write.

use crate::elevator::contract::constants::{FACTOR_MAX, FALL_PART, GROW, SECOND};
use crate::elevator::contract::kind::DriveKind;
use crate::elevator::contract::unit::Cost;
use crate::{Instant, Span};

/// Factor of a write that hides as much as it costs: factors are counted in 16ths.
const FACTOR_ONE: u64 = 16;

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Afterwork {
    until: Instant,
    factor: u64,
    changed: Instant,
    /// The cost of what was written since a flush began.
    unsynced: Cost,
}

impl Afterwork {
    /// A write that is thought to cost `cost` goes to the drive.
    #[inline]
    pub(crate) fn observe_write(&mut self, now: Instant, cost: Cost) {
        self.unsynced = self.unsynced.saturating_add(cost);
        if self.factor > 0 {
            let work = self.work(cost);
            self.until = (self.until.max(now) + work).min(now + SECOND);
        }
    }

    /// What the drive still has to do beside what is in flight, of which `in_flight` is writes.
    #[inline]
    pub(crate) fn remaining(&self, now: Instant, in_flight: Cost) -> Cost {
        Cost::from_nanos(self.until.since(now).as_nanos()).saturating_sub(in_flight)
    }

    /// A promised request that had the drive to itself took far longer than it usually does.
    pub(crate) fn observe_hidden_work(&mut self, now: Instant) {
        if self.unsynced > Cost::ZERO && now.since(self.changed) >= GROW {
            self.factor = (2 * self.factor).clamp(FACTOR_ONE, FACTOR_ONE * FACTOR_MAX);
            self.changed = now;
        }
    }

    fn work(&self, cost: Cost) -> Span {
        Span::from_nanos(cost.as_nanos().saturating_mul(self.factor) / FACTOR_ONE)
    }

    /// A flush begins, and no other runs.
    pub(crate) fn flush_begins(&mut self) {
        self.unsynced = Cost::ZERO;
    }

    /// The last flush that ran has ended: of what was written before it nothing is left. If it had to wait for that (`waited`), the
    /// drive hides work.
    pub(crate) fn flush_ends(&mut self, now: Instant, waited: bool) {
        if waited && self.factor < FACTOR_ONE {
            self.factor = FACTOR_ONE;
            self.changed = now;
        }
        self.until = self.until.min(now + self.work(self.unsynced));
    }

    /// Time has passed. A seek-bound drive is always assumed to hide some work.
    pub(crate) fn settle(&mut self, now: Instant, kind: &DriveKind) {
        if kind.seeks && self.factor <= FACTOR_ONE {
            self.factor = FACTOR_ONE;
        } else if self.factor > 0 && now.since(self.changed) >= kind.fall {
            self.factor -= self.factor.div_ceil(FALL_PART);
            self.changed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::contract::kind::{PLAIN, SEEKING, UNSETTLED};

    fn ns(ns: u64) -> Cost {
        Cost::from_nanos(ns)
    }

    #[test]
    fn after_a_flush_only_what_was_written_since_it_began_is_left() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = Afterwork::default();
        work.settle(at(0), &SEEKING);
        work.observe_write(at(0), ns(500_000_000));
        assert_eq!(work.remaining(at(100), ns(0)), ns(400_000_000));
        work.flush_begins();
        work.observe_write(at(100), ns(20_000_000));
        work.flush_ends(at(110), true);
        assert_eq!(work.remaining(at(110), ns(0)), ns(20_000_000));
    }

    #[test]
    fn a_flush_that_had_to_wait_shows_that_the_drive_hides_work() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = Afterwork::default();
        work.observe_write(at(0), ns(5_000_000));
        assert_eq!(work.remaining(at(0), ns(0)), ns(0));
        work.flush_begins();
        work.flush_ends(at(10), true);
        work.observe_write(at(10), ns(5_000_000));
        assert_eq!(work.remaining(at(10), ns(0)), ns(5_000_000));
    }

    /// How many 16ths of what it costs a write is taken to leave.
    fn factor(work: &Afterwork) -> u64 {
        let mut work = *work;
        work.until = Instant::ZERO;
        work.observe_write(Instant::ZERO, ns(1_600_000));
        work.remaining(Instant::ZERO, Cost::ZERO).as_nanos() / 100_000
    }

    #[test]
    fn a_drive_that_hides_work_is_taken_to_hide_twice_as_much_until_it_does_so_no_longer() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = Afterwork::default();
        work.observe_hidden_work(at(100));
        assert_eq!(factor(&work), 0, "nothing was written");
        work.observe_write(at(100), ns(1));
        // Once in 50 ms.
        let grown = [2_100, 2_149, 2_150, 2_200].map(|ms| {
            work.observe_hidden_work(at(ms));
            factor(&work)
        });
        assert_eq!(grown, [16, 16, 32, 64]);
        // By an eighth a second.
        let fallen = [3_199, 3_200, 4_199, 4_200, 5_200].map(|ms| {
            work.settle(at(ms), &UNSETTLED);
            factor(&work)
        });
        assert_eq!(fallen, [64, 56, 56, 49, 42]);
        // Five times as fast where it has no turns.
        let fallen = [5_399, 5_400, 5_599, 5_600].map(|ms| {
            work.settle(at(ms), &PLAIN);
            factor(&work)
        });
        assert_eq!(fallen, [42, 36, 36, 31]);
        for s in 6..80 {
            work.settle(at(1_000 * s), &UNSETTLED);
        }
        assert_eq!(factor(&work), 0);
        for n in 0..20 {
            work.observe_write(at(90_000 + 50 * n), ns(1));
            work.observe_hidden_work(at(90_000 + 50 * n));
        }
        assert_eq!(factor(&work), FACTOR_ONE * FACTOR_MAX);
    }

    #[test]
    fn a_drive_with_turns_hides_what_it_was_given_at_least_and_never_more_than_a_second() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = Afterwork::default();
        work.settle(at(0), &SEEKING);
        assert_eq!(factor(&work), FACTOR_ONE);
        // It stays so, however long nothing shows it.
        work.settle(at(5_000), &SEEKING);
        assert_eq!(factor(&work), FACTOR_ONE);
        work.observe_write(at(5_000), ns(700_000_000));
        work.observe_write(at(5_000), ns(700_000_000));
        assert_eq!(work.remaining(at(5_000), ns(0)), ns(1_000_000_000));
        assert_eq!(work.remaining(at(5_000), ns(400_000_000)), ns(600_000_000));
        assert_eq!(work.remaining(at(5_900), ns(0)), ns(100_000_000));
        assert_eq!(work.remaining(at(7_000), ns(0)), ns(0));
    }
}
