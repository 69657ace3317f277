//! The turn of the queue in service: how it begins, goes on, and ends (Linux: `cfq_select_queue`, `cfq_dispatch_requests`).

use super::Cfq;
use super::groups::Unfinished;
use super::service::Class;
use super::workload::TICK;
use crate::cx::Cx;
use crate::elevator::Next;
use crate::event::{Event, Expiry};
use crate::list::NIL;
use crate::wake::{Reason, Wake};
use crate::{Instant, Span};

/// A time slice. It begins when the first request of the turn comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) start: Instant,
    pub(super) end: Instant,
    length: Span,
}

/// The queue that has the drive, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// The queue in service, or [`NIL`].
    pub(super) queue: u32,
    began: Instant,
    pub(super) slice: Option<Slice>,
    /// Pieces sent (Linux: `slice_dispatch`), and bytes.
    sent: u32,
    served: u64,
    /// Its oldest request was looked at.
    fifo_checked: bool,
    /// It may send one more although its slice is over.
    must_send: bool,
    /// It was waited for so that its group stays busy, and ends when its next request comes.
    pub(super) waits_busy: bool,
    /// The drive idles for its next request until then.
    pub(super) idle_until: Option<Instant>,
    /// The stream that is waited for: the first that sent something in it, or [`NIL`] (Linux: `active_cic`).
    pub(super) stream: u32,
}

impl Turn {
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

    /// Linux: `cfq_slice_used`.
    pub(super) fn is_used_up(&self, now: Instant) -> bool {
        self.slice.is_some_and(|slice| now >= slice.end)
    }

    /// A request has to be sent before the turn ends.
    pub(super) fn must_send(&self) -> bool {
        self.must_send
    }

    /// What is left of its slice.
    pub(super) fn left(&self, now: Instant) -> Span {
        self.slice.map_or(Span::ZERO, |slice| slice.end.since(now))
    }

    /// Bytes sent.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// For how long it has had the drive.
    pub(super) fn used(&self, now: Instant) -> Span {
        let began = self.slice.map_or(self.began, |slice| slice.start);
        now.since(began)
    }

    /// When to ask again, if only the drive or time can change something.
    fn wait(&self) -> Next {
        let reason = Reason::Idling;
        let wake = self.idle_until.map(|at| Wake { at, reason });
        wake.map_or(Next::Nothing, Next::Wait)
    }

    /// The nanoseconds for which it is charged (Linux: `cfq_cfqq_slice_usage`). Before the first request has come back it pays for the time
    /// since it began, for that is spent on getting there.
    fn charge(&self, now: Instant) -> u64 {
        match self.slice {
            Some(slice) if slice.start != now => {
                now.since(slice.start).min(slice.length).as_nanos()
            }
            _ => now.since(self.began).max(TICK).as_nanos(),
        }
    }
}

/// What a turn does next.
enum Step {
    Send,
    Wait,
    /// It is over; a cooperator is next if there is one.
    Over(Expiry, Option<u32>),
}

impl Cfq {
    /// Linux: `cfq_dispatch_requests`, `cfq_select_queue`.
    pub(super) fn decide(&mut self, cx: &mut Cx) -> Next {
        self.end_idling(cx);
        if self.queued == 0 {
            return self.turn.wait();
        }
        if self.turn.queue == NIL {
            self.begin_turn(cx, None);
            return self.send(cx);
        }
        match self.step(cx) {
            Step::Send => self.send(cx),
            Step::Wait => self.turn.wait(),
            Step::Over(reason, cooperator) => {
                self.expire(cx, reason);
                self.begin_turn(cx, cooperator);
                self.send(cx)
            }
        }
    }

    /// What the queue in service does (Linux: `cfq_select_queue`).
    fn step(&mut self, cx: &Cx) -> Step {
        let (now, q) = (cx.now, self.turn.queue);
        let queue = self.queue(q);
        let (is_empty, in_drive) = (queue.is_empty(), queue.dispatched > 0);
        if self.turn.waits_busy && !is_empty {
            return Step::Over(Expiry::BudgetTimeout, None);
        }
        if self.turn.is_used_up(now) && !self.turn.must_send {
            let alone = self.groups.get(queue.group).queues == 1;
            let may_end = is_empty && in_drive && alone && self.should_idle(q, &cx.table);
            if may_end || self.waits_for_group(q) {
                return Step::Wait;
            }
            return Step::Over(Expiry::BudgetTimeout, None);
        }
        if !is_empty {
            return Step::Send;
        }
        if let Some(other) = self.cooperator(q) {
            self.set_up_merge(q, other);
            return Step::Over(Expiry::NoMoreRequests, Some(other));
        }
        if self.turn.idle_until.is_some() {
            return Step::Wait;
        }
        self.reconsider_deep(now, q);
        if in_drive && self.should_idle(q, &cx.table) || self.waits_for_group(q) {
            return Step::Wait;
        }
        Step::Over(Expiry::NoMoreRequests, None)
    }

    /// The queue is the last of its group, which has something in the drive and comes back soon.
    fn waits_for_group(&self, q: u32) -> bool {
        let group = self.groups.get(self.queue(q).group);
        let idle = self.config.group_idle;
        idle > Span::ZERO && group.queues == 1 && group.dispatched > 0 && !group.thinks_longer(idle)
    }

    /// Linux: `cfq_set_active_queue`.
    fn begin_turn(&mut self, cx: &mut Cx, cooperator: Option<u32>) {
        let now = cx.now;
        let q = cooperator.or_else(|| {
            self.choose_group(now);
            let group = self.groups.get(self.workload.group);
            self.turns
                .first(&group.services.get(self.workload.kind).order)
        });
        let q = q.expect("what waits is in a queue that is busy");
        self.turn = Turn {
            queue: q,
            began: now,
            ..Turn::NONE
        };
        let queue = &mut self.queues[q as usize];
        if queue.sharing.users != 1 && !queue.is_empty() {
            queue.stream = cx.table.requests[queue.next].request.stream;
        }
        let (stream, budget) = (queue.stream, u64::MAX);
        cx.publish(|| Event::Selected { stream, budget });
    }

    /// Linux: `cfq_dispatch_request`.
    fn send(&mut self, cx: &mut Cx) -> Next {
        let (now, q) = (cx.now, self.turn.queue);
        let mut request = self.queue(q).next;
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
        queue.sent(&mut self.order, request);
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
        let is_over = class == Class::Idle || !sync && self.turn.sent >= self.most_async(level);
        if self.busy > 1 && is_over {
            self.expire(cx, Expiry::BudgetExhausted);
        }
        Next::Take { request, bytes }
    }

    /// How many requests an asynchronous queue sends in a turn (Linux: `cfq_prio_to_maxrq`).
    fn most_async(&self, level: u8) -> u32 {
        let each = self.config.slice_async_rq.saturating_mul(2);
        each.saturating_mul(8 - u32::from(level))
    }

    /// A piece of the queue in service came back (Linux: in `cfq_completed_request`).
    pub(super) fn completed_in_turn(&mut self, cx: &mut Cx) {
        let (now, q) = (cx.now, self.turn.queue);
        let start = now;
        if self.turn.slice.is_none() {
            let length = self.slice_for(q);
            let end = now + length;
            self.turn.slice = Some(Slice { start, end, length });
        }
        if self.should_wait_busy(now, q) {
            let longer = match self.slice_idle {
                Span::ZERO => self.config.group_idle,
                idle => idle,
            };
            if let Some(slice) = &mut self.turn.slice {
                slice.end = now + longer;
            }
            self.turn.waits_busy = true;
        }
        let queue = self.queue(q);
        if self.turn.is_used_up(now) || queue.class == Class::Idle {
            self.keep_residue(now);
            self.expire(cx, Expiry::BudgetTimeout);
        } else if queue.sync && queue.is_empty() && self.cooperator(q).is_none() {
            self.begin_idling(cx);
        }
    }

    /// The queue in service gets back later what is left of its slice, or by how much that was exceeded.
    pub(super) fn keep_residue(&mut self, now: Instant) {
        let q = self.turn.queue;
        let residue = match self.turn.slice {
            None => self.slice_for(q).as_nanos().cast_signed(),
            Some(slice) => {
                slice.end.since(now).as_nanos().cast_signed()
                    - now.since(slice.end).as_nanos().cast_signed()
            }
        };
        self.queues[q as usize].residue = residue;
    }

    /// The turn is over: the group is charged, the queue lines up again if it has requests (Linux: `__cfq_slice_expired`).
    pub(super) fn expire(&mut self, cx: &mut Cx, reason: Expiry) {
        let now = cx.now;
        let Turn {
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
        self.turn = Turn::NONE;
        if self.queue(q).is_empty() {
            self.rest(q);
        } else {
            self.line_up(now, q, false);
            self.next_moved(q);
        }
        self.end_lingering(q);
    }

    /// Linux: `cfq_group_served`.
    fn charge_group(&mut self, now: Instant, q: u32) {
        let queue = self.queue(q);
        let group = self.groups.get(queue.group);
        let services = &group.services;
        let others = services.busy_async() + services.busy(Class::Idle);
        let used = if self.counts_requests() {
            self.turn.sent.into()
        } else if !queue.sync && group.queues == others {
            // What is asynchronous takes its time when its turn is long over.
            let slice = self.turn.slice;
            slice.map_or(0, |slice| slice.length.as_nanos())
        } else {
            self.turn.charge(now)
        };
        let group = queue.group;
        self.groups.charge(group, used);
        let left = self.workload.until.since(now);
        self.groups.get_mut(group).unfinished = (left > Span::ZERO).then_some(Unfinished {
            kind: self.workload.kind,
            left,
        });
    }
}
