//! The mean of samples with the half-width of its 95 % confidence interval.

/// The 97.5 % quantiles of Student's t distribution (95 % two-sided), for 1 to 30 degrees of
/// freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean with the uncertainty of the estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The mean of the samples.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean. Infinite for one sample.
    pub half: f64,
}

impl Interval {
    /// Returns the interval of the samples, or `None` without any.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let n = samples.len();
        if n == 0 {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / n as f64;
        if n == 1 {
            return Some(Self {
                mean,
                half: f64::INFINITY,
            });
        }
        let squares: f64 = samples.iter().map(|s| (s - mean).powi(2)).sum();
        // The sample variance divides by n - 1, because the mean is estimated from the same
        // samples.
        let deviation = (squares / (n - 1) as f64).sqrt();
        // The table ends at 30 degrees of freedom. Beyond it, the last value is slightly too large,
        // so that the interval errs on the wide side.
        let t = T[(n - 2).min(T.len() - 1)];
        Some(Self {
            mean,
            half: t * deviation / (n as f64).sqrt(),
        })
    }

    /// Returns true if the two intervals have a value in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() <= self.half + other.half
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_matches_a_computation_by_hand() {
        // The deviation is 1 and n is 3, so the half-width is 4.303 / sqrt(3) = 2.484.
        let interval = Interval::of(&[9.0, 10.0, 11.0]).unwrap();
        assert!((interval.mean - 10.0).abs() < 1e-12);
        assert!((interval.half - 2.484).abs() < 1e-3, "{interval:?}");
        assert_eq!(Interval::of(&[]), None);
        assert!(Interval::of(&[3.0]).unwrap().half.is_infinite());
        assert_eq!(
            Interval::of(&[3.0; 8]),
            Some(Interval {
                mean: 3.0,
                half: 0.0
            })
        );
    }

    #[test]
    fn intervals_overlap_where_they_touch() {
        let at = |mean, half| Interval { mean, half };
        assert!(at(10.0, 1.0).overlaps(&at(12.0, 1.0)));
        assert!(!at(10.0, 1.0).overlaps(&at(12.1, 1.0)));
        assert!(at(12.0, 0.0).overlaps(&at(12.0, 0.0)));
    }
}
