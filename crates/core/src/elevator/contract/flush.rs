//! When a flush may begin: the drive does little else meanwhile, and no elevator can get a read past one.
//!
//! A flush waits until every promised client that has something to be done, or is about to ask, is as far as it was promised, or
//! until what it may fall behind while the flush runs is within its deadline (`reserve`). It makes up for that while the next
//! flush waits. One flush after the other: several at once would stand in the way of promises for as long as all of them take.
//!
//! A flush waits no longer than [`MOST`] times as long as flushes take, nor than [`LONGEST`], after the one before it ended: so
//! that they get a part of the drive whatever was promised, and those who sync are never stopped. For the sake of promises that
//! not even an idle drive would keep it waits only as long as flushes take: such a promise gets half of the time that syncing
//! leaves, rather than none.

use super::reserve::Late;
use crate::{Instant, Span};

/// A flush is held for at most so many times the time that flushes take. Nine tenths of a drive may be promised, and with
/// what is reserved beyond that as headroom the rest is a fourteenth.
const MOST: u64 = 16;
/// And never longer than this.
const LONGEST: Span = Span::from_secs(1);

/// The flushes in the drive, and the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The average time that a flush takes the drive; zero before the first.
    time: u64,
    running: u64,
    ended: Instant,
    /// Since when the next one has been held; it waits anew when one ends.
    held: Option<Instant>,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            time: 0,
            running: 0,
            ended: Instant::ZERO,
            held: None,
        }
    }

    /// The time that a flush takes, in nanoseconds, once there has been one.
    pub(super) fn time(&self) -> Option<u64> {
        Some(self.time).filter(|&time| time > 0)
    }

    /// So many are in the drive.
    pub(super) fn running(&self) -> u64 {
        self.running
    }

    /// The next flush should wait, since it would make a promise late: until when it does; `None` if it has waited long enough.
    pub(super) fn hold(&mut self, now: Instant, late: Late) -> Option<Instant> {
        let since = *self.held.get_or_insert(now);
        let most = if late.reachable || self.running > 0 {
            MOST
        } else {
            1
        };
        let longest = Span::from_nanos(self.time.saturating_mul(most)).min(LONGEST);
        let end = since + longest;
        (now < end).then(|| late.until.min(end))
    }

    /// A flush begins.
    pub(super) fn begun(&mut self) {
        self.running += 1;
        self.held = None;
    }

    /// A flush ended that began then. Gives the time for which the drive was busy with it, in nanoseconds.
    pub(super) fn ended(&mut self, now: Instant, begun: Instant) -> u64 {
        let time = now.since(begun.max(self.ended)).as_nanos();
        self.time = super::reserve::average(self.time, time);
        self.running = self.running.saturating_sub(1);
        self.ended = now;
        self.held = None;
        time
    }
}
