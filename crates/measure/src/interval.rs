//! Confidence intervals of means.

/// The mean of some samples, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval that has the true mean with 95 % confidence (Student's t); `None` with less than two samples.
    pub half: Option<f64>,
}

/// Two-sided 95 % quantiles of Student's t distribution for 1, 2, … degrees of freedom; beyond these the next smaller one is used, which
/// makes the interval a little wider.
const T: [(usize, f64); 22] = [
    (1, 12.706),
    (2, 4.303),
    (3, 3.182),
    (4, 2.776),
    (5, 2.571),
    (6, 2.447),
    (7, 2.365),
    (8, 2.306),
    (9, 2.262),
    (10, 2.228),
    (11, 2.201),
    (12, 2.179),
    (13, 2.160),
    (14, 2.145),
    (15, 2.131),
    (16, 2.120),
    (18, 2.101),
    (20, 2.086),
    (25, 2.060),
    (30, 2.042),
    (60, 2.000),
    (120, 1.980),
];

impl Interval {
    /// Of these samples; `None` without any.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let n = samples.len();
        if n == 0 {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / n as f64;
        let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
        let half = (n > 1).then(|| {
            let freedom = n - 1;
            let t = T
                .iter()
                .rev()
                .find(|t| t.0 <= freedom)
                .map_or(T[0].1, |t| t.1);
            t * (squares / freedom as f64 / n as f64).sqrt()
        });
        Some(Self { mean, half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_tables_have_it() {
        // Mean 5, standard deviation 2, four samples: 3.182 * 2 / 2.
        let found = Interval::of(&[3.267_949_192, 3.267_949_192, 6.732_050_808, 6.732_050_808]);
        let Interval { mean, half } = found.unwrap();
        assert!(
            (mean - 5.0).abs() < 1e-9 && (half.unwrap() - 3.182).abs() < 1e-6,
            "{half:?}"
        );
        assert_eq!(
            Interval::of(&[7.0]),
            Some(Interval {
                mean: 7.0,
                half: None
            })
        );
        assert_eq!(Interval::of(&[]), None);
        let many = Interval::of(&[0.0, 2.0].repeat(500)).unwrap();
        assert!((many.half.unwrap() - 1.980 / 1000f64.sqrt()).abs() < 1e-3);
    }
}
