//! Compares [`Histogram`] with hdrhistogram, the reference implementation.

use hdrhistogram::Histogram as Hdr;
use proptest::prelude::*;
use weir_measure::Histogram;

/// Latencies with a realistic distribution: most are around a centre, and some are far above it.
fn latencies() -> impl Strategy<Value = Vec<u64>> {
    let near = (1_000u64..100_000_000, 0u64..1_000)
        .prop_map(|(centre, off)| centre + centre * off / 1_000);
    let far = 1u64..=Histogram::MAX;
    prop::collection::vec(prop_oneof![9 => near, 1 => far], 1..500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn statistics_agree_within_the_stated_error(values in latencies()) {
        let mut ours = Histogram::new();
        let mut theirs = Hdr::<u64>::new_with_bounds(1, Histogram::MAX, 3).expect("these bounds are valid");
        for v in &values {
            ours.record(*v);
            theirs.record(*v).expect("the value is in range");
        }
        prop_assert_eq!(ours.count(), theirs.len());
        // hdrhistogram keeps values to three digits, and so all of its statistics have three
        // digits.
        let close = |a: f64, b: f64, error: f64| (a - b).abs() <= error * a.max(b) + 1.0;
        prop_assert!(close(ours.mean(), theirs.mean(), 0.001));
        let n = values.len() as f64;
        // hdrhistogram computes the deviation of a population, with the divisor n instead of n - 1.
        let population = ours.sd() * ((n - 1.0) / n).sqrt();
        prop_assert!(close(population, theirs.stdev(), 0.01), "{} {}", population, theirs.stdev());
        for permille in [1, 10, 250, 500, 900, 990, 999, 1000] {
            // hdrhistogram computes ranks in floating point, so that a rank that is a whole number
            // can become the next one.
            let rank = (permille as f64 / 1000.0 * n).ceil() as u64;
            if rank != (permille * theirs.len()).div_ceil(1000) {
                continue;
            }
            // The error is 0.8 % of our histogram plus 0.1 % of hdrhistogram.
            let (a, b) = (ours.quantile(permille, 1000), theirs.value_at_quantile(permille as f64 / 1000.0));
            prop_assert!(close(a as f64, b as f64, 0.009), "p{}: {} {}", permille, a, b);
        }
    }
}
