//! Work that the drive has yet to do for writes that it has answered.
//!
//! A write is answered when it is in a cache, and what it costs comes later: reads that find nothing in flight wait all the same. A
//! written piece therefore keeps the drive busy for what it is thought to cost from when it went there, answered or not. If a promised
//! request that nobody was in front of still takes far longer than it does alone, the drive hides more than that: then writes are taken
//! to cost twice as much as before, again and again, until that happens no longer; and a little less every second, to see whether it
//! still is so (Gimbal's write cost: Min et al., "Gimbal", SIGCOMM 2021).

use crate::{Instant, Span};

/// Writes cost so many 16ths of what they seem to cost, at the least and at the most.
const PLAIN: u64 = 16;
const MOST: u64 = 16 << 8;
/// The factor grows at most once in this time, and falls by an eighth after each of these.
const GROW: Span = Span::from_millis(50);
const FALL: Span = Span::from_millis(1_000);
/// It is for writes that were sent so short a time ago that a read may still wait.
const RECENT: Span = Span::from_secs(2);
/// It is never thought to be more than this.
const LONGEST: Span = Span::from_secs(1);

/// What is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Afterwork {
    until: Instant,
    factor: u64,
    changed: Instant,
    /// When something was written last.
    written: Instant,
    wrote: bool,
}

impl Afterwork {
    pub(super) const fn new() -> Self {
        Self {
            until: Instant::ZERO,
            factor: PLAIN,
            changed: Instant::ZERO,
            written: Instant::ZERO,
            wrote: false,
        }
    }

    /// A write that is thought to cost so much goes to the drive.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, cost: u64) {
        let work = Span::from_nanos(cost.saturating_mul(self.factor) / PLAIN);
        self.until = (self.until.max(now) + work).min(now + LONGEST);
        (self.written, self.wrote) = (now, true);
    }

    /// What the drive still has to do beside what is in flight, of which so much is writes.
    #[inline]
    pub(super) fn left(&self, now: Instant, in_flight: u64) -> u64 {
        self.until.since(now).as_nanos().saturating_sub(in_flight)
    }

    /// A promised request with nothing in front of it took far longer than it does alone.
    pub(super) fn hides(&mut self, now: Instant) {
        if self.wrote && now.since(self.written) < RECENT && now.since(self.changed) >= GROW {
            self.factor = (2 * self.factor).min(MOST);
            self.changed = now;
        }
    }

    /// Time has passed.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.factor > PLAIN && now.since(self.changed) >= FALL {
            self.factor = (self.factor - self.factor / 8).max(PLAIN);
            self.changed = now;
        }
    }
}
