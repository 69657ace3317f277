//! Commands that wait and are merged: what becomes of their queues (Linux: `bfq_request_merged`,
//! `bfq_requests_merged`).
//!
//! Not to be confused with `merge`, which gives streams one queue. Both meet here: before a request joins a command, its stream is
//! given to the queue of its cooperators, since a request only joins a command of the queue that it would be put in.

use super::Bfq;
use crate::cx::Cx;
use crate::list::NIL;
use crate::merge::Side;

impl Bfq {
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
