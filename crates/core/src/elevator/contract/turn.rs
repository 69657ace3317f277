//! Turns: on a drive on which it costs time to go elsewhere, a stream that goes on where the drive is goes on for a while.
//!
//! What going elsewhere costs is learned (`cost`): on a disk some milliseconds, on flash next to nothing, and then there are no turns.
//! Where it costs something, a stream that reads or writes on where it ended keeps the drive until nine tenths of the time are spent
//! on what it asks for (Argon: Wachs et al., "Argon: performance insulation for shared storage servers", FAST 2007), and between two of
//! its requests the drive waits for the next, for at most the cost of one seek.
//!
//! A client that reads at random and one at a time has nothing in the queue when its request ends. If it has had less than its share
//! of such a drive, its next request is waited for as well: nobody else could use the drive in between without making it late.

use super::constants::{NEAR_BYTES, TURN_FACTOR, TURN_MAX};
use super::learned::arrival::Arrivals;
use super::learned::cost::{Model, Place};
use crate::{Instant, SpaceId, Span};
use alloc::vec;
use alloc::vec::Vec;

/// Where the drive is, and whose turn it is.
#[derive(Debug)]
pub(super) struct Turn {
    space: SpaceId,
    end: u64,
    /// The stream whose piece was sent last.
    pub(super) stream: Option<u32>,
    /// It was a near one.
    near: bool,
    since: Instant,
    streams: Vec<Arrivals>,
}

impl Turn {
    pub(super) fn new(streams: u32) -> Self {
        Self {
            space: SpaceId(0),
            end: u64::MAX,
            stream: None,
            near: false,
            since: Instant::ZERO,
            streams: vec![Arrivals::default(); streams as usize],
        }
    }

    /// Where a piece is as seen from the one before.
    #[inline]
    pub(super) fn place(&self, space: SpaceId, offset: u64) -> Place {
        let on = offset.wrapping_sub(self.end) < NEAR_BYTES && space == self.space;
        if on { Place::Near } else { Place::Far }
    }

    /// A piece goes to the drive.
    #[inline]
    pub(super) fn observe_dispatch(
        &mut self,
        now: Instant,
        stream: u32,
        space: SpaceId,
        end: u64,
        place: Place,
    ) {
        if self.stream != Some(stream) {
            self.stream = Some(stream);
            self.since = now;
        }
        self.near = place == Place::Near;
        (self.space, self.end) = (space, end);
    }

    /// A stream has something outstanding.
    #[inline]
    pub(super) fn observe_request(&mut self, now: Instant, stream: u32) {
        self.streams[stream as usize].observe_request(now, Span::MAX);
    }

    /// A request of a stream is over.
    #[inline]
    pub(super) fn observe_answer(&mut self, now: Instant, stream: u32) {
        self.streams[stream as usize].observe_answer(now);
    }

    /// A stream came.
    pub(super) fn open(&mut self, stream: u32) {
        self.streams[stream as usize] = Arrivals::default();
    }

    /// A stream goes.
    pub(super) fn close(&mut self, stream: u32) {
        if self.stream == Some(stream) {
            self.stream = None;
        }
    }

    /// The stream that keeps the drive, if one does: it goes on where the drive is, and its turn is not over.
    #[inline]
    pub(super) fn holder(&self, now: Instant, model: &Model) -> Option<u32> {
        self.last(now, model).filter(|_| self.near)
    }

    /// The stream that keeps the drive if its next piece goes on where the last one ended, which may have been its first.
    #[inline]
    pub(super) fn last(&self, now: Instant, model: &Model) -> Option<u32> {
        let lasts = now.since(self.since).as_nanos() < Self::length_ns(model);
        self.stream.filter(|_| model.kind().seeks && lasts)
    }

    /// How long a turn is, in nanoseconds.
    pub(super) fn length_ns(model: &Model) -> u64 {
        (model.seek_cost() * TURN_FACTOR).min(TURN_MAX).as_nanos()
    }

    /// Until when to wait for the next request of a stream that has nothing to be done; `None` if it is not worth it.
    pub(super) fn wait_until(&self, now: Instant, stream: u32, model: &Model) -> Option<Instant> {
        let arrivals = &self.streams[stream as usize];
        let worth_it = arrivals.pause() <= model.seek_cost().time();
        if arrivals.outstanding() > 0 || !worth_it {
            return None;
        }
        let until = arrivals.expected();
        (now < until).then_some(until)
    }

    /// Requests that a stream has outstanding, as far as its answers are waited for.
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
    fn a_stream_that_is_soon_back_is_waited_for() {
        let model = Model::with_seek_cost(Cost::from_nanos(AWAY));
        let mut turn = Turn::new(1);
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
    fn a_turn_lasts_for_nine_times_the_way_or_until_its_stream_goes() {
        let model = Model::with_seek_cost(Cost::from_nanos(AWAY));
        let mut turn = Turn::new(3);
        turn.stream = Some(2);
        assert_eq!(turn.last(at(9 * AWAY - 1), &model), Some(2));
        assert_eq!(turn.last(at(9 * AWAY), &model), None);
        turn.close(1);
        assert_eq!(turn.last(at(0), &model), Some(2));
        turn.close(2);
        assert_eq!(turn.last(at(0), &model), None);
    }
}
