//! The utilisation of a drive, and the service that all its clients get together.

use weir_core::Instant;
use weir_measure::{SECOND_NS, WindowTotals};

/// Counters of a drive's current second: the service of all clients, and the drive's busy time.
#[derive(Debug, Default)]
pub(super) struct DriveCounters {
    /// The end of the current second, in nanoseconds.
    pub(super) ends: u64,
    pub(super) second: WindowTotals,
    /// The number of pieces in flight, and the number of all pieces dispatched so far.
    flying: u32,
    dispatched: u64,
    /// The time since which the drive is busy (if it is), and the total of all earlier busy time.
    busy_since: Instant,
    busy_ns: u64,
    /// The total busy time at the beginning of the current second.
    busy_before_ns: u64,
}

/// The state of the drive when a piece was dispatched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DispatchState {
    /// True if no other piece was in flight.
    alone: bool,
    /// The number of pieces dispatched so far, this one included.
    number: u64,
}

impl DriveCounters {
    pub(super) fn new() -> Self {
        Self {
            ends: SECOND_NS,
            ..Self::default()
        }
    }

    /// Ends the current second, and begins one that ends at `next`. Returns the service of clients
    /// in the ended second, and true if the drive was busy for at least 95 % of it.
    pub(super) fn end_second(&mut self, now: Instant, next: u64) -> (WindowTotals, bool) {
        let busy = self.busy_ns(now);
        let began = self.ends - SECOND_NS;
        let lasted = now.as_nanos().saturating_sub(began);
        let was_busy = 20 * (busy - self.busy_before_ns) >= 19 * lasted;
        self.busy_before_ns = busy;
        self.ends = next;
        (std::mem::take(&mut self.second), was_busy)
    }

    /// Counts a piece that is dispatched to the drive.
    pub(super) fn dispatched_at(&mut self, now: Instant) -> DispatchState {
        self.dispatched += 1;
        self.flying += 1;
        if self.flying == 1 {
            self.busy_since = now;
        }
        DispatchState {
            alone: self.flying == 1,
            number: self.dispatched,
        }
    }

    /// Counts a piece that has completed. Returns true if the piece had the drive to itself.
    pub(super) fn returned_at(&mut self, now: Instant, sent: DispatchState) -> bool {
        self.flying = self.flying.saturating_sub(1);
        if self.flying == 0 {
            self.busy_ns += now.since(self.busy_since).as_nanos();
        }
        // No piece was in flight before it, and none was dispatched after it.
        sent.alone && sent.number == self.dispatched
    }

    /// Returns the drive's total busy time, in nanoseconds.
    pub(super) fn busy_ns(&self, now: Instant) -> u64 {
        let since = now.since(self.busy_since).as_nanos();
        self.busy_ns + if self.flying > 0 { since } else { 0 }
    }
}
