//! Limits how much other clients may have in flight, so that promises can be kept.
//!
//! A client with a queue depth of 1 can miss its minimum even if it is always served first, because
//! its requests wait in the drive behind the requests of others. This module prevents that by
//! computing a *latest start* for each reservation: the time by which the drive must begin with the
//! client's next request. It follows from the time that the promise allows for a request, the
//! client's think time, and the time that the drive needs for the request alone.
//!
//! Other clients may have as much work in flight as the drive completes before the latest start
//! (slack stealing: Lehoczky, Ramos-Thuel, 1992). If a client is ahead of its promise, that leaves
//! slack for others. If it is behind, it leaves none, and the drive stays reserved for it even
//! while it thinks.
//!
//! If even an idle drive could not serve a client in time, others are not limited for its sake.
//! There is one exception: if the reason is that the drive is too slow for the promise, the client
//! gets the whole drive except for occasional slices (see [`SLICE`]).

use super::{PromiseLoad, Reservation, Reservations};
use crate::elevator::contract::constants::{
    BUSY_PIECES, DEADLINE_MAX, HELD_MAX, INTERFERENCE_MAX, LEAD_MAX, LEAD_PIECES, LEFT_LIMITED,
    LEFT_ON_TIME, LOOKED_AT, PIECE_PARTS, REALTIME_OWN, SECOND, SLICE, STRICT, VARIES,
};
use crate::elevator::contract::kind::DriveKind;
use crate::elevator::contract::unit::{Bytes, Cost};
use crate::list::NIL;
use crate::{GroupId, Instant, Span};

/// A load of the whole time.
const WHOLE_TIME: u32 = 256;

impl PromiseLoad {
    /// Returns true if the drive can keep the promises only by serving several clients at a time.
    pub(super) fn is_crowd(self) -> bool {
        self.serial > WHOLE_TIME.max(self.busy * 2)
    }
}

/// A piece that could be dispatched now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchQuery {
    /// The group that the piece belongs to.
    pub(crate) group: GroupId,
    /// The cost of the piece.
    pub(crate) cost: Cost,
    /// The cost of everything in flight.
    pub(crate) flight: Cost,
    /// The cost of hidden work: writes that completed but are not on the medium yet.
    pub(crate) hidden: Cost,
    /// The time that the drive takes for a piece beyond its cost.
    pub(crate) delay: Span,
    /// The kind of the drive.
    pub(crate) kind: &'static DriveKind,
    /// The reservation for whose sake the piece would be dispatched, because it is behind, or
    /// [`NIL`].
    pub(crate) behind: u32,
    /// The additional work that realtime clients must accept, as a time: it grows with the lag of
    /// that reservation.
    pub(crate) lag: Span,
    /// True while too little is known about the drive.
    pub(crate) new: bool,
    /// True if the piece has waited for so long that clients which cannot be served in time must
    /// let it pass.
    pub(crate) overdue: bool,
}

/// The state of a reservation, which selects the rule for the work that others may have in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// The client is of class realtime, and is served up to its max.
    Realtime,
    /// The client has no outstanding request, and does not send one soon.
    Away,
    /// Too little is known about the drive.
    Unknown,
    /// Not even an idle drive would serve the client in time, because the drive is too slow for the
    /// client's outstanding requests.
    DriveLimited,
    /// Not even an idle drive would serve the client in time, because the client has too few
    /// outstanding requests.
    LatencyLimited,
    /// The client is far behind, and can catch up.
    Late,
    /// The client is on time, or only a little behind.
    OnTime,
}

/// The work that others may have in flight for the sake of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SlackLimit {
    /// The largest sum of their costs.
    most: Cost,
    /// True if one piece may be dispatched at any cost while the others have nothing in flight.
    one: bool,
}

impl SlackLimit {
    /// Returns true if a piece of `cost` may join the work of `others`.
    fn holds(self, others: Cost, cost: Cost) -> bool {
        others.saturating_add(cost) <= self.most || self.one && others == Cost::ZERO
    }
}

impl Reservation {
    /// Returns the time that the promise allows for one request.
    fn allowed(&self) -> Span {
        // A client that pauses for too long is judged only while it has requests, so its think time
        // does not count.
        let think = if self.latency.pauses {
            Span::ZERO
        } else {
            self.demand.arrivals.think()
        };
        // A request that takes long on a server across a network is no sign of too much other work.
        let most = if self.latency.slope.get().is_some() {
            DEADLINE_MAX.saturating_mul(VARIES)
        } else {
            DEADLINE_MAX
        };
        self.demand.period.min(most + think) - think
    }

    /// Returns the part of the allowed time that the client's request does not need without
    /// contention.
    fn spare(&self) -> Span {
        self.allowed() - self.latency.solo
    }

    /// Returns the state of the reservation. `late` is the lag of the promises' time base, and
    /// `waits` is true if the client waits for the drive.
    fn standing(&self, now: Instant, late: Span, new: bool, waits: bool) -> Standing {
        if self.realtime {
            Standing::Realtime
        } else if !waits && now > self.demand.arrivals.expected() {
            Standing::Away
        } else if new {
            Standing::Unknown
        } else if !self.latency.reachable && self.latency.drive_limited {
            Standing::DriveLimited
        } else if !self.latency.reachable {
            Standing::LatencyLimited
        } else if late == Span::ZERO && now.since(self.served_until()) > STRICT {
            // On a drive that is too slow for all promises, no client would catch up.
            Standing::Late
        } else {
            Standing::OnTime
        }
    }

    /// Returns the work that others may have in flight together with the piece of `query`. `waits`
    /// is true if the client waits for the drive.
    fn room(&self, now: Instant, late: Span, query: &DispatchQuery, waits: bool) -> SlackLimit {
        let due = now.saturating_sub(late);
        let bearable = |time| self.bearable(time, query.kind.seeks);
        let only = |most| SlackLimit { most, one: false };
        match self.standing(now, late, query.new, waits) {
            Standing::Realtime => SlackLimit {
                most: self.room_beside_realtime(query),
                one: true,
            },
            Standing::Away => SlackLimit {
                most: bearable(self.spare()),
                one: true,
            },
            // While the costs are unknown, the effect of other work on the client is visible only
            // if the pieces come one at a time.
            Standing::Unknown => SlackLimit {
                most: Cost::ZERO,
                one: due.since(self.kept_until) < STRICT,
            },
            // The drive has no time to spare next to this promise. Others pass only if they have
            // waited for `HELD_MAX`.
            Standing::DriveLimited => {
                let slice = if query.overdue { SLICE } else { Span::ZERO };
                SlackLimit {
                    most: bearable(self.kept_until.since(due)).max(Cost::of(slice)),
                    one: query.overdue,
                }
            }
            // An idle drive would not help this client, so others may keep the drive busy.
            Standing::LatencyLimited => {
                let delay = Cost::of(query.delay);
                let busy = delay + (delay / 2).max(query.cost * BUSY_PIECES);
                only(busy.max(self.room_beside_latency()))
            }
            Standing::Late => only(bearable(self.latest_start().since(due))),
            // A client that is only a little behind catches up as long as each request completes
            // sooner than it must.
            Standing::OnTime => {
                let left = self.latest_start().since(due);
                let room = Cost::from_nanos(self.latency.slope.room(self.allowed()));
                only(bearable(left.max(self.spare() / LEFT_ON_TIME)).max(room))
            }
        }
    }

    /// Returns the work that others may have in flight next to a realtime client: [`REALTIME_OWN`]
    /// times the client's own latency, and at least the work that keeps the drive busy. It is less
    /// if the client could not reach its max otherwise.
    fn room_beside_realtime(&self, query: &DispatchQuery) -> Cost {
        let (delay, own) = (Cost::of(query.delay), Cost::of(self.latency.solo));
        let most = (own * REALTIME_OWN).max(delay + query.cost * BUSY_PIECES);
        let allowed = Cost::of(self.allowed());
        // Less room helps only if the client can reach its max with it, so the allowed time must
        // not be shorter than the client's own.
        let fits = if (own..own + most).contains(&allowed) {
            allowed.saturating_sub(own).clamp(delay + query.cost, most)
        } else {
            most
        };
        fits + Cost::of(query.lag)
    }

    /// Returns the work that others may have in flight next to a client that misses its promise
    /// because of its own latency.
    fn room_beside_latency(&self) -> Cost {
        Cost::of(self.demand.period) / 8 * LEFT_LIMITED
    }

    /// Returns the latest time at which the drive must begin with the client's next request.
    pub(super) fn latest_start(&self) -> Instant {
        self.served_until() + self.spare()
    }

    /// Returns the time up to which the client has been served. A piece that has been in the drive
    /// for longer than the promise permits does not count as served, because a drive that delays it
    /// has too much other work. The time for which the pieces have been there is derived from their
    /// advance of the clock.
    fn served_until(&self) -> Instant {
        let overdue = self.in_drive.promised - self.allowed().max(self.latency.solo);
        self.clock().saturating_sub(overdue)
    }
}

/// Limits that reservations set to the work of others.
impl Reservations {
    /// Sets the maximum lead, so that others are not stopped for each request. On a drive that
    /// `seeks`, a client is served for some time without a seek. `largest` is the cost of the
    /// largest recent piece.
    pub(crate) fn set_ahead(&mut self, seeks: bool, largest: Cost) {
        let pieces = (largest * LEAD_PIECES).time();
        self.ahead = if seeks {
            LEAD_MAX
        } else {
            pieces.min(LEAD_MAX)
        };
    }

    /// Returns the first reservation for whose sake the piece of `query` must wait.
    pub(crate) fn blocking_reservation(
        &mut self,
        now: Instant,
        query: &DispatchQuery,
    ) -> Option<u32> {
        self.expire_bounds(now);
        self.learning = query.new;
        let due = now.saturating_sub(self.late).as_nanos();
        // An interference of at most `INTERFERENCE_MAX` bounds the delay. So a reservation with a
        // later start than this cannot be made late by the work.
        let all = (query.flight + query.hidden + query.cost).as_nanos();
        let far = due.saturating_add(all.saturating_mul(INTERFERENCE_MAX));
        // A piece that serves a promise waits only for promises with an earlier latest start.
        let limit = match query.behind {
            // In a crowd, only realtime clients limit others.
            _ if self.crowded && !query.new => 0,
            NIL => far,
            behind => far.min(self.table[behind as usize].latest_start().as_nanos()),
        };
        // Few reservations are checked, so that the work of a decision is bounded. The trees have
        // the most urgent ones first.
        let realtime = self.forest.iter(&self.realtime).take(LOOKED_AT);
        let starts = self.forest.iter(&self.starts).take(LOOKED_AT);
        let starts = starts.take_while(|&g| self.forest.key(g) < limit);
        realtime.chain(starts).find(|&g| {
            let r = &self.table[g as usize];
            if query.behind != NIL && self.has_long_flush(now, r) {
                return false;
            }
            let room = r.room(now, self.late, query, self.is_waited_for(r));
            // A realtime client limits pieces only. Hidden work counts only for a min.
            let hidden = if r.realtime { Cost::ZERO } else { query.hidden };
            let others = query.flight.saturating_sub(r.in_drive.cost) + hidden;
            !room.holds(others, query.cost) && !self.is_within(query.group, g)
        })
    }

    /// Returns true if the client waits only for a flush, which has run for longer than
    /// [`HELD_MAX`]. It no longer delays other promises, because a flush that writes back a large
    /// cache takes seconds.
    fn has_long_flush(&self, now: Instant, r: &Reservation) -> bool {
        let waits = r.requests() == 0 && self.is_waited_for(r);
        waits && now.since(r.demand.last_seen) > HELD_MAX
    }

    /// Returns the largest cost of a piece that a member of `group` may send. `None` if there is no
    /// need to cut pieces.
    #[inline]
    pub(crate) fn piece_limit(
        &mut self,
        now: Instant,
        group: GroupId,
        delay: Span,
    ) -> Option<Cost> {
        if self.has_no_bounds() {
            return None;
        }
        self.expire_bounds(now);
        let first = self
            .forest
            .iter(&self.realtime)
            .chain(self.forest.iter(&self.starts));
        // The group's own reservation does not limit its pieces.
        let found = first.take(LOOKED_AT).find(|&g| !self.is_within(group, g))?;
        let r = &self.table[found as usize];
        let delay = Cost::of(delay);
        if r.realtime {
            return Some((Cost::of(r.latency.solo) + delay) / PIECE_PARTS);
        }
        let room = if r.latency.reachable {
            r.bearable(r.spare(), false)
        } else {
            r.room_beside_latency()
        };
        // A piece that costs less than the delay would not return much earlier.
        Some((room / PIECE_PARTS).max(delay))
    }

    /// Returns the time at which to check again whether the drive must be kept for a reservation
    /// that has no work in it. `None` if the drive is not kept. While too little is known about the
    /// drive, it is also unknown which clients cannot be served in time, so the drive is kept for
    /// all of them.
    pub(crate) fn expected_arrival(&self, group: u32) -> Option<Instant> {
        let r = &self.table[group as usize];
        let learning = self.learning && self.late == Span::ZERO;
        (!self.is_waited_for(r)
            && !r.realtime
            && (r.latency.reachable || r.latency.drive_limited || learning))
            // One nanosecond later, the client counts as away.
            .then(|| r.demand.arrivals.expected() + Span::from_nanos(1))
    }

    /// Returns the time for which others may keep the drive busy if the reservation is on time.
    pub(crate) fn time_for_others(&self, group: u32) -> Span {
        self.table[group as usize].spare()
    }

    /// Ends the limits of clients that have sent nothing for some time: after [`SECOND`] for a
    /// realtime client, and otherwise after the pause that resets the client's clock.
    fn expire_bounds(&mut self, now: Instant) {
        for realtime in [true, false] {
            let tree = |s: &Self| if realtime { s.realtime } else { s.starts };
            let longest = if realtime { SECOND } else { self.forget };
            while let Some(g) = self.forest.first(&tree(self)) {
                let r = &self.table[g as usize];
                if self.is_waited_for(r) || now.since(r.demand.last_seen) <= longest {
                    break;
                }
                self.remove_bound(g);
            }
        }
    }

    /// Updates the place of a reservation in its tree after a change of its clock or latency.
    pub(super) fn update_bound(&mut self, at: u32) {
        let r = &self.table[at as usize];
        let (key, tree) = if r.realtime {
            (r.latency.solo.as_nanos(), &mut self.realtime)
        } else {
            (r.latest_start().as_nanos(), &mut self.starts)
        };
        if self.forest.contains(at) {
            let old = self.forest.key(at);
            if old == key {
                return;
            }
            // The usual case, because clocks advance: the node moves to a later place.
            if key > old {
                self.forest.postpone(tree, at, key);
                return;
            }
            self.forest.remove(tree, at);
        }
        self.forest.insert(tree, at, key, 0);
        self.table[at as usize].bound_realtime = self.table[at as usize].realtime;
    }

    /// Updates the load of a reservation after a request that ended with a piece of `bytes` at
    /// `cost`.
    pub(super) fn update_load(&mut self, at: u32, bytes: Bytes, cost: Cost, kind: &DriveKind) {
        let r = &self.table[at as usize];
        let load = if kind.may_seek || kind.varies || r.realtime || !r.latency.reachable {
            PromiseLoad::default()
        } else {
            let part = |time: Span, of: Span| {
                let (time, of) = (time.as_nanos(), of.as_nanos());
                (time.saturating_mul(WHOLE_TIME.into()) / of.max(time).max(1)) as u32
            };
            PromiseLoad {
                serial: part(r.latency.solo, r.allowed()),
                busy: part(cost.time(), r.time_for(bytes, 1)),
            }
        };
        self.set_load(at, load);
        self.crowded &= self.load.is_crowd();
    }

    /// Sets the load of a reservation, and keeps the sum of all.
    fn set_load(&mut self, at: u32, load: PromiseLoad) {
        let old = core::mem::replace(&mut self.table[at as usize].load, load);
        self.load.serial = self.load.serial - old.serial + load.serial;
        self.load.busy = self.load.busy - old.busy + load.busy;
    }

    /// Returns true while no promise reserves the drive. This begins if a client is late although
    /// the drive is fast enough for all promises, because it is too slow if it serves one client
    /// after another. Then reserving the drive for one client would break the promises of others.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Ends the limit that a reservation sets to others.
    pub(super) fn remove_bound(&mut self, at: u32) {
        self.set_load(at, PromiseLoad::default());
        if self.forest.contains(at) {
            let tree = if self.table[at as usize].bound_realtime {
                &mut self.realtime
            } else {
                &mut self.starts
            };
            self.forest.remove(tree, at);
        }
    }
}
