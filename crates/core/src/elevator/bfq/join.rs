//! Which command that waits a request may join (Linux: `elv_merge`, `bfq_request_merge`, `bfq_allow_bio_merge`).
//!
//! Not to be confused with `merge`, which gives streams one queue. Both meet here: before a request joins a command, its stream is
//! given to the queue of its cooperators, since a request only joins a command of the queue that it would be put in.

use super::Bfq;
use crate::cx::Cx;
use crate::elevator::common::seek::{Place, sectors};
use crate::list::NIL;
use crate::merge::{Join, Side};

impl Bfq {
    /// Linux: `elv_merge`.
    pub(super) fn find_command(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
        let last = cx.table.last_merged();
        let last = last.filter(|&last| self.allows(cx, last, request));
        let found = last.and_then(|leader| {
            let side = cx.table.side(leader, request)?;
            Some(Join { leader, side })
        });
        if found.is_some() || cx.table.merges.is_one_hit() {
            return found;
        }
        if let Some(leader) = cx.table.ending_before(request)
            && self.allows(cx, leader, request)
        {
            let side = Side::Back;
            return Some(Join { leader, side });
        }
        let asked = &cx.table.requests[request].request;
        let end = Place {
            space: asked.space,
            sector: sectors(asked.end()),
        };
        let q = self.members.queue_of(request, &cx.table);
        let leader = self.order.at(&self.queue(q).sorted, end)?;
        let meets = cx.table.side(leader, request) == Some(Side::Front);
        let side = Side::Front;
        (meets && self.allows(cx, leader, request)).then_some(Join { leader, side })
    }

    /// Linux: `elv_bio_merge_ok`, `bfq_allow_bio_merge`.
    fn allows(&mut self, cx: &mut Cx, command: u32, request: u32) -> bool {
        let is_sync = |id: u32| cx.table.requests[id].request.is_sync();
        if !cx.table.is_compatible(command, request) || is_sync(request) && !is_sync(command) {
            return false;
        }
        self.queue_to_be(cx, request) == self.order.item(command).queue
    }

    /// A command has grown (Linux: `elv_merged_request`, `bfq_request_merged`).
    pub(super) fn command_grown(&mut self, cx: &mut Cx, leader: u32, side: Side) {
        let q = self.order.item(leader).queue;
        let queue = &mut self.queues[q as usize];
        let before = self.order.neighbour(leader, Side::Front);
        self.order.grown(&mut queue.sorted, leader, &cx.table);
        let passed = side == Side::Front && before != self.order.neighbour(leader, Side::Front);
        let was = queue.next;
        if passed {
            queue.reconsider(&self.order, leader, self.head);
        }
        let moved = queue.next == leader && side == Side::Front;
        if was != queue.next {
            self.next_changed(q);
        }
        if self.cooperation.is_on && (moved || was != self.queue(q).next) {
            self.next_moved(cx.now, q);
        }
    }

    /// A command is part of another (Linux: `bfq_requests_merged`).
    pub(super) fn command_absorbed(&mut self, cx: &mut Cx, by: u32, request: u32) {
        let q = self.order.item(request).queue;
        if self.order.item(by).queue == q {
            let queue = &mut self.queues[q as usize];
            self.order.inherit_age(&mut queue.fifo, by, request);
            if queue.next == request {
                queue.next = by;
                debug_assert!(queue.next != NIL);
            }
        }
        super::Schedule::remove(self, cx, request);
    }
}
