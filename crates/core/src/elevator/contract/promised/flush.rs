//! When a flush may begin: most drives do little else meanwhile, and no elevator can get a read past one there.
//!
//! A flush waits until every promised client that has something to be done, or is about to ask, is as far as it was promised, or
//! until what it may fall behind while the flush runs is within its deadline (`promised`). It makes up for that while the next
//! flush waits. One flush after the other: several at once would stand in the way of promises for as long as all of them take.
//!
//! A flush waits no longer than [`HOLD_FACTOR`] times as long as flushes take, nor than a second, after the one before it ended: so
//! that they get a part of the drive whatever was promised, and clients that sync are never stopped. For the sake of promises that
//! not even an idle drive would keep it waits only as long as flushes take: such a promise gets half of the time that syncing
//! leaves, rather than none.
//!
//! A client that syncs waits for what others have written as well, and does not pay for it: of the time that a flush takes beyond the least
//! that one takes, it is charged its part of what was written since the last one.

use crate::elevator::contract::constants::{HOLD_FACTOR, LEAST_GROWTH, SECOND, WROTE_NS};
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::Cost;
use crate::time::mul_div_floor;
use crate::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// A reservation that a flush would make late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Late {
    /// An idle drive would keep the promise.
    pub(crate) reachable: bool,
    /// Whether it asks will be known then.
    pub(crate) until: Instant,
}

/// The flushes in the drive, and the next one.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The average time that a flush takes the drive; zero before the first.
    time: u64,
    /// The least that one takes; more than the last one by and by, if they take more from then on.
    least: u64,
    running: u64,
    ended: Instant,
    /// Since when the next one has been held; it waits anew when one ends.
    held: Option<Instant>,
    /// Modelled cost of what was written since the last flush: of all, and of each stream, with the flush that it was since.
    written: Cost,
    flushes: u32,
    streams: Vec<(u32, Cost)>,
}

impl Pace {
    pub(crate) fn new(streams: u32) -> Self {
        Self {
            least: u64::MAX,
            streams: vec![(0, Cost::ZERO); streams as usize],
            ..Self::default()
        }
    }

    /// A stream came: what another wrote in its place is not its own.
    pub(crate) fn open(&mut self, stream: u32) {
        self.streams[stream as usize] = (self.flushes, Cost::ZERO);
    }

    /// A stream writes what costs `cost`.
    #[inline]
    pub(crate) fn observe_write(&mut self, stream: u32, cost: Cost) {
        let (since, written) = &mut self.streams[stream as usize];
        if *since != self.flushes {
            (*since, *written) = (self.flushes, Cost::ZERO);
        }
        *written = written.saturating_add(cost);
        self.written = self.written.saturating_add(cost);
    }

    /// The time that a flush takes, once there has been one.
    pub(crate) fn time(&self) -> Option<Span> {
        Some(Span::from_nanos(self.time)).filter(|&time| time > Span::ZERO)
    }

    /// True if a flush that has ended after `time` had to wait for what had been written.
    pub(crate) fn had_to_write(&self, time: Span) -> bool {
        time.as_nanos() > self.least.saturating_add(WROTE_NS)
    }

    /// True if none has run for as long as they take.
    pub(crate) fn has_rested(&self, now: Instant) -> bool {
        self.running == 0 && now.since(self.ended).as_nanos() >= self.time
    }

    /// True if one has run at some time since then.
    pub(crate) fn has_run_since(&self, then: Instant) -> bool {
        self.running > 0 || self.ended > then
    }

    /// Number of flushes in the drive.
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    /// The next flush should wait, since it would make a promise late: until when it does; `None` if it has waited long enough.
    pub(crate) fn hold_until(&mut self, now: Instant, late: Late) -> Option<Instant> {
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

    /// A flush begins.
    pub(crate) fn observe_begin(&mut self) {
        self.running += 1;
        self.held = None;
    }

    /// A flush stalled: it runs no longer, and says nothing of how long flushes take.
    pub(crate) fn observe_stall(&mut self, now: Instant) {
        self.running = self.running.saturating_sub(1);
        self.ended = now;
        self.held = None;
    }

    /// A flush of a stream ended that began then. Gives what the stream is charged of the time for which the drive was busy with it,
    /// in nanoseconds.
    pub(crate) fn observe_end(&mut self, now: Instant, begun: Instant, stream: u32) -> u64 {
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
    fn who_syncs_pays_the_least_of_a_flush_and_its_part_of_what_was_written() {
        let at = |us| Instant::ZERO + Span::from_micros(us);
        let mut pace = Pace::new(2);
        assert_eq!(pace.observe_end(at(100), at(0), 0), 100_000, "nobody wrote");
        pace.observe_write(0, Cost::from_nanos(10));
        pace.observe_write(1, Cost::from_nanos(30));
        // The least is thought to be a 64th more by now.
        assert_eq!(
            pace.observe_end(at(1_000), at(500), 0),
            101_562 + 398_438 / 4
        );
        pace.observe_write(1, Cost::from_nanos(30));
        assert_eq!(pace.observe_end(at(2_000), at(1_500), 0), 103_148);
        pace.observe_write(1, Cost::from_nanos(30));
        pace.open(1);
        assert_eq!(pace.observe_end(at(2_600), at(2_500), 1), 100_000);
    }
}
