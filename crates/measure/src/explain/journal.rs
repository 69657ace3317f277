//! The journal, which keeps as many of the calls into a layer as fit.

use crate::SECOND_NS;
use crate::explain::alone::AloneTimes;
use crate::explain::clock::ShareClock;
use crate::explain::explanation::OutstandingRequests;
use crate::explain::late::LateIntervals;
use crate::explain::ring::EntryRing;
use crate::explain::rows::{DriveSecond, GroupRow, Length, PieceTrace, RequestTrace, RuledSecond};
use crate::explain::standing::ClosedSecond;
use crate::explain::stated::StatedCapacity;
use crate::explain::terms::GroupTree;
use crate::explain::view::JournalSnapshot;
use crate::promise::{Ruling, SecondWaits};
use std::sync::Arc;
use weir_core::record::{Call, Observer};
use weir_core::{
    Completion, Dispatch, Done, GroupId, Instant, Layer, Op, Outcome, Output, Span, StreamId,
};

/// The delay of a call, in nanoseconds, above which the process counts as late. Smaller delays are
/// within the precision of timers.
const TIMELY: u64 = 100_000;

/// The latest time that is represented, after 136 years, because seconds are counted in 32 bits.
/// Only a recording that was tampered with has later times.
pub(crate) const LATEST: u64 = (u32::MAX as u64 - 1) * SECOND_NS;

/// The maximum number of successive seconds without any call that are recorded one by one.
const GAP: u32 = 3600;

/// The share of a journal's bytes for single pieces, in sixteenths. Pieces and requests cover the
/// recent past.
const PIECES: usize = 3;
/// The share for single requests, in sixteenths.
const REQUESTS: usize = 4;
/// The share for the rows of groups, in sixteenths. One row per group and second covers the long
/// past.
const ROWS: usize = 7;
/// The share for verdicts, in sixteenths.
const VERDICTS: usize = 1;
/// The share for the rows of the drive, in sixteenths. There is one row per second.
const SECONDS: usize = 1;

/// Observes a layer, and keeps the data that explains the latency of its requests.
#[derive(Debug)]
pub struct Journal {
    /// The stream and its group, by slot of the stream.
    streams: Vec<Option<(StreamId, u32)>>,
    /// The groups, which are shared with views until they change.
    groups: Arc<GroupTree>,
    /// The piece in the drive, by tag.
    flying: Vec<DrivePiece>,
    clock: ShareClock,
    /// The number of pieces that were dispatched so far.
    dispatched: u64,
    alone: AloneTimes,
    stated: StatedCapacity,
    late: LateIntervals,
    /// The time at which the layer wants to be called.
    due: u64,
    /// The number of the current second.
    second: u32,
    /// The end of the current second.
    ends: u64,
    /// The rows of the current second, by number of the group.
    open: Vec<GroupRow>,
    /// The groups that have a row of the current second.
    touched: Vec<u32>,
    /// The statistics of the drive in the current second.
    whole: DriveSecond,
    /// The second that ended last.
    closed: ClosedSecond,
    /// The clock's busy time at the start of the current second.
    busy: u64,
    rows: EntryRing<GroupRow>,
    seconds: EntryRing<DriveSecond>,
    ruled: EntryRing<RuledSecond>,
    pieces: EntryRing<PieceTrace>,
    requests: EntryRing<RequestTrace>,
    /// True if the layer's configuration has been read.
    seen: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct DrivePiece {
    /// The operation of the piece, or `None` if the tag is free.
    op: Option<Op>,
    group: u32,
    from: u64,
    bytes: u32,
    share: f64,
    /// True if nothing else was in the drive when the piece was dispatched.
    alone: bool,
    /// The number of pieces that had been dispatched, including this one.
    number: u64,
}

/// Returns the second that contains a time.
fn second_of(ns: u64) -> u32 {
    u32::try_from(ns / SECOND_NS).unwrap_or(u32::MAX)
}

impl Journal {
    /// The maximum number of bytes that a journal needs beyond its rings, for each group, stream
    /// and tag of its layer, and for each interval of lateness.
    pub const ENTRY: usize = 320;

    /// Creates an empty journal that keeps at most `bytes` of its observations, but at least a few
    /// entries. It must observe its layer from the first call on.
    pub fn new(bytes: usize) -> Self {
        let part = |sixteenths: usize| bytes / 16 * sixteenths;
        Self {
            streams: Vec::new(),
            groups: Arc::default(),
            flying: Vec::new(),
            clock: ShareClock::default(),
            dispatched: 0,
            alone: AloneTimes::new(),
            stated: StatedCapacity::default(),
            late: LateIntervals::new(),
            due: u64::MAX,
            second: 0,
            ends: SECOND_NS,
            open: Vec::new(),
            touched: Vec::new(),
            whole: DriveSecond::default(),
            closed: ClosedSecond::default(),
            busy: 0,
            rows: EntryRing::new(part(ROWS)),
            seconds: EntryRing::new(part(SECONDS)),
            ruled: EntryRing::new(part(VERDICTS)),
            pieces: EntryRing::new(part(PIECES)),
            requests: EntryRing::new(part(REQUESTS)),
            seen: false,
        }
    }

    /// Returns the bytes that the journal's contents take up when it is full.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
            + self.seconds.bytes()
            + self.ruled.bytes()
            + self.pieces.bytes()
            + self.requests.bytes()
    }

    /// Adds the verdict on a second of a group's promise, which [`crate::promise`] has reached.
    pub fn ruled(&mut self, group: GroupId, ruling: &Ruling) {
        self.ruled.push(RuledSecond::new(group.0, ruling));
    }

    /// Returns the waits of a group's requests in a second of the clock, and in each of the later
    /// seconds that ended by `now`. `None` if that second is not the last one that was ended by a
    /// call.
    pub fn standing(
        &mut self,
        now: Instant,
        group: GroupId,
        second: u64,
    ) -> Option<[SecondWaits; 2]> {
        self.pass(now.as_nanos().min(LATEST));
        let is_last = u64::from(self.closed.whole.second) == second && self.seen;
        is_last.then(|| {
            let is_stated = self.stated.is_known();
            self.closed.standing(&self.groups, group, is_stated)
        })
    }

    /// Records that the kernel has counted `total` nanoseconds until `now` in which the thread that
    /// makes the calls was ready to run but had no CPU. The time since the last report is assumed
    /// to be directly before `now`.
    pub fn waited(&mut self, now: Instant, total: u64) {
        self.late.waited(now.as_nanos(), total);
    }

    /// Returns a copy of the journal's contents, from which the requests of `group` can be
    /// explained. This is fast, because full chunks are shared. `None` if there is no such group.
    pub fn view(&self, now: Instant, layer: &Layer, group: GroupId) -> Option<JournalSnapshot> {
        self.groups.get(group)?;
        let now = now.as_nanos().min(LATEST);
        let mut pieces = self.pieces.kept();
        // Pieces that are still in the drive have occupied it until now.
        let flying = self.flying.iter().filter(|f| f.op.is_some());
        let flying = flying.map(|flying| PieceTrace {
            from: flying.from,
            length: Length::new(now.saturating_sub(flying.from)),
            group: flying.group,
        });
        pieces.append(flying.collect());
        let mut rows = self.rows.kept();
        let touched = self.touched.iter();
        rows.append(touched.map(|group| self.open[*group as usize]).collect());
        let mut seconds = self.seconds.kept();
        seconds.append(vec![self.under_way(now)]);
        Some(JournalSnapshot {
            group,
            now,
            groups: Arc::clone(&self.groups),
            stated: self.stated,
            late: self.late.clone(),
            rows,
            seconds,
            ruled: self.ruled.kept(),
            pieces,
            requests: self.requests.kept(),
            waiting: self.waiting(now, layer, group),
        })
    }

    /// Returns the state of the drive in the current second.
    fn under_way(&self, now: u64) -> DriveSecond {
        // A copy of the clock is advanced, so that a query does not change the journal.
        let mut clock = self.clock;
        clock.advance(now);
        let begun = u64::from(self.second) * SECOND_NS;
        DriveSecond {
            second: self.second,
            busy: clock.busy() - self.busy,
            late: self.late.within(begun, begun + SECOND_NS),
            ..self.whole
        }
    }

    /// Returns the outstanding requests of a group.
    fn waiting(&self, now: u64, layer: &Layer, group: GroupId) -> Option<OutstandingRequests> {
        let streams = self.streams.iter().flatten();
        let own = streams.filter(|(_, of)| self.groups.is_within(GroupId(*of), group));
        let gauges = own.filter_map(|(stream, _)| layer.gauges(*stream));
        let mut waiting = OutstandingRequests {
            requests: 0,
            held: 0,
            oldest_us: 0.0,
        };
        for gauge in gauges {
            waiting.requests += u64::from(gauge.live);
            waiting.held += u64::from(gauge.limited);
            let age = gauge
                .oldest
                .map_or(0, |at| now.saturating_sub(at.as_nanos()));
            waiting.oldest_us = waiting.oldest_us.max(age as f64 / 1e3);
        }
        (waiting.requests > 0).then_some(waiting)
    }

    /// Advances the time to `now`, before anything that happens then.
    #[inline]
    fn pass(&mut self, now: u64) {
        if now > self.due.saturating_add(TIMELY) {
            self.late.add(self.due, now);
            // The same wake-up must not count as late again.
            self.due = u64::MAX;
        }
        // Seconds end first, because this advances the clock to the end of each of them.
        if now >= self.ends {
            self.end_seconds(now);
        }
        self.clock.advance(now);
    }

    #[cold]
    fn end_seconds(&mut self, now: u64) {
        let current = second_of(now);
        let first = self.second;
        while self.second < current {
            let ends = (u64::from(self.second) + 1) * SECOND_NS;
            self.clock.advance(ends);
            let whole = self.under_way(ends);
            // A second without any activity is not stored, so an idle drive takes no space.
            if whole
                != (DriveSecond {
                    second: self.second,
                    ..DriveSecond::default()
                })
            {
                self.seconds.push(whole);
            }
            for group in &self.touched {
                self.rows.push(self.open[*group as usize]);
            }
            // Only the first of these seconds has rows, because no call was made in the others.
            if self.second == first {
                self.close(whole);
            }
            self.closed.later = whole;
            self.busy = self.clock.busy();
            self.whole = DriveSecond::default();
            // In the seconds of an idle drive nothing happens, so they are skipped.
            let is_idle = self.clock.pieces() == 0 && self.late.within(ends, now) == 0;
            self.second = if is_idle {
                current
            } else {
                // For a drive that stalls for longer, more rows would contain nothing new.
                (self.second + 1).max(current.saturating_sub(GAP))
            };
        }
        self.ends = (u64::from(self.second) + 1) * SECOND_NS;
    }

    /// Makes the rows of the current second those of the second that ended last.
    fn close(&mut self, whole: DriveSecond) {
        std::mem::swap(&mut self.open, &mut self.closed.rows);
        std::mem::swap(&mut self.touched, &mut self.closed.touched);
        self.touched.clear();
        self.closed.whole = whole;
        self.closed.summarise();
    }

    /// Returns the row of a group in the current second.
    #[inline]
    fn row(&mut self, group: u32) -> &mut GroupRow {
        let at = group as usize;
        if self.open.len() <= at {
            // A row of another second counts as empty in this one.
            let untouched = GroupRow {
                second: u32::MAX,
                ..GroupRow::default()
            };
            self.open.resize(at + 1, untouched);
            // With this capacity, pushing to `touched` never allocates for a request.
            self.touched.reserve(at + 1);
        }
        let row = &mut self.open[at];
        if row.second != self.second {
            self.touched.push(group);
            *row = GroupRow {
                second: self.second,
                group,
                ..GroupRow::default()
            };
        }
        row
    }

    fn group(&self, stream: StreamId) -> u32 {
        let slot = self.streams.get(stream.slot() as usize).copied().flatten();
        slot.map_or(0, |(_, group)| group)
    }

    #[inline]
    fn dispatch(&mut self, now: u64, piece: &Dispatch) {
        let group = self.group(piece.stream);
        let tag = piece.tag.0 as usize;
        if self.flying.len() <= tag {
            self.flying.resize(tag + 1, DrivePiece::default());
        }
        self.dispatched += 1;
        let share = self.clock.enter();
        self.flying[tag] = DrivePiece {
            op: Some(piece.op),
            group,
            from: now,
            bytes: piece.length,
            share,
            alone: self.clock.pieces() == 1,
            number: self.dispatched,
        };
    }

    #[inline]
    fn complete(&mut self, now: u64, completion: &Completion) {
        let Some(slot) = self.flying.get_mut(completion.tag.0 as usize) else {
            return;
        };
        let flying = std::mem::take(slot);
        let Some(op) = flying.op else { return };
        let share = self.clock.leave(flying.share);
        if completion.outcome.is_none() {
            // The drive's queue was full, so the piece is dispatched again later.
            return;
        }
        let taken = now.saturating_sub(flying.from);
        let late = self.late.within(flying.from, now);
        // A piece was alone if nothing was in the drive when it was dispatched, and nothing has
        // been dispatched since. A late process would make its time too long.
        if flying.alone && flying.number == self.dispatched && late == 0 {
            self.alone.learn(op, flying.bytes, taken);
        }
        let alone = self.alone.of(op, flying.bytes);
        // If the time alone is not known, the share is used as the service.
        let service = alone.map_or(share, |alone| alone.min(taken));
        match alone {
            Some(_) => self.whole.known += service,
            None => self.whole.unknown += taken - late,
        }
        // For a piece without a stated cost, such as a flush, the share is used as its cost.
        self.whole.stated += self.stated.cost(op, flying.bytes).unwrap_or(share);
        self.whole.drive += taken - late;
        self.whole.pieces += 1;
        self.whole.bytes += u64::from(flying.bytes);
        self.pieces.push(PieceTrace {
            from: flying.from,
            length: Length::new(taken),
            group: flying.group,
        });
        let row = self.row(flying.group);
        row.bytes += u64::from(flying.bytes);
        row.share += share;
        row.service += service;
    }

    #[inline]
    fn done(&mut self, done: &Done) {
        let group = self.group(done.stream);
        // Only the latency of requests without an error is explained.
        if done.outcome != Outcome::Ok {
            if let Outcome::Error(_) = done.outcome {
                self.row(group).errors += 1;
            }
            return;
        }
        let submitted = done.submitted.as_nanos();
        let waits = [done.waits.limit, done.waits.elevator, done.waits.drive];
        let [limit, elevator, drive] = waits.map(Span::as_nanos);
        self.requests.push(RequestTrace {
            submitted,
            limit: Length::new(limit),
            elevator: Length::new(elevator),
            drive: Length::new(drive),
            group,
            bytes: done.length,
        });
        let (cleared, dispatched) = (submitted + limit, submitted + limit + elevator);
        // One query for the whole request is enough if the process was not late.
        let late = if self.late.within(submitted, dispatched + drive) > 0 {
            [
                self.late.within(submitted, cleared),
                self.late.within(cleared, dispatched),
                self.late.within(dispatched, dispatched + drive),
            ]
        } else {
            [0; 3]
        };
        // Lateness of this process is neither the elevator's nor the drive's time.
        self.whole.elevator += elevator - late[1];
        let row = self.row(group);
        row.requests += 1;
        row.limit += limit - late[0];
        row.elevator += elevator - late[1];
        row.drive += drive - late[2];
        row.late += late.iter().sum::<u64>();
    }

    fn opened(&mut self, stream: StreamId, group: GroupId) {
        let slot = stream.slot() as usize;
        if self.streams.len() <= slot {
            self.streams.resize(slot + 1, None);
        }
        self.streams[slot] = Some((stream, group.0));
    }
}

impl Observer for Journal {
    #[inline]
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        let now = now.as_nanos().min(LATEST);
        // The configuration of the layer is available only in a call.
        if !self.seen {
            self.stated = StatedCapacity::new(layer.config().drive.capacity);
            self.seen = true;
        }
        self.pass(now);
        match *call {
            Call::Open {
                spec,
                result: Ok(stream),
            } => self.opened(stream, spec.group),
            Call::Complete { batch } => batch.iter().for_each(|c| self.complete(now, c)),
            Call::Change {
                edits,
                result: Ok(_),
            } => {
                Arc::make_mut(&mut self.groups).change(now, edits);
                // The edits may have changed the capacity.
                self.stated = StatedCapacity::new(layer.config().drive.capacity);
            }
            Call::Poll { outputs, wake } => {
                for output in outputs {
                    match output {
                        Output::Dispatch(piece) => self.dispatch(now, piece),
                        Output::Done(done) => self.done(done),
                        Output::Pause(_) | Output::Resume(_) => {}
                    }
                }
                // A wake-up in the past can only be handled after this call, so it is not late yet.
                self.due = wake.map_or(u64::MAX, |wake| wake.at.as_nanos().max(now));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::terms::GroupTerms;

    #[test]
    fn a_group_takes_no_more_than_an_entry() {
        // The group's terms, the flag that its number was used, the number of its children, its
        // rows of two seconds, and its entries in `touched`.
        let group = size_of::<Option<GroupTerms>>() + 1 + 4 + 2 * (size_of::<GroupRow>() + 4);
        assert!(group <= Journal::ENTRY, "{group} bytes");
        assert!(size_of::<DrivePiece>() <= Journal::ENTRY);
    }
}
