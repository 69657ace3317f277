//! The number of outstanding requests, integrated over time.

/// The integral of the number of requests (outstanding at a client, or in flight in a drive) over
/// time, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// The time up to which requests are accounted for. Time before the start does not count.
    now_ns: u64,
    taken: u64,
    area: u128,
}

impl Occupancy {
    /// Creates an empty count that begins at `start_ns`.
    pub fn new(start_ns: u64) -> Self {
        Self {
            now_ns: start_ns,
            taken: 0,
            area: 0,
        }
    }

    /// Records that a request starts.
    #[inline]
    pub fn take(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.taken += 1;
    }

    /// Records that a request ends.
    #[inline]
    pub fn give(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.taken = self.taken.saturating_sub(1);
    }

    /// Returns requests times nanoseconds up to `end_ns`. No change after `end_ns` may have been
    /// reported.
    pub fn area(&self, end_ns: u64) -> u128 {
        let mut all = self.clone();
        all.pass(end_ns);
        all.area
    }

    /// Accounts for the time up to `now_ns`.
    #[inline]
    pub fn pass(&mut self, now_ns: u64) {
        // Times before the start give 0, so that requests of the warm-up are counted only from the
        // start on.
        let passed = now_ns.saturating_sub(self.now_ns);
        self.now_ns += passed;
        self.area += u128::from(passed) * u128::from(self.taken);
    }
}
