//! Reservations: a clock for each promise, the order of those that are behind, and the limits that
//! promises set to others.
//!
//! The main type is [`Reservations`]. The clock of a reservation shows the time up to which its
//! promise has been kept. Service of `s` bytes advances the clock by `s / min`. A reservation that
//! has a queued request and whose clock is not later than the present is *behind*, and is served
//! first. Of several, the one with the earliest deadline is served. The deadline is the clock plus
//! the time that the client's usual outstanding requests may take (mClock's reservation tags:
//! Gulati, Merchant, Varman, "mClock", 2010, in the order of EEVDF: Stoica, Abdel-Wahab, "Earliest
//! eligible virtual deadline first", 1995).
//!
//! A client that falls behind while its requests wait is compensated up to a limit. If all clients
//! are further behind, the drive is too slow for the sum of the promises. Then the time base of the
//! promises slows down, so that each promise is kept in the same proportion.
//!
//! The modules have these tasks:
//!
//! - [`behind`] advances the clocks and finds the reservations that are behind.
//! - [`latency`] learns the latency of each client's requests, and [`slope`] does so for drives
//!   across a network.
//! - [`room`] limits the work that others may have in flight.
//! - [`syncing`] relates flushes to promises.
//! - [`flush`] decides when a flush may begin, and [`dirty`] how much may be written before.

mod behind;
pub(crate) mod dirty;
pub(crate) mod flush;
#[cfg(debug_assertions)]
mod invariants;
mod latency;
mod room;
mod slope;
mod syncing;

pub(crate) use latency::CompletedPiece;
pub(crate) use room::DispatchQuery;

use latency::RequestLatency;

use super::constants::DEADLINE_MAX;
use super::learned::arrival::Arrivals;
use super::unit::{Bytes, Cost};
use crate::contract::{Class, Contract};
use crate::group::Groups;
use crate::heap::Heap;
use crate::id::GroupId;
use crate::list::NIL;
use crate::table::{Live, Stage};
use crate::time::mul_div_floor;
use crate::tree::{Forest, Sorted, Tree};
use crate::{Instant, Op, ROOT, Span};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// The requests that a client has outstanding, now and on average.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Arrivals and completions of requests.
    arrivals: Arrivals,
    /// Bytes of outstanding requests that are not completed.
    outstanding: Bytes,
    /// Average of `outstanding` just before a request ends.
    mean_outstanding: Bytes,
    /// Average number of outstanding requests just before a request ends, in 256ths.
    mean_requests: u64,
    /// The time at which the last request ended.
    ended: Instant,
    /// Outstanding bytes and requests before the first request ended at that time. Requests that
    /// end at the same time were all outstanding until then.
    before_end: (Bytes, u64),
    /// The time that the usual outstanding requests take at the promised rate.
    period: Span,
    /// The time of the client's last request, completion or flush.
    last_seen: Instant,
}

/// The pieces of a client that are in flight.
#[derive(Clone, Copy, Debug, Default)]
struct WorkInFlight {
    /// Modelled cost of these pieces.
    cost: Cost,
    bytes: Bytes,
    /// The time by which these pieces advanced `kept_until`. It is less than the time that they
    /// take at the promised rate if the client receives more than that rate.
    promised: Span,
}

impl WorkInFlight {
    /// Removes a piece that left the drive.
    #[inline]
    fn remove(&mut self, op: Op, bytes: Bytes, cost: Cost) {
        // These sums may have been recounted since the dispatch, so they can be smaller than the
        // piece.
        self.cost = self.cost.saturating_sub(cost);
        let (all, gone) = (self.bytes, Bytes(op.charge(bytes.0)));
        self.bytes = all.saturating_sub(gone);
        let left = mul_div_floor(self.promised.as_nanos(), self.bytes.0, all.0.max(1));
        self.promised = Span::from_nanos(left);
    }
}

/// The flushes of a client.
#[derive(Clone, Copy, Debug, Default)]
struct FlushDemand {
    /// The time at the promised rate of the work that was dispatched since the client's last flush
    /// ended.
    cycle: Span,
    /// The number of the period of flushes ([`Reservations::flushes`]) in which the client waits
    /// for a flush.
    flushes: u32,
}

/// The promise of one group.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    /// Promised bytes per second, or zero.
    bandwidth: u64,
    /// Promised requests per second, or zero. If both rates are zero, nothing is reserved.
    iops: u64,
    /// True if the promise is the max of a realtime client.
    realtime: bool,
    /// The nearest group with a reservation above this one, or [`NIL`].
    above: u32,
    /// The time up to which the promise has been kept.
    kept_until: Instant,
    /// Deficits before this time are deferred: they are compensated at the expense of clients
    /// without a promise only, because the client's requests cost more than admission assumes.
    deferred_until: Instant,
    demand: Demand,
    in_drive: WorkInFlight,
    latency: RequestLatency,
    syncs: FlushDemand,
    /// True if the reservation is in the tree of the realtime ones.
    bound_realtime: bool,
    /// The parts of the time for which the promise occupies the drive. Zero if an idle drive would
    /// not keep the promise, and while the client does not limit others.
    load: PromiseLoad,
}

/// The part of the time for which promises occupy a drive, in 256ths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PromiseLoad {
    /// The part if the drive serves one client after another.
    serial: u32,
    /// The part if the drive is kept busy by all of them.
    busy: u32,
}

/// Returns true if a request is outstanding: it has bytes in the elevator, or is completely in the
/// drive. A request that was given up in between does not count.
pub(crate) fn is_outstanding(live: &Live) -> bool {
    let whole = live.stage == Stage::Drive && live.issued == live.request.length;
    let inside = whole && live.stalled == 0 || live.stage == Stage::Elevator;
    live.request.op != Op::Flush && inside
}

/// The weight of one request in averages.
pub(crate) const REQUEST: u64 = 256;

impl Default for Reservation {
    fn default() -> Self {
        Self {
            bandwidth: 0,
            iops: 0,
            realtime: false,
            above: NIL,
            kept_until: Instant::ZERO,
            deferred_until: Instant::ZERO,
            demand: Demand::default(),
            in_drive: WorkInFlight::default(),
            latency: RequestLatency::UNKNOWN,
            syncs: FlushDemand::default(),
            bound_realtime: false,
            load: PromiseLoad::default(),
        }
    }
}

impl Reservation {
    /// Returns true if anything is promised.
    fn exists(&self) -> bool {
        self.bandwidth > 0 || self.iops > 0
    }

    /// Returns the number of outstanding requests.
    fn requests(&self) -> u64 {
        self.demand.arrivals.outstanding().into()
    }

    /// Returns the clock by which the reservation is compared with other promises.
    fn clock(&self) -> Instant {
        self.kept_until.max(self.deferred_until)
    }

    /// Returns the time from the clock to the deadline.
    fn deadline_time(&self) -> Span {
        self.demand.period.min(DEADLINE_MAX)
    }

    /// Returns the time that this service takes at the promised rate plus the headroom.
    #[inline]
    fn time_for(&self, bytes: Bytes, requests: u64) -> Span {
        self.time_with(self.latency.headroom, bytes, requests)
    }

    /// Returns the time that this service takes at (64 + `headroom`) / 64 of the promised rate.
    #[inline]
    fn time_with(&self, headroom: u64, bytes: Bytes, requests: u64) -> Span {
        let at = |amount: u64, rate: u64| {
            if rate == 0 {
                0
            } else {
                mul_div_floor(
                    amount,
                    64 * 1_000_000_000,
                    rate.saturating_mul(64 + headroom),
                )
            }
        };
        // A contract can promise bytes and requests at once. The stricter promise counts.
        Span::from_nanos(at(bytes.0, self.bandwidth).max(at(requests, self.iops)))
    }

    /// Returns the time that the usual outstanding requests take at the promised rate.
    fn time_for_usual(&self) -> Span {
        let requests = self.time_for(Bytes::ZERO, self.demand.mean_requests) / REQUEST;
        self.time_for(self.demand.mean_outstanding, 0).max(requests)
    }
}

/// The reservations of all groups.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// The reservations by the slots of their groups.
    table: Vec<Reservation>,
    /// For each group, the nearest group with a reservation on its path to the root, beginning with
    /// itself. [`NIL`] if there is none.
    nearest: Vec<u32>,
    /// The reservations with a queued request, by deadline. Each is eligible from the time of its
    /// clock on.
    behind: Tree,
    /// Nodes of the tree `behind`.
    waiting: Forest,
    /// The realtime reservations with a queued request, by clock.
    urgent: Heap,
    /// The reservations that limit others, by the latest time at which the drive must begin with
    /// their next request.
    starts: Tree,
    /// The realtime reservations that limit others, by their latency without contention.
    realtime: Tree,
    /// Nodes of the two trees above.
    forest: Sorted,
    /// Sum of the loads of all reservations.
    load: PromiseLoad,
    /// True while no promise reserves the drive ([`Reservations::is_crowded`]).
    crowded: bool,
    /// The time by which the time base of the promises lags behind the present. A drive that is too
    /// slow for all promises keeps each in proportion.
    late: Span,
    /// The maximum lead: the time by which a clock may be later than the present.
    ahead: Span,
    /// True while too little is known about the drive.
    learning: bool,
    /// Number of the current period of flushes, counted from one. A period ends when no flush runs
    /// any more.
    flushes: u32,
    /// The deficit up to which a client is compensated.
    catch_up: Span,
    /// The pause after which a client starts from scratch.
    forget: Span,
}

impl Reservations {
    pub(crate) fn new(groups: u32, catch_up: Span, forget: Span) -> Self {
        Self {
            table: vec![Reservation::default(); groups as usize],
            nearest: vec![NIL; groups as usize],
            behind: Tree::EMPTY,
            waiting: Forest::new(groups),
            urgent: Heap::new(groups),
            starts: Tree::EMPTY,
            realtime: Tree::EMPTY,
            forest: Sorted::new(groups),
            load: PromiseLoad::default(),
            crowded: false,
            late: Span::ZERO,
            ahead: Span::ZERO,
            learning: true,
            flushes: 1,
            catch_up,
            forget,
        }
    }

    /// Applies a change of the tree or its contracts. Only groups in these slots may have changed,
    /// and no other group's nearest reservation.
    pub(crate) fn set_contracts(&mut self, now: Instant, groups: &Groups, slots: Range<u32>) {
        self.detect_stall(now);
        // The root has no reservation.
        for slot in slots.clone() {
            let group = groups.get(GroupId(slot)).filter(|_| GroupId(slot) != ROOT);
            let contract = group.map(|g| g.contract);
            self.set_one(now, slot, contract.as_ref());
        }
        for slot in slots {
            let mut reserved = groups
                .get(GroupId(slot))
                .into_iter()
                .flat_map(|_| groups.path(GroupId(slot)))
                .map(|g| g.0)
                .filter(|&g| self.table[g as usize].exists());
            let nearest = reserved.next().unwrap_or(NIL);
            self.nearest[slot as usize] = nearest;
            if nearest == slot {
                self.table[slot as usize].above = reserved.next().unwrap_or(NIL);
            }
        }
    }

    /// Applies the contract of one group.
    fn set_one(&mut self, now: Instant, slot: u32, contract: Option<&Contract>) {
        let existed = self.table[slot as usize].exists();
        let reserved = contract.map(Contract::reserved).unwrap_or_default();
        let realtime = contract.is_some_and(|c| c.class == Class::Realtime);
        let due = now.saturating_sub(self.late);
        let r = &mut self.table[slot as usize];
        let before = (r.bandwidth, r.iops, r.realtime);
        (r.bandwidth, r.iops) = (reserved.bytes, reserved.iops);
        r.realtime = realtime;
        let changed = before != (r.bandwidth, r.iops, r.realtime);
        let exists = r.exists();
        if existed && !exists {
            self.remove_bound(slot);
            self.stop_waiting(slot);
            self.table[slot as usize] = Reservation::default();
        // A new promise begins now, and the time before it does not count as think time.
        } else if !existed && exists {
            r.kept_until = due;
            r.demand.arrivals.observe_quiet(now);
        } else if changed && exists {
            // The lead or deficit belonged to the previous promise. In addition, the reservation
            // may have to move to the tree of another class.
            r.kept_until = due;
            r.deferred_until = Instant::ZERO;
            r.in_drive.promised = Span::ZERO;
            let waits = self.waiting.contains(slot) || self.urgent.get(slot).is_some();
            self.remove_bound(slot);
            self.stop_waiting(slot);
            if waits {
                self.start_waiting(slot);
            }
        }
    }

    /// Iterates over the reservations on the path of a group, beginning with its own.
    fn path(&self, group: GroupId) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.nearest[group.0 as usize]).filter(|&g| g != NIL);
        core::iter::successors(first, |&g| {
            Some(self.table[g as usize].above).filter(|&g| g != NIL)
        })
    }

    /// Calls `visit` with each reservation on the path of a group, beginning with the nearest one.
    #[inline]
    fn for_each(&mut self, group: GroupId, mut visit: impl FnMut(&mut Self, u32)) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            visit(self, at);
            at = self.table[at as usize].above;
        }
    }

    /// Returns true if the group is `reserved`, or below it.
    pub(crate) fn is_within(&self, group: GroupId, reserved: u32) -> bool {
        self.path(group).any(|g| g == reserved)
    }

    /// Returns true if the group, or one above it, has a promise.
    pub(crate) fn is_promised(&self, group: GroupId) -> bool {
        self.nearest[group.0 as usize] != NIL
    }

    /// Returns true if the group, or one above it, has a promise in requests.
    pub(crate) fn promises_requests(&self, group: GroupId) -> bool {
        self.path(group).any(|g| self.table[g as usize].iops > 0)
    }

    /// Returns true if the group's nearest promise is that of a realtime client.
    pub(crate) fn is_urgent(&self, group: GroupId) -> bool {
        let nearest = self.nearest[group.0 as usize];
        nearest != NIL && self.is_realtime(nearest)
    }

    pub(crate) fn is_realtime(&self, group: u32) -> bool {
        self.table[group as usize].realtime
    }

    /// Returns true if no reservation limits others.
    #[inline]
    pub(crate) fn has_no_bounds(&self) -> bool {
        self.starts.is_empty() && self.realtime.is_empty()
    }
}
