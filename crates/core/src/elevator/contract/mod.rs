//! Keeps contracts: min, share, class, tenants.
//!
//! Three questions for each piece that goes to the drive. *Who?* A realtime client with something to send; else of the
//! reservations that are behind their promise the most pressing (`reserve`); else whoever's turn it is by share (`share`), and on a
//! drive where it costs time to go elsewhere, whoever goes on where the drive is, for a while (`turn`). *How much may be in the drive?*
//! What keeps it busy and no more (`window`), and of others only what is done before a promised client's next request has to be
//! begun with (`reserve::room`). *In what portions?* Pieces small enough that several fit under that bound, so that the drive does not
//! run dry, and not so small that the drive does less (`cost`).
//!
//! All that is assumed of the drive is learned from it: what a piece costs by kind, size and place, how long it takes for one, what it
//! hides (`afterwork`). The drive is left idle in two cases only: for a promised client that is behind and about to ask, and on a drive
//! with turns for who goes on there or has had less than its share.

mod afterwork;
mod config;
mod cost;
mod flush;
mod reserve;
mod share;
mod turn;
mod window;

pub use config::{Config, Excess};

use super::{Next, Schedule};
use crate::contract::Class;
use crate::event::{Event, Events};
use crate::flush::Flushes;
use crate::layer::{At, Piece, Reason, Table, Wake};
use crate::list::{Links, List, NIL};
use crate::{GroupId, Instant, Op, Request, Span, StreamId, mutant};
use afterwork::Afterwork;
use alloc::vec;
use alloc::vec::Vec;
use cost::{Model, Place};
use flush::Pace;
use reserve::{Drive, Reservations, Way};
use share::Shares;
use turn::Turn;
use window::Window;

/// Streams of one group are alike.
const STREAM_WEIGHT: u32 = 100;
/// Pieces end at multiples of this and are not made smaller: what direct I/O and drives' sectors need.
const GRAIN: u64 = 4096;
/// While others wait, no piece of a read or write costs more than this if it can be cut.
const PIECE_MAX: u64 = 1_000_000;
/// Who is held back for a promise that cannot be kept gets a slice of the drive after so long a wait; who is held back for one that
/// can, a single piece after a longer one.
const HELD_MAX: Span = Span::from_millis(300);
const SLICE: Span = Span::from_millis(10);
/// A realtime client lets others pass who are behind by more than this.
const YIELD: Span = Span::from_millis(10);
const HELD_LONGEST: Span = Span::from_millis(600);

/// What a request has in the drive.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Modelled cost of its pieces there.
    cost: u64,
    /// Others had so much there when the last one went.
    front: u64,
    place: Place,
}

const UNSENT: Sent = Sent {
    cost: 0,
    front: 0,
    place: Place::Far,
};

/// The elevator.
#[derive(Debug)]
pub(super) struct Elevator {
    config: Config,
    model: Model,
    window: Window,
    afterwork: Afterwork,
    turn: Turn,
    shares: Shares,
    reservations: Reservations,
    pace: Pace,
    queues: Vec<List>,
    links: Links,
    sent: Vec<Sent>,
    /// Requests in the queues.
    queued: u32,
    /// Modelled cost of what is in the drive, and of the writes in it.
    flight: u64,
    writes: u64,
    /// The reservation that is being served, or [`NIL`]; and up to where its clock goes before another's turn comes.
    served: u32,
    goal: Instant,
    /// Since when somebody has been held back for the sake of a promise, with nobody getting past.
    held: Option<Instant>,
    /// The stream for whose next request the drive is kept.
    awaited: Option<u32>,
    /// That stream as a driver knows it, as of the last choice.
    idles: Option<StreamId>,
    /// Something was learned and not yet published.
    learned: bool,
    /// The bound that was published last: whose, and its length.
    published: (u32, u64),
}

/// A piece that might go.
#[derive(Clone, Copy, Debug)]
struct Offer {
    stream: u32,
    request: u32,
    bytes: u32,
    last: bool,
    place: Place,
    cost: u64,
    /// The entity up to which it is charged; [`NIL`]: all the way.
    top: u32,
}

/// Nothing goes now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    /// When to look again, if nothing happens before.
    until: Option<Instant>,
}

impl Held {
    const NOTHING: Self = Self { until: None };
}

impl Elevator {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let (groups, streams) = (table.groups.capacity(), table.streams.capacity());
        Self {
            config: *config,
            model: Model::new(table.capacity()),
            window: Window::new(),
            afterwork: Afterwork::new(),
            turn: Turn::new(streams),
            shares: Shares::new(groups, streams, config.idle_class_timeout),
            reservations: Reservations::new(groups, config.catch_up, config.forget),
            pace: Pace::new(streams),
            queues: vec![List::EMPTY; streams as usize],
            links: Links::new(table.requests.capacity()),
            sent: vec![UNSENT; table.requests.capacity() as usize],
            queued: 0,
            flight: 0,
            writes: 0,
            served: NIL,
            goal: Instant::ZERO,
            held: None,
            awaited: None,
            idles: None,
            learned: false,
            published: (NIL, 0),
        }
    }

    /// True if what others have in flight is bounded for the sake of promises.
    fn bounds_hold(&self) -> bool {
        self.config.bound_in_flight && !mutant::is(mutant::BOUND_IGNORED)
    }

    /// The next piece of a request of `group`: no larger than the tightest bound on it has it.
    fn piece(&mut self, now: Instant, request: u32, table: &Table) -> (u32, bool) {
        let (most, last) = table.piece(request);
        let live = &table.requests[request];
        let op = live.request.op;
        let whole = u64::from(most) <= GRAIN
            || !matches!(op, Op::Read | Op::Write)
            || Turn::pays(&self.model)
            || self.model.is_new()
            || self.queued == 1 && self.reservations.is_idle();
        if whole {
            return (most, last);
        }
        let portion = if self.bounds_hold() && !self.reservations.is_urgent(live.group) {
            self.reservations
                .portion(now, live.group, self.window.delay())
        } else {
            None
        };
        let portion = portion.unwrap_or(PIECE_MAX).min(PIECE_MAX);
        let room = self
            .model
            .bytes_in(op, portion)
            .max(self.model.efficient(op));
        let within = room.div_ceil(GRAIN).max(1) * GRAIN;
        if within >= u64::from(most) {
            return (most, last);
        }
        let past = (live.request.offset + u64::from(live.issued)) % GRAIN;
        ((within - past) as u32, false)
    }

    /// The next piece of a stream.
    fn offer(&mut self, now: Instant, stream: u32, table: &Table) -> Offer {
        let request = self.queues[stream as usize]
            .first()
            .expect("an active stream has a request");
        let (bytes, last) = self.piece(now, request, table);
        let live = &table.requests[request].request;
        let offset = live.offset + u64::from(table.requests[request].issued);
        // Where it costs little to go elsewhere, that is all the same.
        let place = if Turn::pays(&self.model) {
            self.turn.place(live.space, offset)
        } else {
            Place::Far
        };
        Offer {
            stream,
            request,
            bytes,
            last,
            place,
            cost: self.model.cost(live.op, place, u64::from(bytes)),
            top: NIL,
        }
    }

    /// The reservation for whose sake a piece must wait; `behind` is whose it is if it goes because that is behind.
    fn in_the_way(
        &mut self,
        now: Instant,
        offer: &Offer,
        behind: u32,
        table: &Table,
    ) -> Option<u32> {
        if self.reservations.is_idle() || !self.bounds_hold() {
            return None;
        }
        self.find_in_the_way(now, offer, behind, table)
    }

    #[inline(never)]
    fn find_in_the_way(
        &mut self,
        now: Instant,
        offer: &Offer,
        behind: u32,
        table: &Table,
    ) -> Option<u32> {
        let lag = match behind {
            NIL => Span::ZERO,
            group => self.reservations.lag(now, group).less(YIELD),
        };
        let waited = self.held.map_or(Span::ZERO, |held| now.since(held));
        let way = Way {
            group: table.requests[offer.request].group,
            cost: offer.cost,
            flight: self.flight,
            hidden: self.afterwork.left(now, self.writes),
            delay: self.window.delay(),
            serial: Turn::pays(&self.model),
            behind,
            lag: 2 * lag.as_nanos(),
            overdue: waited >= HELD_MAX,
        };
        let found = self.reservations.in_the_way(now, &way)?;
        if waited >= HELD_LONGEST {
            self.held = None;
            return None;
        }
        Some(found)
    }

    fn choose(&mut self, now: Instant, table: &Table, events: &mut Events) -> Result<Offer, Held> {
        if let Some(group) = self.shares.overdue(now) {
            let stream = self.shares.pick(group).expect("it has something to send");
            return Ok(self.offer(now, stream, table));
        }
        let urgent = self.reservations.urgent();
        let urgent = urgent.filter(|_| !mutant::is(mutant::REALTIME_NOT_URGENT));
        if let Some(group) = urgent
            && !self.is_late_for(now, group)
        {
            return self.realtime(now, group, table);
        }
        if let Some(served) = self.serve_on(now, table)? {
            return Ok(served);
        }
        let behind = self.reservations.behind(now);
        if let Some(group) = behind.filter(|_| !mutant::is(mutant::BEHIND_IGNORED)) {
            let offer = self.reserved(now, group, table);
            return match self.in_the_way(now, &offer, group, table) {
                None => {
                    self.serve(now, group);
                    Ok(offer)
                }
                Some(other) => match urgent {
                    Some(group) if self.reservations.lag(now, other) == Span::ZERO => {
                        Ok(self.reserved(now, group, table))
                    }
                    _ => self.instead(now, offer, other, table, events),
                },
            };
        }
        self.choose_by_share(now, table, events)
    }

    /// The next piece of a realtime client, unless it would be too much for somebody who is behind by far and has its request in the
    /// drive or is about to ask.
    fn realtime(&mut self, now: Instant, group: u32, table: &Table) -> Result<Offer, Held> {
        let offer = self.reserved(now, group, table);
        let lag = self.reservations.lag(now, group).max(YIELD);
        match self.in_the_way(now, &offer, NIL, table) {
            Some(other) if self.flight > 0 && self.reservations.lag(now, other) > lag => {
                Err(Held {
                    until: self.reservations.expected(other).filter(|&at| at > now),
                })
            }
            _ => Ok(offer),
        }
    }

    /// True if somebody is behind its promise by far, and by more than a realtime client is behind its max: the drive is too slow for
    /// both, and gives each its part.
    fn is_late_for(&mut self, now: Instant, realtime: u32) -> bool {
        let Some(behind) = self.reservations.behind(now) else {
            return false;
        };
        let lag = self.reservations.lag(now, behind);
        lag > YIELD
            && lag > self.reservations.lag(now, realtime)
            && !mutant::is(mutant::REALTIME_STARVES_PROMISES)
    }

    /// A reservation is served, from now on until it has had as much at one go as it may.
    fn serve(&mut self, now: Instant, group: u32) {
        if self.served != group {
            (self.served, self.goal) = (group, self.reservations.goal(now, group));
        }
    }

    /// The next piece of a reservation that has something to send.
    fn reserved(&mut self, now: Instant, group: u32, table: &Table) -> Offer {
        let by_share = self.shares.pick(group).expect("it has something to send");
        let near = self.goes_on(now, table);
        let within = near.filter(|&s| {
            self.reservations
                .is_within(table.streams[s].spec.group, group)
        });
        Offer {
            top: group,
            ..self.offer(now, within.unwrap_or(by_share), table)
        }
    }

    /// The reservation that was served last is served on, on a drive where turns pay, until it is as far ahead as it may be.
    fn serve_on(&mut self, now: Instant, table: &Table) -> Result<Option<Offer>, Held> {
        let group = self.served;
        if group == NIL {
            return Ok(None);
        }
        let holder = self.turn.holder(now, &self.model);
        let holder = holder.filter(|&s| {
            self.reservations
                .is_within(table.streams[s].spec.group, group)
        });
        if let Some(stream) = holder
            && !self.reservations.has_reached(group, self.goal)
        {
            if self.goes_on(now, table).is_some() {
                let offer = self.reserved(now, group, table);
                // For realtime clients only it is too much.
                match self.in_the_way(now, &offer, group, table) {
                    Some(other) if self.reservations.is_realtime(other) => {}
                    _ => return Ok(Some(offer)),
                }
            } else if self.queues[stream as usize].is_empty() {
                self.wait_for(now, stream)?;
            }
        }
        self.served = NIL;
        Ok(None)
    }

    /// Holds the drive for a stream that has nothing queued, if that is worth it.
    fn wait_for(&mut self, now: Instant, stream: u32) -> Result<(), Held> {
        if self.turn.is_in_flight(stream) {
            return Err(Held::NOTHING);
        }
        if let Some(until) = self.turn.awaited(now, stream, &self.model) {
            self.awaited = Some(stream);
            return Err(Held { until: Some(until) });
        }
        if self.awaited.take() == Some(stream) {
            self.turn.in_vain(stream);
        }
        Ok(())
    }

    fn choose_by_share(
        &mut self,
        now: Instant,
        table: &Table,
        events: &mut Events,
    ) -> Result<Offer, Held> {
        let Some(mut stream) = self.shares.pick(0) else {
            return Err(Held::NOTHING);
        };
        if Turn::pays(&self.model) {
            stream = self.stay(now, stream, table)?;
        }
        let offer = self.offer(now, stream, table);
        if let Some(group) = self.in_the_way(now, &offer, NIL, table) {
            self.held.get_or_insert(now);
            return self.instead(now, offer, group, table, events);
        }
        if !self.window.has_room(now, self.flight, offer.cost) {
            return Err(Held::NOTHING);
        }
        if self
            .held
            .is_some_and(|held| now.since(held) < HELD_MAX || now.since(held) >= HELD_MAX + SLICE)
        {
            self.held = None;
        }
        Ok(offer)
    }

    /// The stream whose turn it is, if it has something to send that goes on where the drive is.
    fn goes_on(&self, now: Instant, table: &Table) -> Option<u32> {
        let holder = self.turn.last(now, &self.model)?;
        let live = &table.requests[self.queues[holder as usize].first()?];
        let offset = live.request.offset + u64::from(live.issued);
        let place = self.turn.place(live.request.space, offset);
        (place == Place::Near).then_some(holder)
    }

    /// Whoever keeps the drive, or else the stream whose turn it is by share.
    fn stay(&mut self, now: Instant, by_share: u32, table: &Table) -> Result<u32, Held> {
        let Some(last) = self.turn.stream else {
            return Ok(by_share);
        };
        // What it had for the sake of its promise may be more than its part of its tenant's share and a turn.
        if self
            .shares
            .is_past(self.shares.of_stream(last), Turn::length(&self.model))
        {
            return Ok(by_share);
        }
        if let Some(holder) = self.goes_on(now, table) {
            return Ok(holder);
        }
        if !self.queues[last as usize].is_empty() {
            return Ok(by_share);
        }
        let [one, other] = [last, by_share].map(|s| self.shares.of_stream(s));
        if self.turn.holder(now, &self.model).is_some() || self.shares.owes(one, other) {
            self.wait_for(now, last)?;
        }
        Ok(by_share)
    }

    /// A piece must wait for the sake of `group`, which goes first if it has something to send. The drive is left empty only while
    /// somebody is about to ask.
    fn instead(
        &mut self,
        now: Instant,
        offer: Offer,
        group: u32,
        table: &Table,
        events: &mut Events,
    ) -> Result<Offer, Held> {
        self.publish(now, group, events);
        let first = self.shares.is_active(group) && !self.reservations.is_ahead(now, group);
        if first && !mutant::is(mutant::BEHIND_IGNORED) {
            self.serve(now, group);
            return Ok(self.reserved(now, group, table));
        }
        let expected = self.reservations.expected(group).filter(|&at| at > now);
        if self.flight == 0 && expected.is_none() {
            return Ok(offer);
        }
        let mut until = expected;
        if let Some(held) = self.held {
            let over = held + HELD_MAX;
            let over = if now < over {
                over
            } else {
                held + HELD_LONGEST
            };
            until = Some(until.unwrap_or(over).min(over)).filter(|&at| at > now);
        }
        Err(Held { until })
    }

    /// Says for whose sake others are held, when that or the bound has changed.
    fn publish(&mut self, now: Instant, group: u32, events: &mut Events) {
        let bound = self.reservations.bound(group);
        if self.published != (group, bound) {
            self.published = (group, bound);
            events.publish(now, || Event::Bound {
                group: GroupId(group),
                span: Span::from_nanos(bound),
            });
        }
    }

    /// Accounts for a piece that goes.
    fn take(&mut self, now: Instant, offer: Offer, table: &Table) {
        let live = &table.requests[offer.request];
        let (request, group) = (&live.request, live.group);
        if self.flight == 0 {
            self.model.begins(now);
        }
        self.window.sent(self.flight);
        let end = request.offset + u64::from(live.issued) + u64::from(offer.bytes);
        self.turn
            .sent(now, offer.stream, request.space, end, offer.place);
        let sent = &mut self.sent[offer.request as usize];
        if live.pieces == 0 {
            sent.cost = 0;
        }
        sent.cost += offer.cost;
        sent.front = self.reservations.others(group, self.flight);
        sent.place = offer.place;
        self.flight += offer.cost;
        if !request.op.is_read() {
            self.writes += offer.cost;
            self.afterwork.sent(now, offer.cost);
            self.pace.wrote(offer.stream, offer.cost);
        }
        if offer.last {
            self.queued -= 1;
            self.links
                .remove(&mut self.queues[offer.stream as usize], offer.request);
        }
        let bytes = u64::from(if request.op == Op::Discard {
            512
        } else {
            offer.bytes
        });
        self.reservations
            .sent(now, group, bytes, offer.cost, offer.last);
        let entity = self.shares.of_stream(offer.stream);
        if offer.top == NIL || !mutant::is(mutant::RESERVATION_NOT_CHARGED) {
            let cost = self.share_cost(offer, request);
            self.shares.charge(now, entity, cost, offer.top);
        }
        if self.queues[offer.stream as usize].is_empty() {
            self.shares.deactivate(entity);
        }
        let shares = &self.shares;
        self.reservations
            .wait_on(now, group, |g| shares.is_active(g));
    }

    /// What a piece is charged in its share: its part of what the request is charged whole, so that splitting costs the client
    /// nothing.
    fn share_cost(&self, offer: Offer, request: &Request) -> u64 {
        if self.config.excess == Excess::Bytes {
            return u64::from(request.charge().min(offer.bytes));
        }
        if offer.bytes == request.length {
            return offer.cost;
        }
        let whole = self
            .model
            .cost(request.op, offer.place, u64::from(request.length));
        crate::time::mul_div_ceil(whole, u64::from(offer.bytes), u64::from(request.length))
    }

    /// A request entered or left a queue.
    fn gone(&mut self, now: Instant, request: u32, table: &Table) {
        let live = &table.requests[request];
        self.turn.answered(now, live.request.stream.slot());
    }
}

impl Schedule for Elevator {
    fn open(&mut self, stream: u32, table: &Table) {
        let group = table.streams[stream].spec.group;
        let entity = self.shares.of_stream(stream);
        self.shares
            .set(Instant::ZERO, entity, group.0, STREAM_WEIGHT, false);
        self.turn.open(stream);
        self.pace.open(stream);
    }

    fn close(&mut self, _now: Instant, stream: u32, _table: &Table) {
        let entity = self.shares.of_stream(stream);
        self.shares.forget(entity);
        self.turn.close(stream);
    }

    fn set_group(&mut self, now: Instant, id: GroupId, table: &Table) {
        let group = table.groups.get(id).expect("the group exists");
        let idle = group.contract.class == Class::Idle;
        self.shares.set(
            now,
            id.0,
            group.parent.0,
            u32::from(group.contract.share),
            idle,
        );
    }

    fn remove_group(&mut self, _now: Instant, id: GroupId, _table: &Table) {
        self.shares.forget(id.0);
        if self.served == id.0 {
            self.served = NIL;
        }
    }

    fn set_capacity(&mut self, _now: Instant, table: &Table) {
        self.model = Model::new(table.capacity());
    }

    fn insert(&mut self, now: Instant, request: u32, table: &Table) {
        let live = &table.requests[request];
        let stream = live.request.stream.slot();
        let queue = &mut self.queues[stream as usize];
        let first = queue.is_empty();
        self.links.push_back(queue, request);
        self.queued += 1;
        if first {
            let entity = self.shares.of_stream(stream);
            self.shares.activate(now, entity);
            self.awaited = None;
        }
        self.turn.asked(now, stream);
        self.reservations
            .arrived(now, live.group, u64::from(table.left(request)));
    }

    fn remove(&mut self, now: Instant, request: u32, table: &Table) {
        let live = &table.requests[request];
        let stream = live.request.stream.slot();
        self.links
            .remove(&mut self.queues[stream as usize], request);
        self.queued -= 1;
        if self.queues[stream as usize].is_empty() {
            let entity = self.shares.of_stream(stream);
            self.shares.deactivate(entity);
        }
        self.gone(now, request, table);
        self.reservations
            .removed(now, live.group, u64::from(table.left(request)));
        let shares = &self.shares;
        self.reservations
            .wait_on(now, live.group, |g| shares.is_active(g));
    }

    fn next(&mut self, now: Instant, table: &Table, events: &mut Events) -> Next {
        self.idles = None;
        if self.queued == 0 {
            return Next::Nothing;
        }
        if core::mem::take(&mut self.learned) {
            self.sample(now, events);
        }
        match self.choose(now, table, events) {
            Ok(offer) => {
                self.take(now, offer, table);
                Next::Take {
                    request: offer.request,
                    bytes: offer.bytes,
                }
            }
            Err(Held { until: Some(at) }) => {
                self.idles = self.awaited.map(|stream| table.stream_id(stream));
                Next::Wait(Wake {
                    at,
                    reason: Reason::Idling,
                })
            }
            Err(Held { until: None }) => Next::Nothing,
        }
    }

    fn hold_flush(&mut self, now: Instant, flushes: &Flushes, table: &Table) -> Option<Wake> {
        let asks = |group| {
            let mut groups = flushes.iter().map(|f| table.requests[f].group);
            groups.any(|g| self.reservations.is_within(g, group))
        };
        // Of two who are behind, who syncs goes before who is less so, but not flush after flush.
        let behind = if self.pace.has_rested(now) {
            let lags = flushes
                .iter()
                .map(|f| self.reservations.most_lag(now, table.requests[f].group));
            lags.max().unwrap_or(Span::ZERO)
        } else {
            Span::ZERO
        };
        let free = !self.bounds_hold();
        let late = self.pace.time().filter(|_| !free).and_then(|time| {
            self.reservations
                .late_by_flush(now, time, self.pace.running(), behind, asks)
        });
        let at = late.and_then(|late| self.pace.hold(now, late));
        if at.is_none() {
            self.pace.begun();
            self.model.spoil();
        }
        at.map(|at| Wake {
            at,
            reason: Reason::Flush,
        })
    }

    fn complete(&mut self, now: Instant, piece: &Piece, table: &Table) {
        let live = &table.requests[piece.request];
        let stream = live.request.stream.slot();
        if piece.op == Op::Flush {
            // What a flush costs is known only now: the time it took.
            let entity = self.shares.of_stream(stream);
            let time = self.pace.ended(now, piece.dispatched, stream);
            self.shares.charge_flush(entity, time);
            self.reservations.flushed(now, live.group);
            self.model.spoil();
            return;
        }
        let sent = &mut self.sent[piece.request as usize];
        let cost = sent.cost / u64::from(live.pieces.max(1));
        sent.cost -= cost;
        let sent = *sent;
        let bytes = u64::from(piece.length);
        let round = self
            .model
            .ends(now, piece.op, sent.place, bytes, self.flight);
        let alone = (self.window).complete(now, piece, sent.place, cost, self.flight, &self.model);
        self.flight = self.flight.saturating_sub(cost);
        if !piece.op.is_read() {
            self.writes = self.writes.saturating_sub(cost);
        }
        let last = live.pieces == 1 && live.issued == live.request.length;
        let drive = Drive {
            time: now.since(piece.dispatched).as_nanos(),
            front: sent.front,
            alone,
            serial: Turn::pays(&self.model),
        };
        let hides = (self.reservations).completed(now, live.group, bytes, cost, last, drive);
        if hides && !self.pace.has_run_since(piece.dispatched) {
            self.afterwork.hides(now);
        }
        if last {
            self.gone(now, piece.request, table);
        }
        if let Some(round) = round {
            self.learn(now, round);
        }
    }

    /// Takes the promises and what is in flight anew.
    fn settle(&mut self, now: Instant, table: &Table) {
        self.reservations.set(now, &table.groups);
        let sent = &self.sent;
        let requests = table.requests.iter().filter(|(_, live)| {
            matches!(live.at, At::Elevator | At::Drive) && live.request.op != Op::Flush
        });
        let requests = requests.map(|(slot, live)| (live.group, u64::from(table.left(slot))));
        let pieces = table.pieces.iter().filter(|(_, p)| p.op != Op::Flush);
        let pieces = pieces.map(|(_, p)| {
            let live = &table.requests[p.request];
            let cost = sent[p.request as usize].cost / u64::from(live.pieces.max(1));
            (live.group, cost, u64::from(p.length))
        });
        self.reservations.recount(requests, pieces);
        let shares = &self.shares;
        self.reservations.wait_all(now, |g| shares.is_active(g));
    }

    fn idles_for(&self) -> Option<StreamId> {
        self.idles
    }
}

impl Elevator {
    /// Publishes what has been learned.
    #[inline(never)]
    fn sample(&self, now: Instant, events: &mut Events) {
        let cost = |op| Span::from_nanos(self.model.cost(op, Place::Far, 64 << 10));
        events.publish(now, || Event::Learned {
            read: cost(Op::Read),
            write: cost(Op::Write),
            away: Span::from_nanos(self.model.away()),
            delay: Span::from_nanos(self.window.delay()),
            hidden: Span::from_nanos(self.afterwork.left(now, self.writes)),
        });
    }

    /// A round of learning is over.
    fn learn(&mut self, now: Instant, round: cost::Round) {
        self.learned = true;
        let telling = self.window.is_telling(round);
        self.model.learn(telling);
        self.window.settle_round(now, &self.model);
        self.afterwork.settle(now);
        let away = self.model.away();
        let away = if away >= turn::PAYS { away } else { 0 };
        self.reservations.set_ahead(away, self.window.largest());
    }
}

#[cfg(test)]
mod tests;
