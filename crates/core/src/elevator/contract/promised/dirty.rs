//! Limits how much clients without a promise may write between two flushes.
//!
//! A flush has to write out the dirty data of all clients. A client that syncs after every request
//! can miss its minimum because of that, even if all its requests are served first.
//!
//! The limit is set when a client is behind and its flush took more than half of the time that its
//! promise allows from one flush to the next. In that case, too much had been written when the
//! flush began. From then on, the writes of clients without a promise wait once the allowed amount
//! has been written since the last flush began. Their reads are not affected. The same applies to
//! the flush of a client without a promise during which a promised client fell behind: such a flush
//! may take 50 ms.
//!
//! The limit grows again with each flush that is short enough. It is given up if the flushes are
//! long for another reason than the writes of others.

use crate::elevator::contract::constants::{AVERAGE_PART, FLUSH_PART, SECOND, STRICT};
use crate::elevator::contract::unit::Cost;
use crate::time::mul_div_floor;
use crate::{Instant, Span};

/// A flush that ended, as it affects a promise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgedFlush {
    /// The time by which the promised client is behind.
    pub(crate) lag: Span,
    /// The time that the promise allows from the previous flush to this one.
    pub(crate) cycle: Span,
}

/// The amount that has been written, as a cost, and its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirtyLimit {
    /// Cost of the writes since the last flush began.
    since: Cost,
    /// The value of `since` when the last flush began.
    before: Cost,
    /// The limit of `since`.
    bound: Cost,
    /// The time at which the last flush that mattered to a promise ended.
    synced: Instant,
}

impl DirtyLimit {
    pub(crate) const fn new() -> Self {
        Self {
            since: Cost::ZERO,
            before: Cost::ZERO,
            bound: Cost::MAX,
            synced: Instant::ZERO,
        }
    }

    /// Accounts for a write of `cost` that is dispatched.
    #[inline]
    pub(crate) fn observe_write(&mut self, cost: Cost) {
        self.since = self.since.saturating_add(cost);
    }

    /// Accounts for a flush that begins while no other flush runs.
    pub(crate) fn on_flush_begin(&mut self) {
        self.before = core::mem::replace(&mut self.since, Cost::ZERO);
    }

    /// Accounts for a flush that mattered to a promise and took `time`.
    pub(crate) fn on_flush_end(&mut self, now: Instant, time: Span, synced: JudgedFlush) {
        self.synced = now;
        let allowed = synced.cycle / FLUSH_PART;
        if time <= allowed || synced.lag <= STRICT {
            self.bound = self.bound.saturating_add(self.bound / AVERAGE_PART);
        // Most of these writes were not subject to the limit, so it does not make flushes short.
        } else if self.bound <= self.before / AVERAGE_PART || self.before == Cost::ZERO {
            self.bound = Cost::MAX;
        } else {
            let bears = mul_div_floor(self.before.as_nanos(), allowed.as_nanos(), time.as_nanos());
            // If the client's own writes are too much, no limit of others helps. With at least this
            // decrease, the limit is soon a small part of these writes, and then it is given up.
            self.bound = Cost::from_nanos(bears).min(self.bound / FLUSH_PART);
        }
    }

    /// Returns true if the writes of clients without a promise must wait.
    #[inline]
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.since >= self.bound && now < self.until()
    }

    /// Returns the time at which the limit ends if no other flush that matters ends before.
    pub(crate) fn until(&self) -> Instant {
        self.synced + SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_too_long_for_its_client_limits_writes_before_the_next() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let behind = JudgedFlush {
            lag: Span::from_millis(20),
            cycle: Span::from_millis(10),
        };
        let mut dirty = DirtyLimit::new();
        let mut flush = |written: u64, time: u64, synced: JudgedFlush| {
            dirty.observe_write(Cost::from_nanos(written));
            dirty.on_flush_begin();
            dirty.on_flush_end(at(1), Span::from_nanos(time), synced);
            dirty.observe_write(Cost::from_nanos(written / 2));
            let full = dirty.is_full(at(2));
            assert!(!dirty.is_full(at(1_002)), "it syncs no longer");
            dirty.on_flush_begin();
            full
        };
        let on_time = JudgedFlush {
            lag: Span::ZERO,
            ..behind
        };
        assert!(!flush(50_000_000, 20_000_000, on_time), "it is not behind");
        assert!(!flush(50_000_000, 5_000_000, behind), "the flush is short");
        // The flush took 20 ms and 5 ms are allowed, so a quarter of 50 ms of writes are permitted:
        // 12.5 ms. At 25 ms of writes, others wait.
        assert!(flush(50_000_000, 20_000_000, behind));
        // The limit grows by 1/8 each time, by a factor of 361 after 50 flushes.
        for _ in 0..50 {
            flush(1_000_000, 5_000_000, behind);
        }
        assert!(!flush(50_000_000, 5_000_000, behind), "it has grown again");
    }

    #[test]
    fn a_limit_that_does_not_shorten_flushes_is_lifted() {
        let mut dirty = DirtyLimit::new();
        let behind = JudgedFlush {
            lag: Span::from_millis(20),
            cycle: Span::from_millis(10),
        };
        let mut bounded = 0;
        for _ in 0..100 {
            dirty.observe_write(Cost::from_nanos(1_000_000));
            dirty.on_flush_begin();
            dirty.on_flush_end(Instant::ZERO, Span::from_millis(20), behind);
            bounded += u32::from(dirty.bound < Cost::MAX);
        }
        // Of three flushes, two set the limit: to 0.25 ms (a quarter of 1 ms) and 0.125 ms, which
        // is 1/8 of the writes. The third gives it up.
        assert!(bounded <= 67, "{bounded}");
    }
}
