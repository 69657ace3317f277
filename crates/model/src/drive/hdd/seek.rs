//! The seek times of a disk's arm.

use super::divisor::Divisor;
use weir_core::Span;

/// The number of short distances with an entry of their own. The curve is steepest there.
const NEAR: usize = 1024;
/// The number of steps into which the full stroke is divided. Longer distances are interpolated
/// between them.
const STEPS: usize = 4096;

/// The seek time by distance.
///
/// It is a square root up to a third of the stroke, where the arm accelerates and decelerates, and
/// then a straight line, where it coasts. The curve passes through the three figures that data
/// sheets state (Ruemmler and Wilkes, "An introduction to disk drive modeling").
#[derive(Debug)]
pub(super) struct Curve {
    near: Vec<u32>,
    far: Vec<u32>,
    tracks: Divisor,
}

/// The three points that define the curve of seek times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seek {
    /// The seek time to the next track: 1 us to 100 ms.
    pub track: Span,
    /// The seek time across a third of all tracks, which is the mean distance between two random
    /// positions. At least `track`.
    pub average: Span,
    /// The seek time across all tracks: at least `average`, at most 1 s.
    pub full: Span,
}

impl Curve {
    pub(super) fn new(seek: &Seek, tracks: u64) -> Self {
        let time = |distance| seek.time(distance, tracks).as_nanos() as u32;
        let step = |n: u64| n * tracks / STEPS as u64;
        Self {
            near: (0..NEAR as u64).map(time).collect(),
            far: (0..=STEPS as u64).map(|n| time(step(n))).collect(),
            tracks: Divisor::new(tracks),
        }
    }

    /// The seek time between two tracks, in nanoseconds.
    #[inline]
    pub(super) fn time(&self, from: u32, to: u32) -> u64 {
        let distance = from.abs_diff(to);
        if let Some(time) = self.near.get(distance as usize) {
            return (*time).into();
        }
        // The position between two steps, in 1/1024 of a step.
        let place = self
            .tracks
            .quotient(u64::from(distance) * (STEPS as u64) * 1024);
        let step = (place / 1024).min(STEPS as u64 - 1) as usize;
        let (low, high) = (self.far[step], self.far[step + 1]);
        u64::from(low) + u64::from(high - low) * (place - step as u64 * 1024) / 1024
    }
}

impl Seek {
    fn time(&self, distance: u64, tracks: u64) -> Span {
        let third = (tracks / 3).max(2);
        let between = |low: Span, high: Span, part: u128, whole: u128| {
            let more = u128::from((high - low).as_nanos()) * part / whole.max(1);
            low + Span::from_nanos(more as u64)
        };
        if distance == 0 {
            Span::ZERO
        } else if distance <= third {
            // The factor 2^20 makes the square roots exact to 1/1024.
            let part = u128::from((distance - 1) << 20).isqrt();
            let whole = u128::from((third - 1) << 20).isqrt();
            between(self.track, self.average, part, whole)
        } else {
            let (part, whole) = (distance - third, tracks - third);
            between(self.average, self.full, part.into(), whole.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEK: Seek = Seek {
        track: Span::from_millis(1),
        average: Span::from_millis(12),
        full: Span::from_millis(20),
    };

    #[test]
    fn the_curve_goes_through_the_figures_of_the_data_sheet() {
        let curve = Curve::new(&SEEK, 300_000);
        let millis = |d| curve.time(0, d) as f64 / 1e6;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 0.05, "{a} {b}");
        assert_eq!(curve.time(7, 7), 0);
        near(millis(1), 1.0);
        near(millis(100_000), 12.0);
        near(millis(300_000), 20.0);
    }

    #[test]
    fn longer_seeks_are_never_faster() {
        let curve = Curve::new(&SEEK, 250_000);
        let times = (0..250_000).map(|d| curve.time(d, 0));
        assert!(times.is_sorted());
    }
}
