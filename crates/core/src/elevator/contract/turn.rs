//! Turns: on a drive with expensive seeks, a sequential stream keeps the drive for a while.
//!
//! The seek cost is learned (`learned::cost`). It is some milliseconds on a disk. On flash it is
//! close to zero, and there are no turns.
//!
//! A stream that continues where its last request ended keeps the drive long enough that 90 % of
//! the time is spent on transfers and 10 % on the seek of 11 ms of a slow disk (Argon: Wachs et
//! al., "Argon: performance insulation for shared storage servers", FAST 2007). If its next request
//! has not arrived yet, the drive waits for it, but only if the wait is not longer than a seek.
//!
//! A client with random reads and a queue depth of 1 has no queued request when its request
//! completes. If it has had less than its share of such a drive, the drive waits for its next
//! request as well, because no other client could use the drive in between without making that
//! request late.

use super::constants::{NEAR_BYTES, TURN};
use super::learned::arrival::Arrivals;
use super::learned::cost::{DriveCostModel, Locality};
use crate::{Instant, SpaceId, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The position of the drive's head, and the stream that has the turn.
#[derive(Debug)]
pub(super) struct DriveTurn {
    /// The space of the piece that was dispatched last.
    space: SpaceId,
    /// The offset at which this piece ended.
    end: u64,
    /// The stream whose piece was dispatched last.
    pub(super) stream: Option<u32>,
    /// True if that piece was near.
    near: bool,
    /// The time at which this stream got the drive.
    since: Instant,
    /// The request pattern of each stream, by slot.
    streams: Vec<Arrivals>,
}

impl DriveTurn {
    pub(super) fn new(streams: u32) -> Self {
        Self {
            space: SpaceId(0),
            // The end wraps to the beginning of the first space. The first piece is far unless it
            // begins there.
            end: u64::MAX,
            stream: None,
            near: false,
            since: Instant::ZERO,
            streams: vec![Arrivals::default(); streams as usize],
        }
    }

    /// Returns the place of a piece that begins at `offset`, relative to the piece that was
    /// dispatched last.
    #[inline]
    // An offset in front of the end wraps to a large distance, so it is far.
    pub(super) fn place(&self, space: SpaceId, offset: u64) -> Locality {
        let on = offset.wrapping_sub(self.end) < NEAR_BYTES && space == self.space;
        if on { Locality::Near } else { Locality::Far }
    }

    /// Accounts for a piece that is dispatched.
    #[inline]
    pub(super) fn observe_dispatch(
        &mut self,
        now: Instant,
        stream: u32,
        space: SpaceId,
        end: u64,
        place: Locality,
    ) {
        if self.stream != Some(stream) {
            self.stream = Some(stream);
            self.since = now;
        }
        self.near = place == Locality::Near;
        (self.space, self.end) = (space, end);
    }

    /// Accounts for a request of a stream that arrives.
    #[inline]
    pub(super) fn observe_request(&mut self, now: Instant, stream: u32) {
        self.streams[stream as usize].observe_request(now, Span::MAX);
    }

    /// Accounts for a request of a stream that ended.
    #[inline]
    pub(super) fn observe_answer(&mut self, now: Instant, stream: u32) {
        self.streams[stream as usize].observe_answer(now);
    }

    /// Resets the state of a stream that is opened in this slot.
    pub(super) fn open(&mut self, stream: u32) {
        self.streams[stream as usize] = Arrivals::default();
    }

    /// Ends the turn of a stream that is closed.
    pub(super) fn close(&mut self, stream: u32) {
        if self.stream == Some(stream) {
            self.stream = None;
        }
    }

    /// Returns the stream that keeps the drive: it continues where the head is, and its turn is not
    /// over.
    #[inline]
    pub(super) fn holder(&self, now: Instant, model: &DriveCostModel) -> Option<u32> {
        self.last(now, model).filter(|_| self.near)
    }

    /// Returns the stream that keeps the drive if its next piece is near. Its last piece may have
    /// been far, because the first piece of a turn always is.
    #[inline]
    pub(super) fn last(&self, now: Instant, model: &DriveCostModel) -> Option<u32> {
        let lasts = now.since(self.since) < TURN;
        self.stream.filter(|_| model.kind().seeks && lasts)
    }

    /// Returns the time until which the drive should wait for the next request of a stream without
    /// outstanding requests. `None` if waiting takes longer than a seek.
    pub(super) fn wait_until(
        &self,
        now: Instant,
        stream: u32,
        model: &DriveCostModel,
    ) -> Option<Instant> {
        let arrivals = &self.streams[stream as usize];
        let worth_it = arrivals.pause() <= model.seek_cost().time();
        if arrivals.outstanding() > 0 || !worth_it {
            return None;
        }
        let until = arrivals.expected();
        (now < until).then_some(until)
    }

    /// Returns the number of outstanding requests of a stream, without those that stalled or were
    /// given up.
    pub(super) fn outstanding(&self, stream: u32) -> u32 {
        self.streams[stream as usize].outstanding()
    }
}

#[cfg(test)]
mod tests {
    use super::super::unit::Cost;
    use super::*;

    const AWAY: u64 = 5_000_000;
    const SOON_NS: u64 = 100_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn the_drive_waits_for_a_stream_with_a_short_think_time() {
        let model = DriveCostModel::with_seek_cost(Cost::from_nanos(AWAY));
        // The stream is expected after twice its think time plus 100 us, which is exactly as long
        // as a seek here.
        let mut turn = DriveTurn::new(1);
        turn.streams[0] = Arrivals::thinking((AWAY - SOON_NS) / 2, 0);
        assert_eq!(turn.wait_until(at(1), 0, &model), Some(at(AWAY)));
        assert_eq!(turn.wait_until(at(AWAY), 0, &model), None);
        turn.streams[0] = Arrivals::thinking((AWAY - SOON_NS) / 2 + 1, 0);
        assert_eq!(turn.wait_until(at(1), 0, &model), None, "it takes too long");
        turn.streams[0] = Arrivals::thinking(0, 1);
        assert_eq!(
            turn.wait_until(at(1), 0, &model),
            None,
            "it has been served"
        );
    }

    #[test]
    fn a_turn_lasts_for_100_ms_or_until_its_stream_closes() {
        let model = DriveCostModel::with_seek_cost(Cost::from_nanos(AWAY));
        let mut turn = DriveTurn::new(3);
        turn.stream = Some(2);
        assert_eq!(turn.last(at(100_000_000 - 1), &model), Some(2));
        assert_eq!(turn.last(at(100_000_000), &model), None);
        turn.close(1);
        assert_eq!(turn.last(at(0), &model), Some(2));
        turn.close(2);
        assert_eq!(turn.last(at(0), &model), None);
    }
}
