//! A leaky bucket in exact numbers.

use weir_core::Instant;

/// The unit of amounts: a billionth, which is the amount that a rate of one per second leaks in a
/// nanosecond.
const UNIT: u128 = 1_000_000_000;

/// The resolution of times in nanoseconds. A request that is due between two of them passes at the
/// second.
const TICK: u64 = 1;

/// A leaky bucket, which holds the amount by which any window up to now has exceeded the rate.
///
/// A bucket that starts empty and leaks at `rate` is filled to the largest value of (amount charged
/// in the window - rate * window) over all windows that end now. So the rule "in every window at
/// most rate * t + rate * burst + one request" means that the bucket is filled to at most rate *
/// burst before a request is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeakyBucket {
    rate: u64,
    burst: u64,
    level: u128,
    at: u64,
    /// The amount by which the rate may be exceeded, because a late request was charged as of its
    /// due time while the bucket was not empty.
    slack: u128,
}

impl LeakyBucket {
    /// Returns true if there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.rate > 0
    }

    /// Sets another rate (zero: none) and burst in nanoseconds. The bucket keeps its content,
    /// unless there was no limit or is none now.
    pub(super) fn set(&mut self, now: Instant, rate: u64, burst: u64) {
        self.leak(now);
        if self.rate == 0 || rate == 0 {
            // Without a limit nothing was charged, so that there is no history to keep.
            (self.level, self.slack) = (0, 0);
        }
        (self.rate, self.burst) = (rate, burst);
    }

    /// Replaces the content by the amount that leaks in `debt` nanoseconds.
    pub(super) fn set_debt(&mut self, now: Instant, debt: u64) {
        self.leak(now);
        (self.level, self.slack) = (u128::from(self.rate) * u128::from(debt), 0);
    }

    /// Returns true if a request may pass at `now`, which must not be before the last charge.
    #[inline]
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        let leaked = u128::from(self.rate) * u128::from(now.as_nanos().saturating_sub(self.at));
        self.level <= leaked.saturating_add(self.full())
    }

    /// Charges a request at `now`, when the driver was `late` by this many nanoseconds. Returns the
    /// amount by which the bucket was overfull.
    #[inline]
    pub(super) fn charge(&mut self, now: Instant, amount: u64, late: u64) -> u128 {
        self.leak(now);
        self.slack = self
            .slack
            .max(u128::from(self.rate) * u128::from(late + TICK));
        // The check precedes the charge: a request may exceed the limit by its own length.
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
        // The time of a call may be earlier than that of a previous one, which must not leak twice.
        self.at = self.at.max(now);
        // An empty bucket begins a new window, to which earlier lateness does not apply.
        if self.level == 0 {
            self.slack = 0;
        }
    }
}
