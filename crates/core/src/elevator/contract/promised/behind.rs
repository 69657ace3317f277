//! Advances the clocks as requests arrive, are dispatched and complete, and finds the reservations
//! that are behind.

use super::{CompletedPiece, REQUEST, Reservation, Reservations, WorkInFlight};
use crate::elevator::contract::constants::{STANDSTILL, STRICT};
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::{Bytes, Cost};
use crate::list::NIL;
use crate::{GroupId, Instant, Op, Span};
use core::ops::Range;

impl Reservations {
    /// Accounts for a request of `bytes` that arrives.
    pub(crate) fn observe_arrival(&mut self, now: Instant, group: GroupId, bytes: Bytes) {
        self.detect_stall(now);
        self.for_each(group, |all, at| {
            let (due, catch_up, forget) = (now.saturating_sub(all.late), all.catch_up, all.forget);
            let r = &mut all.table[at as usize];
            let pause = r.demand.arrivals.observe_request(now, forget);
            let kept_until = &mut r.kept_until;
            // A realtime client keeps the service that it did not request recently, because it is
            // served up to its max.
            if pause.is_some_and(|pause| pause > forget || r.latency.pauses) && !r.realtime {
                *kept_until = (*kept_until).max(due);
            }
            if r.realtime || !all.waiting.contains(at) {
                // The client had no queued request, so it lost this time through itself. It keeps a
                // deficit of at most `catch_up`.
                *kept_until = (*kept_until).max(due.saturating_sub(catch_up));
            }
            r.demand.outstanding += bytes;
            r.demand.last_seen = now;
            all.update_bound(at);
            all.start_waiting(at);
        });
    }

    /// Accounts for a piece of `bytes` that is dispatched at `cost`. `last` is true for the last
    /// piece of a request, and `costly` if the request costs more than admission assumes for
    /// a promise in requests.
    pub(crate) fn observe_dispatch(
        &mut self,
        now: Instant,
        group: GroupId,
        bytes: Bytes,
        cost: Cost,
        last: bool,
        costly: bool,
    ) {
        let (due, ahead) = (now.saturating_sub(self.late), self.ahead);
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            // The first request of a client: there is no average yet, so its outstanding requests
            // count as usual.
            if r.demand.mean_outstanding == Bytes::ZERO {
                r.demand.mean_outstanding = r.demand.outstanding;
                r.demand.mean_requests = r.requests() * REQUEST;
                r.demand.period = r.time_for_usual();
            }
            // Service beyond the promise, and beyond the maximum lead, does not count against the
            // client later (mClock treats its weight-based phase in the same way).
            let from = r.kept_until.min(due + ahead);
            let time = r.time_for(bytes, u64::from(last));
            r.in_drive.promised += (from + time).since(r.kept_until);
            r.kept_until = from + time;
            if costly && r.iops > 0 {
                r.deferred_until = due.saturating_sub(STRICT + r.deadline_time());
            }
            r.syncs.cycle += time;
            r.in_drive.cost += cost;
            r.in_drive.bytes += bytes;
            // A realtime client waits in the order of its clock, which has just changed. It is
            // inserted again if it has more requests.
            all.urgent.clear(at);
            all.update_bound(at);
        });
    }

    /// Updates the order of the reservations on the path of `group`: those that still have a queued
    /// request wait, and the others do not.
    pub(crate) fn update_waiting(&mut self, group: GroupId, active: impl Fn(u32) -> bool) {
        self.for_each(group, |all, at| {
            if active(at) {
                all.start_waiting(at);
            } else {
                all.stop_waiting(at);
            }
        });
    }

    /// Accounts for a piece that completed. `last` is true if it was the last piece of its request.
    /// Returns true if the drive must have had work in addition to the pieces in flight.
    pub(crate) fn observe_completion(
        &mut self,
        now: Instant,
        group: GroupId,
        bytes: Bytes,
        cost: Cost,
        last: bool,
        drive: CompletedPiece<'_>,
    ) -> bool {
        let mut hidden = false;
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            if last {
                // Requests that end at the same time were all outstanding just before, so the
                // average uses the state before the first of them.
                if r.demand.ended != now {
                    r.demand.ended = now;
                    r.demand.before_end = (r.demand.outstanding, r.requests());
                }
                let demand = &mut r.demand;
                let (bytes, requests) = demand.before_end;
                demand.mean_outstanding = Bytes(average(demand.mean_outstanding.0, bytes.0));
                demand.mean_requests = average(demand.mean_requests, requests * REQUEST);
                r.demand.period = r.time_for_usual();
            }
            hidden |= r.observe_completion(drive);
            if last {
                all.update_load(at, bytes, cost, drive.kind);
            }
            all.leave_drive(now, at, (drive.op, bytes), cost, last);
        });
        hidden
    }

    /// Accounts for a piece that stalled. `last` is true if its request has no bytes anywhere else.
    pub(crate) fn observe_stall(
        &mut self,
        now: Instant,
        group: GroupId,
        piece: (Op, Bytes),
        cost: Cost,
        last: bool,
    ) {
        self.for_each(group, |all, at| all.leave_drive(now, at, piece, cost, last));
    }

    /// Accounts for a request that leaves the elevator with `bytes` not dispatched. It no longer
    /// counts, even if a part of it is in the drive: it is given up, or it will arrive again.
    pub(crate) fn observe_removal(&mut self, now: Instant, group: GroupId, bytes: Bytes) {
        self.for_each(group, |all, at| {
            all.forget_outstanding(now, at, bytes, true);
        });
    }

    /// Returns the part of the cost in flight that does not belong to the group's nearest
    /// reservation.
    #[inline]
    pub(crate) fn cost_of_others(&self, group: GroupId, flight: Cost) -> Cost {
        match self.nearest[group.0 as usize] {
            NIL => flight,
            at => flight.saturating_sub(self.table[at as usize].in_drive.cost),
        }
    }

    /// Recounts the outstanding requests and the work in flight of the reservations in these slots,
    /// because contracts or the tree changed. `requests` are the group of each request and its
    /// bytes that are not dispatched. `pieces` are the group, modelled cost, operation and bytes of
    /// each piece in the drive.
    pub(crate) fn recount(
        &mut self,
        slots: &Range<u32>,
        requests: impl Iterator<Item = (GroupId, Bytes)>,
        pieces: impl Iterator<Item = (GroupId, Cost, Op, Bytes)>,
    ) {
        for r in &mut self.table[slots.start as usize..slots.end as usize] {
            r.in_drive = WorkInFlight::default();
            r.demand.outstanding = Bytes::ZERO;
            r.demand.arrivals.forget_outstanding();
        }
        for (group, left) in requests {
            self.for_each(group, |all, at| {
                if slots.contains(&at) {
                    let demand = &mut all.table[at as usize].demand;
                    demand.outstanding += left;
                    demand.arrivals.count();
                }
            });
        }
        for (group, cost, op, bytes) in pieces {
            self.for_each(group, |all, at| {
                if slots.contains(&at) {
                    let r = &mut all.table[at as usize];
                    r.demand.outstanding += bytes;
                    r.in_drive.bytes += Bytes(op.charge(bytes.0));
                    r.in_drive.cost += cost;
                }
            });
        }
    }

    /// Lets all reservations in these slots that have a queued request wait again, whatever was
    /// promised earlier.
    pub(crate) fn restart_waiting(&mut self, slots: Range<u32>, active: impl Fn(u32) -> bool) {
        for at in slots {
            if self.table[at as usize].exists() {
                self.update_bound(at);
                if active(at) {
                    self.start_waiting(at);
                }
            }
        }
    }

    /// Returns the realtime reservation that is furthest behind its max.
    #[inline]
    pub(crate) fn first_urgent(&self) -> Option<u32> {
        self.urgent.first().map(|(_, g)| g)
    }

    /// Slows down the time base of the promises at once if the drive has stalled. During a stall no
    /// reservation is chosen, and all waiting ones fall behind. Without this step, a reservation
    /// that arrives now would be served after all of them.
    #[inline]
    pub(super) fn detect_stall(&mut self, now: Instant) {
        if !self.behind.is_empty() {
            self.detect_stall_of_waiting(now);
        }
    }

    /// Slows down the time base if all waiting reservations are far behind.
    fn detect_stall_of_waiting(&mut self, now: Instant) {
        let due = now.saturating_sub(self.late);
        let longest = self.waiting.min_start(&self.behind);
        if longest.is_some_and(|kept_until| {
            Instant::from_nanos(kept_until) + self.catch_up.saturating_mul(STANDSTILL) < due
        }) && let Some(group) = self.waiting.first_eligible(&self.behind, due.as_nanos())
        {
            self.slow_time_base(now, group);
        }
    }

    /// Lets the time base of the promises lag by as much as this reservation is behind in excess of
    /// its permitted deficit, unless it lags by more already.
    fn slow_time_base(&mut self, now: Instant, group: u32) {
        let clock = self.table[group as usize].clock();
        self.late = self.late.max(now.since(clock + self.catch_up));
    }

    /// Returns the reservation that is behind and has the earliest deadline.
    #[inline]
    pub(crate) fn behind(&mut self, now: Instant) -> Option<u32> {
        // While a realtime client waits, other clients are not compensated for earlier deficits at
        // its expense.
        let may_reset = self.urgent.first().is_none();
        if self.behind.is_empty() {
            if may_reset {
                self.late = Span::ZERO;
            }
            return None;
        }
        self.first_behind(now, may_reset)
    }

    /// Returns the reservation that is behind and has the earliest deadline, if any waits. With
    /// `may_reset`, the time base stops lagging once no reservation is behind.
    // Not inlined, because a drive without promises never gets here.
    #[inline(never)]
    fn first_behind(&mut self, now: Instant, may_reset: bool) -> Option<u32> {
        let at = |late| now.saturating_sub(late).as_nanos();
        let found = self.waiting.first_eligible(&self.behind, at(self.late));
        let Some(group) = found else {
            if self.late == Span::ZERO || !may_reset {
                return None;
            }
            // All promises are met again, or no promised client has a queued request.
            self.late = Span::ZERO;
            return self.waiting.first_eligible(&self.behind, at(self.late));
        };
        self.crowded |= self.load.is_crowd() && self.lag(now, group) > STRICT;
        self.slow_time_base(now, group);
        Some(group)
    }

    /// Returns true if the client waits for the drive, for a request or for a flush.
    #[inline]
    pub(super) fn is_waited_for(&self, r: &Reservation) -> bool {
        r.requests() > 0 || r.syncs.flushes == self.flushes
    }

    /// Returns the largest lag of the reservations on the path of a group.
    pub(crate) fn most_lag(&self, now: Instant, group: GroupId) -> Span {
        let lags = self.path(group).map(|g| self.lag(now, g));
        lags.max().unwrap_or(Span::ZERO)
    }

    /// Returns the time by which a reservation is behind its promise.
    pub(crate) fn lag(&self, now: Instant, group: u32) -> Span {
        now.saturating_sub(self.late)
            .since(self.table[group as usize].clock())
    }

    /// Returns the value of a reservation's clock up to which it is served in one go.
    pub(crate) fn service_goal(&self, now: Instant, group: u32) -> Instant {
        self.table[group as usize]
            .kept_until
            .min(now.saturating_sub(self.late))
            + self.ahead
    }

    /// Returns true if a reservation has been served up to `goal`.
    pub(crate) fn has_reached(&self, group: u32, goal: Instant) -> bool {
        self.table[group as usize].kept_until >= goal
    }

    /// Returns true if a reservation is as far ahead of its promise as it may be.
    pub(crate) fn is_ahead(&self, now: Instant, group: u32) -> bool {
        self.table[group as usize].kept_until >= now.saturating_sub(self.late) + self.ahead
    }

    /// Inserts a reservation into the order of those that wait, or moves it to its present place.
    pub(super) fn start_waiting(&mut self, at: u32) {
        let r = &self.table[at as usize];
        if r.realtime {
            if self.urgent.get(at).is_none() {
                let ticket = self.urgent.ticket();
                self.urgent.set(at, r.kept_until, ticket);
            }
        } else {
            let kept_until = r.kept_until.as_nanos();
            let deadline = (r.clock() + r.deadline_time()).as_nanos();
            if self.waiting.contains(at) {
                if self.waiting.key(at) == deadline {
                    return;
                }
                self.waiting.remove(&mut self.behind, at);
            }
            self.waiting
                .insert(&mut self.behind, at, deadline, kept_until);
        }
    }

    /// Removes a reservation from the order of those that wait.
    pub(super) fn stop_waiting(&mut self, at: u32) {
        if self.waiting.contains(at) {
            self.waiting.remove(&mut self.behind, at);
        }
        self.urgent.clear(at);
    }

    /// Accounts for a piece of a reservation that leaves the drive, completed or stalled.
    fn leave_drive(
        &mut self,
        now: Instant,
        at: u32,
        (op, bytes): (Op, Bytes),
        cost: Cost,
        last: bool,
    ) {
        (self.table[at as usize].in_drive).remove(op, bytes, cost);
        self.forget_outstanding(now, at, bytes, last);
        self.update_bound(at);
    }

    /// Subtracts `bytes` from the outstanding bytes of a reservation. `last` ends their request.
    fn forget_outstanding(&mut self, now: Instant, at: u32, bytes: Bytes, last: bool) {
        let r = &mut self.table[at as usize];
        r.demand.outstanding = r.demand.outstanding.saturating_sub(bytes);
        r.demand.last_seen = now;
        if last {
            r.demand.arrivals.observe_answer(now);
        }
    }
}
