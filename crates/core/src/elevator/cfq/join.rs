//! Which command that waits a request may join (Linux: `elv_merge`, `cfq_merge`, `cfq_allow_bio_merge`).

use super::Cfq;
use crate::cx::Cx;
use crate::elevator::common::seek::{Place, sectors};
use crate::merge::{Join, Side};

impl Cfq {
    /// Linux: `elv_merge`.
    pub(super) fn find_command(&self, cx: &Cx, request: u32) -> Option<Join> {
        let allowed = |leader: &u32| self.allows(cx, *leader, request);
        let last = cx.table.last_merged().filter(allowed).and_then(|leader| {
            let side = cx.table.side(leader, request)?;
            Some(Join { leader, side })
        });
        if last.is_some() || cx.table.merges.is_one_hit() {
            return last;
        }
        if let Some(leader) = cx.table.ending_before(request).filter(allowed) {
            let side = Side::Back;
            return Some(Join { leader, side });
        }
        let asked = &cx.table.requests[request].request;
        let end = Place {
            space: asked.space,
            sector: sectors(asked.end()),
        };
        let queue = self.queue(self.members.queue_of(request, &cx.table));
        let leader = self.order.at(&queue.sorted, end)?;
        let side = Side::Front;
        let meets = cx.table.side(leader, request) == Some(side);
        (meets && allowed(&leader)).then_some(Join { leader, side })
    }

    /// A request only joins a command of the queue that it would be put in, and what is waited for none that is not.
    fn allows(&self, cx: &Cx, command: u32, request: u32) -> bool {
        let is_sync = |id: u32| cx.table.requests[id].request.is_sync();
        cx.table.is_compatible(command, request)
            && (is_sync(command) || !is_sync(request))
            && self.order.item(command).queue == self.members.queue_of(request, &cx.table)
    }

    /// A command has grown (Linux: `cfq_merged_request`).
    pub(super) fn command_grown(&mut self, cx: &Cx, leader: u32, side: Side) {
        let q = self.order.item(leader).queue;
        let queue = &mut self.queues[q as usize];
        queue.grown(&mut self.order, leader, &cx.table);
        if side == Side::Front {
            queue.prefer(&self.order, leader, self.head);
            self.next_moved(q);
        }
    }

    /// A command is part of another (Linux: `cfq_merged_requests`).
    pub(super) fn command_absorbed(&mut self, by: u32, request: u32) {
        let q = self.order.item(request).queue;
        if self.order.item(by).queue == q {
            self.queues[q as usize].inherit(&mut self.order, by, request);
        }
        self.take_out(request);
    }
}
