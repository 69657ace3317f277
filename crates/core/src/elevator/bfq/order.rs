//! The choice of a queue's next request: the nearest by offset, or the oldest if it is overdue.

use super::queue::BfqQueue;
use crate::Instant;
use crate::elevator::common::order::Order;
use crate::elevator::common::seek::SeekPosition;
use crate::list::NIL;

impl BfqQueue {
    /// Adds a request that begins at `start`, and makes it the queue's next if it is nearer than
    /// the present one (Linux: `bfq_add_request`).
    #[inline]
    pub(super) fn insert(
        &mut self,
        order: &mut Order,
        request: u32,
        start: SeekPosition,
        head: SeekPosition,
    ) {
        order.add(&mut self.sorted, &mut self.fifo, request, start);
        self.next = if self.next == NIL {
            request
        } else {
            order.nearer(self.next, request, head)
        };
    }

    /// Makes a request that moved forward in the order the queue's next, if it is nearer than the
    /// present one.
    pub(super) fn reconsider(&mut self, order: &Order, request: u32, head: SeekPosition) {
        debug_assert!(self.next != NIL, "a queue with requests has no next one");
        self.next = order.nearer(self.next, request, head);
    }

    /// Advances a request by a piece that was sent, or removes the request if that was its last
    /// piece.
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs a third of it"
    )]
    #[inline(always)]
    pub(super) fn advance_request(&mut self, order: &mut Order, request: u32, now: Instant) {
        if order.item(request).is_last() {
            self.remove(order, request, now);
        } else {
            order.item_mut(request).advance();
        }
    }

    /// Removes a request and chooses another next one if it was the queue's next (Linux:
    /// `bfq_remove_request`).
    pub(super) fn remove(&mut self, order: &mut Order, request: u32, now: Instant) {
        if self.next == request {
            self.next = self.find_next(order, request, now);
        }
        order.take_out(&mut self.sorted, &mut self.fifo, request);
    }

    /// Returns the request to serve after `last` (Linux: `bfq_find_next_rq`).
    fn find_next(&mut self, order: &Order, last: u32, now: Instant) -> u32 {
        let overdue = self.overdue(order, last, now);
        let next = overdue.or_else(|| order.after(&self.sorted, last));
        next.unwrap_or(NIL)
    }

    /// Returns the oldest request if it is overdue (Linux: `bfq_check_fifo`).
    fn overdue(&mut self, order: &Order, last: u32, now: Instant) -> Option<u32> {
        // The age is checked once per turn: with a check for each request, a queue of overdue
        // requests would be served by age alone and lose its sequential order.
        if self.fifo_checked {
            return None;
        }
        self.fifo_checked = true;
        let oldest = self.fifo.first()?;
        (oldest != last && now >= order.item(oldest).due()).then_some(oldest)
    }
}
