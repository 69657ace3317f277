//! Requests come, go to the drive, and end: clocks move, and show which reservations are behind.

use super::{CompletedPiece, REQUEST, Reservation, Reservations};
use crate::elevator::contract::constants::{DEADLINE_MAX, STANDSTILL};
use crate::elevator::contract::unit::{Bytes, Cost, average};
use crate::list::NIL;
use crate::time::mul_div_floor;
use crate::{GroupId, Instant, Op, Span};
use core::ops::Range;

impl Reservations {
    /// A request of `bytes` was submitted.
    pub(crate) fn observe_arrival(&mut self, now: Instant, group: GroupId, bytes: Bytes) {
        let mut at = self.nearest[group.0 as usize];
        self.notice_standstill(now);
        while at != NIL {
            let (due, catch_up, forget) =
                (now.saturating_sub(self.late), self.catch_up, self.forget);
            let r = &mut self.table[at as usize];
            let pause = r.arrivals.observe_request(now, forget);
            // What a realtime client did not ask for of late is still its own: it is served up to its max.
            if pause.is_some_and(|pause| pause > forget || r.pauses) && !r.realtime {
                r.kept_until = r.kept_until.max(due);
            }
            if r.realtime || !self.waiting.contains(at) {
                // It had nothing to send: what it lost meanwhile was lost through itself.
                r.kept_until = r.kept_until.max(due.saturating_sub(catch_up));
            }
            r.outstanding += bytes;
            r.last_seen = now;
            self.update_bound(at);
            self.start_waiting(at);
            at = self.table[at as usize].above;
        }
    }

    /// A piece of `bytes` went to the drive at `cost`; `last` if it was the last of its request, which costs as much as `counts` of 4 KiB,
    /// in 256ths.
    pub(crate) fn observe_dispatch(
        &mut self,
        now: Instant,
        group: GroupId,
        bytes: Bytes,
        cost: Cost,
        last: bool,
        counts: u64,
    ) {
        let due = now.saturating_sub(self.late);
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            let ahead = self.ahead;
            let r = &mut self.table[at as usize];
            if r.mean_outstanding == Bytes::ZERO {
                (r.mean_outstanding, r.mean_requests) = (r.outstanding, r.requests() * REQUEST);
                r.period = r.time_for_usual();
            }
            // What it gets beyond its promise and what it may be ahead is not held against it later (mClock: so does its weight-based
            // phase).
            let from = r.kept_until.min(due + ahead);
            let time = r.time_for(bytes, u64::from(last));
            r.promised_in_drive += (from + time).since(r.kept_until);
            r.kept_until = from + time;
            if r.iops > 0 && counts > REQUEST {
                let one = r.time_for(Bytes::ZERO, 1).as_nanos();
                let time = mul_div_floor(one, counts, REQUEST);
                let from = r.covered_until.max(from).min(due + ahead);
                r.covered_until = from + Span::from_nanos(time);
            }
            r.cycle += time;
            r.flight += cost;
            r.bytes_in_drive += bytes;
            let above = r.above;
            // A realtime one waits for its turn by its clock.
            self.urgent.clear(at);
            self.update_bound(at);
            at = above;
        }
    }

    /// The reservations above `group` that still have something to send wait on.
    pub(crate) fn update_waiting(&mut self, group: GroupId, active: impl Fn(u32) -> bool) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            if active(at) {
                self.start_waiting(at);
            } else {
                self.stop_waiting(at);
            }
            at = self.table[at as usize].above;
        }
    }

    /// A piece came back; `last` if that was all of its request. True if the drive had something to do beside that nobody had asked
    /// for.
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
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            let r = &mut self.table[at as usize];
            if last {
                if r.ended != now {
                    (r.ended, r.before_end) = (now, (r.outstanding, r.requests()));
                }
                let (bytes, requests) = r.before_end;
                r.mean_outstanding = Bytes(average(r.mean_outstanding.0, bytes.0));
                r.mean_requests = average(r.mean_requests, requests * REQUEST);
                r.period = r.time_for_usual();
            }
            hidden |= r.observe_completion(drive);
            r.leave_drive(drive.op, bytes, cost);
            let above = r.above;
            self.forget_outstanding(now, at, bytes, last);
            self.update_bound(at);
            at = above;
        }
        hidden
    }

    /// A piece stalled; `last` if nothing of its request is anywhere else.
    pub(crate) fn observe_stall(
        &mut self,
        now: Instant,
        group: GroupId,
        (op, bytes): (Op, Bytes),
        cost: Cost,
        last: bool,
    ) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            let r = &mut self.table[at as usize];
            r.leave_drive(op, bytes, cost);
            let above = r.above;
            self.forget_outstanding(now, at, bytes, last);
            self.update_bound(at);
            at = above;
        }
    }

    /// A request left the elevator with `bytes` of it unsent. It counts no longer, whatever of it is in the drive: it is given
    /// up, or it will arrive again.
    pub(crate) fn observe_removal(&mut self, now: Instant, group: GroupId, bytes: Bytes) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            self.forget_outstanding(now, at, bytes, true);
            at = self.table[at as usize].above;
        }
    }

    /// Of what is in the drive, that of others than the nearest reservation's.
    #[inline]
    pub(crate) fn cost_of_others(&self, group: GroupId, flight: Cost) -> Cost {
        match self.nearest[group.0 as usize] {
            NIL => flight,
            at => flight.saturating_sub(self.table[at as usize].flight),
        }
    }

    /// Counts again everything that reservations in these slots have, because contracts or the tree
    /// changed: from each request its group and the bytes of it that have not been sent, from each
    /// piece in the drive its group, modelled cost, operation and bytes.
    pub(crate) fn recount(
        &mut self,
        slots: &Range<u32>,
        requests: impl Iterator<Item = (GroupId, Bytes)>,
        pieces: impl Iterator<Item = (GroupId, Cost, Op, Bytes)>,
    ) {
        for r in &mut self.table[slots.start as usize..slots.end as usize] {
            (r.flight, r.bytes_in_drive) = (Cost::ZERO, Bytes::ZERO);
            r.promised_in_drive = Span::ZERO;
            r.outstanding = Bytes::ZERO;
            r.arrivals.forget_outstanding();
        }
        for (group, left) in requests {
            self.for_each_reservation(group, slots, |r| {
                r.outstanding += left;
                r.arrivals.count();
            });
        }
        for (group, cost, op, bytes) in pieces {
            self.for_each_reservation(group, slots, |r| {
                r.outstanding += bytes;
                r.bytes_in_drive += Bytes(op.charge(bytes.0));
                r.flight += cost;
            });
        }
    }

    /// Every reservation in these slots on the path of a group.
    fn for_each_reservation(
        &mut self,
        group: GroupId,
        slots: &Range<u32>,
        mut what: impl FnMut(&mut Reservation),
    ) {
        let mut at = self.nearest[group.0 as usize];
        while at != NIL {
            if slots.contains(&at) {
                what(&mut self.table[at as usize]);
            }
            at = self.table[at as usize].above;
        }
    }

    /// A reservation with something to send waits, whatever it was promised before.
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

    /// The realtime reservation that is furthest behind its max.
    #[inline]
    pub(crate) fn first_urgent(&self) -> Option<u32> {
        self.urgent.first().map(|(_, g)| g)
    }

    /// While the drive stands still nobody is chosen, and all that wait fall behind: the promises' time is as late as they are, or one that
    /// comes now would be served after all of them.
    pub(super) fn notice_standstill(&mut self, now: Instant) {
        let due = now.saturating_sub(self.late);
        let longest = self.waiting.min_start(&self.behind);
        if longest.is_some_and(|kept_until| {
            Instant::from_nanos(kept_until) + self.catch_up.saturating_mul(STANDSTILL) < due
        }) && let Some(group) = self.waiting.first_eligible(&self.behind, due.as_nanos())
        {
            self.grow_late(now, group);
        }
    }

    /// The promises' time is late by as much as this one is behind beyond what it is made whole for, if it was not so before.
    fn grow_late(&mut self, now: Instant, group: u32) {
        let clock = self.table[group as usize].clock();
        self.late = self.late.max(now.since(clock + self.catch_up));
    }

    /// Of the reservations that are behind, the one with the earliest deadline.
    pub(crate) fn behind(&mut self, now: Instant) -> Option<u32> {
        // While a realtime client waits, what others fell behind by longer ago is not made good at its cost.
        let may_reset = self.urgent.first().is_none();
        if self.behind.is_empty() {
            if may_reset {
                self.late = Span::ZERO;
            }
            return None;
        }
        let at = |late| now.saturating_sub(late).as_nanos();
        let found = self.waiting.first_eligible(&self.behind, at(self.late));
        let Some(group) = found else {
            if self.late == Span::ZERO || !may_reset {
                return None;
            }
            // All promises are kept again, or no one asks.
            self.late = Span::ZERO;
            return self.waiting.first_eligible(&self.behind, at(self.late));
        };
        self.grow_late(now, group);
        Some(group)
    }

    /// True if the drive has something to do for a reservation: a request, or a flush.
    #[inline]
    pub(super) fn is_waited_for(&self, r: &Reservation) -> bool {
        r.requests() > 0 || r.flushes == self.flushes
    }

    /// By how much the reservations of a group are behind, the one that is so most.
    pub(crate) fn most_lag(&self, now: Instant, group: GroupId) -> Span {
        let lags = self.path(group).map(|g| self.lag(now, g));
        lags.max().unwrap_or(Span::ZERO)
    }

    /// By how much a reservation is behind its promise.
    pub(crate) fn lag(&self, now: Instant, group: u32) -> Span {
        now.saturating_sub(self.late)
            .since(self.table[group as usize].clock())
    }

    /// Where a reservation's clock is to be when it has been served as far ahead as may be at one go.
    pub(crate) fn service_goal(&self, now: Instant, group: u32) -> Instant {
        self.table[group as usize]
            .kept_until
            .min(now.saturating_sub(self.late))
            + self.ahead
    }

    /// True if a reservation has been served as far as that.
    pub(crate) fn has_reached(&self, group: u32, goal: Instant) -> bool {
        self.table[group as usize].kept_until >= goal
    }

    /// True if a promise in requests has had its part although it is behind: its requests are longer than what was promised.
    pub(crate) fn has_its_part(&self, now: Instant, group: u32) -> bool {
        self.table[group as usize].covered_until > now.saturating_sub(self.late)
    }

    /// True if a reservation has been served as far ahead of its promise as it may be.
    pub(crate) fn is_ahead(&self, now: Instant, group: u32) -> bool {
        self.table[group as usize].kept_until >= now.saturating_sub(self.late) + self.ahead
    }

    pub(super) fn start_waiting(&mut self, at: u32) {
        let r = &self.table[at as usize];
        if r.realtime {
            if self.urgent.get(at).is_none() {
                let ticket = self.urgent.ticket();
                self.urgent.set(at, r.kept_until, ticket);
            }
        } else {
            let kept_until = r.kept_until.as_nanos();
            let deadline = (r.clock() + r.period.min(DEADLINE_MAX)).as_nanos();
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

    pub(super) fn stop_waiting(&mut self, at: u32) {
        if self.waiting.contains(at) {
            self.waiting.remove(&mut self.behind, at);
        }
        self.urgent.clear(at);
    }

    fn forget_outstanding(&mut self, now: Instant, at: u32, bytes: Bytes, last: bool) {
        let r = &mut self.table[at as usize];
        r.outstanding = r.outstanding.saturating_sub(bytes);
        r.last_seen = now;
        if last {
            r.arrivals.observe_answer(now);
        }
    }
}
