//! The slope of a line through the latencies of requests: the additional time for each unit of
//! other clients' work in flight.
//!
//! A server across a network may take 3 ms for one request and 40 ms for the next, regardless of
//! its other work. On such a drive, the time beyond the shortest latency is not the effect of other
//! clients. To limit them for it would leave the drive idle, and the request would not become
//! faster. Therefore a line is fitted by least squares, and other clients are limited by the time
//! that their work adds.

use crate::Span;
use crate::elevator::contract::constants::{HEADROOM, SLOPE_VARIES, SLOPE_WEIGHT, VARIES};

/// Interference of 1: work of others delays a client by its cost.
pub(super) const FULL: u64 = 256;

/// The unit of times, in nanoseconds. Together with [`MOST`] it keeps squares, and sums of squares,
/// within 64 bits.
const UNIT_NS: u64 = 64;
/// The largest time, 2 s, in this unit.
const MOST: u64 = 2_000_000_000 / UNIT_NS;

/// Moving averages of other clients' work in front of requests (`ahead`) and of the latency
/// (`time`), their variance and covariance, and the slope in 256ths. The spread of the latency
/// determines the headroom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    samples: u32,
    ahead: i64,
    time: i64,
    variance: i64,
    covariance: i64,
    slope: u64,
    /// Average distance of a latency from the average latency.
    spread: i64,
}

impl Slope {
    pub(super) const NONE: Self = Self {
        samples: 0,
        ahead: 0,
        time: 0,
        variance: 0,
        covariance: 0,
        slope: FULL,
        spread: 0,
    };

    /// Adds a request that took `time`, with `ahead` nanoseconds of other clients' work in the
    /// drive at its dispatch.
    pub(super) fn add(&mut self, ahead: u64, time: Span) {
        let units = |ns: u64| (ns / UNIT_NS).min(MOST).cast_signed();
        let (ahead, time) = (units(ahead), units(time.as_nanos()));
        if self.samples == 0 {
            (self.ahead, self.time) = (ahead, time);
        }
        self.samples = self.samples.saturating_add(1);
        // The first samples have equal weights, so that the average does not start from a single
        // one.
        let weight = SLOPE_WEIGHT.min(self.samples.into());
        let (beyond, late) = (ahead - self.ahead, time - self.time);
        self.ahead += beyond / weight;
        self.time += late / weight;
        self.spread += (late.abs() - self.spread) / weight;
        self.variance += (beyond * beyond - self.variance) / weight;
        self.covariance += (beyond * late - self.covariance) / weight;
        // If the work of others is always the same, the samples do not determine a slope.
        let tells = i64::from(self.samples) >= SLOPE_WEIGHT
            && self.variance > self.ahead * self.ahead / SLOPE_VARIES;
        if tells {
            // More work of others cannot make a request faster, so a negative covariance is chance.
            let unit = self.variance / FULL.cast_signed();
            self.slope = (self.covariance.max(0) / unit.max(1)).cast_unsigned();
        }
    }

    /// Returns the part of the promised rate that is reserved in addition, in 64ths. It grows with
    /// the spread of the latency, because the drive may complete little in one half of a second and
    /// the client must have received more in the other half.
    pub(super) fn headroom(&self) -> u64 {
        let relative = self.spread.cast_unsigned() * 64 / self.time.cast_unsigned().max(1);
        HEADROOM + relative / VARIES
    }

    /// Returns the largest work of others, in nanoseconds, with which the latency is expected to
    /// stay within `allowed`. Zero if the average latency is longer, or on a drive for which no
    /// samples are added. The estimate starts from the average latency and the work at that time,
    /// so it recovers from a wrong slope.
    pub(super) fn room(&self, allowed: Span) -> u64 {
        let time = self.time.cast_unsigned() * UNIT_NS;
        match allowed.as_nanos().checked_sub(time) {
            Some(left) if self.samples > 0 => {
                let more = left.saturating_mul(FULL) / self.slope.max(1);
                more.saturating_add(self.ahead.cast_unsigned() * UNIT_NS)
            }
            _ => 0,
        }
    }

    /// Returns the slope in 256ths, as of the last time at which it could be determined. `None` on
    /// a drive for which no samples are added.
    pub(super) fn get(&self) -> Option<u64> {
        (self.samples > 0).then_some(self.slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::mul_div_floor;

    /// Returns the slope after requests that took `alone` plus `slope` 256ths of the work of
    /// others. Every other group of three takes `jitter` more.
    fn seen(alone: Span, slope: u64, jitter: Span) -> u64 {
        let mut line = Slope::NONE;
        for at in 0..1_000 {
            let ahead = at * 7 % 16 * 1_000_000;
            let late = if at / 3 % 2 == 0 { jitter } else { Span::ZERO };
            line.add(
                ahead,
                alone + late + Span::from_nanos(mul_div_floor(ahead, slope, 256)),
            );
        }
        line.get().expect("it was looked at")
    }

    #[test]
    fn the_slope_leaves_out_the_latency_without_contention() {
        let ms = Span::from_millis;
        for slope in [0, 128, 256, 512] {
            for jitter in [Span::ZERO, ms(20)] {
                let found = seen(ms(2), slope, jitter);
                assert!(found.abs_diff(slope) < 40, "{found} {slope}");
            }
        }
    }

    #[test]
    fn the_headroom_grows_with_the_relative_spread_of_the_latency() {
        // Half of the requests take longer than the average by a quarter, and half take less.
        for (times, headroom) in [([20; 2], HEADROOM), ([15, 25], HEADROOM + 8)] {
            let mut line = Slope::NONE;
            for at in 0..1_000 {
                line.add(0, Span::from_millis(times[at % 2]));
            }
            assert!(
                line.headroom().abs_diff(headroom) <= 1,
                "{}",
                line.headroom()
            );
        }
        assert_eq!(Slope::NONE.headroom(), HEADROOM, "a local drive");
    }

    #[test]
    fn a_wrong_slope_still_leaves_more_than_the_present_work_to_a_client_in_time() {
        let ms = Span::from_millis;
        let mut line = Slope::NONE;
        for _ in 0..1_000 {
            line.add(4_000_000, ms(20));
        }
        line.slope = 8 * FULL;
        // The latency may grow by 16 ms, which is 2 ms of work at this slope.
        assert!(
            line.room(ms(36)).abs_diff(6_000_000) < 100_000,
            "{}",
            line.room(ms(36))
        );
        assert_eq!(line.room(ms(19)), 0);
        assert_eq!(Slope::NONE.room(ms(36)), 0, "a local drive");
    }

    #[test]
    fn constant_work_of_others_shows_no_slope() {
        let mut line = Slope::NONE;
        for at in 0..1_000 {
            line.add(5_000_000, Span::from_millis(10 + at % 30));
        }
        assert_eq!(line.get(), Some(FULL));
    }
}
