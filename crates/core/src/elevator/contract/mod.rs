//! Keeps contracts: min, share, class, tenants.
//!
//! Three questions for each piece that goes to the drive. *Who?* A realtime client with something to send; else of the
//! reservations that are behind their promise the most pressing (`reserve`); else whoever's turn it is by share (`share`). *How
//! much may be in the drive?* What keeps it busy and no more (`window`), and of others only what leaves a promised client's next
//! request in time. *In what portions?* Pieces small enough that several fit under that bound, so that the drive does not run dry.
//!
//! It never waits with the drive empty, so it sets no timer; there is no idling for anybody.

mod config;
mod cost;
mod flush;
mod reserve;
mod share;
mod window;

pub use config::{Config, Excess};

use super::{Next, Schedule};
use crate::contract::Class;
use crate::event::{Event, Events};
use crate::flush::Flushes;
use crate::layer::{Piece, Reason, Table, Wake};
use crate::list::{Links, List, NIL};
use crate::{GroupId, Instant, Op, ROOT, Request, Span, mutant};
use alloc::vec;
use alloc::vec::Vec;
use cost::Model;
use flush::Pace;
use reserve::{Drive, Reservations};
use share::Shares;
use window::Window;

/// Streams of one group are alike.
const STREAM_WEIGHT: u32 = 100;
/// Pieces end at multiples of this and are not made smaller: what direct I/O and drives' sectors need.
const GRAIN: u64 = 4096;

/// The elevator.
#[derive(Debug)]
pub(super) struct Elevator {
    config: Config,
    model: Model,
    window: Window,
    shares: Shares,
    reservations: Reservations,
    pace: Pace,
    queues: Vec<List>,
    links: Links,
    /// Modelled cost of what is in the drive.
    flight: u64,
    /// The bound that was published last: whose, and its length.
    published: (u32, u64),
}

impl Elevator {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let (groups, streams) = (table.groups.capacity(), table.streams.capacity());
        Self {
            config: *config,
            model: Model::new(table.capacity()),
            window: Window::new(),
            shares: Shares::new(groups, streams, config.idle_class_timeout),
            reservations: Reservations::new(groups, config.catch_up, config.forget),
            pace: Pace::new(),
            queues: vec![List::EMPTY; streams as usize],
            links: Links::new(table.requests.capacity()),
            flight: 0,
            published: (NIL, 0),
        }
    }

    /// True if what others have in flight is bounded for the sake of promises.
    fn bounds_hold(&self) -> bool {
        self.config.bound_in_flight && !self.window.probing() && !mutant::is(mutant::BOUND_IGNORED)
    }

    /// The next piece of a request of `group`: no larger than the tightest bound on it has it.
    fn piece(&mut self, now: Instant, request: u32, table: &Table) -> (u32, bool) {
        let (most, last) = table.piece(request);
        let live = &table.requests[request];
        if !matches!(live.request.op, Op::Read | Op::Write) || !self.bounds_hold() {
            return (most, last);
        }
        let product = self.window.product();
        let Some(portion) = self.reservations.portion(now, live.group, product) else {
            return (most, last);
        };
        let room = self.model.bytes_in(portion).max(self.model.indivisible());
        let within = (room / GRAIN).max(1) * GRAIN;
        if within >= u64::from(most) {
            return (most, last);
        }
        let past = (live.request.offset + u64::from(live.issued)) % GRAIN;
        ((within - past) as u32, false)
    }

    /// The next piece of a stream if it may go now; otherwise what is in its way.
    fn offer(
        &mut self,
        now: Instant,
        stream: u32,
        table: &Table,
        rule: Rule,
    ) -> Result<Offer, Held> {
        let request = self.queues[stream as usize]
            .first()
            .expect("an active stream has a request");
        let (bytes, last) = self.piece(now, request, table);
        let live = &table.requests[request];
        let cost = self.model.cost(live.request.op, u64::from(bytes));
        let offer = Offer {
            stream,
            request,
            bytes,
            last,
            cost,
        };
        if rule == Rule::Urgent {
            return Ok(offer);
        }
        if self.bounds_hold()
            && let Some(group) = self.reservations.in_the_way(live.group, cost, self.flight)
        {
            self.window.held();
            return Err(Held::ForSakeOf(group, request));
        }
        if (rule == Rule::Share || self.window.probing() || self.window.measuring(now))
            && self.flight > 0
            && self.flight + cost > self.window.bound(now, cost)
        {
            return Err(Held::DriveIsBusy);
        }
        Ok(offer)
    }

    fn choose(&mut self, now: Instant, table: &Table, events: &mut Events) -> Option<Offer> {
        let urgent = self.reservations.urgent();
        if let Some(group) = urgent.filter(|_| !mutant::is(mutant::REALTIME_NOT_URGENT)) {
            let stream = self
                .shares
                .pick(now, group)
                .expect("an urgent group has something to send");
            return self.offer(now, stream, table, Rule::Urgent).ok();
        }
        let behind = self.reservations.behind(now);
        let behind = behind.filter(|_| !mutant::is(mutant::BEHIND_IGNORED));
        let (group, rule) = behind.map_or((ROOT.0, Rule::Share), |group| (group, Rule::Behind));
        let stream = self.shares.pick(now, group)?;
        let (group, held) = match self.offer(now, stream, table, rule) {
            Ok(offer) => return Some(offer),
            Err(Held::DriveIsBusy) => return None,
            Err(Held::ForSakeOf(group, held)) => (group, held),
        };
        self.publish(now, group, events);
        // Who is behind goes next. Of the others, whoever they are held for may go first, if it is ahead of its share by no more
        // than the request that it passes.
        let may_pass = rule == Rule::Share
            && self.shares.is_active(group)
            && self.shares.ahead(group) <= self.charge(&table.requests[held].request);
        if !may_pass {
            return None;
        }
        let stream = self.shares.pick(now, group)?;
        self.offer(now, stream, table, Rule::Share).ok()
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
        let group = live.group;
        if offer.last {
            self.links
                .remove(&mut self.queues[offer.stream as usize], offer.request);
        }
        self.flight += offer.cost;
        let bytes = u64::from(if live.request.op == Op::Discard {
            512
        } else {
            offer.bytes
        });
        let free = mutant::is(mutant::RESERVATION_NOT_CHARGED)
            && (self.reservations.urgent().is_some() || self.reservations.behind(now).is_some());
        self.reservations
            .sent(now, group, bytes, offer.cost, offer.last);
        let entity = self.shares.of_stream(offer.stream);
        if !free {
            self.shares
                .charge(now, entity, self.share_cost(offer, table));
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
    fn share_cost(&self, offer: Offer, table: &Table) -> u64 {
        let request = &table.requests[offer.request].request;
        let whole = self.charge(request);
        match self.config.excess {
            Excess::Bytes => whole.min(u64::from(offer.bytes)),
            Excess::Time if offer.last && offer.bytes == request.length => whole,
            Excess::Time => {
                crate::time::mul_div_ceil(whole, u64::from(offer.bytes), u64::from(request.length))
            }
        }
    }

    /// What a request is charged in its share.
    fn charge(&self, request: &Request) -> u64 {
        match self.config.excess {
            Excess::Bytes => u64::from(request.charge()),
            Excess::Time => self.model.cost(request.op, u64::from(request.length)),
        }
    }
}

/// A piece that might go.
#[derive(Clone, Copy, Debug)]
struct Offer {
    stream: u32,
    request: u32,
    bytes: u32,
    last: bool,
    cost: u64,
}

/// Why a piece may not go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// The drive has enough to be busy with.
    DriveIsBusy,
    /// The next request of a promised client would come too late behind it: whose, and the request it is of.
    ForSakeOf(u32, u32),
}

/// On whose behalf a piece is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Urgent,
    Behind,
    Share,
}

impl Schedule for Elevator {
    fn open(&mut self, stream: u32, table: &Table) {
        let group = table.streams[stream].spec.group;
        let entity = self.shares.of_stream(stream);
        self.shares
            .set(Instant::ZERO, entity, group.0, STREAM_WEIGHT, false);
    }

    fn close(&mut self, _now: Instant, stream: u32, _table: &Table) {
        let entity = self.shares.of_stream(stream);
        self.shares.forget(entity);
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
    }

    fn set_capacity(&mut self, _now: Instant, table: &Table) {
        self.model = Model::new(table.capacity());
        // The speed was one of the old model.
        self.window = Window::new();
    }

    fn insert(&mut self, now: Instant, request: u32, table: &Table) {
        let live = &table.requests[request];
        let stream = live.request.stream.slot();
        let queue = &mut self.queues[stream as usize];
        let first = queue.is_empty();
        self.links.push_back(queue, request);
        if first {
            let entity = self.shares.of_stream(stream);
            self.shares.activate(now, entity);
        }
        self.reservations
            .arrived(now, live.group, u64::from(table.left(request)));
    }

    fn remove(&mut self, now: Instant, request: u32, table: &Table) {
        let live = &table.requests[request];
        let stream = live.request.stream.slot();
        self.links
            .remove(&mut self.queues[stream as usize], request);
        if self.queues[stream as usize].is_empty() {
            let entity = self.shares.of_stream(stream);
            self.shares.deactivate(entity);
        }
        self.reservations
            .removed(now, live.group, u64::from(table.left(request)));
        let shares = &self.shares;
        self.reservations
            .wait_on(now, live.group, |g| shares.is_active(g));
    }

    fn next(&mut self, now: Instant, table: &Table, events: &mut Events) -> Next {
        let Some(offer) = self.choose(now, table, events) else {
            return Next::Nothing;
        };
        self.window.sent(now, self.flight);
        self.take(now, offer, table);
        Next::Take {
            request: offer.request,
            bytes: offer.bytes,
        }
    }

    fn hold_flush(&mut self, now: Instant, flushes: &Flushes, table: &Table) -> Option<Wake> {
        let asks = |group| {
            let mut groups = flushes.iter().map(|f| table.requests[f].group);
            groups.any(|g| self.reservations.is_within(g, group))
        };
        let free = !self.config.bound_in_flight || mutant::is(mutant::BOUND_IGNORED);
        let late = self.pace.time().filter(|_| !free).and_then(|time| {
            self.reservations
                .late_by_flush(now, time, self.pace.running(), asks)
        });
        let at = late.and_then(|late| self.pace.hold(now, late));
        if at.is_none() {
            self.pace.begun();
        }
        at.map(|at| Wake {
            at,
            reason: Reason::Flush,
        })
    }

    fn complete(&mut self, now: Instant, piece: &Piece, table: &Table) {
        if piece.op == Op::Flush {
            // What a flush costs is known only now: the time it took.
            let stream = table.requests[piece.request].request.stream;
            let entity = self.shares.of_stream(stream.slot());
            let time = self.pace.ended(now, piece.dispatched);
            self.shares.charge(now, entity, time);
            return;
        }
        let cost = self.model.cost(piece.op, u64::from(piece.length));
        self.window.complete(now, piece, cost, self.flight);
        self.flight = self.flight.saturating_sub(cost);
        let live = &table.requests[piece.request];
        let last = live.pieces == 1 && live.issued == live.request.length;
        let drive = Drive {
            model: &self.model,
            window: &self.window,
        };
        self.reservations
            .completed(now, live.group, u64::from(piece.length), cost, last, drive);
    }

    /// Takes the promises and what is in flight anew.
    fn settle(&mut self, now: Instant, table: &Table) {
        self.reservations.set(now, &table.groups);
        let model = &self.model;
        let flights = || {
            table
                .pieces
                .iter()
                .filter(|(_, p)| p.op != Op::Flush)
                .map(|(_, p)| {
                    let group = table.requests[p.request].group;
                    (group, model.cost(p.op, u64::from(p.length)))
                })
        };
        self.flight = flights().map(|f| f.1).sum();
        self.reservations.recount(flights());
    }
}

#[cfg(test)]
mod tests;
