//! Preemption: the new requests for which a queue takes the drive from the queue in service.

use super::Cfq;
use super::service::{CfqClass, QueueKind};
use crate::Instant;
use crate::cx::Cx;
use crate::event::Expiry;
use crate::list::NIL;

impl Cfq {
    /// Returns true if the new request of `q` justifies ending the turn in progress (Linux:
    /// `cfq_should_preempt`).
    pub(super) fn should_preempt(&self, cx: &Cx, q: u32, request: u32) -> bool {
        let current = self.turn.queue;
        if current == NIL {
            return false;
        }
        let (new, old) = (self.queue(q), self.queue(current));
        if new.class == CfqClass::Idle {
            return false;
        }
        if old.class == CfqClass::Idle {
            return true;
        }
        if old.class == CfqClass::Realtime && new.class != CfqClass::Realtime {
            return false;
        }
        // A synchronous request has a process that waits for it. An overdue request of the old
        // queue is sent first.
        if new.sync && !old.sync && !self.turn.must_send() {
            return true;
        }
        // Queues of other groups cannot preempt, for the sake of fairness among groups.
        new.group == old.group && self.is_better(cx, q, request)
    }

    /// Returns true if `q` should preempt a queue of the same group.
    fn is_better(&self, cx: &Cx, q: u32, request: u32) -> bool {
        let current = self.turn.queue;
        let (new, old) = (self.queue(q), self.queue(current));
        if self.turn.is_used_up(cx.now) {
            return true;
        }
        if new.class != old.class {
            return new.class < old.class;
        }
        let together = QueueKind::Together;
        // Random queues are idled for together, so the request of any of them ends the wait.
        if self.workload.kind.way == together && new.kind().way == together && old.is_empty() {
            return true;
        }
        let item = self.order.item(request);
        // Other requests, perhaps of the queue in service, may depend on metadata.
        if item.meta && old.metas == 0 {
            return true;
        }
        if old.is_empty() && !self.should_idle(current, &cx.table) {
            return true;
        }
        // A near request is as good as the one that the drive idles for.
        self.turn.idle_until.is_some() && self.is_near(item.start())
    }

    /// Ends the turn in progress and puts `q` in front of its service tree (Linux:
    /// `cfq_preempt_queue`).
    pub(super) fn preempt(&mut self, cx: &mut Cx, q: u32) {
        let now: Instant = cx.now;
        let old = self.queue(self.turn.queue).kind().way;
        self.keep_residue(now);
        self.expire(cx, Expiry::Preempted);
        let new = self.queue(q);
        let group = new.group;
        // The rest of the time for the old kind of queues must not delay the new one.
        if old != new.kind().way {
            self.groups.get_mut(group).unfinished = None;
        }
        self.line_up(now, q, true);
    }
}
