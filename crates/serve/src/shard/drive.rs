//! One drive of a shard: the core's layer, the volumes, and what is under way between them.

use std::collections::VecDeque;

use weir_config::Plan;
use weir_core::record::Recorded;
use weir_core::{Completion, Dispatch, Flags, Instant, Op, Outcome, Output, Tag, Wake};
use weir_uring::{AnyRing, Buf, Ring, SharedBuf};
use weir_wire::nbd;

use super::count::{Counted, Gone, Tenant};
use super::memory;
use super::model::Model;
use super::slab::Slab;
use super::volume::{EIO, Piece, Started, Volume};
use crate::backend::{Backend, Context, Data, Extents, Finished, Job};
use crate::metrics::{DriveSnapshot, TenantSnapshot};
use crate::record::Tape;

/// How often the drive is filled in one turn if it empties at once.
const ROUNDS: usize = 4;
/// Bytes of memory that are touched in one turn of a shard by what backends carry out at once: about 100 us. As many again go to
/// what was put off in turns before.
const TURN: u64 = 512 << 10;
/// Bytes of it that one volume may touch before another's turn.
const VISIT: u64 = 128 << 10;

/// A drive with its volumes.
#[derive(Debug)]
pub(crate) struct Drive {
    pub(crate) name: String,
    pub(crate) number: usize,
    pub(crate) layer: Recorded,
    /// Where the layer's record goes.
    pub(crate) tape: Option<Tape>,
    /// The slots in force.
    pub(crate) plan: Plan,
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
    flights: Vec<Flight>,
    pub(crate) finished: Vec<Finished>,
    completions: Vec<Completion>,
    /// Something was told to the layer since it was asked what to do.
    pub(crate) touched: bool,
    /// Requests that are over, for their vectors.
    spare: Vec<Pending>,
    /// What is left of [`TURN`].
    left: u64,
    /// Volumes that have put something off, in the order of their turn.
    unfinished: VecDeque<u32>,
    /// The volume that is made durable past the layer, before it goes.
    syncing: Option<u32>,
}

/// An open stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Open {
    pub(crate) connection: u32,
    pub(crate) space: u32,
    pub(crate) stream: weir_core::StreamId,
}

/// A request that was taken from a client and is not over.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) connection: u32,
    pub(crate) request: nbd::Request,
    /// Bytes reserved for it.
    pub(crate) cost: u64,
    /// What a write carries.
    pub(crate) payload: Vec<SharedBuf>,
    /// What has been read: place in the request, bytes.
    pub(crate) parts: Vec<(u32, Buf)>,
    /// What a look-up has found.
    pub(crate) extents: Option<Extents>,
    /// It had the drive to itself, in one piece.
    pub(crate) alone: bool,
}

/// A piece in the drive.
#[derive(Clone, Copy, Debug)]
struct Flight {
    cookie: u64,
    space: u32,
    within: u32,
    op: Op,
    flags: Flags,
    offset: u64,
    length: u32,
    gone: Gone,
}

impl Flight {
    fn piece(&self) -> Piece {
        Piece {
            op: self.op,
            flags: self.flags,
            offset: self.offset,
            length: self.length,
        }
    }

    const NONE: Self = Self {
        cookie: 0,
        space: 0,
        within: 0,
        op: Op::Flush,
        flags: Flags::NONE,
        offset: 0,
        length: 0,
        gone: Gone::NONE,
    };
}

impl Drive {
    pub(crate) fn new(
        name: String,
        number: usize,
        layer: Recorded,
        plan: Plan,
        model: Option<Model>,
        tape: Option<Tape>,
    ) -> Self {
        let config = layer.layer().config();
        let tags = usize::from(config.drive.queues) * usize::from(config.drive.tags);
        let streams = config.limits.streams as usize;
        Self {
            name,
            number,
            plan,
            volumes: std::iter::repeat_with(|| None)
                .take(config.limits.spaces as usize)
                .collect(),
            requests: Slab::new(),
            streams: vec![None; streams],
            wake: None,
            model,
            tape,
            tenants: Vec::new(),
            counted: Counted::new(),
            // One more for the sync of a volume past the layer.
            flights: vec![Flight::NONE; tags + 1],
            finished: Vec::new(),
            completions: Vec::new(),
            touched: false,
            spare: Vec::new(),
            left: TURN,
            unfinished: VecDeque::new(),
            syncing: None,
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
            left: self.left.min(VISIT),
            unfinished: false,
        };
        let before = cx.left;
        let result = call(volume.backend.as_mut(), &mut cx);
        self.left -= before - cx.left;
        if cx.unfinished && !std::mem::replace(&mut volume.unfinished, true) {
            self.unfinished.push_back(space);
        }
        Some(result)
    }

    /// Lets the volumes that have put something off go on, one after the other, for one turn's worth.
    fn go_on(&mut self, ring: &mut AnyRing, now: Instant) {
        while self.left > 0
            && let Some(space) = self.unfinished.pop_front()
        {
            if let Some(volume) = &mut self.volumes[space as usize] {
                volume.unfinished = false;
            }
            self.with_backend(ring, now, space, |backend, cx| backend.go_on(cx));
        }
    }

    /// Adds a volume.
    pub(crate) fn add(&mut self, started: Started) {
        let Started {
            space,
            size,
            volume,
        } = started;
        if let Some(model) = &mut self.model {
            model.place(space, size);
        }
        self.volumes[space as usize] = Some(volume);
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

    /// Takes a request in; `bufs` are what a write carries, and are empty afterwards.
    pub(crate) fn take_in(
        &mut self,
        connection: u32,
        request: nbd::Request,
        cost: u64,
        bufs: &mut Vec<Buf>,
    ) -> u32 {
        let spare = self.spare.pop();
        let (mut payload, parts) = spare.map_or_else(Default::default, |p| (p.payload, p.parts));
        payload.extend(bufs.drain(..).map(Buf::into_shared));
        self.requests.insert(Pending {
            connection,
            request,
            cost,
            payload,
            parts,
            extents: None,
            alone: false,
        })
    }

    /// Gives the memory of a request back.
    pub(crate) fn recycle(&mut self, mut pending: Pending) {
        pending.payload.clear();
        pending.parts.clear();
        pending.extents = None;
        self.spare.push(pending);
    }

    /// Lets every backend look at what another thread has for it.
    pub(crate) fn woken(&mut self, ring: &mut AnyRing, now: Instant) {
        for space in 0..self.volumes.len() as u32 {
            self.with_backend(ring, now, space, |backend, cx| backend.woken(cx));
        }
    }

    /// Whether [`turn`](Self::turn) has anything to do.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.touched
            || !self.finished.is_empty()
            || !self.completions.is_empty()
            || !self.unfinished.is_empty()
            || self.next_due().is_some_and(|at| at <= now)
    }

    /// Goes on with what was put off and tells the layer what has ended, before anything new is submitted.
    pub(crate) fn settle(&mut self, ring: &mut AnyRing, now: Instant) {
        self.pass(now);
        self.left = TURN;
        self.go_on(ring, now);
        self.left = TURN;
        self.land(now);
        if !self.completions.is_empty() {
            self.layer.complete(now, &self.completions);
            self.completions.clear();
            self.touched = true;
        }
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
            self.land(now);
            if self.syncing.is_some() {
                return false;
            }
            let next = self.volumes.iter_mut().position(|volume| {
                let volume = volume.as_mut().filter(|v| which(v) && !v.sync_failed);
                volume.is_some_and(|v| std::mem::take(&mut v.unsynced))
            });
            let Some(space) = next.map(|n| n as u32) else {
                return true;
            };
            self.syncing = Some(space);
            let job = Job {
                tag: self.sync_tag(),
                stream: weir_core::StreamId::from_bits(0),
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
    /// at once any more, or for [`ROUNDS`] rounds: answers have to leave at some time. What is to be told to connections is appended to `told`.
    pub(crate) fn turn(
        &mut self,
        ring: &mut AnyRing,
        now: Instant,
        out: &mut Vec<Output>,
        told: &mut Vec<Output>,
    ) {
        self.touched = false;
        self.due(ring, now);
        for _ in 0..ROUNDS {
            self.land(now);
            if !self.completions.is_empty() {
                self.layer.complete(now, &self.completions);
                self.completions.clear();
            }
            out.clear();
            self.wake = self.layer.poll(now, out);
            for output in out.drain(..) {
                match output {
                    Output::Dispatch(dispatch) => self.dispatch(ring, now, &dispatch),
                    output => told.push(output),
                }
            }
            if self.finished.is_empty() {
                return;
            }
        }
    }

    /// When this drive has something to do if nothing happens before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let model = self.model.as_ref().and_then(Model::next);
        [self.wake.map(|w| w.at), model].into_iter().flatten().min()
    }

    /// Carries out what the modelled drive has ended.
    fn due(&mut self, ring: &mut AnyRing, now: Instant) {
        while let Some((space, job)) = self.model.as_mut().and_then(|m| m.pop(now)) {
            self.with_backend(ring, now, space, |backend, cx| backend.submit(job, cx));
        }
    }

    /// Hands a piece to its backend, or to the model in front of it.
    fn dispatch(&mut self, ring: &mut AnyRing, now: Instant, dispatch: &Dispatch) {
        let space = dispatch.space.0;
        let gone = self.counted.goes(now);
        self.flights[dispatch.tag.0 as usize] = Flight {
            cookie: dispatch.cookie,
            space,
            within: dispatch.within,
            op: dispatch.op,
            flags: dispatch.flags,
            offset: dispatch.offset,
            length: dispatch.length,
            gone,
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
        let align = volume.traits.align;
        let Some(data) = self.data(ring, dispatch, align) else {
            return self.end(dispatch.tag, None);
        };
        let length = match dispatch.op {
            // The core was given the first sector of the range.
            Op::Extents => self.requests[dispatch.cookie as u32].request.length,
            _ => dispatch.length,
        };
        let job = Job {
            tag: dispatch.tag,
            stream: dispatch.stream,
            op: dispatch.op,
            flags: dispatch.flags,
            offset: dispatch.offset,
            length,
            data,
        };
        match &mut self.model {
            // What is allocated is looked up in memory, whatever the drive does.
            Some(model) if job.op != Op::Extents => {
                if let Err(job) = model.submit(now, dispatch, job) {
                    self.finished.push(Finished {
                        tag: job.tag,
                        outcome: None,
                        data: Data::None,
                    });
                }
            }
            _ => {
                self.with_backend(ring, now, space, |backend, cx| backend.submit(job, cx));
            }
        }
    }

    /// The memory of a piece; `None` if there is none just now.
    fn data(&self, ring: &AnyRing, dispatch: &Dispatch, align: u32) -> Option<Data> {
        match dispatch.op {
            Op::Read => memory::for_read(ring.arena(), dispatch.offset, dispatch.length, align),
            Op::Write => {
                let pending = &self.requests[dispatch.cookie as u32];
                Some(memory::for_write(
                    &pending.payload,
                    dispatch.within,
                    dispatch.length,
                ))
            }
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => Some(Data::None),
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
    fn land(&mut self, now: Instant) {
        let sync_tag = self.sync_tag();
        let mut all = std::mem::take(&mut self.finished);
        for finished in all.drain(..) {
            let Finished { tag, outcome, data } = finished;
            if tag == sync_tag {
                let space = self.syncing.take().unwrap_or_default();
                if let (Some(Outcome::Error(errno)), Some(volume)) =
                    (outcome, self.volumes[space as usize].as_mut())
                {
                    volume.failed(Piece::FLUSH, errno);
                }
                continue;
            }
            let flight = self.flights[tag.0 as usize];
            if let (Some(Outcome::Error(errno)), Some(volume)) =
                (outcome, self.volumes[flight.space as usize].as_mut())
            {
                volume.failed(flight.piece(), errno);
            }
            let alone = self.counted.is_back(now, flight.gone);
            if outcome == Some(Outcome::Ok) {
                self.count_piece(now, flight.space, flight.op, flight.length);
                if let Some(pending) = self.requests.get_mut(flight.cookie as u32) {
                    let whole = flight.length == pending.request.length;
                    pending.alone = alone && whole && flight.op != Op::Extents;
                    pending.keep(flight.within, data);
                }
            }
            debug_assert!(
                outcome != Some(Outcome::Ok) || flight.op != Op::Read || flight.length > 0
            );
            self.completions.push(Completion { tag, outcome });
        }
        // Nothing has finished meanwhile.
        self.finished = all;
    }

    /// The connection of a stream.
    pub(crate) fn connection(&self, stream: weir_core::StreamId) -> Option<u32> {
        let open = self.streams.get(stream.slot() as usize)?.as_ref()?;
        Some(open.connection)
    }

    /// How things stand, for the metrics.
    pub(crate) fn snapshot(&mut self, now: Instant) -> DriveSnapshot {
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
        let volumes = volumes.filter_map(|(volume, gauge)| Some(volume.as_ref()?.snapshot(gauge)));
        let volumes = volumes.collect();
        let tenants = self.tenants.iter().map(|tenant| TenantSnapshot {
            name: tenant.name.clone(),
            rate: tenant.promise.rate(),
            seconds: *tenant.promise.seconds(),
        });
        DriveSnapshot {
            name: self.name.clone(),
            live: self.layer.layer().live(),
            in_flight: self.layer.layer().in_flight(),
            counters: self.layer.layer().counters(),
            served_ns: now.as_nanos(),
            busy_ns: self.busy_ns(now),
            volumes,
            tenants: tenants.collect(),
        }
    }

    /// The streams of connections, each with its space.
    pub(super) fn open_streams(&self) -> Vec<(u32, weir_core::StreamId)> {
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

impl Pending {
    /// Keeps what was read for `within`.
    fn keep(&mut self, mut within: u32, data: Data) {
        match data {
            Data::Read(buf) => self.parts.push((within, buf)),
            Data::ReadMany(bufs) => {
                for buf in bufs {
                    let length = buf.len() as u32;
                    self.parts.push((within, buf));
                    within += length;
                }
            }
            Data::Extents(extents) => self.extents = Some(extents),
            Data::None | Data::Write(_) | Data::WriteMany(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
