//! A base-2 log-linear histogram of nanoseconds, with fixed memory, integer arithmetic and exact
//! sums.

use core::fmt;

/// A histogram of durations in nanoseconds.
///
/// Each value below 2^(bits + 1) has a bucket of its own. Above that, every power of two is divided
/// into 2^bits equal buckets, so that a quantile is at most a factor of 1 + 2^-bits above the true
/// value (less than 0.8 % with the default of 7 bits). Count, mean, standard deviation, minimum and
/// maximum are exact. Memory is allocated once, at construction, and takes 36 KiB with 7 bits.
/// Values above [`Histogram::MAX`] (73 minutes) are recorded as `MAX`.
///
/// On an empty histogram every statistic is 0.
#[derive(PartialEq, Eq)]
pub struct Histogram {
    bits: u32,
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// The largest value that is recorded unchanged, in nanoseconds: 2^42 - 1, about 73 minutes.
    pub const MAX: u64 = (1 << RANGE_BITS) - 1;

    /// Creates an empty histogram of 7 bits (error below 0.8 %, 36 KiB).
    pub fn new() -> Self {
        Self::with_bits(7)
    }

    /// Creates an empty histogram of `bits` significant bits, clamped to 1..=12. It takes 8 * (43 -
    /// bits) * 2^bits bytes.
    ///
    /// 4 bits (error 6 %, 5 KiB) are enough if thousands of histograms are kept at once.
    pub fn with_bits(bits: u32) -> Self {
        let bits = bits.clamp(1, 12);
        // The range has 2^bits values below the first doubling, and then 2^bits buckets for each of
        // the remaining RANGE_BITS - bits doublings.
        let len = ((RANGE_BITS + 1 - bits) as usize) << bits;
        Self {
            bits,
            counts: vec![0; len].into_boxed_slice(),
            count: 0,
            sum: 0,
            sum_of_squares: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Returns the number of significant bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Records one value in nanoseconds. Does not allocate.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let ns = ns.min(Self::MAX);
        self.counts[index(self.bits, ns)] += 1;
        self.count += 1;
        self.sum += u128::from(ns);
        self.sum_of_squares += u128::from(ns) * u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Records the same value in nanoseconds `n` times. Does not allocate.
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let ns = ns.min(Self::MAX);
        let (value, times) = (u128::from(ns), u128::from(n));
        let cell = &mut self.counts[index(self.bits, ns)];
        *cell = cell.saturating_add(n);
        self.count = self.count.saturating_add(n);
        // A value is below 2^42 and `n` below 2^64, so that their product fits into 128 bits. The
        // product of the square (below 2^84) and `n` does not.
        self.sum = self.sum.saturating_add(value * times);
        self.sum_of_squares = self
            .sum_of_squares
            .saturating_add((value * value).saturating_mul(times));
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds everything that `other` has recorded. Does not allocate.
    ///
    /// # Panics
    /// Panics if `other` has fewer bits than this histogram, because its buckets are too coarse.
    pub fn merge(&mut self, other: &Self) {
        assert!(
            other.bits >= self.bits,
            "a histogram of {} bits cannot be merged into one of {}",
            other.bits,
            self.bits
        );
        if other.bits == self.bits {
            for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
                *mine = mine.saturating_add(*theirs);
            }
        } else {
            // A coarser bucket is a union of finer ones, so no precision is lost beyond the coarser
            // resolution.
            for (high, n) in other.iter() {
                let cell = &mut self.counts[index(self.bits, high)];
                *cell = cell.saturating_add(n);
            }
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the histogram of the values that were recorded after `earlier`, an older clone of
    /// this histogram.
    ///
    /// Count, mean and standard deviation of the difference are exact. Its minimum and maximum are
    /// bounds of buckets.
    ///
    /// # Panics
    /// Panics if the two differ in bits.
    pub fn since(&self, earlier: &Self) -> Self {
        assert!(
            self.bits == earlier.bits,
            "a window needs two histograms of the same bits"
        );
        let mut window = Self::with_bits(self.bits);
        let (mut low, mut high) = (None, 0);
        for (i, cell) in window.counts.iter_mut().enumerate() {
            *cell = self.counts[i].saturating_sub(earlier.counts[i]);
            if *cell > 0 {
                let bounds = bounds(self.bits, i);
                low = low.or(Some(bounds.0));
                high = bounds.1;
            }
        }
        window.count = self.count.saturating_sub(earlier.count);
        window.sum = self.sum.saturating_sub(earlier.sum);
        window.sum_of_squares = self.sum_of_squares.saturating_sub(earlier.sum_of_squares);
        // The exact minimum of the window is not known. It is in the lowest bucket with a new
        // value, and never below the minimum of the whole.
        window.min = low.map_or(u64::MAX, |low| low.max(self.min));
        window.max = high.min(self.max);
        window
    }

    /// Removes all values. Does not allocate.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
        self.sum = 0;
        self.sum_of_squares = 0;
        self.min = u64::MAX;
        self.max = 0;
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if no value was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the exact sum of all values, in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the smallest value, in nanoseconds.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Returns the largest value, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, in nanoseconds.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum as f64 / self.count as f64
    }

    /// Returns the sample standard deviation (divisor count - 1), in nanoseconds, or 0 with fewer
    /// than two values.
    pub fn sd(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // The squares are summed around the whole part m of the mean, in integers: sum(x^2) - n m^2
        // - 2 m rest, where the sum of all values is n m + rest. This avoids the cancellation
        // between two large floats.
        let n = u128::from(self.count);
        let (mean, rest) = (self.sum / n, self.sum % n);
        let around = self
            .sum_of_squares
            .saturating_sub(n * mean * mean)
            .saturating_sub(2 * mean * rest);
        let rest = rest as f64;
        let squares = around as f64 - rest * rest / n as f64;
        (squares.max(0.0) / (n - 1) as f64).sqrt()
    }

    /// Returns the smallest recorded value that at least `num / den` of all values do not exceed,
    /// in nanoseconds. It is rounded up to the upper bound of its bucket. For example,
    /// `quantile(99, 100)` is p99.
    ///
    /// A ratio of 0 gives the minimum, and a ratio of 1 or more (or `den` 0) the maximum. Both are
    /// exact.
    pub fn quantile(&self, num: u64, den: u64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        if num >= den {
            return self.max;
        }
        // The rank is rounded up, as in the nearest-rank definition of a percentile.
        let wanted = (u128::from(self.count) * u128::from(num)).div_ceil(u128::from(den));
        if wanted == 0 {
            return self.min;
        }
        let mut seen = 0;
        for (high, n) in self.iter() {
            seen += u128::from(n);
            if seen >= wanted {
                return high.clamp(self.min, self.max);
            }
        }
        // Saturated buckets can hold fewer values than the count that was asked for.
        self.max
    }

    /// Returns the number of values in buckets that end at or below `ns`, which is the cumulative
    /// count of a Prometheus bucket `le = ns`. It is exact if `ns` is the upper bound of a bucket,
    /// such as 2^k - 1.
    pub fn count_at_most(&self, ns: u64) -> u64 {
        self.iter()
            .take_while(|(high, _)| *high <= ns)
            .fold(0, |sum, (_, n)| sum.saturating_add(n))
    }

    /// Returns the non-empty buckets in order, each as its largest value in nanoseconds and its
    /// count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bits = self.bits;
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(move |(i, n)| (bounds(bits, i).1, *n))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Self {
        Self {
            counts: self.counts.clone(),
            ..*self
        }
    }

    /// Does not allocate if the two have the same bits.
    fn clone_from(&mut self, source: &Self) {
        let mut counts = core::mem::take(&mut self.counts);
        counts.clone_from(&source.counts);
        *self = Self { counts, ..*source };
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A listing of thousands of mostly empty buckets would not be readable.
        f.debug_struct("Histogram")
            .field("bits", &self.bits)
            .field("count", &self.count)
            .field("mean", &self.mean())
            .field("sd", &self.sd())
            .field("min", &self.min())
            .field("p50", &self.quantile(1, 2))
            .field("p99", &self.quantile(99, 100))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

/// The number of significant bits of the largest value.
const RANGE_BITS: u32 = 42;

/// Returns the bucket of `ns`, which must not exceed `Histogram::MAX`.
#[inline]
fn index(bits: u32, ns: u64) -> usize {
    debug_assert!(ns <= Histogram::MAX);
    // A value is shifted right until it has bits + 1 significant bits. Its highest bit is then set,
    // so that adding the shift times 2^bits continues where the buckets of the previous shift end.
    let top = (ns | 1).ilog2();
    let shift = top.saturating_sub(bits);
    ((shift as usize) << bits) + (ns >> shift) as usize
}

/// Returns the smallest and the largest value of bucket `i`.
fn bounds(bits: u32, i: usize) -> (u64, u64) {
    let shift = (i >> bits).saturating_sub(1);
    let low = ((i - (shift << bits)) as u64) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values over the whole range, uniform in their logarithm, so that every width of bucket
    /// occurs.
    fn value() -> impl Strategy<Value = u64> {
        // The number of bits is drawn first, and then the value with at most that many bits.
        (0u32..=42, any::<u64>()).prop_map(|(width, v)| v & ((1 << width) - 1))
    }

    fn filled(bits: u32, values: &[u64]) -> Histogram {
        let mut h = Histogram::with_bits(bits);
        for v in values {
            h.record(*v);
        }
        h
    }

    #[test]
    fn buckets_tile_the_range_without_gap_or_overlap() {
        for bits in 1..=12 {
            let len = Histogram::with_bits(bits).counts.len();
            let mut next = 0;
            for i in 0..len {
                let (low, high) = bounds(bits, i);
                assert_eq!(low, next, "bits {bits}, bucket {i}");
                assert_eq!((index(bits, low), index(bits, high)), (i, i));
                next = high + 1;
            }
            assert_eq!(next - 1, Histogram::MAX, "bits {bits}");
        }
    }

    #[test]
    fn an_empty_histogram_has_zero_statistics() {
        let h = Histogram::new();
        assert_eq!(
            (h.count(), h.min(), h.max(), h.quantile(1, 2)),
            (0, 0, 0, 0)
        );
        assert!(h.mean() == 0.0 && h.sd() == 0.0 && h.is_empty());
        assert_eq!(h.since(&h), h);
    }

    #[test]
    fn values_beyond_the_range_count_as_its_end() {
        let mut h = Histogram::new();
        h.record(u64::MAX);
        h.record_n(u64::MAX, u64::MAX);
        assert_eq!((h.min(), h.max()), (Histogram::MAX, Histogram::MAX));
        assert_eq!(h.count(), u64::MAX, "counts saturate");
    }

    #[test]
    fn clone_from_keeps_the_allocation() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        b.record(7);
        let place = a.counts.as_ptr();
        a.clone_from(&b);
        assert_eq!(a, b);
        assert_eq!(a.counts.as_ptr(), place);
    }

    proptest! {
        #[test]
        fn statistics_match_the_values_within_their_error(bits in 1u32..=12, mut values in prop::collection::vec(value(), 1..200)) {
            let h = filled(bits, &values);
            values.sort_unstable();
            let n = values.len();
            prop_assert_eq!(h.count(), n as u64);
            prop_assert_eq!(h.sum(), values.iter().map(|v| u128::from(*v)).sum::<u128>());
            prop_assert_eq!((h.min(), h.max()), (values[0], values[n - 1]));
            let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n as f64;
            let squares = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>();
            let sd = if n < 2 { 0.0 } else { (squares / (n - 1) as f64).sqrt() };
            prop_assert!((h.sd() - sd).abs() <= 1e-6 * (1.0 + sd), "{} {}", h.sd(), sd);
            for (num, den) in [(0, 1), (1, 1000), (1, 2), (9, 10), (99, 100), (999, 1000), (1, 1)] {
                let rank = (n as u64 * num).div_ceil(den).max(1) as usize;
                let (exact, got) = (values[rank - 1], h.quantile(num, den));
                // The error is at most the width of a bucket, which is a factor of 2^-bits.
                prop_assert!(got >= exact && got - exact <= exact >> bits, "{num}/{den}: {got} for {exact}");
            }
        }

        #[test]
        fn merging_and_taking_apart_are_inverse(
            bits in 2u32..=9, coarser in 0u32..=1,
            first in prop::collection::vec(value(), 0..50), second in prop::collection::vec(value(), 0..50),
        ) {
            let (mut a, b) = (filled(bits - coarser, &first), filled(bits, &second));
            let both = filled(bits - coarser, &[first, second].concat());
            let before = a.clone();
            a.merge(&b);
            prop_assert_eq!(&a, &both);
            let window = a.since(&before);
            prop_assert_eq!((window.count(), window.sum()), (b.count(), b.sum()));
            // Sums are integers, so that even the derived floats are equal bit for bit.
            prop_assert_eq!(window.sd().to_bits(), b.sd().to_bits());
            prop_assert!(window.min() <= b.min() && window.max() >= b.max());
        }

        #[test]
        fn n_records_are_one_record_n(ns in value(), n in 0u64..100) {
            let (mut a, mut b) = (Histogram::new(), Histogram::new());
            (0..n).for_each(|_| a.record(ns));
            b.record_n(ns, n);
            prop_assert_eq!(a, b);
        }

        #[test]
        fn cumulative_counts_are_exact_on_bucket_bounds(values in prop::collection::vec(value(), 0..100), k in 0u32..=42) {
            let h = filled(7, &values);
            // 2^k - 1 is the upper bound of a bucket, so the count is exact.
            let le = (1u64 << k) - 1;
            prop_assert_eq!(h.count_at_most(le), values.iter().filter(|v| **v <= le).count() as u64);
        }
    }
}
