//! What others may have in the drive for the sake of promises.
//!
//! A client that asks for one thing at a time is kept from its min by what stands before it in the drive, however early it is
//! served. Its next request has to come back within the time that the promise gives it, less the time its client thinks; what the
//! drive takes for it alone is known; so there is a latest instant at which the drive must begin with it. Others may have in flight
//! what is done by then: a reservation that is ahead of its promise leaves them room, one that is behind leaves none, and then the
//! drive is kept for it even while it thinks. (Slack stealing: Lehoczky, Ramos-Thuel, 1992.)
//!
//! A client that not even an idle drive would serve in time does not make others suffer for it, unless it is the drive that is too slow for
//! the promise and has no time to spare beside it: such a client gets all but a slice now and then (`super::super`).

use super::{Reservation, Reservations};
use crate::elevator::contract::constants::{
    BUSY_PIECES, DEADLINE_MAX, LEAD_MAX, LEAD_PIECES, LEAD_SEEKS, LEFT_LIMITED, LEFT_ON_TIME,
    LINGER_MAX, LINGER_MIN, LINGER_PERIODS, LOOKED_AT, PIECE_PARTS, REALTIME_OWN, SEARCH_LIMIT,
    SECOND, SLICE, STRICT,
};
use crate::elevator::contract::kind::DriveKind;
use crate::elevator::contract::unit::Cost;
use crate::list::NIL;
use crate::{GroupId, Instant, Span};

/// A piece that would like to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchQuery {
    /// Whose it is.
    pub(crate) group: GroupId,
    pub(crate) cost: Cost,
    /// All that is in the drive.
    pub(crate) flight: Cost,
    /// What the drive has to do for requests that it has answered.
    pub(crate) hidden: Cost,
    /// How long the drive takes for a piece beyond what it costs.
    pub(crate) delay: Span,
    pub(crate) kind: &'static DriveKind,
    /// It goes for the sake of this reservation, which is behind; or [`NIL`].
    pub(crate) behind: u32,
    /// By how much that is behind beyond what realtime clients may make it.
    pub(crate) lag: Span,
    /// Next to nothing is known of the drive.
    pub(crate) new: bool,
    /// It has waited too long: clients that cannot be served in time must let it pass.
    pub(crate) overdue: bool,
}

/// How a reservation stands to its promise and to the drive: by which rule others have room there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// A realtime client's, which is served up to its max.
    Realtime,
    /// Its client asks for nothing, and is not about to.
    Away,
    /// Next to nothing is known of the drive.
    Unknown,
    /// Not even an idle drive would serve it in time: the drive is too slow for what the client keeps outstanding.
    DriveLimited,
    /// Not even an idle drive would serve it in time: the client keeps too little outstanding.
    LatencyLimited,
    /// It is behind by much, and may catch up.
    Late,
    /// It is on time, or behind by little.
    OnTime,
}

/// What others may have in the drive for the sake of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    most: Cost,
    /// A piece may go, whatever it costs, if others have nothing there.
    one: bool,
}

impl Room {
    /// The inequality that others' pieces keep.
    fn holds(self, others: Cost, cost: Cost) -> bool {
        others.saturating_add(cost) <= self.most || self.one && others == Cost::ZERO
    }
}

impl Reservation {
    /// The time that a request may take, as the client is.
    fn allowed(&self) -> Span {
        let think = if self.latency.pauses {
            Span::ZERO
        } else {
            self.demand.arrivals.think()
        };
        self.demand.period.min(DEADLINE_MAX + think) - think
    }

    /// Of that, what its request does not take alone.
    fn spare(&self) -> Span {
        self.allowed() - self.latency.solo
    }

    fn linger_time(&self) -> Span {
        if self.realtime {
            return SECOND;
        }
        let period = self.demand.period + self.demand.arrivals.think();
        period
            .saturating_mul(LINGER_PERIODS)
            .clamp(LINGER_MIN, LINGER_MAX)
    }

    /// Its standing, with the promises' time late by `late`. It waits for the drive (`waits`) or will ask it.
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
            // On a drive too slow for all promises nobody would catch up.
            Standing::Late
        } else {
            Standing::OnTime
        }
    }

    /// What others may have in the drive with a piece of `query`, while this one waits for the drive (`waits`) or will ask it.
    fn room(&self, now: Instant, late: Span, query: &DispatchQuery, waits: bool) -> Room {
        let due = now.saturating_sub(late);
        let bearable = |time| self.bearable(time, query.kind.least_interference);
        let only = |most| Room { most, one: false };
        match self.standing(now, late, query.new, waits) {
            Standing::Realtime => Room {
                most: self.room_beside_realtime(query),
                one: true,
            },
            Standing::Away => Room {
                most: bearable(self.spare()),
                one: true,
            },
            // What others' pieces do to the drive is seen from one at a time.
            Standing::Unknown => Room {
                most: Cost::ZERO,
                one: due.since(self.clock.kept_until) < STRICT,
            },
            Standing::DriveLimited => {
                let slice = if query.overdue { SLICE } else { Span::ZERO };
                Room {
                    most: bearable(self.clock.kept_until.since(due)).max(Cost::of(slice)),
                    one: query.overdue,
                }
            }
            Standing::LatencyLimited => {
                let delay = Cost::of(query.delay);
                let busy = delay + (delay / 2).max(query.cost * BUSY_PIECES);
                only(busy.max(self.room_beside_latency()))
            }
            Standing::Late => only(bearable(self.latest_start().since(due))),
            // Behind by little it makes up for that as long as each request comes back sooner than it has to.
            Standing::OnTime => {
                let left = self.latest_start().since(due);
                only(bearable(left.max(self.spare() / LEFT_ON_TIME)))
            }
        }
    }

    /// Others have as much again as a realtime client has itself, and what keeps the drive busy, unless the client could not have its max
    /// beside that.
    fn room_beside_realtime(&self, query: &DispatchQuery) -> Cost {
        let (delay, own) = (Cost::of(query.delay), Cost::of(self.latency.solo));
        let most = (own * REALTIME_OWN).max(delay + query.cost * BUSY_PIECES);
        let allowed = Cost::of(self.allowed());
        let fits = if (own..own + most).contains(&allowed) {
            allowed.saturating_sub(own).clamp(delay + query.cost, most)
        } else {
            most
        };
        fits + Cost::of(query.lag)
    }

    /// What keeps the drive busy beside a client whose own latency keeps it from its promise.
    fn room_beside_latency(&self) -> Cost {
        Cost::of(self.demand.period) / 8 * LEFT_LIMITED
    }

    /// The latest instant at which the drive must begin with its next request.
    pub(super) fn latest_start(&self) -> Instant {
        self.served_until() + self.spare()
    }

    /// Up to here it has been served: what has been in the drive for longer than it may is not yet served, whatever the clock says, since a
    /// drive that puts it off has too much else to do. For how long it has been there is told by how far it moved the clock.
    fn served_until(&self) -> Instant {
        let overdue = self.in_drive.promised - self.allowed().max(self.latency.solo);
        self.clock.kept_until.saturating_sub(overdue)
    }
}

/// Room for others.
impl Reservations {
    /// On a drive where going elsewhere costs `away` and pieces cost up to `largest`, reservations are served ahead so far that others are
    /// not stopped for each request.
    pub(crate) fn set_ahead(&mut self, away: Cost, largest: Cost) {
        let ahead = (away * LEAD_SEEKS).max(largest * LEAD_PIECES);
        self.ahead = ahead.time().min(LEAD_MAX);
    }

    /// The reservation for whose sake a piece must wait.
    pub(crate) fn blocking_reservation(
        &mut self,
        now: Instant,
        query: &DispatchQuery,
    ) -> Option<u32> {
        self.expire_bounds(now);
        self.learning = query.new;
        let due = now.saturating_sub(self.late).as_nanos();
        // Beyond this nothing that begins is delayed too long.
        let all = (query.flight + query.hidden + query.cost).as_nanos();
        let far = due.saturating_add(all.saturating_mul(SEARCH_LIMIT));
        let limit = match query.behind {
            NIL => far,
            behind => far.min(self.table[behind as usize].latest_start().as_nanos()),
        };
        let realtime = self.forest.iter(&self.realtime).take(LOOKED_AT);
        let starts = self.forest.iter(&self.starts).take(LOOKED_AT);
        let starts = starts.take_while(|&g| self.forest.key(g) < limit);
        realtime.chain(starts).find(|&g| {
            // Another promise does not wait for one that has had its part already.
            if query.behind != NIL && self.has_its_part(now, g) {
                return false;
            }
            let r = &self.table[g as usize];
            let room = r.room(now, self.late, query, self.is_waited_for(r));
            // A realtime client's room is for pieces: what the drive hides counts for a min only.
            let hidden = if r.realtime { Cost::ZERO } else { query.hidden };
            let others = query.flight.saturating_sub(r.in_drive.cost) + hidden;
            !room.holds(others, query.cost) && !self.is_within(query.group, g)
        })
    }

    /// True if a promise that has not had its part is behind by more than a little.
    pub(crate) fn is_one_short(&self, now: Instant) -> bool {
        let due = now.saturating_sub(self.late);
        let mut starts = self.forest.iter(&self.starts).take(LOOKED_AT);
        starts.any(|g| {
            let lag = due.since(self.table[g as usize].clock.kept_until);
            lag > STRICT && !self.has_its_part(now, g)
        })
    }

    /// What the largest piece costs that a member of `group` may send; `None` if there is no need to cut.
    #[inline]
    pub(crate) fn piece_limit(
        &mut self,
        now: Instant,
        group: GroupId,
        delay: Span,
    ) -> Option<Cost> {
        if self.bounds_nobody() {
            return None;
        }
        self.expire_bounds(now);
        let first = self
            .forest
            .iter(&self.realtime)
            .chain(self.forest.iter(&self.starts));
        let found = first.take(LOOKED_AT).find(|&g| !self.is_within(group, g))?;
        let r = &self.table[found as usize];
        let delay = Cost::of(delay);
        let room = if r.realtime {
            Cost::of(r.latency.solo) + delay
        } else if r.latency.reachable {
            r.bearable(r.spare(), 0)
        } else {
            r.room_beside_latency()
        };
        Some(room.max(delay / 2) / PIECE_PARTS)
    }

    /// When to look again whether a reservation that has nothing to be done still has to be waited for. While next to nothing is known
    /// of the drive, it is not known either which clients cannot be served in time.
    pub(crate) fn expected_arrival(&self, group: u32) -> Option<Instant> {
        let r = &self.table[group as usize];
        let learning = self.learning && self.late == Span::ZERO;
        (!self.is_waited_for(r)
            && !r.realtime
            && (r.latency.reachable || r.latency.drive_limited || learning))
            .then(|| r.demand.arrivals.expected() + Span::from_nanos(1))
    }

    /// For how long others may keep the drive busy for its sake when it is on time.
    pub(crate) fn time_for_others(&self, group: u32) -> Span {
        self.table[group as usize].spare()
    }

    /// Lets go of those that have shown no sign of life for a while.
    fn expire_bounds(&mut self, now: Instant) {
        for realtime in [true, false] {
            let tree = |s: &Self| if realtime { s.realtime } else { s.starts };
            while let Some(g) = self.forest.first(&tree(self)) {
                let r = &self.table[g as usize];
                if self.is_waited_for(r) || now.since(r.demand.last_seen) <= r.linger_time() {
                    break;
                }
                self.remove_bound(g);
            }
        }
    }

    /// Its clock or what is known of it has changed.
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
            if key > old {
                self.forest.postpone(tree, at, key);
                return;
            }
            self.forest.remove(tree, at);
        }
        self.forest.insert(tree, at, key, 0);
        self.table[at as usize].bound_realtime = self.table[at as usize].realtime;
    }

    pub(super) fn remove_bound(&mut self, at: u32) {
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
