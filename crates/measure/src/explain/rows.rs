//! What a journal keeps.

use crate::SECOND_NS;
use crate::promise::{Ruling, Units, Verdict};

/// What became of one group's requests in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Which second of the clock.
    pub(crate) second: u32,
    pub(crate) group: u32,
    /// Requests that ended in it without error.
    pub(crate) requests: u32,
    pub(crate) errors: u32,
    /// Bytes that the drive served in it.
    pub(crate) bytes: u64,
    /// Of the requests that ended in it, nanoseconds at each stage, without those in which this process was late.
    pub(crate) limit: u64,
    pub(crate) elevator: u64,
    pub(crate) drive: u64,
    pub(crate) late: u64,
    /// Of the pieces that came back in it: their part of the drive's time, and for how long they would have been there alone.
    pub(crate) share: u64,
    pub(crate) service: u64,
}

/// What became of a drive in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Second {
    pub(crate) second: u32,
    /// Nanoseconds in which a piece was in the drive.
    pub(crate) busy: u64,
    /// How long a drive of the stated capacity takes for the pieces that came back, at most.
    pub(crate) stated: u64,
    /// Nanoseconds of all requests that ended, in the elevator; of all pieces that came back, in the drive, and how long they would have
    /// been there alone where that is known.
    pub(crate) elevator: u64,
    pub(crate) drive: u64,
    pub(crate) known: u64,
    /// Of the time in the drive, that of pieces of which this is not known.
    pub(crate) unknown: u64,
    /// In which this process was late.
    pub(crate) late: u64,
    pub(crate) bytes: u64,
    pub(crate) pieces: u64,
}

/// This number of requests in the drive at a time is enough for what is stated of a drive, where it is not known how long one takes alone.
const MANY: u64 = 8;

impl Second {
    /// The part (0 to 1) that the drive did of what is stated of it, if anything is and requests waited for it: they were in the drive for
    /// longer than they would have been there alone, so that more of them at a time would not have been served sooner, and for twice as
    /// long, or in the elevator for half of the drive's busy time.
    pub(crate) fn did(&self, is_stated: bool) -> Option<f64> {
        let busy = self.busy.saturating_sub(self.late);
        let known = self.drive.saturating_sub(self.unknown);
        // Where it is not known how long pieces take alone, their service is their share, which says nothing.
        let is_full = self.unknown > known || 5 * known >= 6 * self.known;
        let is_queue = self.unknown <= known && known >= 2 * self.known;
        let waits = is_full && (self.elevator >= busy / 2 || is_queue);
        let told = is_stated && busy >= SECOND_NS / 10 && waits;
        told.then(|| (self.stated as f64 / busy as f64).min(1.0))
    }

    /// The same if it was busy all the time while requests waited in the elevator, however few were in the drive, or while [`MANY`] were in
    /// the drive.
    pub(crate) fn did_with_backlog(&self, is_stated: bool) -> Option<f64> {
        let busy = self.busy.saturating_sub(self.late);
        let is_queue = self.elevator >= busy / 2 || self.drive >= MANY * busy;
        let told = is_stated && busy >= SECOND_NS / 10 * 9 && is_queue;
        told.then(|| (self.stated as f64 / busy as f64).min(1.0))
    }
}

/// A verdict about a second of a group's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ruled {
    pub(crate) group: u32,
    pub(crate) second: u32,
    pub(crate) units: Units,
    pub(crate) a_second: u64,
    pub(crate) owed: u64,
    pub(crate) got: u64,
    pub(crate) verdict: Verdict,
    /// Nanoseconds in which at least one of its requests waited.
    pub(crate) waited: u64,
    /// It had nothing outstanding for more than half of the second, and got less than the promise.
    pub(crate) unasked: bool,
}

impl Ruled {
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

/// Nanoseconds in a unit of [`Length`].
const UNIT: u64 = 64;

/// A length of time in 32 bits: to 64 ns, up to 4 minutes and a half, and what is longer is that.
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

/// A request that ended without error: when it was submitted, and its time at each stage, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) submitted: u64,
    pub(crate) limit: Length,
    pub(crate) elevator: Length,
    pub(crate) drive: Length,
    pub(crate) group: u32,
    pub(crate) bytes: u32,
}

impl Request {
    /// When it entered the elevator, the drive, and ended.
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
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) length: Length,
    pub(crate) group: u32,
}

impl Piece {
    /// When it was back.
    pub(crate) fn to(&self) -> u64 {
        self.from + self.length.ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_large_as_the_page_says() {
        assert_eq!(size_of::<Row>(), 72);
        assert_eq!(size_of::<Request>(), 32);
        assert_eq!(size_of::<Piece>(), 16);
    }

    #[test]
    fn a_length_is_rounded_down_and_saturates() {
        assert_eq!(Length::new(130).ns(), 128);
        assert_eq!(Length::new(u64::MAX).ns(), u64::from(u32::MAX) * 64);
    }
}
