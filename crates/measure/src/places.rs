//! How many requests there are at a time, over time.

/// The places that requests take, of a client or in a drive, as an area: places times nanoseconds, between two instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Up to here all is accounted for; nothing is before the start.
    now_ns: u64,
    taken: u64,
    area: u128,
}

impl Places {
    /// None taken; counted from `start_ns` on.
    pub fn new(start_ns: u64) -> Self {
        Self {
            now_ns: start_ns,
            taken: 0,
            area: 0,
        }
    }

    /// A request takes one.
    #[inline]
    pub fn take(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.taken += 1;
    }

    /// A request gives its own back.
    #[inline]
    pub fn give(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.taken = self.taken.saturating_sub(1);
    }

    /// Places times nanoseconds up to `end_ns`; nothing was told of a later time.
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
