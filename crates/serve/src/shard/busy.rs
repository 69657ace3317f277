//! How busy a drive is, and what all its clients get.

use weir_core::Instant;
use weir_measure::{SECOND_NS, Window};

/// What all clients of a drive get in the second under way, and how long it has been busy.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// When the second under way ends, nanoseconds.
    pub(super) ends: u64,
    pub(super) second: Window,
    /// Pieces in the drive, and how many there ever were.
    flying: u32,
    dispatched: u64,
    /// Since when it has been busy, if it is, and for how long it was before.
    busy_since: Instant,
    busy_ns: u64,
    /// That when the second under way began.
    busy_before_ns: u64,
}

/// A piece that has gone to the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Nothing else was in the drive.
    alone: bool,
    /// How many were sent before it, itself included.
    number: u64,
}

impl Counted {
    pub(super) fn new() -> Self {
        Self {
            ends: SECOND_NS,
            ..Self::default()
        }
    }

    /// A second has ended, and `next` is when the one under way does. Returns what clients got in it, and whether something was in the drive
    /// for all of its time but a twentieth.
    pub(super) fn end_second(&mut self, now: Instant, next: u64) -> (Window, bool) {
        let busy = self.busy_ns(now);
        let began = self.ends - SECOND_NS;
        let lasted = now.as_nanos().saturating_sub(began);
        let was_busy = 20 * (busy - self.busy_before_ns) >= 19 * lasted;
        self.busy_before_ns = busy;
        self.ends = next;
        (std::mem::take(&mut self.second), was_busy)
    }

    /// A piece goes to the drive.
    pub(super) fn dispatched_at(&mut self, now: Instant) -> Sent {
        self.dispatched += 1;
        self.flying += 1;
        if self.flying == 1 {
            self.busy_since = now;
        }
        Sent {
            alone: self.flying == 1,
            number: self.dispatched,
        }
    }

    /// A piece is back. True if it had the drive to itself.
    pub(super) fn returned_at(&mut self, now: Instant, sent: Sent) -> bool {
        self.flying = self.flying.saturating_sub(1);
        if self.flying == 0 {
            self.busy_ns += now.since(self.busy_since).as_nanos();
        }
        sent.alone && sent.number == self.dispatched
    }

    /// How long something has been in the drive, nanoseconds.
    pub(super) fn busy_ns(&self, now: Instant) -> u64 {
        let since = now.since(self.busy_since).as_nanos();
        self.busy_ns + if self.flying > 0 { since } else { 0 }
    }
}
