//! Requests come, go to the drive, and end: clocks move, and show which reservations are behind.

use super::{CompletedPiece, InDrive, REQUEST, Reservation, Reservations};
use crate::elevator::contract::constants::{DEADLINE_MAX, STANDSTILL};
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::{Bytes, Cost};
use crate::list::NIL;
use crate::time::mul_div_floor;
use crate::{GroupId, Instant, Op, Span};
use core::ops::Range;

impl Reservations {
    /// A request of `bytes` was submitted.
    pub(crate) fn observe_arrival(&mut self, now: Instant, group: GroupId, bytes: Bytes) {
        self.notice_standstill(now);
        self.for_each(group, |all, at| {
            let (due, catch_up, forget) = (now.saturating_sub(all.late), all.catch_up, all.forget);
            let r = &mut all.table[at as usize];
            let pause = r.demand.arrivals.observe_request(now, forget);
            let kept_until = &mut r.clock.kept_until;
            // What a realtime client did not ask for of late is still its own: it is served up to its max.
            if pause.is_some_and(|pause| pause > forget || r.latency.pauses) && !r.realtime {
                *kept_until = (*kept_until).max(due);
            }
            if r.realtime || !all.waiting.contains(at) {
                // It had nothing to send: what it lost meanwhile was lost through itself.
                *kept_until = (*kept_until).max(due.saturating_sub(catch_up));
            }
            r.demand.outstanding += bytes;
            r.demand.last_seen = now;
            all.update_bound(at);
            all.start_waiting(at);
        });
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
        let (due, ahead) = (now.saturating_sub(self.late), self.ahead);
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            if r.demand.mean_outstanding == Bytes::ZERO {
                r.demand.mean_outstanding = r.demand.outstanding;
                r.demand.mean_requests = r.requests() * REQUEST;
                r.demand.period = r.time_for_usual();
            }
            // What it gets beyond its promise and what it may be ahead is not held against it later (mClock: so does its weight-based
            // phase).
            let from = r.clock.kept_until.min(due + ahead);
            let time = r.time_for(bytes, u64::from(last));
            r.in_drive.promised += (from + time).since(r.clock.kept_until);
            r.clock.kept_until = from + time;
            if r.iops > 0 && counts > REQUEST {
                let one = r.time_for(Bytes::ZERO, 1).as_nanos();
                let time = mul_div_floor(one, counts, REQUEST);
                let from = r.clock.covered_until.max(from).min(due + ahead);
                r.clock.covered_until = from + Span::from_nanos(time);
            }
            r.syncs.cycle += time;
            r.in_drive.cost += cost;
            r.in_drive.bytes += bytes;
            // A realtime one waits for its turn by its clock.
            all.urgent.clear(at);
            all.update_bound(at);
        });
    }

    /// The reservations above `group` that still have something to send wait on.
    pub(crate) fn update_waiting(&mut self, group: GroupId, active: impl Fn(u32) -> bool) {
        self.for_each(group, |all, at| {
            if active(at) {
                all.start_waiting(at);
            } else {
                all.stop_waiting(at);
            }
        });
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
        self.for_each(group, |all, at| {
            let r = &mut all.table[at as usize];
            if last {
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
            all.leave_drive(now, at, (drive.op, bytes), cost, last);
        });
        hidden
    }

    /// A piece stalled; `last` if nothing of its request is anywhere else.
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

    /// A request left the elevator with `bytes` of it unsent. It counts no longer, whatever of it is in the drive: it is given
    /// up, or it will arrive again.
    pub(crate) fn observe_removal(&mut self, now: Instant, group: GroupId, bytes: Bytes) {
        self.for_each(group, |all, at| {
            all.forget_outstanding(now, at, bytes, true);
        });
    }

    /// Of what is in the drive, that of others than the nearest reservation's.
    #[inline]
    pub(crate) fn cost_of_others(&self, group: GroupId, flight: Cost) -> Cost {
        match self.nearest[group.0 as usize] {
            NIL => flight,
            at => flight.saturating_sub(self.table[at as usize].in_drive.cost),
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
            r.in_drive = InDrive::default();
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
        r.requests() > 0 || r.syncs.flushes == self.flushes
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
            .clock
            .kept_until
            .min(now.saturating_sub(self.late))
            + self.ahead
    }

    /// True if a reservation has been served as far as that.
    pub(crate) fn has_reached(&self, group: u32, goal: Instant) -> bool {
        self.table[group as usize].clock.kept_until >= goal
    }

    /// True if a promise in requests has had its part although it is behind: its requests are longer than what was promised.
    pub(crate) fn has_its_part(&self, now: Instant, group: u32) -> bool {
        self.table[group as usize].clock.covered_until > now.saturating_sub(self.late)
    }

    /// True if a reservation has been served as far ahead of its promise as it may be.
    pub(crate) fn is_ahead(&self, now: Instant, group: u32) -> bool {
        self.table[group as usize].clock.kept_until >= now.saturating_sub(self.late) + self.ahead
    }

    pub(super) fn start_waiting(&mut self, at: u32) {
        let r = &self.table[at as usize];
        if r.realtime {
            if self.urgent.get(at).is_none() {
                let ticket = self.urgent.ticket();
                self.urgent.set(at, r.clock.kept_until, ticket);
            }
        } else {
            let kept_until = r.clock.kept_until.as_nanos();
            let deadline = (r.clock() + r.demand.period.min(DEADLINE_MAX)).as_nanos();
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

    /// A piece of a reservation is not in the drive any more.
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

    fn forget_outstanding(&mut self, now: Instant, at: u32, bytes: Bytes, last: bool) {
        let r = &mut self.table[at as usize];
        r.demand.outstanding = r.demand.outstanding.saturating_sub(bytes);
        r.demand.last_seen = now;
        if last {
            r.demand.arrivals.observe_answer(now);
        }
    }
}
