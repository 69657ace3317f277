//! Parameters from figures: each unknown parameter is tied to the one figure that determines it.
//!
//! A tied parameter is found by narrowing its range until the figure matches, one parameter after the other, and all of them again
//! until nothing changes, because some figures depend on more than one. Nothing here is random or depends on the machine, so
//! a fit gives the same bytes everywhere.

use crate::fit::{Error, Figure};
use weir_config::parameter::Parameter;
use weir_model::drive::Config;

/// Maximum number of rounds over all ties.
const ROUNDS: u32 = 4;

/// Maximum number of values tried for a tie.
const TRIES: u32 = 16;

/// How far from the last value the later rounds search, as a ratio.
const NEAR: f64 = 1.5;

/// A range wider than this ratio is bisected, a narrower one is divided by interpolation.
const WIDE: f64 = 4.0;

/// How close a figure must be, as a part of its tolerance: for a profile, and for a set of an ensemble.
pub(crate) const CLOSE: f64 = 0.05;
pub(crate) const NEAR_ENOUGH: f64 = 0.2;

/// Maximum number of repetitions for a figure.
pub(crate) const REPETITIONS: u32 = 10;

/// A parameter and the figure that determines it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tie {
    /// The parameter.
    pub(crate) parameter: &'static Parameter,
    /// Start of the range to search, in the parameter's unit; at least 1.
    pub(crate) from: u64,
    /// End of the range.
    pub(crate) to: u64,
    /// The figure.
    pub(crate) figure: Figure,
    /// The published value: bytes per second or nanoseconds.
    pub(crate) published: f64,
    /// The permitted relative error.
    pub(crate) tolerance: f64,
}

/// Sets the tied parameters of `drive` so that each figure is within `close` of its tolerance, if that is possible.
///
/// # Errors
/// A figure cannot be measured on the drive.
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

/// A value that was tried, and the relative error of the figure.
#[derive(Clone, Copy)]
struct Tried {
    value: u64,
    off: f64,
}

impl Tie {
    /// Narrows the range until the figure matches, and sets the best of all values that were tried.
    fn find(&self, drive: &mut Config, round: u32, close: f64) -> Result<(), Error> {
        let mut best = self.tried(drive, self.parameter.get(drive))?;
        if best.off.abs() < close {
            return Ok(());
        }
        let [from, to] = self.range(best.value, round);
        let (mut low, mut high) = (self.tried(drive, from)?, self.tried(drive, to)?);
        best = best.or(low).or(high);
        for _ in 0..TRIES {
            // If both ends err in the same direction the figure is out of reach, and the nearer end is the best value.
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

    /// The range to search: all of it at first, then near the last value.
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
    /// The better of two; the earlier one if they are equal.
    fn or(self, other: Self) -> Self {
        if other.off.abs() < self.off.abs() {
            other
        } else {
            self
        }
    }
}

/// A value between two that err in opposite directions: the geometric mean while they are far apart, then by linear interpolation,
/// but not so near an end that little is gained.
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

/// Rounds to three digits: a fit is no more precise, and people read profiles.
pub(crate) fn round_to_three(value: f64) -> u64 {
    let value = value as u64;
    let mut unit = 1;
    while value / unit >= 1000 {
        unit *= 10;
    }
    (value + unit / 2) / unit * unit
}
