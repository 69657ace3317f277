//! An exact token bucket: a rate, a burst, and the instant at which it will be full again.

use crate::{Instant, Span};

const NANOS: u128 = 1_000_000_000;

/// A limit of `rate` units a second (zero: none).
///
/// Kept as the instant `full` at which all that was taken has been paid for: taking `n` moves it `n / rate` seconds on, from
/// now or from where it was. Something may pass while `full` is at most `burst` ahead, however large it is, so what is larger
/// than the bucket leaves a debt instead of waiting for ever. In every window `t` at most `rate * t + rate * burst` and one
/// request pass: the fraction of a nanosecond is kept, never rounded away (ATM Forum TM 4.0, "virtual scheduling").
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: u64,
    burst: Span,
    full: Instant,
    /// What `full` lacks, in units of 1 / rate nanoseconds.
    fraction: u64,
}

impl Bucket {
    /// No limit.
    pub(super) const NONE: Self = Self {
        rate: 0,
        burst: Span::ZERO,
        full: Instant::ZERO,
        fraction: 0,
    };

    /// Another rate and burst. What is owed stays owed, in units.
    pub(crate) fn set(&mut self, now: Instant, rate: u64, burst: Span) {
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

    /// When the next unit may be taken: in the past or now if it may be at once.
    #[inline]
    pub(crate) fn ready(&self) -> Instant {
        if self.rate == 0 {
            return Instant::ZERO;
        }
        let owed = self.full + Span::from_nanos(u64::from(self.fraction > 0));
        owed.saturating_sub(self.burst)
    }

    /// Takes `amount` units, whether or not it was ready.
    #[inline]
    pub(crate) fn take(&mut self, now: Instant, amount: u64) {
        if self.rate == 0 {
            return;
        }
        // With a fraction owed, the nanosecond after `full` is the first at which it was ready: no pause, nothing to forget.
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
        // 3000 takings at 3 a second: the last begins at 2999 / 3 s, rounded up to the nanosecond that covers it.
        assert_eq!(now, at(999_666_666_667));
    }

    /// No nanosecond is saved up: a bucket that was full before now is full from now on.
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
    fn what_is_larger_than_the_bucket_passes_and_leaves_a_debt() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 1_000, Span::from_millis(10));
        assert!(bucket.ready() <= at(0));
        bucket.take(at(0), 5_000);
        assert_eq!(bucket.ready(), at(4_990_000_000));
    }

    #[test]
    fn a_pause_pays_a_fraction_also_where_the_rate_changes_after_it() {
        let mut bucket = Bucket::NONE;
        bucket.set(at(0), 3, Span::ZERO);
        bucket.take(at(0), 1);
        let later = at(10_000_000_000);
        bucket.set(later, 7, Span::ZERO);
        for _ in 0..7 {
            bucket.take(later, 1);
        }
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
        // Two thirds of a nanosecond at three a nanosecond are two seconds at one a second.
        bucket.set(at(0), 1, Span::ZERO);
        assert_eq!(bucket.ready(), at(2_000_000_000));
        bucket.set(at(5_000_000_000), 3, Span::ZERO);
        assert!(bucket.ready() <= at(5_000_000_000));
        bucket.take(at(5_000_000_000), 1);
        assert_eq!(bucket.ready(), at(5_333_333_334));
    }
}
