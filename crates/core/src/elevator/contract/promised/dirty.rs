//! What clients without a promise may write between two flushes, for the sake of promises.
//!
//! A flush waits for what everybody has written, and a client that syncs after each of its requests is kept from its min by that, however
//! early its requests are served. How long the flush takes is seen: if the client is behind and its flush took more than half of the time
//! that the promise gives it from one flush to the next, then more had been written when the flush began than it can bear. From then
//! on others' writes wait as soon as that much less has been written since a flush began; their reads go on. The same goes for the flush of
//! a client without a promise during which another fell behind: it may take 50 ms. The bound grows again with every flush that is short
//! enough, and if it is not the others' writes that make the flushes long, it is given up.

use crate::elevator::contract::constants::{
    FLUSH_PART, GROW_DIVISOR, SECOND, SHRINK_DIVISOR, STRICT, WRITTEN_MIN,
};
use crate::elevator::contract::unit::Cost;
use crate::time::mul_div_floor;
use crate::{Instant, Span};

/// A flush that has ended, as it was for a promise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synced {
    /// By how much that is behind.
    pub(crate) lag: Span,
    /// The time that it gives its client from the flush before to this one.
    pub(crate) cycle: Span,
}

/// What has been written, by what it costs, and its bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dirty {
    /// Since the last flush began.
    since: Cost,
    /// When it began.
    before: Cost,
    bound: Cost,
    /// When the last such flush ended.
    synced: Instant,
}

impl Dirty {
    pub(crate) const fn new() -> Self {
        Self {
            since: Cost::ZERO,
            before: Cost::ZERO,
            bound: Cost::MAX,
            synced: Instant::ZERO,
        }
    }

    /// A write that costs `cost` goes to the drive.
    #[inline]
    pub(crate) fn observe_write(&mut self, cost: Cost) {
        self.since = self.since.saturating_add(cost);
    }

    /// A flush begins, and no other runs.
    pub(crate) fn flush_begins(&mut self) {
        self.before = core::mem::replace(&mut self.since, Cost::ZERO);
    }

    /// A flush that mattered to a promise has ended after `time`.
    pub(crate) fn flush_ends(&mut self, now: Instant, time: Span, synced: Synced) {
        self.synced = now;
        let allowed = synced.cycle / FLUSH_PART;
        if time <= allowed || synced.lag <= STRICT {
            self.bound = self.bound.saturating_add(self.bound / GROW_DIVISOR);
        } else if self.bound <= WRITTEN_MIN || self.before == Cost::ZERO {
            self.bound = Cost::MAX;
        } else {
            let bears = mul_div_floor(self.before.as_nanos(), allowed.as_nanos(), time.as_nanos());
            // Where its own writes alone are too much, that is soon given up.
            self.bound = Cost::from_nanos(bears).min(self.bound / SHRINK_DIVISOR);
        }
    }

    /// True if others' writes wait.
    #[inline]
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.since >= self.bound && now < self.until()
    }

    /// When they wait no longer, if no other flush ends before.
    pub(crate) fn until(&self) -> Instant {
        self.synced + SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_takes_too_long_for_its_client_bounds_what_is_written_before_the_next() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let behind = Synced {
            lag: Span::from_millis(20),
            cycle: Span::from_millis(10),
        };
        let mut dirty = Dirty::new();
        let mut flush = |written: u64, time: u64, synced: Synced| {
            dirty.observe_write(Cost::from_nanos(written));
            dirty.flush_begins();
            dirty.flush_ends(at(1), Span::from_nanos(time), synced);
            dirty.observe_write(Cost::from_nanos(written / 2));
            let full = dirty.is_full(at(2));
            assert!(!dirty.is_full(at(1_002)), "it syncs no longer");
            dirty.flush_begins();
            full
        };
        let on_time = Synced {
            lag: Span::ZERO,
            ..behind
        };
        assert!(!flush(50_000_000, 20_000_000, on_time), "it is not behind");
        assert!(!flush(50_000_000, 5_000_000, behind), "the flush is short");
        assert!(flush(50_000_000, 20_000_000, behind));
        for _ in 0..50 {
            flush(1_000_000, 5_000_000, behind);
        }
        assert!(!flush(50_000_000, 5_000_000, behind), "it has grown again");
    }

    #[test]
    fn flushes_that_are_long_for_another_reason_bound_nobody() {
        let mut dirty = Dirty::new();
        let behind = Synced {
            lag: Span::from_millis(20),
            cycle: Span::from_millis(10),
        };
        let mut bounded = 0;
        for _ in 0..100 {
            dirty.observe_write(Cost::from_nanos(1_000_000));
            dirty.flush_begins();
            dirty.flush_ends(Instant::ZERO, Span::from_millis(20), behind);
            bounded += u32::from(dirty.bound < Cost::MAX);
        }
        assert!(bounded <= 75, "{bounded}");
    }
}
