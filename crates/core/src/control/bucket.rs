//! An exact token bucket: a rate, a burst, and the instant at which the bucket will be full again.

use crate::{Instant, Span};

/// Nanoseconds per second.
const NANOS: u128 = 1_000_000_000;

/// A limit of `rate` units per second, where zero means no limit.
///
/// The state is the instant `full` at which everything taken so far has been paid for. Taking `n`
/// units moves it by `n / rate` seconds, from now or from its position, whichever is later. A
/// request may pass while `full` is at most `burst` ahead of now, however large the request is. A
/// request that is larger than the bucket therefore leaves a debt instead of waiting without end.
///
/// In every window of length `t`, at most `rate * t + rate * burst` units and one request pass.
/// This bound is exact, because the fraction of a nanosecond is carried over and never rounded away
/// (ATM Forum TM 4.0, "virtual scheduling").
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: u64,
    burst: Span,
    full: Instant,
    /// The part that `full` lacks, in units of 1 / rate nanoseconds.
    fraction: u64,
}

impl Bucket {
    /// The bucket that limits nothing.
    pub(super) const NONE: Self = Self {
        rate: 0,
        burst: Span::ZERO,
        full: Instant::ZERO,
        fraction: 0,
    };

    /// Sets another rate and burst. A debt is kept in units.
    pub(crate) fn set(&mut self, now: Instant, rate: u64, burst: Span) {
        // There is no debt to convert: one of the rates is unlimited, or the bucket is full.
        if rate == 0 || self.rate == 0 || (rate != self.rate && self.full < now) {
            (self.full, self.fraction) = (self.full.min(now), 0);
        } else if rate != self.rate {
            let ahead = u128::from(self.full.since(now).as_nanos());
            let owed = ahead * u128::from(self.rate) + u128::from(self.fraction);
            self.full =
                now + Span::from_nanos(u64::try_from(owed / u128::from(rate)).unwrap_or(u64::MAX));
            self.fraction = (owed % u128::from(rate)) as u64;
        }
        (self.rate, self.burst) = (rate, burst);
    }

    /// Returns the time by which everything taken so far exceeds what has been paid for at `now`,
    /// rounded up to a nanosecond.
    pub(super) fn debt(&self, now: Instant) -> Span {
        if self.rate == 0 {
            return Span::ZERO;
        }
        let owed = self.full + Span::from_nanos(u64::from(self.fraction > 0));
        owed.since(now)
    }

    /// Replaces the debt. Without a limit, there is none.
    pub(super) fn set_debt(&mut self, now: Instant, debt: Span) {
        if self.rate > 0 {
            (self.full, self.fraction) = (now + debt, 0);
        }
    }

    /// Returns the time at which the next unit may be taken, which is not in the future if it may
    /// be taken at once.
    #[inline]
    pub(crate) fn ready(&self) -> Instant {
        if self.rate == 0 {
            return Instant::ZERO;
        }
        // The nanosecond of the fraction must have passed completely, or a unit could be taken too
        // early.
        let owed = self.full + Span::from_nanos(u64::from(self.fraction > 0));
        owed.saturating_sub(self.burst)
    }

    /// Takes `amount` units, whether the bucket was ready or not.
    #[inline]
    pub(crate) fn take(&mut self, now: Instant, amount: u64) {
        if self.rate == 0 {
            return;
        }
        // With a fraction, the nanosecond after `full` is the first at which the bucket is ready.
        // Up to then there was no pause, so the fraction is kept.
        let kept = Span::from_nanos(u64::from(self.fraction > 0));
        if self.full + kept < now {
            self.full = now;
            self.fraction = 0;
        }
        let rate = u128::from(self.rate);
        let owed = u128::from(amount) * NANOS + u128::from(self.fraction);
        self.full += Span::from_nanos(u64::try_from(owed / rate).unwrap_or(u64::MAX));
        self.fraction = (owed % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_rate_that_does_not_divide_a_second_loses_nothing() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 3, Span::ZERO);
        let mut now = at(0);
        for _ in 0..3_000 {
            now = now.max(bucket.ready());
            bucket.take(now, 1);
        }
        // 3,000 units at 3 per second: the last one begins at 2,999 / 3 s, rounded up to the
        // nanosecond that covers it.
        assert_eq!(now, at(999_666_666_667));
    }

    /// A pause earns nothing without a burst: a bucket that was full before now is full from now
    /// on.
    #[test]
    fn a_nanosecond_in_which_nothing_was_taken_is_lost() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 1_000_000_000, Span::ZERO);
        bucket.take(at(10), 1);
        assert_eq!(bucket.ready(), at(11));
        bucket.take(at(12), 1);
        assert_eq!(bucket.ready(), at(13));
    }

    #[test]
    fn an_amount_above_the_burst_passes_and_leaves_a_debt() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 1_000, Span::from_millis(10));
        assert!(bucket.ready() <= at(0));
        bucket.take(at(0), 5_000);
        // 5,000 units at 1,000 per second take 5 s, of which the burst is 10 ms.
        assert_eq!(bucket.ready(), at(4_990_000_000));
    }

    #[test]
    fn a_change_of_rate_after_a_pause_carries_no_old_fraction() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 3, Span::ZERO);
        bucket.take(at(0), 1);
        let later = at(10_000_000_000);
        bucket.set(later, 7, Span::ZERO);
        for _ in 0..7 {
            bucket.take(later, 1);
        }
        // Seven units at 7 per second take exactly 1 s, without the old fraction of a third.
        assert_eq!(bucket.ready(), at(11_000_000_000));
    }

    #[test]
    fn a_pause_earns_the_burst_and_no_more() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 1_000, Span::from_secs(1));
        let now = at(100_000_000_000);
        let passed = (0..5_000)
            .take_while(|_| {
                bucket.ready() <= now && {
                    bucket.take(now, 1);
                    true
                }
            })
            .count();
        // The burst of 1 s is 1,000 units, and one more passes when exactly the burst is owed.
        assert_eq!(passed, 1_001);
    }

    #[test]
    fn a_change_of_rate_keeps_the_debt_in_units() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 1_000, Span::ZERO);
        bucket.take(at(0), 1_000);
        bucket.set(at(0), 2_000, Span::ZERO);
        assert_eq!(bucket.ready(), at(500_000_000));
    }

    #[test]
    fn a_change_of_rate_keeps_even_the_fraction_of_a_nanosecond() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 3_000_000_000, Span::ZERO);
        bucket.take(at(0), 2);
        // 2/3 of a nanosecond at 3 units per nanosecond are 2 units, which take 2 s at one unit per
        // second.
        bucket.set(at(0), 1, Span::ZERO);
        assert_eq!(bucket.ready(), at(2_000_000_000));
        bucket.set(at(5_000_000_000), 3, Span::ZERO);
        assert!(bucket.ready() <= at(5_000_000_000));
        bucket.take(at(5_000_000_000), 1);
        assert_eq!(bucket.ready(), at(5_333_333_334));
    }
}
