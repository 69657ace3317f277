//! The drive's clock, vtime, which runs at *vrate* (Linux: `ioc_now`, `ioc_refresh_margins`,
//! `ioc_refresh_vrate`).
//!
//! Each group has a position on this clock, and may send a request that does not move its position
//! ahead of the drive's. Positions are compared by their distance ([`ahead`]), so vtime may wrap.

use crate::time::{Instant, Span};

/// The vtime of a second at a vrate of 100 % (Linux: `VTIME_PER_SEC`).
pub(super) const PER_SEC: u64 = 1 << 37;
/// The vtime of a microsecond at a vrate of 100 %.
pub(super) const PER_USEC: u64 = PER_SEC / 1_000_000;
/// The vtime of a nanosecond at a vrate of 100 %.
pub(super) const PER_NSEC: u64 = PER_SEC / 1_000_000_000;

/// The margins in percent of a period (Linux: `MARGIN_MIN_PCT`, `MARGIN_LOW_PCT`,
/// `MARGIN_TARGET_PCT`).
const MARGIN_MIN: u64 = 10;
const MARGIN_LOW: u64 = 20;
pub(super) const MARGIN_TARGET: u64 = 50;
/// The permitted lateness of a group's timer, in percent of a period (Linux: `TIMER_SLACK_PCT`).
const SLACK: u64 = 1;

/// Returns the distance by which `a` is ahead of `b`.
#[inline]
pub(super) const fn ahead(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

/// A point in time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) at: Instant,
    /// The time in whole microseconds.
    pub(super) us: u64,
    /// The drive's vtime.
    pub(super) v: u64,
}

/// The distances behind the drive's clock that decide about a group's weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margins {
    /// The distance below which the group does not donate.
    pub(super) min: i64,
    /// The distance below which the group takes back donated weight.
    pub(super) low: i64,
    /// The distance with which the group begins, and the largest that it may keep.
    pub(super) target: i64,
}

/// The drive's clock, its rate, and the present period.
#[derive(Clone, Debug)]
pub(super) struct VtimeClock {
    /// The rate that the quality of service requires, in vtime per microsecond. `rate` additionally
    /// compensates for errors.
    pub(super) base_rate: u64,
    rate: u64,
    /// The beginning of the period in microseconds. `period_at_v` is the same in vtime.
    pub(super) period_at: u64,
    pub(super) period_at_v: u64,
    /// The nominal length of a period in microseconds.
    pub(super) period: u64,
    /// The tick of the timers of periods, or zero if they are exact.
    tick: Span,
    pub(super) margins: Margins,
    pub(super) slack: Span,
    /// The vtime that groups got in addition to that of the rate. It is negative if they returned
    /// some.
    pub(super) error: i64,
}

impl VtimeClock {
    pub(super) fn new(period: u64, tick: Span) -> Self {
        let mut clock = Self {
            base_rate: PER_USEC,
            rate: PER_USEC,
            period_at: 0,
            period_at_v: 0,
            period,
            tick,
            margins: Margins {
                min: 0,
                low: 0,
                target: 0,
            },
            slack: Span::ZERO,
            error: 0,
        };
        clock.set_period(period);
        clock
    }

    pub(super) fn set_period(&mut self, us: u64) {
        self.period = us;
        self.slack = Span::from_nanos(us * 1_000 * SLACK / 100);
        self.set_base_rate(self.base_rate);
    }

    /// Sets the base rate and the margins. The compensation for errors follows in
    /// [`Self::spread_error`].
    pub(super) fn set_base_rate(&mut self, rate: u64) {
        self.base_rate = rate;
        let margin = |percent: u64| -> i64 { (self.period * percent / 100 * rate).cast_signed() };
        self.margins = Margins {
            min: margin(MARGIN_MIN),
            low: margin(MARGIN_LOW),
            target: margin(MARGIN_TARGET),
        };
    }

    #[inline]
    pub(super) fn now(&self, at: Instant) -> Now {
        let us = at.as_nanos() / 1_000;
        let passed = (us - self.period_at).wrapping_mul(self.rate);
        Now {
            at,
            us,
            v: self.period_at_v.wrapping_add(passed),
        }
    }

    pub(super) fn start_period(&mut self, now: &Now) {
        self.period_at = now.us;
        self.period_at_v = now.v;
    }

    /// Returns the end of the period. It is as many ticks after the last tick at or before the
    /// beginning as the nominal length has, rounded up, and one more.
    ///
    /// The nominal length ([`Self::period`]) is the base of all computations, as in Linux. At 250
    /// ticks per second, a period of 10 ms that begins at a tick therefore lasts 16 ms.
    pub(super) fn period_end(&self) -> Instant {
        let (at, tick) = (self.period_at.saturating_mul(1_000), self.tick.as_nanos());
        let lasts = self.period.saturating_mul(1_000);
        Instant::from_nanos(match tick {
            0 => at.saturating_add(lasts),
            _ => (at / tick + lasts.div_ceil(tick) + 1).saturating_mul(tick),
        })
    }

    /// Adjusts the rate of the clock so that the error is compensated in the nominal length of the
    /// period.
    pub(super) fn spread_error(&mut self, now: &Now) {
        let left = (self.period_at + self.period).saturating_sub(now.us);
        let base = self.base_rate.cast_signed();
        if left > 0 {
            let left = left.cast_signed();
            // The rate is at least half and at most twice the base rate.
            let more = (-self.error / left).clamp(-(base >> 1), base);
            self.error += more * left;
            self.rate = (base + more).cast_unsigned();
        }
        // A larger error than a period is not carried over.
        let most = self.period.cast_signed().saturating_mul(base);
        self.error = self.error.clamp(-most, most);
    }

    /// Returns to the initial rate of 100 %.
    pub(super) fn reset_rate(&mut self) {
        self.rate = PER_USEC;
        self.set_base_rate(PER_USEC);
    }

    /// Returns the time that an amount of vtime takes at the base rate, in whole microseconds.
    pub(super) fn takes(&self, vtime: u64) -> Span {
        Span::from_micros(vtime.div_ceil(self.base_rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_paid_back_in_a_period_at_up_to_twice_the_rate() {
        let mut clock = VtimeClock::new(20_000, Span::ZERO);
        let now = clock.now(Instant::from_nanos(1_000_000_000));
        clock.start_period(&now);
        let period = (20_000 * PER_USEC).cast_signed();
        clock.error = -period / 2;
        clock.spread_error(&now);
        let later = clock.now(clock.period_end());
        assert_eq!(ahead(later.v, now.v), period + period / 2);
        assert_eq!(clock.error, 0);
        clock.error = -5 * period;
        clock.spread_error(&now);
        assert_eq!(ahead(clock.now(clock.period_end()).v, now.v), 2 * period);
        assert_eq!(clock.error, -period, "no more than a period is kept");
        clock.error = 5 * period;
        clock.spread_error(&now);
        assert_eq!(ahead(clock.now(clock.period_end()).v, now.v), period / 2);
    }

    #[test]
    fn a_period_ends_with_the_tick_after_its_nominal_end() {
        let mut clock = VtimeClock::new(10_000, Span::from_millis(4));
        for (begins_us, ends_ms) in [(0, 16), (4_387_341, 4_400), (4_400_000, 4_416)] {
            clock.period_at = begins_us;
            assert_eq!(clock.period_end(), Instant::from_nanos(ends_ms * 1_000_000));
        }
    }

    #[test]
    fn vtime_may_wrap() {
        let mut clock = VtimeClock::new(1_000, Span::ZERO);
        clock.period_at_v = u64::MAX - 5;
        let later = clock.now(Instant::from_nanos(1_000));
        assert_eq!(ahead(later.v, u64::MAX - 5), PER_USEC.cast_signed());
        assert!(later.v < PER_USEC);
    }

    #[test]
    fn the_slack_is_1_percent_of_a_period() {
        let mut clock = VtimeClock::new(1_000, Span::ZERO);
        assert_eq!(clock.slack, Span::from_micros(10));
        clock.set_period(40_000);
        assert_eq!(clock.slack, Span::from_micros(400));
    }

    #[test]
    fn a_reset_restores_the_initial_rate_and_margins() {
        let mut clock = VtimeClock::new(1_000, Span::ZERO);
        let margins = [clock.margins.min, clock.margins.low, clock.margins.target];
        clock.set_base_rate(3 * PER_USEC);
        clock.rate = 2 * PER_USEC;
        clock.reset_rate();
        assert_eq!((clock.rate, clock.base_rate), (PER_USEC, PER_USEC));
        let again = [clock.margins.min, clock.margins.low, clock.margins.target];
        assert_eq!(margins, again);
    }
}
