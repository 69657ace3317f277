//! The number of requests outstanding, integrated over time.

/// Requests outstanding of a client, or in flight in a drive, times nanoseconds, between two instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// Time up to which requests are accounted for; nothing counts before the start.
    now_ns: u64,
    taken: u64,
    area: u128,
}

impl Occupancy {
    /// No request; counted from `start_ns` on.
    pub fn new(start_ns: u64) -> Self {
        Self {
            now_ns: start_ns,
            taken: 0,
            area: 0,
        }
    }

    /// A request starts.
    #[inline]
    pub fn take(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.taken += 1;
    }

    /// A request ends.
    #[inline]
    pub fn give(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.taken = self.taken.saturating_sub(1);
    }

    /// Requests times nanoseconds up to `end_ns`; nothing later than that has been reported.
    pub fn area(&self, end_ns: u64) -> u128 {
        let mut all = self.clone();
        all.pass(end_ns);
        all.area
    }

    /// Accounts for the time up to `now_ns`.
    #[inline]
    pub fn pass(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.now_ns);
        self.now_ns += passed;
        self.area += u128::from(passed) * u128::from(self.taken);
    }
}
