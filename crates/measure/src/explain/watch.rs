//! A journal with promises of its own, for a run or a recording.

use crate::explain::journal::{Journal, LATEST};
use crate::explain::note;
use crate::explain::terms::GroupTree;
use crate::explain::view::JournalSnapshot;
use crate::promise::{Promise, PromisedRate, Ruling};
use crate::{SECOND_NS, WindowTotals};
use std::collections::BTreeMap;
use weir_core::record::{Call, Observer};
use weir_core::{
    Contract, Done, GroupId, Instant, Layer, Op, Outcome, Output, ROOT, Request, StreamId,
};

/// Observes a layer, judges the promises of its groups as the live server does, and keeps a
/// [`Journal`].
#[derive(Debug)]
pub struct JudgingJournal {
    journal: Journal,
    groups: GroupTree,
    promises: BTreeMap<GroupId, Promise>,
    streams: Vec<Option<(StreamId, GroupId)>>,
    /// The streams whose clients do not read their replies.
    held: Vec<StreamId>,
    /// The piece in the drive, by tag.
    flying: Vec<Option<WatchedPiece>>,
    /// The number of pieces in the drive.
    in_drive: u32,
    dispatched: u64,
    /// The requests whose only piece had the drive to itself, with their length.
    alone: BTreeMap<(StreamId, u64), u32>,
    /// The verdicts on the second that ended last. They are kept until it is known whether the
    /// recording has verdicts of the server, which had more information.
    own: Vec<(GroupId, Ruling)>,
    /// The amount that all clients were served in the current second.
    second: WindowTotals,
    /// The end of the current second.
    ends: u64,
}

#[derive(Clone, Copy, Debug)]
struct WatchedPiece {
    stream: StreamId,
    cookie: u64,
    op: Op,
    length: u32,
    alone: bool,
    number: u64,
}

/// The length of a pause after which promises begin again: 100 days.
const GAP: u64 = 8_640_000 * SECOND_NS;

impl JudgingJournal {
    /// Creates a watch with a journal of at most `bytes`. It must observe its layer from the first
    /// call on.
    pub fn new(bytes: usize) -> Self {
        Self {
            journal: Journal::new(bytes),
            groups: GroupTree::default(),
            promises: BTreeMap::new(),
            streams: Vec::new(),
            held: Vec::new(),
            flying: Vec::new(),
            in_drive: 0,
            dispatched: 0,
            alone: BTreeMap::new(),
            own: Vec::new(),
            second: WindowTotals::default(),
            ends: SECOND_NS,
        }
    }

    /// Returns the journal, to add observations that are not calls.
    pub fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Iterates over the existing groups, with their contracts.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, Contract)> + '_ {
        self.groups.iter().map(|(id, terms)| (id, terms.contract))
    }

    /// Returns a view like [`Journal::view`], with the verdicts on all seconds that ended by `now`.
    pub fn view(&mut self, now: Instant, layer: &Layer, group: GroupId) -> Option<JournalSnapshot> {
        self.pass(now.as_nanos().min(LATEST), layer);
        self.commit_rulings();
        self.journal.view(now, layer, group)
    }

    #[inline]
    fn pass(&mut self, now: u64, layer: &Layer) {
        if now >= self.ends {
            self.end_second(now, layer);
        }
    }

    fn end_second(&mut self, now: u64, layer: &Layer) {
        if now - self.ends > GAP {
            // Judging every second of such a pause would take too long, so promises begin again.
            for promise in self.promises.values_mut() {
                *promise = Promise::new(now, promise.rate());
            }
        }
        let mut limited: BTreeMap<GroupId, u32> = BTreeMap::new();
        // The throttled requests matter only for a promise without completions.
        if self.promises.values().any(Promise::is_still) {
            for (stream, group) in self.streams.iter().flatten() {
                let held = layer.gauges(*stream).map_or(0, |g| g.limited);
                for (above, _) in self.groups.path(*group) {
                    *limited.entry(above).or_default() += held;
                }
            }
        }
        // If the recording had a verdict on the previous second, it has followed by now.
        self.commit_rulings();
        for (group, promise) in &mut self.promises {
            let held = limited.get(group).copied().unwrap_or(0);
            let (journal, own) = (&mut self.journal, &mut self.own);
            let second = self.ends / SECOND_NS - 1;
            promise.standing(journal.standing(Instant::from_nanos(now), *group, second));
            promise.pass_with_rulings(now, self.second, held, |ruling| own.push((*group, ruling)));
        }
        self.second = WindowTotals::default();
        self.ends = (now / SECOND_NS + 1) * SECOND_NS;
    }

    /// Adds the watch's own verdicts on the second that ended last to the journal.
    fn commit_rulings(&mut self) {
        for (group, ruling) in self.own.drain(..) {
            self.journal.ruled(group, &ruling);
        }
    }

    /// Adds a verdict from the recording, which replaces the watch's own verdict on that second.
    fn replace_ruling(&mut self, group: GroupId, ruling: &Ruling) {
        let second = |of: &Ruling| of.ends_ns / SECOND_NS;
        self.own
            .retain(|(other, own)| *other != group || second(own) != second(ruling));
        self.journal.ruled(group, ruling);
    }

    /// Reports an event at `now` to the promises of a stream's group and of the groups above it.
    fn tell(&mut self, now: u64, stream: StreamId, tell: impl Fn(&mut Promise, bool)) {
        let held = self.held.contains(&stream);
        let slot = self.streams.get(stream.slot() as usize).copied().flatten();
        let Some((_, group)) = slot.filter(|s| s.0 == stream) else {
            return;
        };
        for (above, _) in self.groups.path(group) {
            if let Some(promise) = self.promises.get_mut(&above) {
                // The previous second has ended already, so this only advances the time.
                promise.pass(now, WindowTotals::default(), 0);
                tell(promise, held);
            }
        }
    }

    fn submitted(&mut self, now: u64, request: &Request) {
        // Promises do not cover flushes.
        if request.op != Op::Flush {
            self.tell(now, request.stream, |promise, held| {
                promise.sent(held);
                promise.note_request_bytes(request.charge());
            });
        }
    }

    fn complete(&mut self, now: u64, tag: u32, outcome: Option<Outcome>) {
        let Some(flying) = self.flying.get_mut(tag as usize).and_then(Option::take) else {
            return;
        };
        self.in_drive = self.in_drive.saturating_sub(1);
        if outcome != Some(Outcome::Ok) {
            return;
        }
        let WatchedPiece {
            stream, op, length, ..
        } = flying;
        // The request had the drive to itself if nothing else was dispatched before it completed.
        if flying.alone && flying.number == self.dispatched && op != Op::Extents {
            self.alone.insert((stream, flying.cookie), length);
        }
        let bytes = op.charge(length.into());
        self.second.bytes += bytes;
        if bytes > 0 {
            self.tell(now, stream, |promise, _| promise.served(bytes));
        }
    }

    fn done(&mut self, now: u64, done: &Done) {
        // The entry is removed for flushes as well, so that the map does not grow.
        let alone = self.alone.remove(&(done.stream, done.cookie));
        if done.op == Op::Flush {
            return;
        }
        self.second.requests += u64::from(done.outcome == Outcome::Ok);
        self.tell(now, done.stream, |promise, held| {
            promise.ended(done, held, alone == Some(done.length));
        });
    }

    fn output(&mut self, now: u64, output: &Output) {
        match output {
            Output::Dispatch(piece) => {
                let tag = piece.tag.0 as usize;
                if self.flying.len() <= tag {
                    self.flying.resize(tag + 1, None);
                }
                self.in_drive += 1;
                self.dispatched += 1;
                self.flying[tag] = Some(WatchedPiece {
                    stream: piece.stream,
                    cookie: piece.cookie,
                    op: piece.op,
                    length: piece.length,
                    alone: self.in_drive == 1,
                    number: self.dispatched,
                });
            }
            Output::Done(done) => self.done(now, done),
            Output::Pause(_) | Output::Resume(_) => {}
        }
    }

    fn hold(&mut self, now: u64, stream: StreamId, held: bool, layer: &Layer) {
        // A repeated hold must not count the client twice.
        if self.held.contains(&stream) == held {
            return;
        }
        let live = layer.gauges(stream).map_or(0, |gauges| gauges.live);
        self.tell(now, stream, |promise, _| promise.suspend(live, held));
        if held {
            self.held.push(stream);
        } else {
            self.held.retain(|other| *other != stream);
        }
    }

    /// Applies the contracts of the existing groups to the promises.
    fn change(&mut self, now: u64) {
        self.promises
            .retain(|group, _| self.groups.get(*group).is_some());
        for (group, terms) in self.groups.iter().filter(|g| g.0 != ROOT) {
            let rate = PromisedRate::of(&terms.contract);
            let promise = self.promises.entry(group);
            let promise = promise.or_insert_with(|| Promise::new(now, None));
            promise.pass(now, WindowTotals::default(), 0);
            promise.change(rate);
        }
    }
}

impl Observer for JudgingJournal {
    fn call(&mut self, at: Instant, call: &Call<'_>, layer: &mut Layer) {
        // The journal comes first, because the promises need the waits of the second that it ends.
        self.journal.call(at, call, layer);
        let now = at.as_nanos().min(LATEST);
        self.pass(now, layer);
        match *call {
            Call::Open {
                spec,
                result: Ok(stream),
            } => {
                let slot = stream.slot() as usize;
                if self.streams.len() <= slot {
                    self.streams.resize(slot + 1, None);
                }
                self.streams[slot] = Some((stream, spec.group));
            }
            // A client that disconnects no longer holds back its requests.
            Call::Close { stream } => self.hold(now, stream, false, layer),
            Call::Hold { stream, held } => self.hold(now, stream, held, layer),
            Call::Submit { batch, result } => {
                let accepted = result.map_or_else(|r| r.accepted, |()| batch.len());
                batch[..accepted]
                    .iter()
                    .for_each(|r| self.submitted(now, r));
            }
            Call::Complete { batch } => {
                for completion in batch {
                    self.complete(now, completion.tag.0, completion.outcome);
                }
            }
            Call::Change {
                edits,
                result: Ok(_),
            } => {
                self.groups.change(now, edits);
                self.change(now);
            }
            Call::Note { bytes } => {
                if let Some((group, ruling)) = note::ruling(bytes) {
                    self.replace_ruling(group, &ruling);
                }
            }
            Call::Poll { outputs, .. } => outputs.iter().for_each(|o| self.output(now, o)),
            _ => {}
        }
    }
}
