//! Detects when a drive is steady.
//!
//! The beginning of a step shows caches that fill and a drive that speeds up or slows down. It is
//! cut off where the rest has the smallest marginal standard error (MSER, a rule of simulation
//! statistics), which is the sum of squared deviations from the mean of the remaining windows,
//! divided by the square of their number. The rest is steady if it contains no trend.

use serde::{Deserialize, Serialize};
use weir_measure::Interval;

/// The minimum number of windows for a result.
const LEAST: usize = 5;
/// The largest trend of a level rate, as a part of the mean, from the first window of the rest to
/// its last.
const LEVEL: f64 = 0.05;
/// The smallest trend, as a part of the mean, that counts however much the windows scatter.
const STEEP: f64 = 0.2;
/// The largest half-width of a confidence interval, as a part of the mean, of windows that do not
/// scatter.
const STILL: f64 = 0.01;
/// The number of standard errors up to which a trend may be chance.
const CHANCE: f64 = 2.0;

/// A part of a step, from one completion to another.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateWindow {
    /// The length of the window in seconds.
    pub seconds: f64,
    /// The rate of reads and writes in it, in bytes per second.
    pub bytes_per_second: f64,
}

/// The windows of a step without its beginning.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tail {
    /// The number of windows at the beginning that do not count.
    pub skipped: usize,
    /// The mean of the others with its confidence interval.
    pub interval: Interval,
    /// The rise from the first of them to the last, as a part of the mean. Negative if the rate
    /// falls.
    pub trend: f64,
    /// True if no trend is left and there are enough windows.
    pub steady: bool,
}

/// Cuts off the beginning. Returns `None` without windows.
pub fn tail(windows: &[RateWindow]) -> Option<Tail> {
    let rates: Vec<f64> = windows.iter().map(|w| w.bytes_per_second).collect();
    let count = windows.len();
    // At most half of the windows are cut off.
    let skipped = (0..=count / 2)
        .map(|skipped| (skipped, marginal(&rates[skipped..])))
        // Of equal errors, the earliest cut wins.
        .min_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let interval = mean(&windows[skipped..])?;
    let rest = &rates[skipped..];
    let (trend, error) = trend(rest);
    // A trend is accepted if it is small, or if it is moderate and within chance.
    let level = trend.abs() <= LEVEL || (trend.abs() <= STEEP && trend.abs() <= CHANCE * error);
    // If the cut is at the last permitted window, a later cut might have been better, unless the
    // rest does not scatter.
    let cut = skipped == 0 || skipped < count / 2 || interval.half <= STILL * interval.mean;
    Some(Tail {
        skipped,
        interval,
        trend,
        steady: rest.len() >= LEAST && level && cut && !changes_at_the_end(rest),
    })
}

/// Returns the total bytes divided by the total time, and the confidence interval of that ratio. A
/// mean of the rates would be too high if completions come in bursts, because a window with a burst
/// is short.
pub(crate) fn mean(windows: &[RateWindow]) -> Option<Interval> {
    let seconds: f64 = windows.iter().map(|w| w.seconds).sum();
    let bytes: f64 = windows.iter().map(|w| w.bytes_per_second * w.seconds).sum();
    let mean = bytes / seconds.max(1e-9);
    let off = |w: &RateWindow| (w.bytes_per_second - mean) * w.seconds;
    let off: Vec<f64> = windows.iter().map(off).collect();
    let length = seconds / windows.len().max(1) as f64;
    let half = Interval::of(&off)?.half / length.max(1e-9);
    Some(Interval { mean, half })
}

/// Returns the sum of squared deviations from the mean, divided by the square of the number.
fn marginal(windows: &[f64]) -> f64 {
    let count = windows.len() as f64;
    if windows.is_empty() {
        return f64::INFINITY;
    }
    let mean = windows.iter().sum::<f64>() / count;
    let squares: f64 = windows.iter().map(|w| (w - mean).powi(2)).sum();
    squares / (count * count)
}

/// Returns true if the last windows differ from the others by more than a level rate and chance
/// permit. In that case a change has just begun.
fn changes_at_the_end(windows: &[f64]) -> bool {
    // The last eighth of the windows, and at least three.
    let last = (windows.len() / 8).max(3);
    let Some((before, last)) = windows.split_at_checked(windows.len().saturating_sub(last)) else {
        return false;
    };
    if before.len() < LEAST {
        return false;
    }
    let mean = |windows: &[f64]| windows.iter().sum::<f64>() / windows.len() as f64;
    let level = mean(before);
    let squares: f64 = before.iter().map(|w| (w - level).powi(2)).sum();
    let deviation = (squares / (before.len() - 1) as f64).sqrt();
    let off = (mean(last) - level).abs();
    off > LEVEL * level && off > CHANCE * deviation / (last.len() as f64).sqrt()
}

/// Returns the rise of the least-squares line from the first rate to the last, and its standard
/// error, as parts of the mean. The rates are those of consecutive windows of about the same
/// length, so their numbers serve as times.
fn trend(windows: &[f64]) -> (f64, f64) {
    let count = windows.len() as f64;
    // Two points lie on a line, so that the error of its slope is unknown. No trend is assumed.
    if windows.len() < 3 {
        return (0.0, f64::INFINITY);
    }
    let mean = windows.iter().sum::<f64>() / count;
    if mean <= 0.0 {
        return (0.0, f64::INFINITY);
    }
    // Centred indices make slope and mean independent.
    let middle = (count - 1.0) / 2.0;
    let at = |i: usize| i as f64 - middle;
    let square: f64 = (0..windows.len()).map(|i| at(i).powi(2)).sum();
    let numbered = || windows.iter().enumerate();
    let slope = numbered().map(|(i, w)| at(i) * (w - mean)).sum::<f64>() / square;
    let off: f64 = numbered()
        .map(|(i, w)| (w - mean - slope * at(i)).powi(2))
        .sum();
    let error = (off / (count - 2.0) / square).sqrt();
    let whole = (count - 1.0) / mean;
    (slope * whole, error * whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn even(rates: &[f64]) -> Vec<RateWindow> {
        let window = |rate: &f64| RateWindow {
            seconds: 0.5,
            bytes_per_second: *rate,
        };
        rates.iter().map(window).collect()
    }

    fn of(rates: &[f64]) -> Tail {
        tail(&even(rates)).unwrap()
    }

    #[test]
    fn bursts_after_pauses_do_not_raise_the_mean() {
        let pause = RateWindow {
            seconds: 0.9,
            bytes_per_second: 100.0 / 0.9,
        };
        let burst = RateWindow {
            seconds: 0.1,
            bytes_per_second: 1000.0,
        };
        let windows = [pause, burst].repeat(10);
        let found = tail(&windows).unwrap().interval;
        // 100 bytes in 0.9 s and 100 bytes in 0.1 s: 200 bytes/s, although the mean of the rates is
        // 556.
        assert!((found.mean - 200.0).abs() < 1.0, "{found:?}");
        assert!(found.half > 10.0 && found.half < 150.0, "{found:?}");
    }

    #[test]
    fn windows_that_fill_a_cache_are_skipped() {
        let found = of(&[
            900.0, 850.0, 400.0, 101.0, 99.0, 100.0, 100.0, 102.0, 98.0, 100.0,
        ]);
        assert_eq!(found.skipped, 3);
        assert!(found.steady);
        assert!((found.interval.mean - 100.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn a_drive_that_becomes_slower_all_the_time_is_not_steady() {
        let falling: Vec<f64> = (0..20).map(|i| 1000.0 - 30.0 * f64::from(i)).collect();
        assert!(!of(&falling).steady, "{:?}", of(&falling));
        let rising: Vec<f64> = falling.iter().rev().copied().collect();
        assert!(!of(&rising).steady, "{:?}", of(&rising));
    }

    #[test]
    fn a_drop_near_the_end_is_seen() {
        let mut windows = vec![500.0; 20];
        // The rate drops to a fifth for the last quarter.
        windows[15..].fill(100.0);
        assert!(!of(&windows).steady, "{:?}", of(&windows));
    }

    #[test]
    fn a_change_that_has_just_begun_is_seen() {
        let mut windows = vec![364.0; 23];
        // A rise of 10 % in the last two windows is a change, but a scatter of 2 % is not.
        windows[21..].copy_from_slice(&[384.0, 415.0]);
        assert!(!of(&windows).steady);
        windows[21..].copy_from_slice(&[370.0, 358.0]);
        assert!(of(&windows).steady);
    }

    #[test]
    fn few_windows_show_nothing() {
        assert_eq!(tail(&[]), None);
        // Five windows are the minimum.
        assert!(!of(&[7.0; 4]).steady);
        assert!(of(&[7.0; 5]).steady);
        assert!(of(&[0.0; 9]).trend.abs() < 1e-9);
    }

    proptest! {
        /// The mean of the level is within the scatter.
        #[test]
        fn a_level_is_found_after_any_beginning(
            beginning in proptest::collection::vec(1.3_f64..20.0, 0..6),
            scatter in proptest::collection::vec(-0.03_f64..0.03, 14..40),
        ) {
            let level = 1e8;
            let rest = scatter.iter().map(|s| level * (1.0 + s));
            let windows: Vec<f64> = beginning.iter().map(|b| b * level).chain(rest).collect();
            let found = of(&windows);
            // The beginning is at least 1.3 times the level, so that all of it must be cut off.
            prop_assert_eq!(found.skipped >= beginning.len(), true);
            prop_assert!((found.interval.mean / level - 1.0).abs() < 0.03);
        }

        #[test]
        fn any_measured_windows_give_a_finite_result(windows in proptest::collection::vec(0.0_f64..1e15, 0..50)) {
            if let Some(found) = tail(&even(&windows)) {
                prop_assert!(found.skipped <= windows.len() / 2);
                prop_assert!(found.trend.is_finite() && found.interval.mean.is_finite());
            } else {
                prop_assert!(windows.is_empty());
            }
        }
    }
}
