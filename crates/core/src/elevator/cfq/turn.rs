//! The turn of the queue in service: its beginning, continuation and end (Linux:
//! `cfq_select_queue`, `cfq_dispatch_requests`).
//!
//! [`Cfq::decide`] is the entry. The time slice of a turn begins with the first completion, so the
//! seek to the first request does not use it up.

use super::Cfq;
use super::groups::UnfinishedWorkload;
use super::service::CfqClass;
use super::workload::TICK;
use crate::cx::Cx;
use crate::elevator::DispatchDecision;
use crate::event::{Event, Expiry};
use crate::list::NIL;
use crate::wake::{Reason, Wake};
use crate::{Instant, Span};

/// The time slice of a turn, which begins when the first request of the turn completes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSlice {
    pub(super) start: Instant,
    pub(super) end: Instant,
    length: Span,
}

/// The turn in progress: the queue in service and its use of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct CfqTurn {
    /// The queue in service, or [`NIL`].
    pub(super) queue: u32,
    began: Instant,
    pub(super) slice: Option<TimeSlice>,
    /// Pieces sent in this turn (Linux: `slice_dispatch`). `served` counts their bytes.
    sent: u32,
    served: u64,
    /// True once the age of the oldest request was checked in this turn.
    fifo_checked: bool,
    /// True if the queue may send an overdue request although its slice is over.
    must_send: bool,
    /// True if the drive idles only to keep the group busy. The turn ends with the next request.
    pub(super) waits_busy: bool,
    /// The end of idling for the queue's next request, or `None` while the drive does not idle.
    pub(super) idle_until: Option<Instant>,
    /// The stream that is waited for, which is the first that sent a request in this turn, or
    /// [`NIL`] (Linux: `active_cic`).
    pub(super) stream: u32,
}

impl CfqTurn {
    pub(super) const NONE: Self = Self {
        queue: NIL,
        began: Instant::ZERO,
        slice: None,
        sent: 0,
        served: 0,
        fifo_checked: false,
        must_send: false,
        waits_busy: false,
        idle_until: None,
        stream: NIL,
    };

    /// Returns true if the time slice is over (Linux: `cfq_slice_used`).
    pub(super) fn is_used_up(&self, now: Instant) -> bool {
        self.slice.is_some_and(|slice| now >= slice.end)
    }

    /// Returns true if a request must be sent before the turn ends.
    pub(super) fn must_send(&self) -> bool {
        self.must_send
    }

    /// Returns the rest of the time slice.
    pub(super) fn left(&self, now: Instant) -> Span {
        self.slice.map_or(Span::ZERO, |slice| slice.end.since(now))
    }

    /// Returns the bytes sent in this turn.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Returns the time since the beginning of the slice, or of the turn before its first
    /// completion.
    pub(super) fn used(&self, now: Instant) -> Span {
        let began = self.slice.map_or(self.began, |slice| slice.start);
        now.since(began)
    }

    /// Returns the time at which to ask again, if only the drive or time can change the decision.
    fn wait(&self) -> DispatchDecision {
        let reason = Reason::Idling;
        let wake = self.idle_until.map(|at| Wake { at, reason });
        wake.map_or(DispatchDecision::Nothing, DispatchDecision::Wait)
    }

    /// Returns the charge of the turn in nanoseconds (Linux: `cfq_cfqq_slice_usage`). Before the
    /// first completion, the whole time since the beginning of the turn is charged, because it was
    /// spent on the seek.
    fn charge(&self, now: Instant) -> u64 {
        match self.slice {
            // A slice that began at this instant has no length yet, so the time on the way to it is
            // charged.
            Some(slice) if slice.start != now => {
                now.since(slice.start).min(slice.length).as_nanos()
            }
            // At least one tick is charged, as in Linux.
            _ => now.since(self.began).max(TICK).as_nanos(),
        }
    }
}

/// The next step of a turn.
enum CfqStep {
    Send,
    Wait,
    /// The turn is over. A cooperator is next if one was found.
    Over(Expiry, Option<u32>),
}

impl Cfq {
    /// Returns the next request to dispatch, or the reason to wait (Linux: `cfq_dispatch_requests`,
    /// `cfq_select_queue`).
    pub(super) fn decide(&mut self, cx: &mut Cx) -> DispatchDecision {
        self.end_idling(cx);
        if self.queued == 0 {
            return self.turn.wait();
        }
        if self.turn.queue == NIL {
            self.begin_turn(cx, None);
            return self.send(cx);
        }
        match self.step(cx) {
            CfqStep::Send => self.send(cx),
            CfqStep::Wait => self.turn.wait(),
            CfqStep::Over(reason, cooperator) => {
                self.expire(cx, reason);
                self.begin_turn(cx, cooperator);
                self.send(cx)
            }
        }
    }

    /// Returns the next step of the turn in progress (Linux: `cfq_select_queue`).
    fn step(&mut self, cx: &Cx) -> CfqStep {
        let (now, q) = (cx.now, self.turn.queue);
        let queue = self.queue(q);
        let (is_empty, in_drive) = (queue.is_empty(), queue.dispatched > 0);
        // The request for which the group was kept busy is the first of the queue's next turn.
        if self.turn.waits_busy && !is_empty {
            return CfqStep::Over(Expiry::BudgetTimeout, None);
        }
        if self.turn.is_used_up(now) && !self.turn.must_send {
            // A queue with its last request in the drive may go on beyond its slice if it is the
            // only one of its group.
            let alone = self.groups.get(queue.group).queues == 1;
            let may_end = is_empty && in_drive && alone && self.should_idle(q, &cx.table);
            if may_end || self.waits_for_group(q) {
                return CfqStep::Wait;
            }
            return CfqStep::Over(Expiry::BudgetTimeout, None);
        }
        if !is_empty {
            return CfqStep::Send;
        }
        // A queue near to the head continues the sequential region, without a seek and without
        // idling.
        if let Some(other) = self.cooperator(q) {
            self.set_up_merge(q, other);
            return CfqStep::Over(Expiry::NoMoreRequests, Some(other));
        }
        if self.turn.idle_until.is_some() {
            return CfqStep::Wait;
        }
        self.reconsider_deep(now, q);
        if in_drive && self.should_idle(q, &cx.table) || self.waits_for_group(q) {
            return CfqStep::Wait;
        }
        CfqStep::Over(Expiry::NoMoreRequests, None)
    }

    /// Returns true if the queue is the last of its group, the group has requests in the drive, and
    /// it is expected to send again soon.
    fn waits_for_group(&self, q: u32) -> bool {
        let group = self.groups.get(self.queue(q).group);
        let idle = self.config.group_idle;
        idle > Span::ZERO && group.queues == 1 && group.dispatched > 0 && !group.thinks_longer(idle)
    }

    /// Begins the turn of a cooperator, or of the queue that is first in order (Linux:
    /// `cfq_set_active_queue`).
    fn begin_turn(&mut self, cx: &mut Cx, cooperator: Option<u32>) {
        let now = cx.now;
        let q = cooperator.or_else(|| {
            self.choose_group(now);
            let group = self.groups.get(self.workload.group);
            self.turns
                .first(&group.services.get(self.workload.kind).order)
        });
        let q = q.expect("what waits is in a queue that is busy");
        self.turn = CfqTurn {
            queue: q,
            began: now,
            ..CfqTurn::NONE
        };
        let queue = &mut self.queues[q as usize];
        // A shared or asynchronous queue has several streams. The turn is published for the one
        // whose request is next.
        if queue.sharing.users != 1 && !queue.is_empty() {
            queue.stream = cx.table.requests[queue.next].request.stream;
        }
        let (stream, budget) = (queue.stream, u64::MAX);
        cx.publish(|| Event::Selected { stream, budget });
    }

    /// Sends the next piece of the queue in service, if its depth allows it (Linux:
    /// `cfq_dispatch_request`).
    fn send(&mut self, cx: &mut Cx) -> DispatchDecision {
        let (now, q) = (cx.now, self.turn.queue);
        let mut request = self.queue(q).next;
        // The age is checked only at the first request of a turn, so that a queue of overdue
        // requests keeps its sequential order.
        if !self.turn.fifo_checked {
            self.turn.fifo_checked = true;
            if let Some(overdue) = self.queue(q).overdue(&self.order, now) {
                self.turn.must_send = true;
                request = overdue;
            }
        }
        if !self.may_send(now, &cx.table) {
            return self.turn.wait();
        }
        let (bytes, is_last) = cx.table.piece(request);
        self.head = self.order.item(request).end(bytes);
        let queue = &mut self.queues[q as usize];
        queue.advance_request(&mut self.order, request);
        queue.dispatched += 1;
        let (sync, level, group, class) = (queue.sync, queue.level, queue.group, queue.class);
        if queue.is_empty() {
            self.places.remove(q, level);
        }
        self.queued -= u32::from(is_last);
        self.in_drive[usize::from(sync)] += 1;
        self.groups.get_mut(group).dispatched += 1;
        self.turn.sent += 1;
        self.turn.served += u64::from(bytes);
        self.turn.must_send = false;
        if self.turn.stream == NIL {
            self.turn.stream = cx.table.requests[request].request.stream.index;
        }
        // The idle class gives way after each request. Requests of asynchronous queues take their
        // time after the turn, so their number is limited instead of the time.
        let is_over = class == CfqClass::Idle || !sync && self.turn.sent >= self.most_async(level);
        // Without another busy queue, the end of the turn would only interrupt the queue.
        if self.busy > 1 && is_over {
            self.expire(cx, Expiry::BudgetExhausted);
        }
        DispatchDecision::Take { request, bytes }
    }

    /// Returns the largest number of requests that an asynchronous queue sends in a turn (Linux:
    /// `cfq_prio_to_maxrq`).
    fn most_async(&self, level: u8) -> u32 {
        let each = self.config.slice_async_rq.saturating_mul(2);
        each.saturating_mul(8 - u32::from(level))
    }

    /// Begins the slice, idles or ends the turn when a piece of the queue in service has completed
    /// (Linux: in `cfq_completed_request`).
    pub(super) fn completed_in_turn(&mut self, cx: &mut Cx) {
        let (now, q) = (cx.now, self.turn.queue);
        let start = now;
        if self.turn.slice.is_none() {
            let length = self.slice_for(q);
            let end = now + length;
            self.turn.slice = Some(TimeSlice { start, end, length });
        }
        if self.should_wait_busy(now, q) {
            let longer = match self.slice_idle {
                Span::ZERO => self.config.group_idle,
                idle => idle,
            };
            // The slice is extended so that the queue, and with it the group, is still busy when
            // the expected request arrives.
            if let Some(slice) = &mut self.turn.slice {
                slice.end = now + longer;
            }
            self.turn.waits_busy = true;
        }
        let queue = self.queue(q);
        if self.turn.is_used_up(now) || queue.class == CfqClass::Idle {
            self.keep_residue(now);
            self.expire(cx, Expiry::BudgetTimeout);
        } else if queue.sync && queue.is_empty() && self.cooperator(q).is_none() {
            self.begin_idling(cx);
        }
    }

    /// Saves the unused rest of the slice for the queue's next turn, or the excess as a negative
    /// number.
    pub(super) fn keep_residue(&mut self, now: Instant) {
        let q = self.turn.queue;
        let residue = match self.turn.slice {
            // No request has completed yet, so the whole slice is left.
            None => self.slice_for(q).as_nanos().cast_signed(),
            Some(slice) => {
                slice.end.since(now).as_nanos().cast_signed()
                    - now.since(slice.end).as_nanos().cast_signed()
            }
        };
        self.queues[q as usize].residue = residue;
    }

    /// Ends the turn, charges the group, and puts the queue in order again if it has requests
    /// (Linux: `__cfq_slice_expired`).
    pub(super) fn expire(&mut self, cx: &mut Cx, reason: Expiry) {
        let now = cx.now;
        let CfqTurn {
            queue: q, served, ..
        } = self.turn;
        let stream = self.queue(q).stream;
        cx.publish(|| Event::Expired {
            stream,
            reason,
            served,
            charged: served,
        });
        self.reconsider_sharing(q);
        self.charge_group(now, q);
        self.turn = CfqTurn::NONE;
        if self.queue(q).is_empty() {
            self.rest(q);
        } else {
            self.line_up(now, q, false);
            self.update_position(q);
        }
        self.end_lingering(q);
    }

    /// Charges the group of a queue for its turn (Linux: `cfq_group_served`).
    fn charge_group(&mut self, now: Instant, q: u32) {
        let queue = self.queue(q);
        let group = self.groups.get(queue.group);
        let services = &group.services;
        let others = services.busy_async() + services.busy(CfqClass::Idle);
        let used = if self.counts_requests() {
            self.turn.sent.into()
        } else if !queue.sync && group.queues == others {
            // Asynchronous requests take their time long after the turn, so the whole slice is
            // charged.
            let slice = self.turn.slice;
            slice.map_or(0, |slice| slice.length.as_nanos())
        } else {
            self.turn.charge(now)
        };
        let group = queue.group;
        self.groups.charge(group, used);
        // The kind of queues continues to be served for the rest of its time when the group's next
        // turn begins.
        let left = self.workload.until.since(now);
        self.groups.get_mut(group).unfinished = (left > Span::ZERO).then_some(UnfinishedWorkload {
            kind: self.workload.kind,
            left,
        });
    }
}
