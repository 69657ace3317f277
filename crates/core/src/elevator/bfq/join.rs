//! Effects of merged commands on the queues that contain them (Linux: `bfq_request_merged`,
//! `bfq_requests_merged`).
//!
//! This module is about commands, while `merge` lets streams share a queue. The two are connected:
//! before a request joins a command, its stream moves to the queue of its cooperators, because a
//! request can only join a command of the queue that the request itself would be put in.

use super::Bfq;
use crate::cx::Cx;
use crate::list::NIL;
use crate::merge::Side;

impl Bfq {
    /// Updates the order of a queue after one of its commands has grown (Linux:
    /// `elv_merged_request`, `bfq_request_merged`).
    pub(super) fn command_grown(&mut self, cx: &mut Cx, leader: u32, side: Side) {
        let q = self.order.item(leader).queue;
        let queue = &mut self.queues[q as usize];
        let before = self.order.neighbour(leader, Side::Front);
        self.order
            .update_grown(&mut queue.sorted, leader, &cx.table);
        // A command that grew at its front begins earlier than before. It may now be in front of
        // its neighbour, and nearer to the head than the request that was next.
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
            self.update_position(cx.now, q);
        }
    }

    /// Removes a request that became part of the command `by` (Linux: `bfq_requests_merged`).
    pub(super) fn command_absorbed(&mut self, cx: &mut Cx, by: u32, request: u32) {
        let q = self.order.item(request).queue;
        // The command inherits the age of the older one only within one queue, because each queue
        // has its own list by age.
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
