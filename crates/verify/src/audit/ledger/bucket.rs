//! A leaky bucket in exact numbers.

use weir_core::Instant;

/// Amounts are counted in billionths, the amount that a rate of one per second leaks in a nanosecond.
const UNIT: u128 = 1_000_000_000;

/// Times are whole nanoseconds: a request that is due between two of them passes at the second.
const TICK: u64 = 1;

/// By how much any window up to now has exceeded the rate.
///
/// A bucket that starts empty and leaks at `rate` is filled to the largest of (charged in the window - rate * window) over
/// all windows that end now. So the rule "in every window at most rate * t + rate * burst + one request" means: before a request is
/// charged, the bucket is filled to at most rate * burst.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    rate: u64,
    burst: u64,
    level: u128,
    at: u64,
    /// What may have passed early because it came late and was charged for when it was due, while the bucket was not empty.
    slack: u128,
}

impl Bucket {
    /// True if there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.rate > 0
    }

    /// Sets another rate (zero: none) and burst in nanoseconds. The bucket keeps its content, unless there was or is no limit.
    pub(super) fn set(&mut self, now: Instant, rate: u64, burst: u64) {
        self.leak(now);
        if self.rate == 0 || rate == 0 {
            (self.level, self.slack) = (0, 0);
        }
        (self.rate, self.burst) = (rate, burst);
    }

    /// True if a request may pass at `now`, which is not before the last charge.
    #[inline]
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        let leaked = u128::from(self.rate) * u128::from(now.as_nanos().saturating_sub(self.at));
        self.level <= leaked.saturating_add(self.full())
    }

    /// Charges a request at `now`, when the driver was `late` by this many nanoseconds. Returns by how much the bucket was
    /// overfull.
    #[inline]
    pub(super) fn charge(&mut self, now: Instant, amount: u64, late: u64) -> u128 {
        self.leak(now);
        self.slack = self
            .slack
            .max(u128::from(self.rate) * u128::from(late + TICK));
        let above = self.level.saturating_sub(self.full() + self.slack);
        self.level += u128::from(amount) * UNIT;
        above
    }

    fn full(&self) -> u128 {
        u128::from(self.rate) * u128::from(self.burst)
    }

    #[inline]
    fn leak(&mut self, now: Instant) {
        let now = now.as_nanos();
        let leaked = u128::from(self.rate) * u128::from(now.saturating_sub(self.at));
        self.level = self.level.saturating_sub(leaked);
        self.at = self.at.max(now);
        if self.level == 0 {
            self.slack = 0;
        }
    }
}
