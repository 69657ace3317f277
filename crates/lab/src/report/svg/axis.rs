//! Axes: the mapping from values to positions, and the ticks.

/// The mapping of values to distances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// Equal ratios are equal distances. Values that are not positive are at the lower end.
    Log,
}

/// An axis: a scale over values from `low` to `high`, drawn from `from` to `to` (`to` may be
/// smaller).
#[derive(Debug, Clone)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates an axis from 0 (or the minimum, if that is negative or the scale logarithmic) to the
    /// maximum of `values`, widened to round numbers.
    pub(super) fn around(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
    ) -> Self {
        let values = values.filter(|v| usable(*v) && (scale == Scale::Linear || *v >= LEAST));
        let (low, high) = ends(values).unwrap_or((1.0, 1.0));
        let (low, high) = match scale {
            Scale::Linear => {
                let low = low.min(0.0);
                let high = if high - low >= LEAST { high } else { low + 1.0 };
                let step = step(low, high);
                (
                    (low / step).floor() * step,
                    // A maximum that is exactly on a tick needs no further one.
                    (high / step - 1e-9).ceil() * step,
                )
            }
            Scale::Log => decades(low, high),
        };
        Self {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    /// Creates an axis from exactly `low` to exactly `high`.
    pub(super) fn exact(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high - low >= LEAST { high } else { low + 1.0 };
        Self {
            scale: Scale::Linear,
            low,
            high,
            from,
            to,
        }
    }

    /// Returns the position of `value`, clamped to the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        // SVG has no infinite coordinates.
        let value = if value.is_finite() { value } else { self.low };
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + (self.to - self.from) * part.clamp(0.0, 1.0)
    }

    /// Returns the distance between the ends of the axis.
    pub(super) fn length(&self) -> f64 {
        (self.to - self.from).abs()
    }

    /// Returns the ticks as (position, label), from low to high. `label` receives the value and the
    /// distance to the next tick.
    pub(super) fn ticks(&self, label: fn(f64, f64) -> String) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high),
            Scale::Log => log_ticks(self.low, self.high),
        };
        let values = values.into_iter();
        values
            .map(|(v, step)| (self.place(v), label(v, step)))
            .collect()
    }
}

/// Returns true if a value is finite and of a plausible size. Other values do not stretch an axis.
pub(super) fn usable(value: f64) -> bool {
    value.abs() <= 1e15
}

/// Returns the minimum and the maximum of `values`.
pub(super) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, v| match ends {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

/// The smallest value that does not count as zero.
const LEAST: f64 = 1e-9;

/// Returns a round step (1, 2 or 5 times a power of ten) that divides the range from `low` to
/// `high` into four to nine parts.
fn step(low: f64, high: f64) -> f64 {
    let raw = (high - low) / 5.0;
    let power = 10f64.powi(raw.log10().floor() as i32);
    let factor = match raw / power {
        f if f < 1.5 => 1.0,
        f if f < 3.5 => 2.0,
        f if f < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// Returns the values of ticks, each with the distance to the next.
fn linear_ticks(low: f64, high: f64) -> Vec<(f64, f64)> {
    // The small tolerance keeps a tick whose division is inexact.
    let step = step(low, high);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    let values = (first..=last).map(|i| i as f64 * step);
    values.map(|v| (v, step)).collect()
}

/// Widens a range to the next numbers of the form 1, 2 or 5 times a power of ten. If that leaves
/// fewer than two powers of ten in the range, it widens the range to powers of ten. Values below
/// the maximum divided by ten to the power of [`DECADES`] are at the lower end.
fn decades(low: f64, high: f64) -> (f64, f64) {
    let rounds = |v: f64| {
        let power = v.log10().floor() as i32;
        (power - 1..=power + 1).flat_map(|p| [1.0, 2.0, 5.0].map(|f| f * 10f64.powi(p)))
    };
    // One tiny value would compress all others.
    let low = low.max(high / 10f64.powi(DECADES));
    let below = rounds(low)
        .filter(|r| *r <= low * (1.0 + 1e-9))
        .fold(0.0, f64::max);
    let above = rounds(high)
        .filter(|r| *r >= high * (1.0 - 1e-9))
        .fold(f64::INFINITY, f64::min);
    if log_ticks(below, above).len() >= 2 {
        return (below, above);
    }
    let power = (below.log10() + 1e-9).floor() as i32;
    let last = ((above.log10() - 1e-9).ceil() as i32).max(power + 1);
    (10f64.powi(power), 10f64.powi(last))
}

/// The maximum number of powers of ten on a log scale.
const DECADES: i32 = 9;

/// Returns the powers of ten in a range. Each tick is ten times the one below, as captions state.
fn log_ticks(low: f64, high: f64) -> Vec<(f64, f64)> {
    let first = (low.log10() - 1e-9).ceil() as i32;
    let last = (high.log10() + 1e-9).floor() as i32;
    let values = (first..=last).map(|power| 10f64.powi(power));
    values.map(|value| (value, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::number::tick;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::around(scale, values.iter().copied(), 0.0, 100.0);
        axis.ticks(tick).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(
            // A range of 11.3 in steps of 2 has six intervals.
            labels(Scale::Linear, &[0.9, 11.3]),
            ["0", "2", "4", "6", "8", "10", "12"]
        );
        assert_eq!(
            labels(Scale::Linear, &[249.0]),
            ["0", "50", "100", "150", "200", "250"]
        );
        assert_eq!(
            labels(Scale::Linear, &[250.0]),
            ["0", "50", "100", "150", "200", "250"]
        );
        assert_eq!(
            labels(Scale::Linear, &[0.3]),
            ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"]
        );
        let signed = labels(Scale::Linear, &[-3.0, 4.0]);
        assert_eq!(signed, ["-3", "-2", "-1", "0", "1", "2", "3", "4"]);
    }

    #[test]
    fn each_log_tick_is_ten_times_the_one_below_and_there_are_two_at_least() {
        assert_eq!(labels(Scale::Log, &[30.0, 9000.0]), ["100", "1000", "10k"]);
        assert_eq!(labels(Scale::Log, &[0.8, 3.0]), ["0.1", "1", "10"]);
        assert_eq!(labels(Scale::Log, &[7.0, 7.0]), ["1", "10"]);
        assert_eq!(labels(Scale::Log, &[10.0, 10.0]), ["10", "100"]);
        assert_eq!(labels(Scale::Log, &[2.0, 60.0]), ["10", "100"]);
        assert_eq!(
            labels(Scale::Log, &[0.0, 1e-3, 250.0]),
            ["0.001", "0.01", "0.1", "1", "10", "100"]
        );
    }

    #[test]
    fn an_axis_without_usable_values_has_ticks() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [
                &[][..],
                &[0.0],
                &[1e-300],
                &[f64::NAN, f64::INFINITY, f64::MAX],
            ] {
                let axis = Axis::around(scale, values.iter().copied(), 0.0, 100.0);
                assert!(axis.ticks(tick).len() >= 2, "{scale:?} {values:?}");
                assert!(axis.place(f64::NAN).is_finite());
            }
        }
    }

    #[test]
    fn an_axis_of_many_decades_shows_the_highest_decades() {
        // Of 15 decades, the upper nine are shown.
        let wide = labels(Scale::Log, &[1e-9, 1e6]);
        assert_eq!(
            wide,
            [
                "0.001", "0.01", "0.1", "1", "10", "100", "1000", "10k", "100k", "1M"
            ]
        );
    }

    #[test]
    fn places_stay_within_the_axis() {
        let down = Axis::around(Scale::Log, [1.0, 100.0].into_iter(), 200.0, 0.0);
        assert_eq!(
            [0.0, 1.0, 10.0, 100.0, 1e9].map(|v| down.place(v).round() as i32),
            [200, 200, 100, 0, 0]
        );
    }
}
