//! How often each kind of event occurred: whether an auditor could have found something in a run.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::{Model, State};
use weir_core::{Op, Outcome, Reason, Reject};

/// Counts of what an [`Audit`](crate::audit::Audit) was shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests refused because the layer was full.
    pub full: u64,
    /// Because their stream was.
    pub stream_full: u64,
    /// For any other reason.
    pub refused: u64,
    /// Requests that were throttled by limits.
    pub limited: u64,
    /// Requests cancelled: with nothing in the drive, with a part of it, with all of it.
    pub cancelled: [u64; 3],
    /// Streams closed with requests.
    pub closed: u64,
    /// Streams put on hold with requests.
    pub held: u64,
    /// Changes accepted, refused for the sums, refused for other reasons.
    pub changes: [u64; 3],
    /// Pieces after the first one of a request.
    pub split: u64,
    /// Pieces sent again to a drive that had been busy.
    pub again: u64,
    /// Flush commands that served more than one flush.
    pub joined: u64,
    /// Answers: done, failed, cancelled.
    pub answers: [u64; 3],
    /// Completions of tags that were not in flight.
    pub stray: u64,
    /// Streams paused and resumed.
    pub notices: [u64; 2],
    /// Wake-ups requested: limit, idling, budget, latency, retry and flush, cost.
    pub wakes: [u64; 6],
    /// Turns begun.
    pub turns: u64,
    /// Requests merged into another's command.
    pub merged: u64,
    /// Commands taken apart.
    pub parted: u64,
    /// Commands of several requests that failed.
    pub failed_together: u64,
    /// Pieces on their way to the drive before there was a tag for them.
    pub ahead: u64,
}

impl Tally {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts_mut().into_iter().zip(other.counts()) {
            *count += more;
        }
    }

    /// The names of what did not occur.
    pub fn missing(&self) -> Vec<&'static str> {
        let counts = NAMES.into_iter().zip(self.counts());
        counts.filter(|(_, c)| *c == 0).map(|(n, _)| n).collect()
    }

    /// All counts, in the order of the fields.
    pub fn counts(&self) -> [u64; COUNTS] {
        let mut copy = *self;
        copy.counts_mut().map(|c| *c)
    }

    fn counts_mut(&mut self) -> [&mut u64; COUNTS] {
        let Self {
            full,
            stream_full,
            refused,
            limited,
            cancelled: [c0, c1, c2],
            closed,
            held,
            changes: [h0, h1, h2],
            split,
            again,
            joined,
            answers: [a0, a1, a2],
            stray,
            notices: [n0, n1],
            wakes: [w0, w1, w2, w3, w4, w5],
            turns,
            merged,
            parted,
            failed_together,
            ahead,
        } = self;
        [
            full,
            stream_full,
            refused,
            limited,
            c0,
            c1,
            c2,
            closed,
            held,
            h0,
            h1,
            h2,
            split,
            again,
            joined,
            a0,
            a1,
            a2,
            stray,
            n0,
            n1,
            w0,
            w1,
            w2,
            w3,
            w4,
            w5,
            turns,
            merged,
            parted,
            failed_together,
            ahead,
        ]
    }
}

const COUNTS: usize = 32;

const NAMES: [&str; COUNTS] = [
    "full",
    "stream_full",
    "refused",
    "limited",
    "cancelled before the drive",
    "cancelled half way",
    "cancelled too late",
    "closed",
    "held",
    "changed",
    "over capacity",
    "change refused",
    "split",
    "again",
    "joined",
    "ok",
    "error",
    "cancelled",
    "stray",
    "pause",
    "resume",
    "wake: limit",
    "wake: idling",
    "wake: budget",
    "wake: latency",
    "wake: retry",
    "wake: cost",
    "turns",
    "merged",
    "parted",
    "failed together",
    "ahead",
];

impl Auditor for Tally {
    const NAME: &'static str = "tally";

    #[inline]
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, _found: &mut Found) {
        match *fact {
            Fact::Refused(_, Reject::Full) => self.full += 1,
            Fact::Refused(_, Reject::StreamFull) => self.stream_full += 1,
            Fact::Refused(..) => self.refused += 1,
            Fact::Released(Some(slot), _) => {
                self.limited += u64::from(model.request(slot).submitted < model.now);
            }
            Fact::Cancelled(Some(slot), true) => {
                let live = model.request(slot);
                let wholly = model.is_wholly_sent(slot);
                let stage = if wholly {
                    2
                } else {
                    usize::from(live.issued > 0)
                };
                self.cancelled[stage] += 1;
            }
            Fact::Closed(id) => {
                self.closed += u64::from(model.stream(id).is_some_and(|s| s.live > 0));
            }
            Fact::Held(id, held) => {
                let waits =
                    |s: &crate::audit::model::Stream| s.sendable > 0 && s.state == State::Open;
                self.held += u64::from(held && model.stream(id).is_some_and(waits));
            }
            Fact::Changed(_, Ok(_)) => self.changes[0] += 1,
            Fact::Changed(_, Err(weir_core::Refusal::OverCapacity { .. })) => self.changes[1] += 1,
            Fact::Changed(_, Err(_)) => self.changes[2] += 1,
            Fact::Dispatched { again: true, .. } => self.again += 1,
            Fact::Dispatched { piece, .. } if piece.op == Op::Flush => {
                let lane = model
                    .lanes
                    .get(model.layout.lane(piece.space, piece.stream));
                self.joined += u64::from(lane.is_some_and(|lane| lane.flushes.len() > 1));
            }
            Fact::Dispatched { piece, .. } => self.split += u64::from(piece.within > 0),
            Fact::Done(_, done) => {
                let kind = match done.outcome {
                    Outcome::Ok => 0,
                    Outcome::Error(_) => 1,
                    Outcome::Cancelled => 2,
                };
                self.answers[kind] += 1;
            }
            Fact::Returned(_, None) => self.stray += 1,
            Fact::Pause(_) => self.notices[0] += 1,
            Fact::Resume(_) => self.notices[1] += 1,
            Fact::Polled(_, Some(wake)) => {
                let reason = match wake.reason {
                    Reason::Limit => 0,
                    Reason::Idling => 1,
                    Reason::BudgetTimeout => 2,
                    Reason::Latency => 3,
                    Reason::Cost => 5,
                    _ => 4,
                };
                self.wakes[reason] += 1;
            }
            Fact::Merged(..) => self.merged += 1,
            Fact::Parted(_) => self.parted += 1,
            Fact::Taken(..) => self.ahead += 1,
            Fact::Returned(completion, Some(flight)) => {
                let several = model.request(flight.slot).members > 1;
                let failed = matches!(completion.outcome, Some(Outcome::Error(_)));
                self.failed_together += u64::from(several && failed);
            }
            Fact::Event(weir_core::Event::Selected { .. }) => self.turns += 1,
            _ => {}
        }
    }
}
