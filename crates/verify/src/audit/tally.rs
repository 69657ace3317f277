//! The number of occurrences of each kind of event, which shows whether an auditor could have found
//! a violation in a run.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, StreamState};
use weir_core::{Op, Outcome, Reason, Reject};

/// Defines [`Tally`]: counts of events, each with a name.
macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident [$($name:literal),+];)*) => {
        /// The numbers of events that an [`Audit`](crate::audit::Audit) has received.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Tally {
            $($(#[$doc])* pub $field: [u64; [$($name),+].len()],)*
        }

        const NAMES: &[&str] = &[$($($name),+),*];

        impl Tally {
            /// Returns all counts, in the order of the fields.
            pub fn counts(&mut self) -> impl Iterator<Item = &mut u64> {
                std::iter::empty()$(.chain(&mut self.$field))*
            }
        }
    };
}

counts! {
    /// Requests refused because the layer was full.
    full ["full"];
    /// Requests refused because their stream had too many.
    stream_full ["stream_full"];
    /// Requests refused for any other reason.
    refused ["refused"];
    /// Requests that were throttled by limits.
    limited ["limited"];
    /// Requests that were cancelled with nothing in the drive, with a part of it, or with all of
    /// it.
    cancelled ["cancelled before the drive", "cancelled half way", "cancelled too late"];
    /// Streams that were closed while they had requests.
    closed ["closed"];
    /// Streams that were put on hold while they had something to send.
    held ["held"];
    /// Changes that were accepted, refused because of the sums, or refused for other reasons.
    changes ["changed", "over capacity", "change refused"];
    /// Pieces after the first one of a request.
    split ["split"];
    /// Pieces sent again to a drive that had been busy.
    again ["again"];
    /// Flush commands that served more than one flush.
    joined ["joined"];
    /// Requests that completed with success, with an error, or by cancellation.
    answers ["ok", "error", "cancelled"];
    /// Completions of tags that were not in flight.
    stray ["stray"];
    /// Notices to pause and to resume streams.
    notices ["pause", "resume"];
    /// Wake-ups that were requested, by their reason.
    wakes ["wake: limit", "wake: idling", "wake: budget", "wake: latency", "wake: retry", "wake: cost"];
    /// Turns begun.
    turns ["turns"];
    /// Requests merged into another's command.
    merged ["merged"];
    /// Commands taken apart.
    parted ["parted"];
    /// Commands of several requests that failed.
    failed_together ["failed together"];
    /// Pieces on their way to the drive before there was a tag for them.
    ahead ["ahead"];
}

impl Tally {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (count, more) in self.counts().zip(other.counts()) {
            *count += *more;
        }
    }

    /// Returns the names of the events that did not occur.
    pub fn missing(mut self) -> Vec<&'static str> {
        let counts = NAMES.iter().zip(self.counts());
        counts.filter(|(_, c)| **c == 0).map(|(n, _)| *n).collect()
    }
}

impl Auditor for Tally {
    const NAME: &'static str = "tally";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, _found: &mut Violations) {
        match *fact {
            Fact::Refused(_, Reject::Full) => self.full[0] += 1,
            Fact::Refused(_, Reject::StreamFull) => self.stream_full[0] += 1,
            Fact::Refused(..) => self.refused[0] += 1,
            Fact::Released(Some(slot), _) => {
                // A request that passes at the time of its submission was not throttled.
                self.limited[0] += u64::from(model.request(slot).submitted < model.now);
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
                self.closed[0] += u64::from(model.stream(id).is_some_and(|s| s.live > 0));
            }
            Fact::Held(id, held) => {
                let waits = |s: &crate::audit::model::ModelStream| {
                    s.sendable > 0 && s.state == StreamState::Open
                };
                self.held[0] += u64::from(held && model.stream(id).is_some_and(waits));
            }
            Fact::Changed(_, Ok(_)) => self.changes[0] += 1,
            Fact::Changed(_, Err(weir_core::Refusal::OverCapacity { .. })) => self.changes[1] += 1,
            Fact::Changed(_, Err(_)) => self.changes[2] += 1,
            Fact::Dispatched(_, _, true) => self.again[0] += 1,
            Fact::Dispatched(_, piece, _) if piece.op == Op::Flush => {
                let lane = model
                    .lanes
                    .get(model.layout.lane(piece.space, piece.stream));
                self.joined[0] += u64::from(lane.is_some_and(|lane| lane.flushes.len() > 1));
            }
            Fact::Dispatched(_, piece, _) => self.split[0] += u64::from(piece.within > 0),
            Fact::Done(_, done) => {
                let kind = match done.outcome {
                    Outcome::Ok => 0,
                    Outcome::Error(_) => 1,
                    Outcome::Cancelled => 2,
                };
                self.answers[kind] += 1;
            }
            Fact::Returned(_, None) => self.stray[0] += 1,
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
            Fact::Merged(..) => self.merged[0] += 1,
            Fact::Parted(_) => self.parted[0] += 1,
            Fact::Taken(..) => self.ahead[0] += 1,
            Fact::Returned(completion, Some(flight)) => {
                let several = model.request(flight.slot).members > 1;
                let failed = matches!(completion.outcome, Some(Outcome::Error(_)));
                self.failed_together[0] += u64::from(several && failed);
            }
            Fact::Event(weir_core::Event::Selected { .. }) => self.turns[0] += 1,
            _ => {}
        }
    }
}
