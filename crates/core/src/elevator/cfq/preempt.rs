//! When a queue that has a new request takes the drive from the one in service.

use super::Cfq;
use super::service::{Class, Type};
use crate::Instant;
use crate::cx::Cx;
use crate::event::Expiry;
use crate::list::NIL;

impl Cfq {
    /// Linux: `cfq_should_preempt`.
    pub(super) fn should_preempt(&self, cx: &Cx, q: u32, request: u32) -> bool {
        let current = self.turn.queue;
        if current == NIL {
            return false;
        }
        let (new, old) = (self.queue(q), self.queue(current));
        if new.class == Class::Idle {
            return false;
        }
        if old.class == Class::Idle {
            return true;
        }
        if old.class == Class::Realtime && new.class != Class::Realtime {
            return false;
        }
        if new.sync && !old.sync && !self.turn.must_send() {
            return true;
        }
        // Nobody of another group does, for the sake of fairness among groups.
        new.group == old.group && self.is_better(cx, q, request)
    }

    /// The same within a group.
    fn is_better(&self, cx: &Cx, q: u32, request: u32) -> bool {
        let current = self.turn.queue;
        let (new, old) = (self.queue(q), self.queue(current));
        if self.turn.is_used_up(cx.now) {
            return true;
        }
        if new.class != old.class {
            return new.class < old.class;
        }
        let together = Type::Together;
        if self.workload.kind.way == together && new.kind().way == together && old.is_empty() {
            return true;
        }
        let item = self.order.item(request);
        if item.meta && old.metas == 0 {
            return true;
        }
        if old.is_empty() && !self.should_idle(current, &cx.table) {
            return true;
        }
        // As good as what it is waited for.
        self.turn.idle_until.is_some() && self.is_near(item.start())
    }

    /// Linux: `cfq_preempt_queue`.
    pub(super) fn preempt(&mut self, cx: &mut Cx, q: u32) {
        let now: Instant = cx.now;
        let old = self.queue(self.turn.queue).kind().way;
        self.keep_residue(now);
        self.expire(cx, Expiry::Preempted);
        let new = self.queue(q);
        let group = new.group;
        if old != new.kind().way {
            self.groups.get_mut(group).unfinished = None;
        }
        self.line_up(now, q, true);
    }
}
