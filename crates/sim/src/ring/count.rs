//! Counts notifications and the busy time of processors.

use weir_core::{Instant, Span};
use weir_measure::Rings as Counted;

/// Counters that begin with the measurement.
#[derive(Debug)]
pub(super) struct Count {
    start: Instant,
    counted: Counted,
}

impl Count {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            counted: Counted::default(),
        }
    }

    /// Increments one counter, if the measurement has begun.
    fn one(&mut self, now: Instant, of: impl FnOnce(&mut Counted) -> &mut u64) {
        if now >= self.start {
            *of(&mut self.counted) += 1;
        }
    }

    pub(super) fn kick(&mut self, now: Instant) {
        self.one(now, |c| &mut c.kicks);
    }

    pub(super) fn call(&mut self, now: Instant) {
        self.one(now, |c| &mut c.calls);
    }

    pub(super) fn wakeup(&mut self, now: Instant) {
        self.one(now, |c| &mut c.wakeups);
    }

    /// The part of the time from `now` to `now + length` that is measured.
    fn measured(&self, now: Instant, length: Span) -> u64 {
        let end = now + length;
        end.since(now.max(self.start.min(end))).as_nanos()
    }

    /// Counts the time of a guest's processor that is busy from `now` on.
    pub(super) fn guest(&mut self, now: Instant, length: Span) {
        self.counted.guest_ns += self.measured(now, length);
    }

    /// Counts the time of a back-end thread that is busy from `now` on.
    pub(super) fn backend(&mut self, now: Instant, length: Span) {
        self.counted.backend_ns += self.measured(now, length);
    }

    /// All counters of a measurement that ended at `until`.
    pub(super) fn counted(&self, until: Instant) -> Counted {
        Counted {
            length_ns: until.since(self.start.min(until)).as_nanos(),
            ..self.counted
        }
    }
}
