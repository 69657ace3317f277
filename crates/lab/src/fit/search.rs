//! Searches parameters by figures: each unknown parameter is tied to the one figure that determines
//! it.
//!
//! A tied parameter is found by narrowing its range until the figure matches. This is done for one
//! parameter after the other. Because some figures depend on more than one parameter, all
//! parameters are searched again until nothing changes. The search uses no random numbers and does
//! not depend on the machine, so that a fit gives the same bytes everywhere.

use crate::fit::{DriveFigure, FitError};
use weir_config::parameter::Parameter;
use weir_model::drive::DriveConfig;

/// The maximum number of rounds over all ties.
const ROUNDS: u32 = 4;

/// The maximum number of values between the ends of a range that are tested for a tie.
const TRIES: u32 = 16;

/// The distance from the last value that later rounds search, as a ratio.
const NEAR: f64 = 1.5;

/// The ratio of a range up to which it is divided by linear interpolation. A wider range is
/// bisected.
const WIDE: f64 = 4.0;

/// The required precision of a figure, as a part of its tolerance: for a profile, and for a set of
/// an ensemble.
pub(crate) const CLOSE: f64 = 0.05;
pub(crate) const NEAR_ENOUGH: f64 = 0.2;

/// The maximum number of repetitions for a figure.
pub(crate) const REPETITIONS: u32 = 10;

/// A parameter and the figure that determines it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tie {
    /// The parameter that is searched.
    pub(crate) parameter: &'static Parameter,
    /// The start of the range to search, in the parameter's unit. At least 1, because ranges are
    /// divided by ratio.
    pub(crate) from: u64,
    /// The end of the range.
    pub(crate) to: u64,
    /// The figure that determines the parameter.
    pub(crate) figure: DriveFigure,
    /// The published value, in bytes per second or nanoseconds.
    pub(crate) published: f64,
    /// The permitted relative error.
    pub(crate) tolerance: f64,
}

/// Sets the tied parameters of `drive` so that each figure is within `close` of its tolerance, if
/// possible.
///
/// # Errors
/// Returns an error if a figure cannot be measured on the drive.
pub(crate) fn search(
    drive: &DriveConfig,
    ties: &[Tie],
    close: f64,
) -> Result<DriveConfig, FitError> {
    let mut drive = drive.clone();
    for round in 0..ROUNDS {
        let before = drive.clone();
        for tie in ties {
            tie.find(&mut drive, round, close * tie.tolerance)?;
        }
        // No parameter has moved in this round.
        if drive == before {
            break;
        }
    }
    Ok(drive)
}

/// A value that was tested, and the relative error of the figure.
#[derive(Clone, Copy)]
struct TestedValue {
    value: u64,
    off: f64,
}

impl Tie {
    /// Narrows the range until the figure matches, and sets the best of all values that were
    /// tested.
    fn find(&self, drive: &mut DriveConfig, round: u32, close: f64) -> Result<(), FitError> {
        let mut best = self.test_value(drive, self.parameter.get(drive))?;
        if best.off.abs() < close {
            return Ok(());
        }
        let [from, to] = self.range(best.value, round);
        let (mut low, mut high) = (self.test_value(drive, from)?, self.test_value(drive, to)?);
        best = best.or(low).or(high);
        for _ in 0..TRIES {
            // If both ends err in the same direction, the figure is out of reach, and the nearer
            // end is the best value.
            let reached = (low.off > 0.0) != (high.off > 0.0);
            if best.off.abs() < close || !reached {
                break;
            }
            let value = between(low, high);
            // Rounding to three digits may leave no value between the ends.
            if value <= low.value || value >= high.value {
                break;
            }
            let next = self.test_value(drive, value)?;
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

    /// Returns the range to search: the whole range at first, and a range near the last value in
    /// later rounds.
    fn range(&self, value: u64, round: u32) -> [u64; 2] {
        if round == 0 {
            return [self.from, self.to];
        }
        let value = value as f64;
        // Other parameters have changed since, but only a little.
        [value / NEAR, value * NEAR].map(|end| round_to_three(end).clamp(self.from, self.to))
    }

    fn test_value(&self, drive: &DriveConfig, value: u64) -> Result<TestedValue, FitError> {
        let mut drive = drive.clone();
        self.parameter.set(&mut drive, value);
        let off = self.figure.of(&drive, REPETITIONS)? / self.published - 1.0;
        Ok(TestedValue { value, off })
    }
}

impl TestedValue {
    /// Returns the better of two values, or the earlier one if they are equal.
    fn or(self, other: Self) -> Self {
        if other.off.abs() < self.off.abs() {
            other
        } else {
            self
        }
    }
}

/// Returns a value between two that err in opposite directions. It is the geometric mean while the
/// values are far apart. Otherwise it is found by linear interpolation, but at least a tenth of the
/// range away from either end, so that each step gains something.
fn between(low: TestedValue, high: TestedValue) -> u64 {
    let (l, h) = (low.value as f64, high.value as f64);
    let value = if h / l > WIDE {
        (l * h).sqrt()
    } else {
        let part = low.off / (low.off - high.off);
        // A value near an end would narrow the range too little.
        l + (h - l) * part.clamp(0.1, 0.9)
    };
    round_to_three(value)
}

/// Rounds to three digits. A fit is not more precise, and profiles are read by people.
pub(crate) fn round_to_three(value: f64) -> u64 {
    let value = value as u64;
    let mut unit = 1;
    while value / unit >= 1000 {
        unit *= 10;
    }
    (value + unit / 2) / unit * unit
}
