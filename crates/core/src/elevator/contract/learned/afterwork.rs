//! Hidden work: what the drive still has to do for writes that have already completed.
//!
//! A write completes as soon as it is in the drive's cache. The drive writes it to the medium
//! later, and reads that arrive in the meantime wait even though nothing is in flight.
//!
//! The sign of hidden work is a promised request that had the drive to itself but took far longer
//! than usual. From then on, every write counts as keeping the drive busy for its cost, from the
//! time at which it was dispatched, whether it has completed or not. If promised requests are still
//! late, the assumed cost is doubled, as often as necessary. It decreases again over time, to find
//! out whether the drive still hides work (Gimbal's write cost: Min et al., "Gimbal", SIGCOMM
//! 2021).
//!
//! A flush that had to wait for earlier writes is a sign, too. After a flush, no hidden work is
//! left of the writes before it. A seek-bound drive is always assumed to hide its writes.

use crate::elevator::contract::constants::{FALL_PART, GROW, SECOND};
use crate::elevator::contract::kind::DriveKind;
use crate::elevator::contract::unit::Cost;
use crate::{Instant, Span};

/// Factor for a write that hides as much as it costs. Factors are in 16ths.
const FACTOR_ONE: u16 = 16;

/// The estimate of the hidden work of a drive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HiddenWork {
    /// The time at which the drive has done its hidden work.
    until: Instant,
    /// Hidden work of a write as a multiple of its cost, in 16ths. Zero if the drive hides nothing.
    /// The type limits the factor, and so the time that is needed to forget it.
    factor: u16,
    /// The time of the last change of the factor.
    changed: Instant,
    /// The cost of the writes since the last flush began.
    unsynced: Cost,
}

impl HiddenWork {
    /// Accounts for a write of `cost` that is dispatched.
    #[inline]
    pub(crate) fn observe_write(&mut self, now: Instant, cost: Cost) {
        self.unsynced = self.unsynced.saturating_add(cost);
        if self.factor > 0 {
            // No more than a second of hidden work is assumed: promises are kept by the second.
            let work = self.work(cost);
            self.until = (self.until.max(now) + work).min(now + SECOND);
        }
    }

    /// Returns the work that the drive has to do in addition to the pieces in flight. `in_flight`
    /// is the cost of the writes in flight, which `until` includes.
    #[inline]
    pub(crate) fn remaining(&self, now: Instant, in_flight: Cost) -> Cost {
        Cost::from_nanos(self.until.since(now).as_nanos()).saturating_sub(in_flight)
    }

    /// Accounts for a promised request that had the drive to itself but took far longer than usual.
    pub(crate) fn observe_hidden_work(&mut self, now: Instant) {
        // Without a write since the last flush, the drive has nothing to hide.
        if self.unsynced > Cost::ZERO && now.since(self.changed) >= GROW {
            self.factor = self.factor.saturating_mul(2).max(FACTOR_ONE);
            self.changed = now;
        }
    }

    /// Returns the time for which a write of `cost` keeps the drive busy.
    fn work(&self, cost: Cost) -> Span {
        Span::from_nanos(cost.as_nanos().saturating_mul(self.factor.into()) / u64::from(FACTOR_ONE))
    }

    /// Accounts for a flush that begins while no other flush runs.
    pub(crate) fn on_flush_begin(&mut self) {
        self.unsynced = Cost::ZERO;
    }

    /// Accounts for the end of the last running flush. No hidden work is left of the writes before
    /// it. If the flush had to wait for those writes (`waited`), the drive hides work.
    pub(crate) fn on_flush_end(&mut self, now: Instant, waited: bool) {
        if waited && self.factor < FACTOR_ONE {
            self.factor = FACTOR_ONE;
            self.changed = now;
        }
        // The flush has written all earlier data, so at most the later writes are left.
        self.until = self.until.min(now + self.work(self.unsynced));
    }

    /// Decreases the factor as time passes. A seek-bound drive is always assumed to hide some work.
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
    fn a_flush_leaves_only_the_work_written_since_it_began() {
        // 500 ms of work are written at 0 ms, and 400 ms of it are left at 100 ms. The flush from
        // 100 ms to 110 ms leaves the 20 ms that were written after its beginning.
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = HiddenWork::default();
        work.settle(at(0), &SEEKING);
        work.observe_write(at(0), ns(500_000_000));
        assert_eq!(work.remaining(at(100), ns(0)), ns(400_000_000));
        work.on_flush_begin();
        work.observe_write(at(100), ns(20_000_000));
        work.on_flush_end(at(110), true);
        assert_eq!(work.remaining(at(110), ns(0)), ns(20_000_000));
    }

    #[test]
    fn a_flush_that_had_to_wait_shows_that_the_drive_hides_work() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = HiddenWork::default();
        work.observe_write(at(0), ns(5_000_000));
        assert_eq!(work.remaining(at(0), ns(0)), ns(0));
        work.on_flush_begin();
        work.on_flush_end(at(10), true);
        work.observe_write(at(10), ns(5_000_000));
        assert_eq!(work.remaining(at(10), ns(0)), ns(5_000_000));
    }

    /// Returns the factor in 16ths: the hidden work of a write of 1.6 ms, in units of 0.1 ms.
    fn factor(work: &HiddenWork) -> u64 {
        let mut work = *work;
        work.until = Instant::ZERO;
        work.observe_write(Instant::ZERO, ns(1_600_000));
        work.remaining(Instant::ZERO, Cost::ZERO).as_nanos() / 100_000
    }

    #[test]
    fn the_factor_of_hidden_work_doubles_with_each_sign_of_hidden_work() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = HiddenWork::default();
        work.observe_hidden_work(at(100));
        assert_eq!(factor(&work), 0, "nothing was written");
        work.observe_write(at(100), ns(1));
        // The factor is doubled at most once in 50 ms.
        let grown = [2_100, 2_149, 2_150, 2_200].map(|ms| {
            work.observe_hidden_work(at(ms));
            factor(&work)
        });
        assert_eq!(grown, [16, 16, 32, 64]);
        // It falls by 1/8, rounded up, once a second while the kind of drive is unknown: 64, 56,
        // 49, 42.
        let fallen = [3_199, 3_200, 4_199, 4_200, 5_200].map(|ms| {
            work.settle(at(ms), &UNSETTLED);
            factor(&work)
        });
        assert_eq!(fallen, [64, 56, 56, 49, 42]);
        // On a drive without turns, it falls once in 200 ms.
        let fallen = [5_399, 5_400, 5_599, 5_600].map(|ms| {
            work.settle(at(ms), &PLAIN);
            factor(&work)
        });
        assert_eq!(fallen, [42, 36, 36, 31]);
        // Without a sign for 74 s, nothing is left of the factor.
        for s in 6..80 {
            work.settle(at(1_000 * s), &UNSETTLED);
        }
        assert_eq!(factor(&work), 0);
        for n in 0..20 {
            work.observe_write(at(90_000 + 50 * n), ns(1));
            work.observe_hidden_work(at(90_000 + 50 * n));
        }
        assert_eq!(work.factor, u16::MAX);
    }

    #[test]
    fn a_seek_bound_drive_hides_all_written_work_up_to_a_second() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut work = HiddenWork::default();
        work.settle(at(0), &SEEKING);
        assert_eq!(factor(&work), 16);
        // It stays at this factor without any further sign.
        work.settle(at(5_000), &SEEKING);
        assert_eq!(factor(&work), 16);
        // 1.4 s of writes are limited to 1 s of hidden work.
        work.observe_write(at(5_000), ns(700_000_000));
        work.observe_write(at(5_000), ns(700_000_000));
        assert_eq!(work.remaining(at(5_000), ns(0)), ns(1_000_000_000));
        assert_eq!(work.remaining(at(5_000), ns(400_000_000)), ns(600_000_000));
        assert_eq!(work.remaining(at(5_900), ns(0)), ns(100_000_000));
        assert_eq!(work.remaining(at(7_000), ns(0)), ns(0));
    }
}
