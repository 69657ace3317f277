//! Idling: the conditions under which the drive waits for the next request of the queue in service,
//! or of its group.

use super::Cfq;
use super::queue::DEEP;
use super::service::CfqClass;
use super::workload::TICK;
use crate::cx::Cx;
use crate::event::Expiry;
use crate::list::NIL;
use crate::stream::State;
use crate::table::Table;
use crate::{Instant, Span};

impl Cfq {
    /// Returns true if waiting for the next request of `q` is better than serving another queue
    /// (Linux: `cfq_should_idle`).
    ///
    /// This is the case for a sequential queue, and for the last of the random queues. On flash
    /// that queues requests, it is the case only for the last queue of a service tree.
    pub(super) fn should_idle(&self, q: u32, table: &Table) -> bool {
        let queue = self.queue(q);
        if self.slice_idle == Span::ZERO || queue.class == CfqClass::Idle {
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

    /// Begins to idle for the queue in service or for its group, if that is worthwhile (Linux:
    /// `cfq_arm_slice_timer`).
    pub(super) fn begin_idling(&mut self, cx: &Cx) {
        let (now, q) = (cx.now, self.turn.queue);
        let queue = self.queue(q);
        let group_idle = self.config.group_idle;
        if self.is_parallel_flash(&cx.table) && group_idle == Span::ZERO {
            return;
        }
        let for_queue = self.should_idle(q, &cx.table);
        // Pieces in the drive lead to another decision when they complete.
        if !for_queue && group_idle == Span::ZERO || queue.dispatched > 0 {
            return;
        }
        if !self.is_alive(&cx.table) {
            return;
        }
        let thinks = self.thinks[self.turn.stream as usize].known_mean();
        // The stream's next request would arrive after the end of the slice.
        if thinks.is_some_and(|mean| self.turn.left(now) < mean) {
            return;
        }
        let group = self.groups.get(queue.group);
        // Other queues of the group keep it busy, and a group that thinks for longer than
        // `group_idle` would not come back in time.
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

    /// Returns true if the stream that is waited for can still send requests.
    fn is_alive(&self, table: &Table) -> bool {
        let stream = self.turn.stream;
        stream != NIL && table.streams[stream].state == State::Open
    }

    /// Ends the turn if no request has arrived while the drive idled (Linux:
    /// `cfq_idle_slice_timer`).
    pub(super) fn end_idling(&mut self, cx: &mut Cx) {
        if self.turn.idle_until.is_none_or(|until| cx.now < until) {
            return;
        }
        self.turn.idle_until = None;
        let q = self.turn.queue;
        if self.turn.is_used_up(cx.now) {
            self.expire(cx, Expiry::BudgetTimeout);
        } else if self.queue(q).is_empty() {
            // A queue that is not sending any more has no depth that would justify idling.
            self.queues[q as usize].deep = false;
            self.expire(cx, Expiry::TooIdle);
        }
    }

    /// Returns true if the queue is the last of its group and is about to end its turn without a
    /// request (Linux: `cfq_should_wait_busy`). The group would lose its place.
    pub(super) fn should_wait_busy(&self, now: Instant, q: u32) -> bool {
        let queue = self.queue(q);
        let group = self.groups.get(queue.group);
        if !queue.is_empty() || group.queues > 1 || group.thinks_longer(self.config.group_idle) {
            return false;
        }
        // With no time left, the expected request would find the turn over.
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

    /// Ends idling for a deep random queue in the first half of its slice (Linux: in
    /// `cfq_select_queue`). The drive is then faster than the queue fills it.
    pub(super) fn reconsider_deep(&mut self, now: Instant, q: u32) {
        let quick = self.turn.slice.is_none() || self.turn.left(now) > self.turn.used(now);
        let queue = &mut self.queues[q as usize];
        if queue.is_seeky() && queue.idles && quick {
            (queue.deep, queue.idles) = (false, false);
        }
    }

    /// Decides whether a queue is idled for, after a request of this stream has arrived (Linux:
    /// `cfq_update_idle_window`).
    pub(super) fn reconsider_idling(&mut self, q: u32, stream: u32) {
        let idle = self.slice_idle;
        let queue = &mut self.queues[q as usize];
        if !queue.sync || queue.class == CfqClass::Idle {
            return;
        }
        // A deep queue gives the drive several requests to sort, so it is treated as sequential.
        queue.deep |= queue.queued() >= DEEP;
        let is_random = !queue.deep && queue.is_seeky();
        if idle == Span::ZERO || is_random {
            queue.idles = false;
        } else if let Some(mean) = self.thinks[stream as usize].known_mean() {
            queue.idles = mean <= idle;
        }
    }
}
