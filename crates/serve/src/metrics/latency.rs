//! A histogram of request latency with few buckets.

/// The upper bounds of the buckets, in nanoseconds, and in seconds as they are printed.
const BOUNDS: [(u64, &str); BUCKETS - 1] = [
    (100_000, "0.0001"),
    (300_000, "0.0003"),
    (1_000_000, "0.001"),
    (3_000_000, "0.003"),
    (10_000_000, "0.01"),
    (30_000_000, "0.03"),
    (100_000_000, "0.1"),
];
/// The number of buckets: one for each bound, and one for longer times.
const BUCKETS: usize = 8;

/// A histogram of requests by the time from their arrival to their completion.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyHistogram {
    counts: [u64; BUCKETS],
    sum_ns: u128,
}

impl LatencyHistogram {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        // Prometheus' upper bounds (`le`) are inclusive.
        let bucket = BOUNDS.partition_point(|(bound, _)| *bound < ns);
        self.counts[bucket] += 1;
        self.sum_ns += u128::from(ns);
    }

    /// Multiplies all counts and the sum, as if each request had occurred `times` times.
    #[cfg(test)]
    pub(super) fn multiply(&mut self, times: u32) {
        self.counts = self.counts.map(|count| count * u64::from(times));
        self.sum_ns *= u128::from(times);
    }

    pub(crate) fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Returns each bound, the last of which is infinite, with the number of requests that took at
    /// most that long.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        let mut sum = 0;
        bounds.zip(&self.counts).map(move |(bound, count)| {
            sum += count;
            (bound, sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_in_every_bucket_from_its_latency_up() {
        let mut latency = LatencyHistogram::default();
        for ns in [0, 100_000, 100_001, 100_000_000, 100_000_001] {
            latency.record(ns);
        }
        let counts: Vec<_> = latency.cumulative().collect();
        assert_eq!(counts[..2], [("0.0001", 2), ("0.0003", 3)]);
        assert_eq!(counts[6..], [("0.1", 4), ("+Inf", 5)]);
        assert_eq!(latency.sum_ns(), 200_200_002);
    }
}
