//! What was promised: a clock for each reservation, which are behind, and what others may have in flight for its sake.
//!
//! A reservation's clock stands at the instant up to which the promise has been kept: service of `s` bytes moves it `s / min`
//! on. One that has something to send and whose clock is not ahead of now is *behind* and is served first. Of several the earliest
//! deadline comes first, which is the clock and the time that what the client keeps outstanding may take (mClock's reservation
//! tags: Gulati, Merchant, Varman, "mClock", 2010; in the order of EEVDF: Stoica, Abdel-Wahab, "Earliest eligible virtual
//! deadline first", 1995).
//!
//! A client is made whole for what it fell behind while it waited here, up to a limit. When all are behind by more, the drive is
//! too slow for what was promised: then it is the promises' time that goes slower, so that each is kept in the same proportion.
//!
//! `behind` has the clocks, `latency` how long the drive takes for a client, `room` what others may have in the drive for its sake,
//! `syncing` what flushes are to it; `flush` and `dirty` when one may begin and what may be written before.

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

use latency::Latency;

use super::constants::HEADROOM;
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

/// Clock of a promise.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Up to here the promise has been kept.
    kept_until: Instant,
    /// Up to here, if requests that cost the drive several times as much as one of 4 KiB count as several: a promise in requests goes no
    /// further before others.
    covered_until: Instant,
}

/// Requests that a client has outstanding, as a rule and now.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Its requests, as they come and end; and their bytes that are not done.
    arrivals: Arrivals,
    outstanding: Bytes,
    /// Averages of the two just before a request ends; of requests in 256ths.
    mean_outstanding: Bytes,
    mean_requests: u64,
    /// When one ended last, and the two before any did then: those that end together were all outstanding.
    ended: Instant,
    before_end: (Bytes, u64),
    /// The time at the promised rate that these take.
    period: Span,
    /// Its last sign of life.
    last_seen: Instant,
}

/// Pieces of a client that are in the drive.
#[derive(Clone, Copy, Debug, Default)]
struct InDrive {
    /// Modelled cost.
    cost: Cost,
    bytes: Bytes,
    /// By how much these bytes moved `kept_until`: by less than they take at the promised rate where the client gets more than that.
    promised: Span,
}

impl InDrive {
    /// Removes a piece.
    #[inline]
    fn remove(&mut self, op: Op, bytes: Bytes, cost: Cost) {
        self.cost = self.cost.saturating_sub(cost);
        let (all, gone) = (self.bytes, Bytes(op.charge(bytes.0)));
        self.bytes = all.saturating_sub(gone);
        let left = mul_div_floor(self.promised.as_nanos(), self.bytes.0, all.0.max(1));
        self.promised = Span::from_nanos(left);
    }
}

/// Flushes of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Syncs {
    /// The time at the promised rate of what went to the drive since its last flush ended.
    cycle: Span,
    /// It waits for these flushes, if they still run.
    flushes: u32,
}

/// One group's promise.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    /// Bytes and requests a second, zero for none; both zero: nothing reserved.
    bandwidth: u64,
    iops: u64,
    realtime: bool,
    /// Nearest group with a reservation above this one, or [`NIL`].
    above: u32,
    clock: Clock,
    demand: Demand,
    in_drive: InDrive,
    latency: Latency,
    syncs: Syncs,
    /// It is in the tree of the realtime ones.
    bound_realtime: bool,
}

/// A request has something to be sent, or is wholly in the drive: what was given up in between counts no longer.
pub(crate) fn is_outstanding(live: &Live) -> bool {
    let whole = live.stage == Stage::Drive && live.issued == live.request.length;
    let inside = whole && live.stalled == 0 || live.stage == Stage::Elevator;
    live.request.op != Op::Flush && inside
}

/// One request, where they are averaged.
pub(crate) const REQUEST: u64 = 256;

impl Default for Reservation {
    fn default() -> Self {
        Self {
            bandwidth: 0,
            iops: 0,
            realtime: false,
            above: NIL,
            clock: Clock::default(),
            demand: Demand::default(),
            in_drive: InDrive::default(),
            latency: Latency::UNKNOWN,
            syncs: Syncs::default(),
            bound_realtime: false,
        }
    }
}

impl Reservation {
    fn exists(&self) -> bool {
        self.bandwidth > 0 || self.iops > 0
    }

    /// Requests submitted and not done.
    fn requests(&self) -> u64 {
        self.demand.arrivals.outstanding().into()
    }

    /// Up to where it has been served as far as its promise goes before others.
    fn clock(&self) -> Instant {
        self.clock.kept_until.max(self.clock.covered_until)
    }

    /// The time at the promised rate, with the headroom, that this service takes.
    #[inline]
    fn time_for(&self, bytes: Bytes, requests: u64) -> Span {
        let at = |amount: u64, rate: u64| {
            if rate == 0 {
                0
            } else {
                mul_div_floor(
                    amount,
                    64 * 1_000_000_000,
                    rate.saturating_mul(64 + HEADROOM),
                )
            }
        };
        Span::from_nanos(at(bytes.0, self.bandwidth).max(at(requests, self.iops)))
    }

    /// The time that what it has outstanding as a rule takes at the promised rate.
    fn time_for_usual(&self) -> Span {
        let requests = self.time_for(Bytes::ZERO, self.demand.mean_requests) / REQUEST;
        self.time_for(self.demand.mean_outstanding, 0).max(requests)
    }
}

/// All reservations.
#[derive(Debug)]
pub(crate) struct Reservations {
    table: Vec<Reservation>,
    /// The group itself if it has a reservation, else the nearest above it that has, else [`NIL`].
    nearest: Vec<u32>,
    /// Those with something to send, by their deadline, from when their promise has been kept on; realtime ones apart, by their clock.
    behind: Tree,
    waiting: Forest,
    urgent: Heap,
    /// Those that bound others, by the latest instant at which the drive must begin with their next request; realtime ones apart.
    starts: Tree,
    realtime: Tree,
    forest: Sorted,
    /// By this the promises' time is behind: a drive too slow for all of them keeps each in proportion.
    late: Span,
    /// How far a reservation may be served ahead of its promise.
    ahead: Span,
    /// Next to nothing is known of the drive.
    learning: bool,
    /// How often flushes have run, and none any longer; counted from one.
    flushes: u32,
    catch_up: Span,
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
            late: Span::ZERO,
            ahead: Span::ZERO,
            learning: true,
            flushes: 1,
            catch_up,
            forget,
        }
    }

    /// The tree or its contracts changed: those of groups in these slots, and no other group's
    /// nearest reservation.
    pub(crate) fn set_contracts(&mut self, now: Instant, groups: &Groups, slots: Range<u32>) {
        self.notice_standstill(now);
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
        } else if !existed && exists {
            r.clock.kept_until = due;
            r.demand.arrivals.observe_quiet(now);
        } else if changed && exists {
            // What it was ahead or behind by was of another promise; and it may be in a tree of another class.
            r.clock = Clock {
                kept_until: due,
                covered_until: Instant::ZERO,
            };
            r.in_drive.promised = Span::ZERO;
            let waits = self.waiting.contains(slot) || self.urgent.get(slot).is_some();
            self.remove_bound(slot);
            self.stop_waiting(slot);
            if waits {
                self.start_waiting(slot);
            }
        }
    }

    /// The reservations on the path of a group, itself first.
    fn path(&self, group: GroupId) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.nearest[group.0 as usize]).filter(|&g| g != NIL);
        core::iter::successors(first, |&g| {
            Some(self.table[g as usize].above).filter(|&g| g != NIL)
        })
    }

    /// Calls `visit` with each reservation on the path of a group, the nearest first.
    #[inline]
    fn for_each(&mut self, group: GroupId, mut visit: impl FnMut(&mut Self, u32)) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            visit(self, at);
            at = self.table[at as usize].above;
        }
    }

    /// True if the group is `reserved` or below it.
    pub(crate) fn is_within(&self, group: GroupId, reserved: u32) -> bool {
        self.path(group).any(|g| g == reserved)
    }

    /// True if the group or one above it has a promise.
    pub(crate) fn is_promised(&self, group: GroupId) -> bool {
        self.nearest[group.0 as usize] != NIL
    }

    /// True if the group or one above it has a promise in requests.
    pub(crate) fn promises_requests(&self, group: GroupId) -> bool {
        self.path(group).any(|g| self.table[g as usize].iops > 0)
    }

    /// True if the group's own promise is a realtime one.
    pub(crate) fn is_urgent(&self, group: GroupId) -> bool {
        let nearest = self.nearest[group.0 as usize];
        nearest != NIL && self.is_realtime(nearest)
    }

    pub(crate) fn is_realtime(&self, group: u32) -> bool {
        self.table[group as usize].realtime
    }

    /// True if nobody has a reservation that bounds others.
    #[inline]
    pub(crate) fn bounds_nobody(&self) -> bool {
        self.starts.is_empty() && self.realtime.is_empty()
    }
}
