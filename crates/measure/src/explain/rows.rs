//! The entries that a journal keeps.

use crate::SECOND_NS;
use crate::promise::{PromiseVerdict, Ruling, Units};

/// The statistics of one group's requests in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupRow {
    /// The number of the second on the clock.
    pub(crate) second: u32,
    /// The number of the group.
    pub(crate) group: u32,
    /// The number of requests that completed in this second without an error.
    pub(crate) requests: u32,
    /// The number of requests that failed in this second.
    pub(crate) errors: u32,
    /// The bytes that the drive served in this second.
    pub(crate) bytes: u64,
    /// The nanoseconds for which requests that completed in this second were throttled, without the
    /// time in which this process was late.
    pub(crate) limit: u64,
    /// The nanoseconds that requests that completed in this second spent in the elevator, without
    /// the time in which this process was late.
    pub(crate) elevator: u64,
    /// The nanoseconds that requests that completed in this second spent in the drive, without the
    /// time in which this process was late.
    pub(crate) drive: u64,
    /// The nanoseconds of requests that completed in this second in which this process was late.
    pub(crate) late: u64,
    /// The share of the drive's time of the pieces that completed in this second, in nanoseconds.
    pub(crate) share: u64,
    /// The time that these pieces would have taken alone, in nanoseconds.
    pub(crate) service: u64,
}

/// The statistics of a drive in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriveSecond {
    /// The number of the second on the clock.
    pub(crate) second: u32,
    /// The nanoseconds in which a piece was in the drive.
    pub(crate) busy: u64,
    /// The longest time that a drive of the stated capacity takes for the pieces that completed.
    pub(crate) stated: u64,
    /// The time in the elevator of all requests that completed, in nanoseconds.
    pub(crate) elevator: u64,
    /// The time in the drive of all pieces that completed, in nanoseconds.
    pub(crate) drive: u64,
    /// The time that these pieces would have taken alone, for those of which it is known, in
    /// nanoseconds.
    pub(crate) known: u64,
    /// The time in the drive of pieces of which the time alone is not known.
    pub(crate) unknown: u64,
    /// The time in which this process was late.
    pub(crate) late: u64,
    /// The bytes of the pieces that completed.
    pub(crate) bytes: u64,
    /// The number of pieces that completed.
    pub(crate) pieces: u64,
}

/// The number of requests in flight from which on a drive must reach its stated capacity, if the
/// time of a request alone is not known.
const MANY: u64 = 8;

impl DriveSecond {
    /// Returns the performance of the drive relative to its stated capacity (0 to 1), if a capacity
    /// is stated, the drive was busy for at least 100 ms and requests waited for it.
    ///
    /// Requests waited if pieces were in the drive for longer than they would have been alone, so
    /// that a higher queue depth would not have made it faster. In addition, they must have been
    /// there for twice as long, or have waited in the elevator for half of the drive's busy time.
    pub(crate) fn did(&self, is_stated: bool) -> Option<f64> {
        let busy = self.busy.saturating_sub(self.late);
        let known = self.drive.saturating_sub(self.unknown);
        // If the time of pieces alone is not known, their share is used as their service, which
        // says nothing about waiting.
        let is_full = self.unknown > known || 5 * known >= 6 * self.known;
        let is_queue = self.unknown <= known && known >= 2 * self.known;
        let waits = is_full && (self.elevator >= busy / 2 || is_queue);
        let told = is_stated && busy >= SECOND_NS / 10 && waits;
        told.then(|| (self.stated as f64 / busy as f64).min(1.0))
    }

    /// Returns the same performance for a drive that was busy for at least 90 % of the second,
    /// while requests waited in the elevator (however few were in the drive) or at least [`MANY`]
    /// were in the drive.
    pub(crate) fn did_with_backlog(&self, is_stated: bool) -> Option<f64> {
        let busy = self.busy.saturating_sub(self.late);
        let is_queue = self.elevator >= busy / 2 || self.drive >= MANY * busy;
        let told = is_stated && busy >= SECOND_NS / 10 * 9 && is_queue;
        told.then(|| (self.stated as f64 / busy as f64).min(1.0))
    }
}

/// The verdict on a second of a group's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuledSecond {
    pub(crate) group: u32,
    pub(crate) second: u32,
    pub(crate) units: Units,
    pub(crate) a_second: u64,
    pub(crate) owed: u64,
    pub(crate) got: u64,
    pub(crate) verdict: PromiseVerdict,
    /// The nanoseconds in which at least one request of the group waited.
    pub(crate) waited: u64,
    /// True if the group had nothing outstanding for more than half of the second, and got less
    /// than its min.
    pub(crate) unasked: bool,
}

impl RuledSecond {
    pub(crate) fn new(group: u32, ruling: &Ruling) -> Self {
        Self {
            group,
            second: (ruling.ends_ns / SECOND_NS).saturating_sub(1) as u32,
            units: ruling.rate.units,
            a_second: ruling.rate.a_second,
            owed: ruling.owed,
            got: ruling.got,
            verdict: ruling.verdict,
            waited: ruling.waited_ns,
            unasked: ruling.unasked,
        }
    }
}

/// The number of nanoseconds in a unit of [`Length`].
const UNIT: u64 = 64;

/// A duration in 32 bits, with a resolution of 64 ns. It saturates at about 4.5 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length(u32);

impl Length {
    #[inline]
    pub(crate) fn new(ns: u64) -> Self {
        Self((ns / UNIT).min(u32::MAX.into()) as u32)
    }

    pub(crate) fn ns(self) -> u64 {
        u64::from(self.0) * UNIT
    }
}

/// A request that completed without an error: its time of submission, and the time that it spent at
/// each stage, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTrace {
    pub(crate) submitted: u64,
    pub(crate) limit: Length,
    pub(crate) elevator: Length,
    pub(crate) drive: Length,
    pub(crate) group: u32,
    pub(crate) bytes: u32,
}

impl RequestTrace {
    /// Returns the times at which the request entered the elevator, entered the drive, and
    /// completed.
    pub(crate) fn stages(&self) -> [u64; 3] {
        let cleared = self.submitted + self.limit.ns();
        let dispatched = cleared + self.elevator.ns();
        [cleared, dispatched, dispatched + self.drive.ns()]
    }

    pub(crate) fn latency(&self) -> u64 {
        self.stages()[2] - self.submitted
    }
}

/// A piece that was in the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceTrace {
    pub(crate) from: u64,
    pub(crate) length: Length,
    pub(crate) group: u32,
}

impl PieceTrace {
    /// Returns the time at which the piece completed.
    pub(crate) fn to(&self) -> u64 {
        self.from + self.length.ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_documented_sizes() {
        assert_eq!(size_of::<GroupRow>(), 72);
        assert_eq!(size_of::<RequestTrace>(), 32);
        assert_eq!(size_of::<PieceTrace>(), 16);
    }

    #[test]
    fn a_length_is_rounded_down_and_saturates() {
        assert_eq!(Length::new(130).ns(), 128);
        assert_eq!(Length::new(u64::MAX).ns(), u64::from(u32::MAX) * 64);
    }
}
