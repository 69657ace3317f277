//! One drive of a shard: the layer of the core, the volumes, and the requests in progress between
//! them.
//!
//! The shard calls [`ShardDrive::settle`] before it takes requests and [`ShardDrive::turn`]
//! afterwards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_config::units::ByteSize;
use weir_config::{DrivePlan, DriveRoom};
use weir_core::{
    Completion, Contract, Dispatch, Edit, Flags, GroupId, Instant, Op, Outcome, Output, QueueId,
    SpaceId, StreamId, Tag, Wake,
};
use weir_uring::{AnyRing, Ring};

use super::asked::RemotePiece;
use super::busy::{DispatchState, DriveCounters};
use super::front::QueuedRequest;
use super::model::ModelledDrive;
use super::seen::{JournalView, ShardLayer};
use super::volume::{DriveTenant, ShardVolume, StartedVolume};
use crate::backend::{Backend, BackendJob, Context, Data, Finished, News};
use crate::errno::EIO;
use crate::metrics::Detail;
use crate::metrics::figures::{DriveFigures, TenantFigures};
use crate::record::Tape;
use crate::slab::Slab;

/// The maximum number of times that the layer is polled in one turn, if pieces complete
/// immediately.
const ROUNDS: usize = 4;
/// The number of bytes of memory that backends may touch in one turn of a shard, which takes about
/// 100 us. Backends that complete pieces by copying count against it. Work that was deferred in
/// earlier turns has the same budget once more.
const TURN: u64 = 512 << 10;
/// The number of these bytes that one volume may touch before other volumes continue.
const VISIT: u64 = 128 << 10;

/// A drive with its volumes.
#[derive(Debug)]
pub(crate) struct ShardDrive {
    pub(crate) name: String,
    pub(crate) number: usize,
    pub(crate) layer: ShardLayer,
    /// The tape that the layer's recording is written to.
    pub(crate) tape: Option<Tape>,
    /// The plan that is in force, with the slots of volumes and tenants.
    pub(crate) plan: DrivePlan,
    /// The contracts of the plan, which contain the whole of each shared minimum.
    pub(super) whole: BTreeMap<GroupId, Contract>,
    /// The volumes by the number of their space.
    pub(crate) volumes: Vec<Option<ShardVolume>>,
    pub(crate) requests: Slab<QueuedRequest>,
    /// The open streams by their slot.
    pub(crate) streams: Vec<Option<OpenStream>>,
    /// The time of the next poll of the layer, and its reason.
    pub(crate) wake: Option<Wake>,
    model: Option<ModelledDrive>,
    /// Tenants that have volumes on this drive.
    pub(super) tenants: Vec<DriveTenant>,
    pub(super) counted: DriveCounters,
    /// The pieces in the drive by their tag.
    pub(super) flights: Vec<PieceInFlight>,
    pub(crate) finished: Vec<Finished>,
    completions: Vec<Completion>,
    /// True if the layer was called since it was last polled.
    pub(crate) touched: bool,
    /// An output vector that every turn uses again.
    out: Vec<Output>,
    news: News,
    /// The part of [`TURN`] that is left in this turn.
    budget: u64,
    /// Volumes with deferred work, in the order of their continuation.
    deferred: VecDeque<u32>,
    /// The space of the volume that is being flushed without the layer ([`Self::sync`]).
    syncing: Option<u32>,
    /// The earliest end of a part of a shared minimum.
    pub(super) lapses_at: Instant,
    /// True if mins or weights have changed and the shard's schedule has not been updated yet.
    pub(super) has_new_terms: bool,
    /// Spaces of volumes with a new min, and no other change, that the schedule does not know yet.
    pub(super) new_mins: Vec<u32>,
    /// True if the shard slept before this turn. Only then is the measured latency of returned
    /// pieces that of the drive, without a delay in the shard.
    pub(super) is_timely: bool,
    /// The time of the next check for remote servers that do not answer.
    pub(super) stalls_due: Instant,
}

/// An open stream with its client and space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenStream {
    pub(crate) client: u32,
    pub(crate) space: u32,
    pub(crate) stream: StreamId,
}

/// A piece that was dispatched to the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceInFlight {
    pub(super) piece: Dispatch,
    sent: DispatchState,
    /// The send time of the piece, if its volume is on a remote server that has not answered.
    pub(super) asked: Option<RemotePiece>,
}

/// A flush of a volume that does not belong to any client's request.
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

impl ShardDrive {
    pub(crate) fn new(
        name: String,
        number: usize,
        layer: ShardLayer,
        plan: DrivePlan,
        model: Option<ModelledDrive>,
        tape: Option<Tape>,
    ) -> Self {
        let config = layer.layer().config();
        let tags = config.tags() as usize;
        let streams = config.sizes.streams as usize;
        let none = PieceInFlight {
            piece: FLUSH,
            sent: DispatchState::default(),
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
            counted: DriveCounters::new(),
            // One flight more than the layer has tags is for the flush of a volume without the
            // layer.
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
            stalls_due: Instant::MAX,
            layer,
        }
    }

    /// Calls a volume's backend with a budget of memory to touch, and queues the volume if it
    /// defers work. Returns `None` if there is no volume in the space.
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
        // The backend has used this part of the budget of its visit.
        self.budget -= before - cx.budget;
        if cx.deferred && !std::mem::replace(&mut volume.deferred, true) {
            self.deferred.push_back(space);
        }
        Some(result)
    }

    /// Lets volumes with deferred work continue one after another, until this turn's budget is used
    /// up.
    fn resume_deferred(&mut self, ring: &mut AnyRing, now: Instant) {
        while self.budget > 0
            && let Some(space) = self.deferred.pop_front()
        {
            if let Some(volume) = &mut self.volumes[space as usize] {
                // The backend defers again if the budget of this visit is not enough.
                volume.deferred = false;
            }
            self.with_backend(ring, now, space, |backend, cx| backend.resume_deferred(cx));
        }
    }

    /// Replaces the plan that is in force.
    pub(super) fn set_plan(&mut self, plan: DrivePlan) {
        self.whole = whole(&plan);
        self.plan = plan;
    }

    /// Returns the spaces of the volumes that `which` selects.
    pub(super) fn spaces(&self, which: impl Fn(&ShardVolume) -> bool) -> Vec<u32> {
        let volumes = (0..).zip(&self.volumes);
        let picked = volumes.filter(|(_, volume)| volume.as_ref().is_some_and(&which));
        picked.map(|(space, _)| space).collect()
    }

    /// Adds a started volume in its space.
    pub(crate) fn add(&mut self, started: StartedVolume) {
        let StartedVolume { space, volume } = started;
        if let Some(model) = &mut self.model {
            model.place(space, volume.size);
        }
        self.volumes[space as usize] = Some(volume);
    }

    /// Changes the size of a volume. The caller has checked with [`Backend::size`] that the storage
    /// is that large.
    pub(crate) fn resize(&mut self, space: u32, size: u64) {
        let Some(volume) = self.volumes[space as usize].as_mut() else {
            return;
        };
        let (from, to) = (ByteSize(volume.size), ByteSize(size));
        tracing::info!(volume = %volume.name, %from, %to, "the volume has grown");
        volume.backend.resize(size);
        volume.size = size;
        if let Some(model) = &mut self.model {
            model.place(space, size);
        }
    }

    /// Removes all volumes that are marked as leaving.
    pub(crate) fn remove_leaving(&mut self) {
        for (space, slot) in (0..).zip(&mut self.volumes) {
            if slot.take_if(|v| v.leaving).is_some()
                && let Some(model) = &mut self.model
            {
                model.place(space, 0);
            }
        }
    }

    /// Lets backends process the messages that other threads have left for them.
    pub(crate) fn woken(&mut self, ring: &mut AnyRing, now: Instant) {
        for space in self.news.take() {
            self.with_backend(ring, now, space, |backend, cx| backend.woken(cx));
        }
    }

    /// Returns true if [`turn`](Self::turn) has something to do.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.touched
            || !self.finished.is_empty()
            || !self.completions.is_empty()
            || !self.deferred.is_empty()
            || self.next_due().is_some_and(|at| at <= now)
    }

    /// Resumes deferred work and reports completions to the layer, before new requests are
    /// submitted.
    pub(crate) fn settle(&mut self, ring: &mut AnyRing, now: Instant) {
        self.pass_seconds(now);
        self.budget = TURN;
        self.resume_deferred(ring, now);
        // The calls into backends later in this turn have a budget of their own.
        self.budget = TURN;
        self.touched |= self.complete(now);
    }

    /// Reports to the layer the pieces that backends have finished. Returns false if there were
    /// none.
    fn complete(&mut self, now: Instant) -> bool {
        self.reap(now);
        if self.completions.is_empty() {
            return false;
        }
        self.layer.complete(now, &self.completions);
        self.completions.clear();
        true
    }

    /// Flushes the volumes that `which` selects, one after another and without the layer. Returns
    /// true as soon as no volume has anything left to do. Failures are logged.
    pub(crate) fn sync(
        &mut self,
        ring: &mut AnyRing,
        now: Instant,
        which: impl Fn(&ShardVolume) -> bool,
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
            let job = BackendJob {
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

    /// Returns the tag for a flush without the layer, which is higher than all tags of the layer.
    fn sync_tag(&self) -> Tag {
        Tag(self.flights.len() as u32 - 1)
    }

    /// Reports completions to the layer, polls it, and passes the dispatched pieces to the
    /// backends. This is repeated until no piece completes immediately, but at most [`ROUNDS`]
    /// times, so that answers can leave. Notices for clients are appended to `notices`.
    pub(crate) fn turn(&mut self, ring: &mut AnyRing, now: Instant, notices: &mut Vec<Output>) {
        self.touched = false;
        self.run_model(ring, now);
        self.detect_stalls(now);
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

    /// Returns when this drive has something to do even if nothing happens before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let model = self.model.as_ref().and_then(ModelledDrive::next);
        let look = Some(self.stalls_due).filter(|&at| at < Instant::MAX);
        let all = [self.wake.map(|w| w.at), model, look];
        all.into_iter().flatten().min()
    }

    /// Passes to the backends those jobs that the modelled drive has completed.
    fn run_model(&mut self, ring: &mut AnyRing, now: Instant) {
        while let Some((space, job)) = self.model.as_mut().and_then(|m| m.pop(now)) {
            self.with_backend(ring, now, space, |backend, cx| backend.submit(job, cx));
        }
    }

    /// Passes a piece to its backend, or to the model in front of the backend.
    fn dispatch(&mut self, ring: &mut AnyRing, now: Instant, dispatch: &Dispatch) {
        let space = dispatch.space.0;
        let sent = self.counted.dispatched_at(now);
        self.flights[dispatch.tag.0 as usize] = PieceInFlight {
            piece: *dispatch,
            sent,
            asked: self.note_remote_piece(now, space),
        };
        let Some(volume) = &mut self.volumes[space as usize] else {
            return self.end(dispatch.tag, Some(Outcome::Error(EIO)));
        };
        // A later flush could succeed although the data of the failed one is lost, because the
        // kernel reports a failed writeback only once.
        // FUA promises durability for a single write, so the same rule applies to it.
        let syncs = dispatch.op == Op::Flush || dispatch.flags.has(Flags::FUA);
        if volume.sync_failed && syncs {
            return self.end(dispatch.tag, Some(Outcome::Error(EIO)));
        }
        match dispatch.op {
            // Before the flush completes, because writes that are dispatched during the flush
            // set it again.
            Op::Flush => volume.unsynced = false,
            Op::Read | Op::Extents => {}
            Op::Write | Op::Discard | Op::WriteZeroes => volume.unsynced = true,
        }
        let traits = volume.traits;
        let pending = &self.requests[dispatch.cookie as u32];
        let Some(data) = pending.payload.data(ring.arena(), dispatch, &traits) else {
            // Without an outcome the layer dispatches the piece again later, when there may be
            // memory.
            return self.end(dispatch.tag, None);
        };
        let length = match dispatch.op {
            // The layer has only the first sector of the range (`take::LOOK_UP`), but the backend
            // needs all of it.
            Op::Extents => pending.ask.length,
            _ => dispatch.length,
        };
        let job = BackendJob {
            tag: dispatch.tag,
            op: dispatch.op,
            flags: dispatch.flags,
            offset: dispatch.offset,
            length,
            data,
        };
        match &mut self.model {
            // A look-up of extents reads tables in memory, so the modelled drive spends no time on
            // it.
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

    /// Finishes a piece that no backend carries out. Without an outcome it counts as returned busy.
    fn end(&mut self, tag: Tag, outcome: Option<Outcome>) {
        self.finished.push(Finished {
            tag,
            outcome,
            data: Data::None,
        });
    }

    /// Processes the pieces that backends have finished: read data goes to the request, errors to
    /// the volume, and completions to the layer.
    fn reap(&mut self, now: Instant) {
        // The core has no piece with this tag.
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
            let PieceInFlight { piece, sent, .. } = self.flights[tag.0 as usize];
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
                    // Only a whole request that had the drive to itself, on a shard that was not
                    // busy, shows the latency that a promise can be compared with.
                    let whole = piece.length == pending.ask.length;
                    pending.alone = alone && whole && self.is_timely && op != Op::Extents;
                    pending.payload.store_result(piece.within, data);
                }
                debug_assert!(op != Op::Read || piece.length > 0);
            }
            self.completions.push(Completion { tag, outcome });
        }
        // The vector is still empty, because nothing in the loop calls a backend.
        self.finished = all;
    }

    /// Returns the slot of the client that has a stream.
    pub(crate) fn client(&self, stream: StreamId) -> Option<u32> {
        let open = self.streams.get(stream.slot() as usize)?.as_ref()?;
        Some(open.client)
    }

    /// Returns the figures of the drive and its volumes for the metrics.
    pub(crate) fn snapshot(&mut self, now: Instant, detail: Detail) -> DriveFigures {
        self.pass_seconds(now);
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
            // The metrics fill this in from the configuration.
            room: DriveRoom::default(),
            volumes,
            tenants: tenants.collect(),
        }
    }

    /// Returns the journal's view of a volume's requests, or `None` if the volume is not on this
    /// drive.
    pub(crate) fn view(&mut self, now: Instant, volume: &str) -> Option<JournalView> {
        self.pass_seconds(now);
        let mut volumes = self.volumes.iter().flatten();
        let group = volumes.find(|v| v.name == volume)?.group;
        let seen = self.layer.observer();
        Some(JournalView {
            view: seen.journal.view(now, self.layer.layer(), group)?,
            names: Arc::clone(&seen.names),
        })
    }

    /// Returns all open streams, each with its space.
    pub(super) fn open_streams(&self) -> Vec<(u32, StreamId)> {
        self.streams
            .iter()
            .flatten()
            .map(|open| (open.space, open.stream))
            .collect()
    }

    /// Returns true if the layer has no request and no piece of any client.
    pub(crate) fn is_idle(&self) -> bool {
        self.layer.layer().live() == 0 && self.layer.layer().in_flight() == 0
    }
}

/// Returns the contracts of all groups that a plan adds.
fn whole(plan: &DrivePlan) -> BTreeMap<GroupId, Contract> {
    let edits = plan.edits.iter();
    let added = edits.filter_map(|edit| match *edit {
        Edit::AddGroup { id, contract, .. } => Some((id, contract)),
        _ => None,
    });
    added.collect()
}

#[cfg(test)]
mod tests;
