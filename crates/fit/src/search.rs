//! Parameters from figures: each parameter that is not known is tied to the one figure that shows it.
//!
//! A tied parameter is found by narrowing its range until the figure comes out; one parameter after the other, and all of them again
//! until nothing changes, because some figures depend on more than one. Nothing here is random and nothing depends on the machine, so
//! that a fit is the same to the byte wherever it is made.

use crate::{Error, Figure};
use weir_config::parameter::Parameter;
use weir_drive::Config;

/// Times that every tie is found anew at most.
const ROUNDS: u32 = 4;

/// Values tried for a tie at most.
const TRIES: u32 = 16;

/// How near the last value the later rounds look, as a ratio.
const NEAR: f64 = 1.5;

/// A range of a larger ratio than this is halved, a smaller one divided where the figure is expected.
const WIDE: f64 = 4.0;

/// How near a figure comes, as a part of the tolerance of its sheet: for a profile, and for a set beside it.
pub(crate) const CLOSE: f64 = 0.05;
pub(crate) const NEAR_ENOUGH: f64 = 0.2;

/// Repetitions that a figure is measured over at most.
pub(crate) const REPETITIONS: u32 = 10;

/// A parameter that is to make a figure come out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tie {
    /// Which.
    pub(crate) parameter: &'static Parameter,
    /// The range it is looked for in, in the parameter's unit; at least 1.
    pub(crate) from: u64,
    /// Its end.
    pub(crate) to: u64,
    /// The figure.
    pub(crate) figure: Figure,
    /// What was published: bytes a second or nanoseconds.
    pub(crate) published: f64,
    /// By which part of it the model's may be off.
    pub(crate) tolerance: f64,
}

/// Sets the tied parameters of `drive` so that their figures come out, each to `close` of its tolerance if it can.
///
/// # Errors
/// A figure cannot be measured of such a drive.
pub(crate) fn search(drive: &Config, ties: &[Tie], close: f64) -> Result<Config, Error> {
    let mut drive = drive.clone();
    for round in 0..ROUNDS {
        let before = drive.clone();
        for tie in ties {
            tie.find(&mut drive, round, close * tie.tolerance)?;
        }
        if drive == before {
            break;
        }
    }
    Ok(drive)
}

/// A value that was tried, and by which part the figure was too high then.
#[derive(Clone, Copy)]
struct Tried {
    value: u64,
    off: f64,
}

impl Tie {
    /// Narrows the range until the figure comes out. Of all values tried, the one with the best figure stays.
    fn find(&self, drive: &mut Config, round: u32, close: f64) -> Result<(), Error> {
        let mut best = self.tried(drive, self.parameter.get(drive))?;
        if best.off.abs() < close {
            return Ok(());
        }
        let [from, to] = self.range(best.value, round);
        let (mut low, mut high) = (self.tried(drive, from)?, self.tried(drive, to)?);
        best = best.or(low).or(high);
        for _ in 0..TRIES {
            // With both ends on one side of it the figure is out of reach, and the nearer end as near as it gets.
            let reached = (low.off > 0.0) != (high.off > 0.0);
            if best.off.abs() < close || !reached {
                break;
            }
            let value = between(low, high);
            if value <= low.value || value >= high.value {
                break;
            }
            let next = self.tried(drive, value)?;
            best = best.or(next);
            if (next.off > 0.0) == (low.off > 0.0) {
                low = next;
            } else {
                high = next;
            }
        }
        self.parameter.set(drive, best.value);
        Ok(())
    }

    /// Where to look: everywhere at first, then near the last value.
    fn range(&self, value: u64, round: u32) -> [u64; 2] {
        if round == 0 {
            return [self.from, self.to];
        }
        let value = value as f64;
        [value / NEAR, value * NEAR].map(|end| round_to_three(end).clamp(self.from, self.to))
    }

    fn tried(&self, drive: &Config, value: u64) -> Result<Tried, Error> {
        let mut drive = drive.clone();
        self.parameter.set(&mut drive, value);
        let off = self.figure.of(&drive, REPETITIONS)? / self.published - 1.0;
        Ok(Tried { value, off })
    }
}

impl Tried {
    /// The better of two, the earlier of equals.
    fn or(self, other: Self) -> Self {
        if other.off.abs() < self.off.abs() {
            other
        } else {
            self
        }
    }
}

/// A value between two that are on either side of the figure: in the middle by ratio while they are far apart, then where a straight
/// line crosses it, but not so near an end that little is gained.
fn between(low: Tried, high: Tried) -> u64 {
    let (l, h) = (low.value as f64, high.value as f64);
    let value = if h / l > WIDE {
        (l * h).sqrt()
    } else {
        let part = low.off / (low.off - high.off);
        l + (h - l) * part.clamp(0.1, 0.9)
    };
    round_to_three(value)
}

/// A number of three digits and zeros: nobody reads more from a fit, and a profile is read by people.
pub(crate) fn round_to_three(value: f64) -> u64 {
    let value = value as u64;
    let mut unit = 1;
    while value / unit >= 1000 {
        unit *= 10;
    }
    (value + unit / 2) / unit * unit
}
