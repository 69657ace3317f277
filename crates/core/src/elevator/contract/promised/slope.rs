//! By how much a request takes longer for each part of others' work in front of it: the slope of a line through what was seen.
//!
//! A server across a network takes three milliseconds for one request and forty for the next, whatever else it has to do. Beyond the least
//! time of any is then not what others cost: held back for that, they would leave the drive idle and the request as slow as before.
//! By the line of least squares they are held back for what they add.

use crate::Span;
use crate::elevator::contract::constants::{FULL_INTERFERENCE, SLOPE_VARIES, SLOPE_WEIGHT};

/// Times are counted in units of 64 ns, 2 s at the most: so that squares, and sums of those, fit.
const UNIT_NS: u64 = 64;
const MOST: u64 = 2_000_000_000 / UNIT_NS;

/// Averages of what others had in front of requests (`ahead`) and of how long these took (`time`), how both vary, and the slope in 256ths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    samples: u32,
    ahead: i64,
    time: i64,
    variance: i64,
    covariance: i64,
    slope: u64,
}

impl Slope {
    pub(super) const NONE: Self = Self {
        samples: 0,
        ahead: 0,
        time: 0,
        variance: 0,
        covariance: 0,
        slope: FULL_INTERFERENCE,
    };

    /// A request took `time` with `ahead` nanoseconds of others' work in the drive.
    pub(super) fn add(&mut self, ahead: u64, time: Span) {
        let units = |ns: u64| (ns / UNIT_NS).min(MOST).cast_signed();
        let (ahead, time) = (units(ahead), units(time.as_nanos()));
        if self.samples == 0 {
            (self.ahead, self.time) = (ahead, time);
        }
        self.samples = self.samples.saturating_add(1);
        let weight = SLOPE_WEIGHT.min(self.samples.into());
        let (beyond, late) = (ahead - self.ahead, time - self.time);
        self.ahead += beyond / weight;
        self.time += late / weight;
        self.variance += (beyond * beyond - self.variance) / weight;
        self.covariance += (beyond * late - self.covariance) / weight;
        // Others' work that is never more and never less tells nothing.
        let tells = i64::from(self.samples) >= SLOPE_WEIGHT
            && self.variance > self.ahead * self.ahead / SLOPE_VARIES;
        if tells {
            let unit = self.variance / FULL_INTERFERENCE.cast_signed();
            self.slope = (self.covariance.max(0) / unit.max(1)).cast_unsigned();
        }
    }

    /// The slope in 256ths, as of when it could be told last; `None` on a drive on which it is not looked at.
    pub(super) fn get(&self) -> Option<u64> {
        (self.samples > 0).then_some(self.slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::mul_div_floor;

    /// After requests that took `alone` and, in 256ths, `slope` of what others had there; and every other one `jitter` more.
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
    fn what_a_request_takes_behind_nobody_is_not_laid_to_others() {
        let ms = Span::from_millis;
        for slope in [0, 128, 256, 512] {
            for jitter in [Span::ZERO, ms(20)] {
                let found = seen(ms(2), slope, jitter);
                assert!(found.abs_diff(slope) < 40, "{found} {slope}");
            }
        }
    }

    #[test]
    fn others_that_always_have_as_much_there_tell_nothing() {
        let mut line = Slope::NONE;
        for at in 0..1_000 {
            line.add(5_000_000, Span::from_millis(10 + at % 30));
        }
        assert_eq!(line.get(), Some(FULL_INTERFERENCE));
    }
}
