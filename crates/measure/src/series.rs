//! Bytes and requests per window of fixed length.

use crate::SECOND_NS;

/// The completions within one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowTotals {
    /// The bytes of completed requests.
    pub bytes: u64,
    /// The number of completed requests.
    pub requests: u64,
}

/// Bytes and requests in consecutive windows of `step_ns` from `start_ns` on.
///
/// Memory is allocated once, at construction, for the given number of windows. Completions before
/// the first window and after the last are counted separately ([`Series::outside`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    start_ns: u64,
    step_ns: u64,
    windows: Box<[WindowTotals]>,
    outside: WindowTotals,
}

impl Series {
    /// Creates `windows` empty windows of `step_ns` (at least 1) nanoseconds. The first begins at
    /// `start_ns`.
    pub fn new(start_ns: u64, step_ns: u64, windows: usize) -> Self {
        Self {
            start_ns,
            step_ns: step_ns.max(1),
            windows: vec![WindowTotals::default(); windows].into_boxed_slice(),
            outside: WindowTotals::default(),
        }
    }

    /// Creates as many windows of `step_ns` as fit wholly or in part into `length_ns`.
    pub fn covering(start_ns: u64, step_ns: u64, length_ns: u64) -> Self {
        let windows = length_ns.div_ceil(step_ns.max(1));
        Self::new(start_ns, step_ns, windows as usize)
    }

    /// Counts one request of `bytes` that completed at `now_ns`. Does not allocate.
    #[inline]
    pub fn add(&mut self, now_ns: u64, bytes: u64) {
        self.add_n(now_ns, bytes, 1);
    }

    /// Counts `n` requests of `bytes` each, which completed in the window of `now_ns`.
    #[inline]
    pub(crate) fn add_n(&mut self, now_ns: u64, bytes: u64, n: u64) {
        let window = match now_ns.checked_sub(self.start_ns) {
            Some(since) => self.windows.get_mut((since / self.step_ns) as usize),
            None => None,
        };
        let window = window.unwrap_or(&mut self.outside);
        window.bytes += bytes * n;
        window.requests += n;
    }

    /// Returns the end of the window that contains `now_ns`, which must not be before the first
    /// window.
    pub(crate) fn window_end(&self, now_ns: u64) -> u64 {
        let before = (now_ns - self.start_ns) / self.step_ns;
        // The end of the last representable window is beyond `u64`, which means that it never ends.
        self.start_ns
            .saturating_add((before + 1).saturating_mul(self.step_ns))
    }

    /// Adds another series of the same start, step and length, window by window.
    ///
    /// # Panics
    /// Panics if start, step or length differ.
    pub fn merge(&mut self, other: &Self) {
        assert!(
            (self.start_ns, self.step_ns, self.windows.len())
                == (other.start_ns, other.step_ns, other.windows.len()),
            "series of different windows cannot be merged"
        );
        let pairs = self.windows.iter_mut().zip(&other.windows);
        for (mine, theirs) in pairs.chain([(&mut self.outside, &other.outside)]) {
            mine.bytes += theirs.bytes;
            mine.requests += theirs.requests;
        }
    }

    /// Returns the start of the first window, in nanoseconds.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Returns the length of a window, in nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Returns the completions before the first window and after the last.
    pub fn outside(&self) -> WindowTotals {
        self.outside
    }

    /// Returns the windows that ended by `end_ns`, including empty ones. A window that is cut short
    /// by the end of a run is not included, because its rate would be too low.
    pub fn complete(&self, end_ns: u64) -> &[WindowTotals] {
        let ended = end_ns.saturating_sub(self.start_ns) / self.step_ns;
        &self.windows[..self.windows.len().min(ended as usize)]
    }

    /// Returns the bandwidth of each complete window, in MB/s.
    pub fn mb_per_s(&self, end_ns: u64) -> Vec<f64> {
        self.complete(end_ns)
            .iter()
            .map(|w| mb_per_s(w.bytes, self.step_ns))
            .collect()
    }

    /// Returns the smallest number of bytes in any complete window, or `None` without a complete
    /// window.
    pub fn worst(&self, end_ns: u64) -> Option<u64> {
        self.complete(end_ns).iter().map(|w| w.bytes).min()
    }
}

/// Returns the bandwidth in MB/s (10^6 bytes per second), or 0 if the length is 0.
pub fn mb_per_s(bytes: u64, length_ns: u64) -> f64 {
    if length_ns == 0 {
        return 0.0;
    }
    bytes as f64 * (SECOND_NS as f64 / 1e6) / length_ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_holds_its_first_instant_and_not_its_end() {
        let mut s = Series::new(100, 10, 3);
        // The windows are 100 to 109, 110 to 119 and 120 to 129. Each size is another bit, so that
        // the sums show which requests are in a window.
        for (now, bytes) in [(99, 1), (100, 2), (109, 4), (110, 8), (129, 16), (130, 32)] {
            s.add(now, bytes);
        }
        let bytes: Vec<u64> = s.complete(130).iter().map(|w| w.bytes).collect();
        assert_eq!(bytes, [6, 8, 16]);
        assert_eq!(
            s.outside(),
            WindowTotals {
                bytes: 33,
                requests: 2
            }
        );
        assert_eq!(s.complete(129).len(), 2, "the last has not ended");
        assert_eq!(s.complete(50).len(), 0);
        assert_eq!(s.complete(u64::MAX).len(), 3);
    }

    #[test]
    fn windows_without_bytes_count() {
        // Four windows cover the 35 ns. The last one ends at 40.
        let mut s = Series::covering(0, 10, 35);
        s.add(25, 9);
        assert_eq!(s.worst(30), Some(0));
        assert_eq!(s.worst(9), None);
        assert_eq!(
            s.complete(40).len(),
            4,
            "the last is there for plots that ask for it"
        );
    }

    #[test]
    fn megabytes_are_decimal() {
        assert!((mb_per_s(10_000_000, SECOND_NS) - 10.0).abs() < 1e-12);
        assert!(mb_per_s(1, 0) == 0.0);
    }

    proptest! {
        #[test]
        fn every_byte_is_counted_in_exactly_one_window_or_outside(
            start in 0u64..1000, step in 1u64..50, windows in 0usize..20,
            adds in prop::collection::vec((0u64..2500, 0u64..100), 0..100),
        ) {
            let mut s = Series::new(start, step, windows);
            for (now, bytes) in &adds { s.add(*now, *bytes); }
            let inside: u64 = s.complete(u64::MAX).iter().map(|w| w.bytes).sum();
            let requests: u64 = s.complete(u64::MAX).iter().map(|w| w.requests).sum();
            prop_assert_eq!(inside + s.outside().bytes, adds.iter().map(|(_, b)| b).sum::<u64>());
            prop_assert_eq!(requests + s.outside().requests, adds.len() as u64);
            for (i, w) in s.complete(u64::MAX).iter().enumerate() {
                let from = start + i as u64 * step;
                let want: u64 = adds.iter().filter(|(t, _)| (from..from + step).contains(t)).map(|(_, b)| b).sum();
                prop_assert_eq!(w.bytes, want);
            }
        }
    }
}
