//! By how much a request takes longer for each part of others' work in front of it: the slope of a line through what was seen.
//!
//! A server across a network takes three milliseconds for one request and forty for the next, whatever else it has to do. Beyond the least
//! time of any is then not what others cost: held back for that, they would leave the drive idle and the request as slow as before.
//! So where a request would take much longer than the least even behind nobody, by the line of least squares, it is that line by which
//! others are held back.

use super::latency::{FULL_INTERFERENCE, HIDDEN};
use crate::Span;

/// Of each sample as much goes into the averages as 1 in this many.
const WEIGHT: i64 = 64;
/// Times are counted in units of 64 ns, 2 s at the most: so that squares, and sums of those, fit.
const UNIT_NS: u64 = 64;
const MOST: u64 = 2_000_000_000 / UNIT_NS;

/// Averages of what others had in front of requests (`ahead`) and of how long these took (`time`), and of how both vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    samples: u32,
    ahead: i64,
    time: i64,
    variance: i64,
    covariance: i64,
}

impl Slope {
    pub(super) const NONE: Self = Self {
        samples: 0,
        ahead: 0,
        time: 0,
        variance: 0,
        covariance: 0,
    };

    /// A request took `time` with `ahead` nanoseconds of others' work in the drive.
    pub(super) fn add(&mut self, ahead: u64, time: Span) {
        let units = |ns: u64| (ns / UNIT_NS).min(MOST).cast_signed();
        let (ahead, time) = (units(ahead), units(time.as_nanos()));
        self.samples = self.samples.saturating_add(1);
        let weight = WEIGHT.min(self.samples.into());
        let (beyond, late) = (ahead - self.ahead, time - self.time);
        self.ahead += beyond / weight;
        self.time += late / weight;
        self.variance += (beyond * beyond - self.variance) / weight;
        self.covariance += (beyond * late - self.covariance) / weight;
    }

    /// The slope in 256ths, if a request takes half as long again as `solo` by the line, and a little, with nothing in front of it; `None` also
    /// as long as others' work was never more and never less.
    pub(super) fn get(&self, solo: Span) -> Option<u64> {
        let tells =
            i64::from(self.samples) >= WEIGHT && self.variance > self.ahead * self.ahead / 64;
        if !tells {
            return None;
        }
        let full = FULL_INTERFERENCE.cast_signed();
        let slope = self.covariance.max(0) / (self.variance / full).max(1);
        let behind_nobody = self.time - self.ahead.saturating_mul(slope) / full;
        let varies = solo + solo / 2 + HIDDEN;
        let is_varying = behind_nobody > (varies.as_nanos() / UNIT_NS).cast_signed();
        is_varying.then_some(slope.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::mul_div_floor;

    /// After requests that took `alone` and, in 256ths, `slope` of what others had there; and every other one `jitter` more.
    fn seen(alone: Span, slope: u64, jitter: Span) -> Option<u64> {
        let mut line = Slope::NONE;
        for at in 0..1_000 {
            let ahead = at * 7 % 16 * 1_000_000;
            let late = if at / 3 % 2 == 0 { jitter } else { Span::ZERO };
            line.add(
                ahead,
                alone + late + Span::from_nanos(mul_div_floor(ahead, slope, 256)),
            );
        }
        line.get(alone)
    }

    #[test]
    fn what_a_request_takes_behind_nobody_is_not_laid_to_others() {
        let ms = Span::from_millis;
        for slope in [0, 128, 256, 512] {
            assert_eq!(
                seen(ms(2), slope, Span::ZERO),
                None,
                "the least says it all"
            );
            let found = seen(ms(2), slope, ms(20)).expect("a drive whose times vary");
            assert!(found.abs_diff(slope) < 40, "{found} {slope}");
        }
    }

    #[test]
    fn others_that_always_have_as_much_there_tell_nothing() {
        let mut line = Slope::NONE;
        for at in 0..1_000 {
            line.add(5_000_000, Span::from_millis(10 + at % 30));
        }
        assert_eq!(line.get(Span::from_millis(2)), None);
    }
}
