//! The elevator `contract`: keeps min, share and class of contracts, at each level of the tree of
//! tenants.
//!
//! The main type is `Contracts`. It answers three questions for each piece that the drive could
//! accept:
//!
//! 1. *Which stream is next?* A realtime client that has a queued request is served first. The next
//!    candidate is the most urgent reservation among those that are behind their promise
//!    (`promised`). If there is none, the stream whose turn it is by share is served (`share`). On
//!    a drive with expensive seeks, a sequential stream keeps the drive for a while (`turn`). The
//!    order is in `choice`.
//! 2. *How much may be in flight?* At most the work that keeps the drive busy (`learned::window`).
//!    In addition, other clients may have only as much in flight as the drive completes before it
//!    must begin with a promised client's next request (`promised::room`).
//! 3. *How large is a piece?* Small enough that several pieces fit under the second limit, so that
//!    the drive does not run empty, and not so small that the drive loses throughput (`offer`).
//!
//! The elevator learns from the drive everything that it assumes about it: the cost of a piece by
//! kind, size and place (`learned::cost`), the delay of a single piece (`learned::window`), and the
//! work that the drive hides (`learned::afterwork`). Only the first costs follow from the stated
//! capacity.
//!
//! The drive is left idle on purpose in three cases only:
//!
//! - for a promised client that is behind and about to send a request,
//! - on a seek-bound drive, for a stream that continues sequentially or has received less than its
//!   share,
//! - on another drive, for a client that has received less than its share, as far as `sacrifice`
//!   permits (`restraint`).
//!
//! The rules that differ between kinds of drives are in `kind`, and all numbers that decisions
//! depend on are in `constants`. `docs/contract.md` explains all rules to users.

mod choice;
mod config;
mod constants;
#[cfg(debug_assertions)]
mod invariants;
mod kind;
mod learned;
mod offer;
mod promised;
mod restraint;
mod share;
mod turn;
mod unit;

pub use config::{Config, Excess};
pub use constants::{CONSTANTS, Constant};

use super::{DispatchDecision, Schedule};
use crate::contract::Class;
use crate::cx::Cx;
use crate::flush::Flushes;
use crate::list::{Links, List, NIL};
use crate::sample::{Sample, SampleMask, Take};
use crate::table::{Live, Piece, Table};
use crate::time::mul_div_ceil;
use crate::wake::{Reason, Wake};
use crate::{GroupId, Instant, Op, Request, Span, StreamId, Tag};
use alloc::vec;
use alloc::vec::Vec;
use constants::{GRAIN, HIDDEN_FAR_PART};
use core::ops::Range;
use learned::afterwork::HiddenWork;
use learned::cost::{self, DriveCostModel, Locality};
use learned::window::Window;
use offer::Offer;
use promised::dirty::DirtyLimit;
use promised::flush::FlushPace;
use promised::{CompletedPiece, Reservations, is_outstanding};
use restraint::Restraint;
use share::Shares;
use turn::DriveTurn;
use unit::{Bytes, Cost, ShareCharge, ShareEntity};

/// The pieces of one request that are in the drive.
#[derive(Clone, Copy, Debug, Default)]
struct DispatchedWork {
    /// Modelled cost of these pieces.
    cost: Cost,
    /// Modelled cost of the pieces outside of the group's nearest reservation that were in the
    /// drive when the last piece was dispatched.
    cost_ahead: Cost,
    place: Locality,
    /// True if the request writes data on which the drive may still work after the completion.
    lingers: bool,
    /// The cost that the dispatched part of the request would have if the request had been sent
    /// whole.
    work: Cost,
    /// The value of [`Contracts::changes`] when the first piece was dispatched. `None` if other
    /// groups had work in the drive when any piece was dispatched.
    alone: Option<u32>,
}

impl DispatchedWork {
    /// Returns the state before the next piece of a request. Its slot may still have the values of
    /// an earlier request, or of pieces that have left the drive.
    #[inline]
    fn renewed(mut self, live: &Live, changes: u32, lingers: bool) -> Self {
        if live.issued == 0 {
            (self.work, self.alone) = (Cost::ZERO, Some(changes));
        }
        if live.pieces == 0 {
            (self.cost, self.lingers) = (Cost::ZERO, lingers);
        }
        self
    }
}

/// The state of the elevator for one drive.
#[derive(Debug)]
pub(super) struct Contracts {
    config: Config,
    model: DriveCostModel,
    window: Window,
    afterwork: HiddenWork,
    dirty: DirtyLimit,
    turn: DriveTurn,
    shares: Shares,
    restraint: Restraint,
    reservations: Reservations,
    pace: FlushPace,
    /// The queued requests of each stream, in the order of arrival.
    queues: Vec<List>,
    links: Links,
    /// The state of each request with pieces in the drive, by slot.
    sent: Vec<DispatchedWork>,
    /// Number of requests in all queues.
    queued: u32,
    /// Modelled cost of everything in flight.
    flight: Cost,
    /// Modelled cost of those writes in flight that may complete before the drive has done their
    /// work.
    writes: Cost,
    /// The group whose piece was dispatched last.
    sender: GroupId,
    /// Number of times that `sender` has changed. The number wraps. A request was alone in the
    /// drive if the number is the same at its first dispatch and at its completion.
    changes: u32,
    /// Streams with writes that wait for the next flush to begin (`promised::dirty`). They take no
    /// part in the shares until then.
    parked: Vec<u32>,
    /// True for each stream in `parked`, by slot.
    is_parked: Vec<bool>,
    /// The reservation that holds the drive, or [`NIL`].
    served: u32,
    /// The value of this reservation's clock at which it gives the drive to others.
    goal: Instant,
    /// The time at which a reservation was first considered for a piece.
    began: Option<Instant>,
    /// The time since which a promise has held back the pieces that are chosen by share. `None` if
    /// none is held back.
    held: Option<Instant>,
    /// The stream for whose next request the drive is kept idle.
    awaited: Option<u32>,
    /// The same stream under the id that the driver knows, as of the last choice.
    idles: Option<StreamId>,
    /// The limit that was published last: the reservation that causes it, and the time that it
    /// leaves to others.
    published: (u32, Span),
}

impl Contracts {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let (groups, streams) = (table.groups.capacity(), table.streams.capacity());
        // A server across a network gets faster with more in flight, so restraint would only cost
        // throughput there.
        let sacrifice = if config.is_remote() {
            0
        } else {
            config.sacrifice
        };
        Self {
            config: *config,
            model: DriveCostModel::new(table.capacity(), config.is_remote()),
            window: Window::new(config.remote),
            afterwork: HiddenWork::default(),
            dirty: DirtyLimit::new(),
            turn: DriveTurn::new(streams),
            shares: Shares::new(groups, streams, config.idle_class_timeout),
            restraint: Restraint::new(sacrifice),
            reservations: Reservations::new(groups, config.catch_up, config.forget),
            pace: FlushPace::new(streams),
            queues: vec![List::EMPTY; streams as usize],
            links: Links::new(table.requests.capacity()),
            sent: vec![DispatchedWork::default(); table.requests.capacity() as usize],
            queued: 0,
            flight: Cost::ZERO,
            writes: Cost::ZERO,
            sender: GroupId(0),
            changes: 0,
            parked: Vec::with_capacity(streams as usize),
            is_parked: vec![false; streams as usize],
            served: NIL,
            goal: Instant::ZERO,
            began: None,
            held: None,
            awaited: None,
            idles: None,
            published: (NIL, Span::ZERO),
        }
    }

    /// Accounts for a piece that is dispatched.
    fn take(&mut self, now: Instant, offer: Offer, table: &Table) {
        let live = &table.requests[offer.request];
        let (request, group) = (&live.request, live.group);
        debug_assert!(offer.bytes > 0 && offer.bytes <= live.request.length - live.issued);
        let last = offer.bytes == live.request.length - live.issued;
        debug_assert!(
            self.writes <= self.flight,
            "more is written than is in flight"
        );
        // The drive was idle until now. The model must not count that time as time for pieces.
        if self.flight == Cost::ZERO {
            self.model.begin_busy(now);
        }
        self.window.observe_dispatch(self.flight);
        let end = request.offset + u64::from(live.issued) + u64::from(offer.bytes);
        self.turn
            .observe_dispatch(now, offer.stream, request.space, end, offer.place);
        let work = self.work_of(offer, request);
        // A write with FUA is on stable storage when it completes, so it leaves nothing. Only on a
        // drive that may seek, every write is assumed to leave work (`DriveKind::may_seek`).
        let lingers =
            !request.op.is_read() && (request.may_be_cached() || self.model.kind().may_seek);
        if self.sender != group {
            (self.sender, self.changes) = (group, self.changes.wrapping_add(1));
        }
        // Without a promise for the group or above it, the promises have nothing to account for.
        let promised = self.reservations.is_promised(group);
        // The group's own work must not include this piece yet: both sums are of the time before
        // the dispatch.
        let others = (self.shares.presence(group)).observe_dispatch(offer.cost, self.flight);
        let cost_ahead = if promised {
            self.reservations.cost_of_others(group, self.flight)
        } else {
            self.flight
        };
        let sent = &mut self.sent[offer.request as usize];
        let old = sent.renewed(live, self.changes, lingers);
        *sent = DispatchedWork {
            cost: old.cost + offer.cost,
            cost_ahead,
            place: offer.place,
            lingers: old.lingers,
            work: old.work + work,
            alone: old.alone.filter(|_| others == Cost::ZERO),
        };
        self.flight += offer.cost;
        if old.lingers {
            self.take_write(now, offer);
        }
        let queue = &mut self.queues[offer.stream as usize];
        if last {
            self.queued -= 1;
            let first = self.links.pop_front(queue);
            debug_assert_eq!(first, Some(offer.request));
        }
        let is_done = queue.is_empty();
        if promised {
            let bytes = Bytes(request.op.charge(offer.bytes.into()));
            let costly = last && self.is_costly(offer, request, group);
            self.reservations
                .observe_dispatch(now, group, bytes, offer.cost, last, costly);
        }
        let entity = self.shares.of_stream(offer.stream);
        let charge = self.charge_of(work, offer, request);
        self.shares.charge(now, entity, charge, offer.top);
        if is_done {
            self.shares.deactivate(entity, !self.model.kind().may_seek);
        }
        if promised {
            let shares = &self.shares;
            self.reservations
                .update_waiting(group, |g| shares.is_active(ShareEntity(g)));
        }
    }

    /// Accounts for a dispatched piece that may leave work to the drive after its completion.
    fn take_write(&mut self, now: Instant, offer: Offer) {
        self.writes += offer.cost;
        self.afterwork
            .observe_write(now, self.afterwork_cost(offer));
        self.pace.observe_write(offer.stream, offer.cost);
        self.dirty.observe_write(offer.cost);
    }

    /// Returns the cost of the work that a written piece may leave to the drive after its
    /// completion. A far write on a seek-bound drive leaves at least a part of a seek, because the
    /// drive must move its head to write out its cache, although in a better order.
    fn afterwork_cost(&self, offer: Offer) -> Cost {
        if offer.place == Locality::Near || !self.model.kind().seeks {
            return offer.cost;
        }
        let read = (self.model).cost(Op::Read, Locality::Far, u64::from(offer.bytes));
        offer.cost.max(read / HIDDEN_FAR_PART)
    }

    /// Returns true if a piece ends a request that costs more than a request of 4 KiB, and whose
    /// group has a promise in requests. Admission does not account for the cost beyond that.
    fn is_costly(&self, offer: Offer, request: &Request, group: GroupId) -> bool {
        // Where far pieces may cost a seek, the cost of a request says little about its length
        // (`DriveKind::may_seek`).
        if u64::from(request.length) <= GRAIN
            || self.model.kind().may_seek
            || !self.reservations.promises_requests(group)
        {
            return false;
        }
        let cost = |place, bytes| self.model.cost(request.op, place, bytes);
        cost(offer.place, u64::from(request.length)) > cost(Locality::Far, GRAIN)
    }

    /// Converts a cost into the unit of shares.
    fn in_charge(&self, cost: Cost) -> ShareCharge {
        ShareCharge(match self.config.excess {
            Excess::Time => cost.as_nanos(),
            Excess::Bytes => self.model.bytes_in(Op::Read, cost),
        })
    }

    /// Returns the charge for a piece in the unit of shares. It does not depend on the number of
    /// pieces into which the request is cut.
    fn charge_of(&self, work: Cost, offer: Offer, request: &Request) -> ShareCharge {
        ShareCharge(match self.config.excess {
            Excess::Time => work.as_nanos(),
            Excess::Bytes => request.charge().min(offer.bytes.into()),
        })
    }

    /// Returns the part of the uncut request's cost that a piece accounts for.
    fn work_of(&self, offer: Offer, request: &Request) -> Cost {
        if offer.bytes == request.length {
            return offer.cost;
        }
        let whole = self
            .model
            .cost(request.op, offer.place, u64::from(request.length));
        let (bytes, all) = (offer.bytes.into(), request.length.into());
        Cost::from_nanos(mul_div_ceil(whole.as_nanos(), bytes, all))
    }
}

impl Schedule for Contracts {
    fn open(&mut self, cx: &mut Cx, stream: u32) {
        let group = cx.table.streams[stream].spec.group;
        let entity = self.shares.of_stream(stream);
        // Streams of one group are alike, so each has a weight of one. A stream is never of the
        // idle class itself, so no timeout begins at this time.
        self.shares.set(Instant::ZERO, entity, group.0, 1, false);
        self.turn.open(stream);
        self.pace.open(stream);
    }

    fn close(&mut self, _cx: &mut Cx, stream: u32) {
        let entity = self.shares.of_stream(stream);
        self.shares.forget(entity);
        self.turn.close(stream);
    }

    fn set_group(&mut self, cx: &mut Cx, id: GroupId) {
        let group = cx.table.groups.get(id).expect("the group exists");
        let idle = group.contract.class == Class::Idle;
        self.shares.set(
            cx.now,
            ShareEntity(id.0),
            group.parent.0,
            u32::from(group.contract.share),
            idle,
        );
    }

    fn remove_group(&mut self, _cx: &mut Cx, id: GroupId) {
        self.shares.forget(ShareEntity(id.0));
        if self.served == id.0 {
            self.served = NIL;
        }
    }

    fn set_capacity(&mut self, cx: &mut Cx) {
        self.model = DriveCostModel::new(cx.table.capacity(), self.config.is_remote());
    }

    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let (now, table) = (cx.now, &cx.table);
        let live = &table.requests[request];
        let stream = live.request.stream.slot();
        let queue = &mut self.queues[stream as usize];
        let first = queue.is_empty();
        self.links.push_back(queue, request);
        self.queued += 1;
        self.turn.observe_request(now, stream);
        let resumes = self.shares.presence(live.group).observe_request(now);
        if first {
            let entity = self.shares.of_stream(stream);
            self.shares.activate(now, entity, resumes);
            self.awaited = None;
        }
        self.reservations
            .observe_arrival(now, live.group, table.left(request).into());
    }

    fn remove(&mut self, cx: &mut Cx, request: u32) {
        let (now, table) = (cx.now, &cx.table);
        let live = &table.requests[request];
        let stream = live.request.stream.slot();
        self.links
            .remove(&mut self.queues[stream as usize], request);
        self.queued -= 1;
        self.turn.observe_answer(now, stream);
        (self.shares.presence(live.group).arrivals).observe_answer(now);
        if self.queues[stream as usize].is_empty() {
            let entity = self.shares.of_stream(stream);
            self.shares.deactivate(entity, false);
        }
        self.reservations
            .observe_removal(now, live.group, table.left(request).into());
        let shares = &self.shares;
        self.reservations
            .update_waiting(live.group, |g| shares.is_active(ShareEntity(g)));
    }

    fn next(&mut self, cx: &mut Cx) -> DispatchDecision {
        let (now, table) = (cx.now, &cx.table);
        self.idles = None;
        if self.queued == 0 {
            return DispatchDecision::Nothing;
        }
        match self.choose(now, table, &mut cx.events) {
            Ok(offer) => {
                self.take(now, offer, table);
                DispatchDecision::Take {
                    request: offer.request,
                    bytes: offer.bytes,
                }
            }
            Err(Some(at)) => {
                self.idles = self.awaited.map(|stream| table.stream_id(stream));
                DispatchDecision::Wait(Wake {
                    at,
                    reason: Reason::Idling,
                })
            }
            // The next completion or request leads to another choice.
            Err(None) => DispatchDecision::Nothing,
        }
    }

    fn hold_flush(&mut self, cx: &mut Cx, flushes: &Flushes) -> Option<Wake> {
        let (now, table) = (cx.now, &cx.table);
        let asks = |group| {
            let mut groups = flushes.iter().map(|f| table.requests[f].group);
            groups.any(|g| self.reservations.is_within(g, group))
        };
        // A client that syncs goes before other clients that are less far behind. The rest between
        // two flushes keeps it from sending flush after flush.
        let behind = if self.pace.has_rested(now) {
            let lags = flushes
                .iter()
                .map(|f| self.reservations.most_lag(now, table.requests[f].group));
            lags.max().unwrap_or(Span::ZERO)
        } else {
            Span::ZERO
        };
        // Most drives do little else while a flush runs, so a flush can break a promise. On a
        // server across a network a flush delays only its own volume.
        let free = !self.config.bound_in_flight || self.model.kind().varies;
        let late = self.pace.time().filter(|_| !free).and_then(|time| {
            self.reservations
                .late_by_flush(now, time, self.pace.running(), behind, asks)
        });
        let at = late.and_then(|late| self.pace.hold_until(now, late));
        if at.is_none() {
            // The sums of written data begin with the first of several overlapping flushes.
            if self.pace.running() == 0 {
                self.afterwork.on_flush_begin();
                self.dirty.on_flush_begin();
            }
            self.spoil_round_for_flush();
            self.pace.observe_begin();
            for flush in flushes.iter() {
                let group = table.requests[flush].group;
                self.reservations.observe_flush_begin(now, group);
            }
        }
        at.map(|at| Wake {
            at,
            reason: Reason::Flush,
        })
    }

    fn complete(&mut self, cx: &mut Cx, tag: Tag) {
        let (now, table) = (cx.now, &cx.table);
        let piece = table.pieces.last(tag);
        let live = &table.requests[piece.request];
        let stream = live.request.stream.slot();
        if piece.op == Op::Flush {
            self.complete_flush(now, live, piece.dispatched);
            return;
        }
        // The round and the window need the work in flight including this piece, so this is read
        // before the piece leaves.
        let flight = self.flight;
        let (sent, cost, last) = self.leave_drive(piece, live);
        let bytes = Bytes::from(piece.length);
        let time = now.since(piece.dispatched);
        let round = (self.model).observe_completion(now, piece.op, sent.place, bytes, time, flight);
        (self.window).observe_completion(now, piece, sent.place, cost, flight, &self.model);
        if self.restraint.is_measuring() {
            // Every completed piece counts in proportion to its bytes, because only the sum over
            // the request is stored.
            let (part, gone) = (piece.length.into(), live.issued.into());
            let work = mul_div_ceil(sent.work.as_nanos(), part, gone);
            (self.restraint).observe_completion(now, Cost::from_nanos(work));
        }
        if self.reservations.is_promised(live.group) {
            self.complete_promised(now, piece, live, &sent, (cost, last));
        }
        if last {
            self.turn.observe_answer(now, stream);
            // A flush keeps the drive from the request like work of another client.
            let alone =
                sent.alone == Some(self.changes) && !self.pace.has_run_since(live.dispatched);
            (self.shares.presence(live.group)).observe_answer(now, live, alone);
        }
        if let Some(round) = round {
            self.learn(now, round, table.shape.all_tags());
        }
    }

    /// Removes a piece that stalls. Nothing is learned from its latency, nor from the time for
    /// which it was in the drive.
    fn stall(&mut self, cx: &mut Cx, tag: Tag) {
        let (now, table) = (cx.now, &cx.table);
        let piece = table.pieces.last(tag);
        let live = &table.requests[piece.request];
        let stream = live.request.stream.slot();
        self.model.spoil_round();
        self.restraint.spoil_round();
        if piece.op == Op::Flush {
            self.pace.observe_stall(now);
            self.reservations.observe_flush_end(now, live.group);
            if self.pace.running() == 0 {
                self.reservations.forget_flushes();
            }
            return;
        }
        let (_, cost, last) = self.leave_drive(piece, live);
        if last {
            (self.shares.presence(live.group).arrivals).observe_answer(now);
            self.turn.observe_answer(now, stream);
        }
        let bytes = Bytes::from(piece.length);
        self.reservations
            .observe_stall(now, live.group, (piece.op, bytes), cost, last);
    }

    /// Applies a change of contracts or of the tree: recounts the outstanding requests and the work
    /// in flight of these groups.
    fn settle(&mut self, cx: &mut Cx, slots: Range<u32>) {
        let (now, table) = (cx.now, &cx.table);
        // A stream that is parked until a flush begins may belong to a promised group now.
        self.unpark(now);
        let reservations = &mut self.reservations;
        reservations.set_contracts(now, &table.groups, slots.clone());
        let sent = &self.sent;
        let outstanding = slots.clone().map(|slot| {
            let presence = self.shares.presence(GroupId(slot));
            presence.arrivals.outstanding() as usize
        });
        let outstanding = outstanding.sum();
        let requests = table
            .requests
            .iter()
            .filter(|(_, live)| slots.contains(&live.group.0) && is_outstanding(live))
            // The number is known, so that the search through the table ends as soon as all of them
            // are found.
            .take(outstanding);
        let requests = requests.map(|(slot, live)| (live.group, table.left(slot).into()));
        let pieces = table.pieces.iter().filter(|(_, p)| p.op != Op::Flush);
        let pieces = pieces.map(|(_, p)| {
            let live = &table.requests[p.request];
            // An equal part for each piece, as in `leave_drive`.
            let cost = sent[p.request as usize].cost / u64::from(live.pieces.max(1));
            (live.group, cost, p.op, p.length.into())
        });
        reservations.recount(&slots, requests, pieces);
        let shares = &self.shares;
        reservations.restart_waiting(slots, |g| shares.is_active(ShareEntity(g)));
    }

    #[cfg(debug_assertions)]
    fn invariants(&self, cx: &Cx, queued: u32, sums: &mut [u64]) {
        self.check(cx, queued, sums);
    }

    fn sample(&self, cx: &Cx, wanted: SampleMask, take: &mut Take<'_>) {
        if let Some(stream) = self.idles
            && wanted.has(SampleMask::SERVICE)
            && !cx.table.pieces.is_full()
        {
            take(Sample::Idling { stream });
        }
        if wanted.has(SampleMask::DRIVE) {
            let cost =
                |op| Span::from_nanos(self.model.cost(op, Locality::Far, 64 << 10).as_nanos());
            take(Sample::Drive {
                read: cost(Op::Read),
                write: cost(Op::Write),
                away: Span::from_nanos(self.model.seek_cost().as_nanos()),
                delay: self.window.delay(),
                hidden: Span::from_nanos(self.afterwork.remaining(cx.now, self.writes).as_nanos()),
            });
        }
    }
}

impl Contracts {
    /// Accounts for a piece of a promised client that completed. `cost` is the cost of the piece,
    /// and `last` is true if it was the last piece of its request.
    // Not inlined, because a drive without promises never gets here.
    #[inline(never)]
    fn complete_promised(
        &mut self,
        now: Instant,
        piece: &Piece,
        live: &Live,
        sent: &DispatchedWork,
        (cost, last): (Cost, bool),
    ) {
        let (kind, window) = (self.model.kind(), &self.window);
        let usual = || {
            // Where far pieces may cost a seek, the shortest time of any piece is no measure for
            // this one.
            if kind.may_seek {
                Span::ZERO
            } else {
                window.least(piece.op).max(cost.time())
            }
        };
        let drive = CompletedPiece {
            op: piece.op,
            time: now.since(piece.dispatched),
            usual: &usual,
            cost_ahead: sent.cost_ahead,
            kind,
        };
        let bytes = Bytes::from(piece.length);
        let hides =
            (self.reservations).observe_completion(now, live.group, bytes, cost, last, drive);
        // A flush explains the delay, so the request does not reveal hidden work.
        if hides && !kind.varies && !self.pace.has_run_since(piece.dispatched) {
            self.afterwork.observe_hidden_work(now);
        }
    }

    /// Removes a piece from the work in flight. Returns the state of its request before the
    /// removal, the piece's cost, and true if the piece was the last one of its request.
    #[expect(clippy::inline_always, reason = "once for each piece")]
    #[inline(always)]
    fn leave_drive(&mut self, piece: &Piece, live: &Live) -> (DispatchedWork, Cost, bool) {
        let sent = &mut self.sent[piece.request as usize];
        // The cost of each single piece is not stored. An equal part for each remaining piece makes
        // the sum zero with the last one.
        let cost = if live.pieces > 1 {
            sent.cost / u64::from(live.pieces)
        } else {
            sent.cost
        };
        sent.cost -= cost;
        let sent = *sent;
        self.flight = self.flight.saturating_sub(cost);
        self.shares.presence(live.group).observe_completion(cost);
        if sent.lingers {
            self.writes = self.writes.saturating_sub(cost);
        }
        let last = live.pieces == 1 && live.issued == live.request.length;
        (sent, cost, last)
    }

    /// Discards the current round of learning while a flush runs, because a local drive does little
    /// else during that time.
    fn spoil_round_for_flush(&mut self) {
        if !self.model.kind().varies {
            self.model.spoil_round();
        }
    }

    /// Accounts for a flush that was dispatched at `dispatched` and has completed.
    fn complete_flush(&mut self, now: Instant, live: &Live, dispatched: Instant) {
        let stream = live.request.stream.slot();
        // The cost of a flush is known only after its completion: it is the time that the flush
        // took.
        let entity = self.shares.of_stream(stream);
        let time = self.pace.observe_end(now, dispatched, stream);
        // Across a network, a flush delays no other volume, so its duration is not taken from
        // others. It is charged like a small write.
        let cost = if self.model.kind().varies {
            self.model.cost(Op::Write, Locality::Far, GRAIN)
        } else {
            Cost::from_nanos(time)
        };
        let charge = self.in_charge(cost);
        self.shares.charge_flush(entity, charge);
        if let Some(synced) =
            self.reservations
                .judge_flush(now, live.group, self.model.kind().varies)
        {
            self.dirty.on_flush_end(now, now.since(dispatched), synced);
        }
        self.reservations.observe_flush_end(now, live.group);
        self.restraint.observe_flush(now, dispatched);
        self.spoil_round_for_flush();
        if self.pace.running() == 0 {
            self.reservations.forget_flushes();
            let waited = self.pace.had_to_write(now.since(dispatched));
            self.afterwork
                .on_flush_end(now, waited && !self.model.kind().varies);
        }
    }

    /// Ends a round of learning on a drive with `tags` tags, and applies the results to all parts
    /// of the elevator.
    #[inline(never)]
    fn learn(&mut self, now: Instant, round: cost::Round, tags: u32) {
        let telling = self.window.is_saturated(round) || round.fills_tags(tags);
        if let Some(parallel) = self.window.is_parallel(round) {
            self.model.set_parallel(round.reads, parallel);
        }
        self.model.learn(telling);
        self.window.settle_round(now, round, &self.model);
        self.afterwork.settle(now, self.model.kind());
        self.shares.set_slack(self.in_charge(self.window.needed()));
        self.reservations
            .set_ahead(self.model.kind().seeks, self.window.largest());
    }
}

#[cfg(test)]
mod tests;
