//! Decides when a flush may begin. Most drives do little else while a flush runs, and no elevator
//! can move a read past it.
//!
//! A flush waits until every promised client that has requests, or is about to send one, has
//! received its promise, or until the lag that the flush adds stays within the client's deadline
//! ([`Reservations`](super::Reservations)). The client makes up for that lag while the next flush
//! waits. Flushes run one after the other, because several at once would break promises for the sum
//! of their durations.
//!
//! A flush waits for at most [`HOLD_FACTOR`] times the average duration of a flush, and at most 1
//! s. The time counts from the first decision to hold a flush after the previous flush ended. So
//! flushes get a part of the drive's time no matter how much is promised, and clients that sync are
//! never stopped. For the sake of a promise that not even an idle drive would keep, a flush waits
//! only for the duration of one flush. Such a promise gets half of the time that syncing leaves,
//! rather than none.
//!
//! A client that syncs also waits for the writes of other clients, but it does not pay for them. It
//! is charged the shortest duration of a flush, and a part of the remaining duration. The part
//! corresponds to its own writes since the previous flush.

use crate::elevator::contract::constants::{
    HIDDEN, HIDDEN_TIMES, HOLD_FACTOR, LEAST_GROWTH, SECOND,
};
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::Cost;
use crate::time::mul_div_floor;
use crate::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// A reservation that a flush would make late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LatePromise {
    /// True if an idle drive would keep the promise.
    pub(crate) reachable: bool,
    /// The time at which it will be known whether the client sends a request.
    pub(crate) until: Instant,
}

/// The flushes that run, and the delay of the next one.
#[derive(Debug, Default)]
pub(crate) struct FlushPace {
    /// Average duration of a flush in nanoseconds. Zero before the first flush.
    time: u64,
    /// Shortest duration of a flush in nanoseconds. It grows slowly, so that it follows a drive
    /// whose flushes become longer.
    least: u64,
    /// Number of flushes in the drive.
    running: u64,
    /// The time at which the last flush ended.
    ended: Instant,
    /// The time since which the next flush has been held. The wait begins again when another flush
    /// ends.
    held: Option<Instant>,
    /// Modelled cost of all writes since the last flush.
    written: Cost,
    /// Number of flushes that have ended. The number wraps.
    flushes: u32,
    /// For each stream, the cost of its writes since a flush, and the number of that flush.
    streams: Vec<(u32, Cost)>,
}

impl FlushPace {
    pub(crate) fn new(streams: u32) -> Self {
        Self {
            least: u64::MAX,
            streams: vec![(0, Cost::ZERO); streams as usize],
            ..Self::default()
        }
    }

    /// Resets the state of a stream that is opened, because the writes of the previous stream in
    /// its slot are not its own.
    pub(crate) fn open(&mut self, stream: u32) {
        self.streams[stream as usize] = (self.flushes, Cost::ZERO);
    }

    /// Accounts for a write of a stream that costs `cost`.
    #[inline]
    pub(crate) fn observe_write(&mut self, stream: u32, cost: Cost) {
        let (since, written) = &mut self.streams[stream as usize];
        if *since != self.flushes {
            (*since, *written) = (self.flushes, Cost::ZERO);
        }
        *written = written.saturating_add(cost);
        self.written = self.written.saturating_add(cost);
    }

    /// Returns the average duration of a flush, once there has been one.
    pub(crate) fn time(&self) -> Option<Span> {
        Some(Span::from_nanos(self.time)).filter(|&time| time > Span::ZERO)
    }

    /// Returns true if a flush that took `time` had to write out earlier writes.
    pub(crate) fn had_to_write(&self, time: Span) -> bool {
        time > Span::from_nanos(self.least).saturating_mul(HIDDEN_TIMES) + HIDDEN
    }

    /// Returns true if no flush has run for the duration of a flush.
    pub(crate) fn has_rested(&self, now: Instant) -> bool {
        self.running == 0 && now.since(self.ended).as_nanos() >= self.time
    }

    /// Returns true if a flush has run at any time since `then`.
    pub(crate) fn has_run_since(&self, then: Instant) -> bool {
        self.running > 0 || self.ended > then
    }

    /// Returns the number of flushes in the drive.
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    /// Returns the time until which the next flush should wait, because it would make a promise
    /// late. `None` if it has waited long enough.
    pub(crate) fn hold_until(&mut self, now: Instant, late: LatePromise) -> Option<Instant> {
        let since = *self.held.get_or_insert(now);
        let most = if late.reachable || self.running > 0 {
            HOLD_FACTOR
        } else {
            1
        };
        let longest = Span::from_nanos(self.time.saturating_mul(most)).min(SECOND);
        let end = since + longest;
        (now < end).then(|| late.until.min(end))
    }

    /// Accounts for a flush that begins.
    pub(crate) fn observe_begin(&mut self) {
        self.running += 1;
        self.held = None;
    }

    /// Accounts for a flush that stalled. It no longer runs, and it shows nothing about the
    /// duration of flushes.
    pub(crate) fn observe_stall(&mut self, now: Instant) {
        self.running = self.running.saturating_sub(1);
        self.ended = now;
        self.held = None;
    }

    /// Accounts for the end of a flush that a stream began at `begun`. Returns the part of the
    /// flush's duration that the stream is charged, in nanoseconds.
    pub(crate) fn observe_end(&mut self, now: Instant, begun: Instant, stream: u32) -> u64 {
        // Flushes that overlap share the drive, so each one counts from the end of the previous
        // one.
        let time = now.since(begun.max(self.ended)).as_nanos();
        self.time = average(self.time, time);
        self.least = time.min(self.least.saturating_add(self.least / LEAST_GROWTH));
        self.running = self.running.saturating_sub(1);
        self.ended = now;
        self.held = None;
        let (since, written) = self.streams[stream as usize];
        let own = if since == self.flushes {
            written
        } else {
            Cost::ZERO
        };
        let beyond = time - self.least;
        // If no client has written, the client that syncs is the only cause of the duration.
        let part = if self.written == Cost::ZERO {
            beyond
        } else {
            mul_div_floor(beyond, own.as_nanos(), self.written.as_nanos())
        };
        self.written = Cost::ZERO;
        self.flushes = self.flushes.wrapping_add(1);
        self.least + part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_charged_the_shortest_flush_and_its_part_of_the_writes() {
        let at = |us| Instant::ZERO + Span::from_micros(us);
        let mut pace = FlushPace::new(2);
        assert_eq!(pace.observe_end(at(100), at(0), 0), 100_000, "nobody wrote");
        pace.observe_write(0, Cost::from_nanos(10));
        pace.observe_write(1, Cost::from_nanos(30));
        // 500 us: the shortest flush of 100 us counts as 1/64 longer now, which is 101.562 us. The
        // stream wrote 10 of 40, so it pays a quarter of the rest.
        assert_eq!(
            pace.observe_end(at(1_000), at(500), 0),
            101_562 + 398_438 / 4
        );
        // 101.562 us again count as 1/64 longer, 103.148 us. The stream has written nothing, so it
        // pays no more than that.
        pace.observe_write(1, Cost::from_nanos(30));
        assert_eq!(pace.observe_end(at(2_000), at(1_500), 0), 103_148);
        pace.observe_write(1, Cost::from_nanos(30));
        // The writes before `open` belong to another stream.
        pace.open(1);
        assert_eq!(pace.observe_end(at(2_600), at(2_500), 1), 100_000);
    }
}
