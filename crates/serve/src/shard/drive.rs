//! One drive of a shard: the core's layer, the volumes, and what is under way between them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_config::units::Size;
use weir_config::{Plan, Room};
use weir_core::{
    Completion, Contract, Dispatch, Edit, Flags, GroupId, Instant, Op, Outcome, Output, QueueId,
    SpaceId, StreamId, Tag, Wake,
};
use weir_uring::{AnyRing, Ring};

use super::asked::Asked;
use super::busy::{Counted, Sent};
use super::front::Pending;
use super::model::Model;
use super::seen::{SeenLayer, Viewed};
use super::volume::{Started, Tenant, Volume};
use crate::backend::{Backend, Context, Data, Finished, Job, News};
use crate::errno::EIO;
use crate::metrics::Detail;
use crate::metrics::figures::{DriveFigures, TenantFigures};
use crate::record::Tape;
use crate::slab::Slab;

/// How often the drive is filled in one turn if it empties at once.
const ROUNDS: usize = 4;
/// Bytes of memory that are touched in one turn of a shard by what backends carry out at once: about 100 us. As many again go to
/// what was deferred in turns before.
const TURN: u64 = 512 << 10;
/// Bytes of it that one volume may touch before another's turn.
const VISIT: u64 = 128 << 10;

/// A drive with its volumes.
#[derive(Debug)]
pub(crate) struct Drive {
    pub(crate) name: String,
    pub(crate) number: usize,
    pub(crate) layer: SeenLayer,
    /// Where the layer's record goes.
    pub(crate) tape: Option<Tape>,
    /// The slots in force.
    pub(crate) plan: Plan,
    /// The contracts that the plan tells the core of, which have the whole of each shared min.
    pub(super) whole: BTreeMap<GroupId, Contract>,
    /// By number of the space.
    pub(crate) volumes: Vec<Option<Volume>>,
    pub(crate) requests: Slab<Pending>,
    /// By slot of the stream: whose it is.
    pub(crate) streams: Vec<Option<Open>>,
    /// When the layer wants to be asked again.
    pub(crate) wake: Option<Wake>,
    model: Option<Model>,
    /// Tenants with volumes here.
    pub(super) tenants: Vec<Tenant>,
    pub(super) counted: Counted,
    /// By tag: the piece in the drive.
    pub(super) flights: Vec<Flight>,
    pub(crate) finished: Vec<Finished>,
    completions: Vec<Completion>,
    /// Something was told to the layer since it was asked what to do.
    pub(crate) touched: bool,
    /// A vector used again in every turn.
    out: Vec<Output>,
    news: News,
    /// What is left of [`TURN`].
    budget: u64,
    /// Volumes that have deferred something, in the order of their turn.
    deferred: VecDeque<u32>,
    /// The volume that is made durable past the layer, before it goes.
    syncing: Option<u32>,
    /// When the first part of a min that several servers keep is over.
    pub(super) lapses_at: Instant,
    /// Mins or weights have changed, and the shard's schedule does not know it yet.
    pub(super) has_new_terms: bool,
    /// The same of the mins of the volumes in these spaces alone.
    pub(super) new_mins: Vec<u32>,
    /// The shard slept before this turn, so the latency of what the drive returned is the drive's and not the shard's.
    pub(super) is_timely: bool,
    /// When to look whether remote servers answer.
    pub(super) look_at: Instant,
}

/// An open stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Open {
    pub(crate) client: u32,
    pub(crate) space: u32,
    pub(crate) stream: StreamId,
}

/// A piece in the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) piece: Dispatch,
    sent: Sent,
    /// When it was sent to a remote server, while that has it.
    pub(super) asked: Option<Asked>,
}

/// A flush of everything that is nobody's request.
const FLUSH: Dispatch = Dispatch {
    queue: QueueId(0),
    tag: Tag(0),
    stream: StreamId::from_bits(0),
    cookie: 0,
    space: SpaceId(0),
    op: Op::Flush,
    flags: Flags::NONE,
    offset: 0,
    length: 0,
    within: 0,
};

impl Drive {
    pub(crate) fn new(
        name: String,
        number: usize,
        layer: SeenLayer,
        plan: Plan,
        model: Option<Model>,
        tape: Option<Tape>,
    ) -> Self {
        let config = layer.layer().config();
        let tags = config.tags() as usize;
        let streams = config.sizes.streams as usize;
        let none = Flight {
            piece: FLUSH,
            sent: Sent::default(),
            asked: None,
        };
        Self {
            name,
            number,
            whole: whole(&plan),
            plan,
            volumes: std::iter::repeat_with(|| None)
                .take(config.sizes.spaces as usize)
                .collect(),
            requests: Slab::new(),
            streams: vec![None; streams],
            wake: None,
            model,
            tape,
            tenants: Vec::new(),
            counted: Counted::new(),
            // One more for the sync of a volume past the layer.
            flights: vec![none; tags + 1],
            finished: Vec::new(),
            completions: Vec::new(),
            touched: false,
            out: Vec::new(),
            news: News::default(),
            budget: TURN,
            deferred: VecDeque::new(),
            syncing: None,
            lapses_at: Instant::MAX,
            has_new_terms: true,
            new_mins: Vec::new(),
            is_timely: true,
            look_at: Instant::MAX,
            layer,
        }
    }

    /// Calls into the backend of a volume.
    pub(crate) fn with_backend<R>(
        &mut self,
        ring: &mut AnyRing,
        now: Instant,
        space: u32,
        call: impl FnOnce(&mut dyn Backend, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let volume = self.volumes.get_mut(space as usize)?.as_mut()?;
        let mut cx = Context {
            now,
            ring,
            token: super::token::backend(self.number, space),
            finished: &mut self.finished,
            budget: self.budget.min(VISIT),
            deferred: false,
            news: (&self.news, space),
        };
        let before = cx.budget;
        let result = call(volume.backend.as_mut(), &mut cx);
        self.budget -= before - cx.budget;
        if cx.deferred && !std::mem::replace(&mut volume.deferred, true) {
            self.deferred.push_back(space);
        }
        Some(result)
    }

    /// Lets the volumes that have deferred something go on, one after the other, for one turn's worth.
    fn resume_deferred(&mut self, ring: &mut AnyRing, now: Instant) {
        while self.budget > 0
            && let Some(space) = self.deferred.pop_front()
        {
            if let Some(volume) = &mut self.volumes[space as usize] {
                volume.deferred = false;
            }
            self.with_backend(ring, now, space, |backend, cx| backend.resume_deferred(cx));
        }
    }

    /// From now on these slots are in force.
    pub(super) fn set_plan(&mut self, plan: Plan) {
        self.whole = whole(&plan);
        self.plan = plan;
    }

    /// The spaces of the volumes that `which` picks.
    pub(super) fn spaces(&self, which: impl Fn(&Volume) -> bool) -> Vec<u32> {
        let volumes = (0..).zip(&self.volumes);
        let picked = volumes.filter(|(_, volume)| volume.as_ref().is_some_and(&which));
        picked.map(|(space, _)| space).collect()
    }

    /// Adds a volume.
    pub(crate) fn add(&mut self, started: Started) {
        let Started { space, volume } = started;
        if let Some(model) = &mut self.model {
            model.place(space, volume.size);
        }
        self.volumes[space as usize] = Some(volume);
    }

    /// The volume there has `size` bytes from now on: [`Backend::size`] has said that it can.
    pub(crate) fn resize(&mut self, space: u32, size: u64) {
        let Some(volume) = self.volumes[space as usize].as_mut() else {
            return;
        };
        let (from, to) = (Size(volume.size), Size(size));
        tracing::info!(volume = %volume.name, %from, %to, "the volume has grown");
        volume.backend.resize(size);
        volume.size = size;
        if let Some(model) = &mut self.model {
            model.place(space, size);
        }
    }

    /// Removes the volumes that leave.
    pub(crate) fn remove_leaving(&mut self) {
        for (space, slot) in (0..).zip(&mut self.volumes) {
            if slot.take_if(|v| v.leaving).is_some()
                && let Some(model) = &mut self.model
            {
                model.place(space, 0);
            }
        }
    }

    /// Lets backends look at what other threads have for them.
    pub(crate) fn woken(&mut self, ring: &mut AnyRing, now: Instant) {
        for space in self.news.take() {
            self.with_backend(ring, now, space, |backend, cx| backend.woken(cx));
        }
    }

    /// Whether [`turn`](Self::turn) has anything to do.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.touched
            || !self.finished.is_empty()
            || !self.completions.is_empty()
            || !self.deferred.is_empty()
            || self.next_due().is_some_and(|at| at <= now)
    }

    /// Goes on with what was deferred and tells the layer what has ended, before anything new is submitted.
    pub(crate) fn settle(&mut self, ring: &mut AnyRing, now: Instant) {
        self.pass(now);
        self.budget = TURN;
        self.resume_deferred(ring, now);
        self.budget = TURN;
        self.touched |= self.complete(now);
    }

    /// Tells the layer what the backends have finished; false if that was nothing.
    fn complete(&mut self, now: Instant) -> bool {
        self.reap(now);
        if self.completions.is_empty() {
            return false;
        }
        self.layer.complete(now, &self.completions);
        self.completions.clear();
        true
    }

    /// Makes the volumes that `which` picks durable, one after the other, past the layer. True when there is nothing left to do;
    /// a failure is logged.
    pub(crate) fn sync(
        &mut self,
        ring: &mut AnyRing,
        now: Instant,
        which: impl Fn(&Volume) -> bool,
    ) -> bool {
        loop {
            self.reap(now);
            if self.syncing.is_some() {
                return false;
            }
            let next = self.volumes.iter_mut().position(|volume| {
                let volume = volume.as_mut().filter(|v| which(v) && !v.sync_failed);
                volume.is_some_and(|v| std::mem::take(&mut v.unsynced))
            });
            let Some(space) = next.map(|n| n as u32) else {
                let mut volumes = self.volumes.iter_mut().flatten().filter(|v| which(v));
                return volumes.all(|volume| volume.backend.rest());
            };
            self.syncing = Some(space);
            let job = Job {
                tag: self.sync_tag(),
                op: Op::Flush,
                flags: Flags::SYNC,
                offset: 0,
                length: 0,
                data: Data::None,
            };
            self.with_backend(ring, now, space, |backend, cx| backend.submit(job, cx));
        }
    }

    /// The tag of a sync past the layer: behind all of the layer's.
    fn sync_tag(&self) -> Tag {
        Tag(self.flights.len() as u32 - 1)
    }

    /// Tells the layer what has ended, asks it what to do, and hands the pieces it dispatches to the backends, until nothing ends
    /// at once any more, or for [`ROUNDS`] rounds: answers have to leave at some time. What is for clients is appended to `notices`.
    pub(crate) fn turn(&mut self, ring: &mut AnyRing, now: Instant, notices: &mut Vec<Output>) {
        self.touched = false;
        self.run_model(ring, now);
        self.look_for_stalls(now);
        let mut out = std::mem::take(&mut self.out);
        for _ in 0..ROUNDS {
            self.complete(now);
            self.wake = self.layer.poll(now, &mut out);
            for output in out.drain(..) {
                match output {
                    Output::Dispatch(dispatch) => self.dispatch(ring, now, &dispatch),
                    for_client => notices.push(for_client),
                }
            }
            if self.finished.is_empty() {
                break;
            }
        }
        self.out = out;
    }

    /// When this drive has something to do if nothing happens before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let model = self.model.as_ref().and_then(Model::next);
        let look = Some(self.look_at).filter(|&at| at < Instant::MAX);
        let all = [self.wake.map(|w| w.at), model, look];
        all.into_iter().flatten().min()
    }

    /// Carries out what the modelled drive has ended.
    fn run_model(&mut self, ring: &mut AnyRing, now: Instant) {
        while let Some((space, job)) = self.model.as_mut().and_then(|m| m.pop(now)) {
            self.with_backend(ring, now, space, |backend, cx| backend.submit(job, cx));
        }
    }

    /// Hands a piece to its backend, or to the model in front of it.
    fn dispatch(&mut self, ring: &mut AnyRing, now: Instant, dispatch: &Dispatch) {
        let space = dispatch.space.0;
        let sent = self.counted.dispatched_at(now);
        self.flights[dispatch.tag.0 as usize] = Flight {
            piece: *dispatch,
            sent,
            asked: self.asked(now, space),
        };
        let Some(volume) = &mut self.volumes[space as usize] else {
            return self.end(dispatch.tag, Some(Outcome::Error(EIO)));
        };
        let syncs = dispatch.op == Op::Flush || dispatch.flags.has(Flags::FUA);
        if volume.sync_failed && syncs {
            return self.end(dispatch.tag, Some(Outcome::Error(EIO)));
        }
        match dispatch.op {
            Op::Flush => volume.unsynced = false,
            Op::Read | Op::Extents => {}
            Op::Write | Op::Discard | Op::WriteZeroes => volume.unsynced = true,
        }
        let traits = volume.traits;
        let pending = &self.requests[dispatch.cookie as u32];
        let Some(data) = pending.payload.data(ring.arena(), dispatch, &traits) else {
            return self.end(dispatch.tag, None);
        };
        let length = match dispatch.op {
            // The core was given the first sector of the range.
            Op::Extents => pending.ask.length,
            _ => dispatch.length,
        };
        let job = Job {
            tag: dispatch.tag,
            op: dispatch.op,
            flags: dispatch.flags,
            offset: dispatch.offset,
            length,
            data,
        };
        match &mut self.model {
            // What is allocated is looked up in memory, whatever the drive does.
            Some(model) if job.op != Op::Extents => {
                if model.submit(now, dispatch, job).is_err() {
                    self.end(dispatch.tag, None);
                }
            }
            _ => {
                self.with_backend(ring, now, space, |backend, cx| backend.submit(job, cx));
            }
        }
    }

    fn end(&mut self, tag: Tag, outcome: Option<Outcome>) {
        self.finished.push(Finished {
            tag,
            outcome,
            data: Data::None,
        });
    }

    /// Takes in what the backends have finished: data to its request, errors to the volume, the rest to the layer.
    fn reap(&mut self, now: Instant) {
        let sync_tag = self.sync_tag();
        let mut all = std::mem::take(&mut self.finished);
        for finished in all.drain(..) {
            let Finished { tag, outcome, data } = finished;
            if tag == sync_tag {
                let space = self.syncing.take().unwrap_or_default();
                if let (Some(Outcome::Error(errno)), Some(volume)) =
                    (outcome, self.volumes[space as usize].as_mut())
                {
                    volume.failed(&FLUSH, errno);
                }
                continue;
            }
            self.observe_answer(now, tag);
            let Flight { piece, sent, .. } = self.flights[tag.0 as usize];
            let (space, op) = (piece.space.0, piece.op);
            if let (Some(Outcome::Error(errno)), Some(volume)) =
                (outcome, self.volumes[space as usize].as_mut())
            {
                volume.failed(&piece, errno);
            }
            let alone = self.counted.returned_at(now, sent);
            if outcome == Some(Outcome::Ok) {
                self.count_piece(now, space, op, piece.length);
                if let Some(pending) = self.requests.get_mut(piece.cookie as u32) {
                    let whole = piece.length == pending.ask.length;
                    pending.alone = alone && whole && self.is_timely && op != Op::Extents;
                    pending.payload.keep(piece.within, data);
                }
                debug_assert!(op != Op::Read || piece.length > 0);
            }
            self.completions.push(Completion { tag, outcome });
        }
        // Nothing has finished meanwhile.
        self.finished = all;
    }

    /// The slot of a stream's client.
    pub(crate) fn client(&self, stream: StreamId) -> Option<u32> {
        let open = self.streams.get(stream.slot() as usize)?.as_ref()?;
        Some(open.client)
    }

    /// How things stand, for the metrics.
    pub(crate) fn snapshot(&mut self, now: Instant, detail: Detail) -> DriveFigures {
        self.pass(now);
        let mut gauges = vec![(0, 0); self.volumes.len()];
        for (space, stream) in self.open_streams() {
            if let Some(gauge) = self.layer.layer().gauges(stream) {
                let (limited, oldest) = &mut gauges[space as usize];
                *limited += gauge.limited;
                let age = gauge.oldest.map_or(0, |at| now.since(at).as_nanos());
                *oldest = age.max(*oldest);
            }
        }
        let volumes = self.volumes.iter().zip(gauges);
        let volumes =
            volumes.filter_map(|(volume, gauge)| Some(volume.as_ref()?.snapshot(gauge, detail)));
        let volumes = volumes.collect();
        let tenants = self.tenants.iter().map(|tenant| TenantFigures {
            name: tenant.name.clone(),
            rate: tenant.promise.rate(),
            seconds: *tenant.promise.seconds(),
            causes: tenant.causes.clone(),
        });
        DriveFigures {
            name: self.name.clone(),
            live: self.layer.layer().live(),
            in_flight: self.layer.layer().in_flight(),
            counters: self.layer.layer().counters(),
            served_ns: now.as_nanos(),
            busy_ns: self.counted.busy_ns(now),
            // Those that read the configuration know it.
            room: Room::default(),
            volumes,
            tenants: tenants.collect(),
        }
    }

    /// What explains the requests of a volume; nothing, if it is not this drive's.
    pub(crate) fn view(&mut self, now: Instant, volume: &str) -> Option<Viewed> {
        self.pass(now);
        let mut volumes = self.volumes.iter().flatten();
        let group = volumes.find(|v| v.name == volume)?.group;
        let seen = self.layer.observer();
        Some(Viewed {
            view: seen.journal.view(now, self.layer.layer(), group)?,
            names: Arc::clone(&seen.names),
        })
    }

    /// The streams of clients, each with its space.
    pub(super) fn open_streams(&self) -> Vec<(u32, StreamId)> {
        self.streams
            .iter()
            .flatten()
            .map(|open| (open.space, open.stream))
            .collect()
    }

    /// Nothing of any client is left in the layer.
    pub(crate) fn is_idle(&self) -> bool {
        self.layer.layer().live() == 0 && self.layer.layer().in_flight() == 0
    }
}

/// The contracts that a plan tells the core of.
fn whole(plan: &Plan) -> BTreeMap<GroupId, Contract> {
    let edits = plan.edits.iter();
    let added = edits.filter_map(|edit| match *edit {
        Edit::AddGroup { id, contract, .. } => Some((id, contract)),
        _ => None,
    });
    added.collect()
}

#[cfg(test)]
mod tests;
