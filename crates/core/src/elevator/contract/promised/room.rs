//! What others may have in the drive for the sake of promises.
//!
//! A client that asks for one thing at a time is kept from its min by what stands before it in the drive, however early it is
//! served. Its next request has to come back within the time that the promise gives it, less the time its client thinks; what the
//! drive takes for it alone is known; so there is a latest instant at which the drive must begin with it. Others may have in flight
//! what is done by then: a reservation that is ahead of its promise leaves them room, one that is behind leaves none, and then the
//! drive is kept for it even while it thinks. (Slack stealing: Lehoczky, Ramos-Thuel, 1992.)
//!
//! Modelled cost is the time in which the drive is done with it, but a drive that does many things at once delays a request by less,
//! and one that hides work by more: how much, is learned for each reservation from its own requests.
//!
//! A client that not even an idle drive would serve in time does not make others suffer for it, unless it is the drive that is too slow for
//! the promise and has no time to spare beside it: such a client gets all but a slice now and then (`super::super`).

use super::flush::Late;
use super::{FULL_INTERFERENCE, Reservation, Reservations, STRICT};
use crate::elevator::contract::unit::Cost;
use crate::list::NIL;
use crate::{GroupId, Instant, Op, Span};

/// A reservation that asks for nothing bounds others for at least and at most this long, a realtime one for a second.
const LINGER_MIN: Span = Span::from_millis(5);
const LINGER_MAX: Span = Span::from_millis(100);
const LINGER_REALTIME: Span = Span::from_secs(1);
/// Number of reservations, of those that must begin first, that are looked at for each piece.
const LOOKED_AT: usize = 4;
/// However deep its queue, a client waits at most this long for its next request to be begun with.
const DEADLINE_MAX_NS: u64 = 50_000_000;
/// Bounds of how much others' work delays a client, in 256ths: a sixteenth to eight times as long as it takes.
const INTERFERENCE: core::ops::RangeInclusive<u64> = FULL_INTERFERENCE / 16..=FULL_INTERFERENCE * 8;
/// A piece that takes this much longer than it does alone was not alone.
const HIDDEN_NS: u64 = 500_000;
/// A client kept from the drive for too long has it for this time.
pub(crate) const SLICE: Span = Span::from_millis(10);
/// Reservations are served ahead by at most this.
pub(super) const AHEAD_MAX_NS: u64 = 60_000_000;

/// Number of reservations with nothing waiting for which a flush is held back, at most.
const SYNC_LOOKED_AT: usize = 32;

/// What is known of a piece that came back.
#[derive(Clone, Copy)]
pub(crate) struct CompletedPiece<'a> {
    /// What it did.
    pub(crate) op: Op,
    /// How long it was in the drive, in nanoseconds.
    pub(crate) time: u64,
    /// How long such a piece takes at the least, or what it costs, if that is more: asked for by those that seem late.
    pub(crate) usual: &'a dyn Fn() -> u64,
    /// The modelled cost that others had in the drive when it went there.
    pub(crate) cost_ahead: Cost,
    /// It had the drive to itself all the time.
    pub(crate) alone: bool,
    /// The drive does one thing after the other.
    pub(crate) serial: bool,
}

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
    pub(crate) delay: u64,
    /// The drive does one thing after the other: whomever it lets pass, all that is there has to be done.
    pub(crate) serial: bool,
    /// It goes for the sake of this reservation, which is behind; or [`NIL`].
    pub(crate) behind: u32,
    /// By how much that is behind beyond what realtime clients may make it.
    pub(crate) lag: u64,
    /// Next to nothing is known of the drive.
    pub(crate) new: bool,
    /// It has waited too long: clients that cannot be served in time must let it pass.
    pub(crate) overdue: bool,
}

impl Reservation {
    /// The time that a request may take, as the client is.
    fn allowed_ns(&self) -> u64 {
        let think_ns = if self.pauses {
            0
        } else {
            self.arrivals.think_ns()
        };
        self.period_ns
            .min(DEADLINE_MAX_NS + think_ns)
            .saturating_sub(think_ns)
    }

    fn linger_time(&self) -> Span {
        if self.realtime {
            return LINGER_REALTIME;
        }
        let period = Span::from_nanos(self.period_ns + self.arrivals.think_ns());
        period.saturating_mul(4).clamp(LINGER_MIN, LINGER_MAX)
    }

    /// A piece of it came back. True if it took that much longer than it does alone, with nothing in front of it, that the drive must
    /// have had something else to do.
    pub(super) fn observe_completion(&mut self, drive: CompletedPiece<'_>) -> bool {
        let CompletedPiece {
            time,
            usual,
            cost_ahead,
            alone,
            serial,
            ..
        } = drive;
        let far = if alone { 2 } else { 3 };
        let late = |usual: u64| time > far * usual + HIDDEN_NS;
        let cost_ahead = cost_ahead.as_nanos();
        let hidden =
            cost_ahead == 0 && self.solo_latency > 0 && late(self.solo_latency) && late(usual());
        if self.solo_latency == 0 {
            self.solo_latency = time;
        } else if time < self.solo_latency {
            self.solo_latency -= (self.solo_latency - time) / 2;
        } else if cost_ahead == 0 {
            self.solo_latency +=
                (time - self.solo_latency).min(self.solo_latency) / if hidden { 64 } else { 16 };
        }
        if cost_ahead > self.solo_latency / 8 {
            let sample = time
                .saturating_sub(self.solo_latency)
                .saturating_mul(FULL_INTERFERENCE)
                / cost_ahead;
            let sample = sample.min(*INTERFERENCE.end());
            self.interference = (self.interference - self.interference / 8 + sample / 8)
                .clamp(*INTERFERENCE.start(), *INTERFERENCE.end());
        }
        let within = |allowed_ns: u64| self.solo_latency <= allowed_ns + allowed_ns / 8;
        self.reachable = within(self.period_ns.saturating_sub(self.arrivals.think_ns()));
        self.pauses = !self.reachable && within(self.period_ns / 2);
        self.reachable |= self.pauses;
        self.drive_limited = (serial || 2 * self.flight.as_nanos() >= self.solo_latency)
            && self.solo_latency > self.period_ns;
        hidden
    }

    /// True if others may have `others` and a piece of `query` in the drive while this one waits for the drive (`waits`) or will ask it.
    fn leaves_room(
        &self,
        now: Instant,
        late: Span,
        others: Cost,
        query: &DispatchQuery,
        waits: bool,
    ) -> bool {
        // The drive is busy: it is done with what is in it after the time that it costs.
        let (others, cost) = (others.as_nanos(), query.cost.as_nanos());
        if self.realtime {
            let others = query.flight.saturating_sub(self.flight).as_nanos();
            // Others have as much again as it has itself, and what keeps the drive busy, unless it could not have its max beside that.
            let most = (2 * self.solo_latency).max(query.delay + 2 * cost);
            let allowed_ns = self.allowed_ns();
            let most = if (self.solo_latency..self.solo_latency + most).contains(&allowed_ns) {
                (allowed_ns - self.solo_latency).clamp(query.delay + cost, most)
            } else {
                most
            };
            let most = most + query.lag;
            return others == 0 || others + cost <= most;
        }
        let interference = if query.serial {
            self.interference.max(FULL_INTERFERENCE)
        } else {
            self.interference
        };
        let cost_ahead = (others + cost).saturating_mul(interference) / FULL_INTERFERENCE;
        let allowed_ns = self.allowed_ns();
        let due = now.saturating_sub(late);
        if !waits && now > self.arrivals.expected() {
            return others == 0 || cost_ahead <= allowed_ns.saturating_sub(self.solo_latency);
        }
        if query.new {
            // What others' pieces do to the drive is seen from one at a time.
            return others == 0 && due.since(self.kept_until) < STRICT;
        }
        if !self.reachable {
            if self.drive_limited {
                let slice = query.overdue && (others == 0 || others + cost <= SLICE.as_nanos());
                return slice || cost_ahead <= self.kept_until.since(due).as_nanos();
            }
            let least = query.delay + (query.delay / 2).max(2 * cost);
            return others + cost <= least.max(self.period_ns / 8 * 7);
        }
        let mut begin = self.latest_start();
        if !waits {
            begin = begin.max(self.arrivals.usual().saturating_sub(late));
        }
        let room = begin.since(due).as_nanos();
        let lag = due.since(self.kept_until.saturating_sub(self.overdue_in_drive()));
        // On a drive too slow for all promises nobody would catch up.
        if lag > STRICT && late == Span::ZERO {
            return cost_ahead <= room;
        }
        // Behind by little it makes up for that as long as each request comes back sooner than it has to.
        cost_ahead <= room.max(allowed_ns.saturating_sub(self.solo_latency) / 2)
    }

    /// The latest instant at which the drive must begin with its next request. What has been in the drive for longer than it may is
    /// not yet served, whatever the clock says: a drive that puts it off has too much else to do.
    pub(super) fn latest_start(&self) -> Instant {
        let left = Span::from_nanos(self.allowed_ns().saturating_sub(self.solo_latency));
        self.kept_until.saturating_sub(self.overdue_in_drive()) + left
    }

    /// By how much longer its requests have been in the drive than they may.
    fn overdue_in_drive(&self) -> Span {
        let needed_ns = self.time_for(self.bytes_in_drive, self.requests_in_drive);
        Span::from_nanos(needed_ns.saturating_sub(self.allowed_ns().max(self.solo_latency)))
    }
}

/// Room for others.
impl Reservations {
    /// On a drive where going elsewhere costs `away` and pieces cost up to `largest`, reservations are served ahead so far that others are
    /// not stopped for each request.
    pub(crate) fn set_ahead(&mut self, away: Cost, largest: Cost) {
        let ahead = (away * 4).max(largest * 2);
        self.ahead = Span::from_nanos(ahead.as_nanos().min(AHEAD_MAX_NS));
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
        let far = due.saturating_add(all.saturating_mul(8));
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
            let others = query.flight.saturating_sub(r.flight) + query.hidden;
            !r.leaves_room(now, self.late, others, query, self.is_waited_for(r))
                && !self.is_within(query.group, g)
        })
    }

    /// True if a promise that has not had its part is behind by more than a little.
    pub(crate) fn is_one_short(&self, now: Instant) -> bool {
        let due = now.saturating_sub(self.late);
        let mut starts = self.forest.iter(&self.starts).take(LOOKED_AT);
        starts.any(|g| {
            let lag = due.since(self.table[g as usize].kept_until);
            lag > STRICT && !self.has_its_part(now, g)
        })
    }

    /// What the largest piece costs that a member of `group` may send; `None` if there is no need to cut.
    #[inline]
    pub(crate) fn piece_limit(&mut self, now: Instant, group: GroupId, delay: u64) -> Option<Cost> {
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
        let room = if r.realtime {
            r.solo_latency + delay
        } else if r.reachable {
            r.allowed_ns()
                .saturating_sub(r.solo_latency)
                .saturating_mul(FULL_INTERFERENCE)
                / r.interference
        } else {
            r.period_ns / 8 * 7
        };
        Some(Cost::from_nanos(room.max(delay / 2) / 2))
    }

    /// When to look again whether a reservation that has nothing to be done still has to be waited for. While next to nothing is known
    /// of the drive, it is not known either which clients cannot be served in time.
    pub(crate) fn expected_arrival(&self, group: u32) -> Option<Instant> {
        let r = &self.table[group as usize];
        let learning = self.learning && self.late == Span::ZERO;
        (!self.is_waited_for(r) && !r.realtime && (r.reachable || r.drive_limited || learning))
            .then(|| r.arrivals.expected() + Span::from_nanos(1))
    }

    /// What others may have in flight for its sake when it is on time, in nanoseconds.
    pub(crate) fn room_for_others_ns(&self, group: u32) -> u64 {
        let r = &self.table[group as usize];
        r.allowed_ns().saturating_sub(r.solo_latency)
    }

    /// Lets go of those that have shown no sign of life for a while.
    fn expire_bounds(&mut self, now: Instant) {
        for realtime in [true, false] {
            let tree = |s: &Self| if realtime { s.realtime } else { s.starts };
            while let Some(g) = self.forest.first(&tree(self)) {
                let r = &self.table[g as usize];
                if self.is_waited_for(r) || now.since(r.last_seen) <= r.linger_time() {
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
            (r.solo_latency, &mut self.realtime)
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

/// Flushes in front of promised requests.
impl Reservations {
    /// A reservation that is behind, or would be beyond its deadline, while a flush that takes `time` runs after `running` others.
    /// Of those with nothing to be done, only one that is about to ask counts, and not one that waits for a flush itself (`syncs`); nor
    /// any that is less behind than one of those.
    pub(crate) fn late_by_flush(
        &self,
        now: Instant,
        time: u64,
        running: u64,
        behind: Span,
        syncs: impl Fn(u32) -> bool,
    ) -> Option<Late> {
        let due = now.saturating_sub(self.late);
        let wait = time.saturating_mul(running + 1);
        let waits = self.waiting.first_eligible(&self.behind, due.as_nanos());
        let others = self
            .forest
            .iter(&self.realtime)
            .chain(self.forest.iter(&self.starts));
        let mut found = None;
        for group in waits.into_iter().chain(others.take(SYNC_LOOKED_AT)) {
            let r = &self.table[group as usize];
            // A realtime client's clock shows what it did not ask for, not what it lacks.
            let lag = if r.realtime {
                0
            } else {
                due.since(r.kept_until).as_nanos()
            };
            let in_time = lag.saturating_add(wait) <= r.period_ns / 2;
            if in_time || (lag == 0 && running == 0) || (lag > 0 && lag <= behind.as_nanos()) {
                continue;
            }
            let mut until = Instant::MAX;
            if r.requests() == 0 {
                until = r.arrivals.expected();
                if now >= until || syncs(group) {
                    continue;
                }
            }
            let reachable = r.reachable;
            found = Some(Late { reachable, until });
            if reachable {
                break;
            }
        }
        found
    }
}
