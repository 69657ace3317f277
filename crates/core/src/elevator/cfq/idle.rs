//! When the drive waits for the next request of the queue in service, or of its group.

use super::Cfq;
use super::queue::DEEP;
use super::service::Class;
use super::workload::TICK;
use crate::cx::Cx;
use crate::event::Expiry;
use crate::list::NIL;
use crate::stream::State;
use crate::table::Table;
use crate::{Instant, Span};

impl Cfq {
    /// True if the drive would rather wait for this queue's next request than serve another: the queue is sequential, or the last of those
    /// that are random (Linux: `cfq_should_idle`). On flash that queues only the last of a tree is waited for.
    pub(super) fn should_idle(&self, q: u32, table: &Table) -> bool {
        let queue = self.queue(q);
        if self.slice_idle == Span::ZERO || queue.class == Class::Idle {
            return false;
        }
        if queue.idles && !self.is_parallel_flash(table) {
            return true;
        }
        let kind = queue.tree.unwrap_or_else(|| queue.kind());
        let service = self.groups.get(queue.group).services.get(kind);
        let thinks = service.think.known_mean();
        let late = thinks.is_some_and(|mean| mean > self.slice_idle);
        service.count == 1 && queue.sync && !late
    }

    fn is_parallel_flash(&self, table: &Table) -> bool {
        !table.shape.rotational && self.queueing.is_likely()
    }

    /// Linux: `cfq_arm_slice_timer`.
    pub(super) fn begin_idling(&mut self, cx: &Cx) {
        let (now, q) = (cx.now, self.turn.queue);
        let queue = self.queue(q);
        let group_idle = self.config.group_idle;
        if self.is_parallel_flash(&cx.table) && group_idle == Span::ZERO {
            return;
        }
        let for_queue = self.should_idle(q, &cx.table);
        if !for_queue && group_idle == Span::ZERO || queue.dispatched > 0 {
            return;
        }
        if !self.is_alive(&cx.table) {
            return;
        }
        let thinks = self.thinks[self.turn.stream as usize].known_mean();
        if thinks.is_some_and(|mean| self.turn.left(now) < mean) {
            return;
        }
        let group = self.groups.get(queue.group);
        if !for_queue && (group.queues > 1 || group.thinks_longer(group_idle)) {
            return;
        }
        let length = if for_queue {
            self.slice_idle
        } else {
            group_idle
        };
        self.turn.idle_until = Some(now + length);
    }

    /// The stream that is waited for may come back.
    fn is_alive(&self, table: &Table) -> bool {
        let stream = self.turn.stream;
        stream != NIL && table.streams[stream].state == State::Open
    }

    /// Ends the turn if the drive has idled for long enough in vain (Linux: `cfq_idle_slice_timer`).
    pub(super) fn end_idling(&mut self, cx: &mut Cx) {
        if self.turn.idle_until.is_none_or(|until| cx.now < until) {
            return;
        }
        self.turn.idle_until = None;
        let q = self.turn.queue;
        if self.turn.is_used_up(cx.now) {
            self.expire(cx, Expiry::BudgetTimeout);
        } else if self.queue(q).is_empty() {
            self.queues[q as usize].deep = false;
            self.expire(cx, Expiry::TooIdle);
        }
    }

    /// True if the queue, the last of its group, is about to end its turn with nothing to send: its group would lose its place
    /// (Linux: `cfq_should_wait_busy`).
    pub(super) fn should_wait_busy(&self, now: Instant, q: u32) -> bool {
        let queue = self.queue(q);
        let group = self.groups.get(queue.group);
        if !queue.is_empty() || group.queues > 1 || group.thinks_longer(self.config.group_idle) {
            return false;
        }
        if self.turn.is_used_up(now) {
            return true;
        }
        let left = self.turn.left(now);
        let thinks = match self.turn.stream {
            NIL => None,
            stream => self.thinks[stream as usize].known_mean(),
        };
        thinks.is_some_and(|mean| left < mean) || left <= TICK
    }

    /// A deep queue that is random is not waited for while the drive is that much faster than the queue (Linux: in `cfq_select_queue`).
    pub(super) fn reconsider_deep(&mut self, now: Instant, q: u32) {
        let quick = self.turn.slice.is_none() || self.turn.left(now) > self.turn.used(now);
        let queue = &mut self.queues[q as usize];
        if queue.is_seeky() && queue.idles && quick {
            (queue.deep, queue.idles) = (false, false);
        }
    }

    /// Whether a queue is waited for, now that a request of this stream has come (Linux: `cfq_update_idle_window`).
    pub(super) fn reconsider_idling(&mut self, q: u32, stream: u32) {
        let idle = self.slice_idle;
        let queue = &mut self.queues[q as usize];
        if !queue.sync || queue.class == Class::Idle {
            return;
        }
        queue.deep |= queue.queued() >= DEEP;
        let is_random = !queue.deep && queue.is_seeky();
        if idle == Span::ZERO || is_random {
            queue.idles = false;
        } else if let Some(mean) = self.thinks[stream as usize].known_mean() {
            queue.idles = mean <= idle;
        }
    }
}
