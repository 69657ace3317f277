//! Which request of a queue comes next: by offset, but by age when one has waited too long.

use super::queue::Queue;
use crate::Instant;
use crate::elevator::common::order::Order;
use crate::elevator::common::seek::Place;
use crate::list::NIL;

impl Queue {
    /// Adds a request that was noted and begins at `start`, and lets it be the queue's next if it is better than what was (Linux:
    /// `bfq_add_request`).
    #[inline]
    pub(super) fn insert(&mut self, order: &mut Order, request: u32, start: Place, head: Place) {
        order.add(&mut self.sorted, &mut self.fifo, request, start);
        self.next = if self.next == NIL {
            request
        } else {
            order.nearer(self.next, request, head)
        };
    }

    /// A request has come before others: it is the queue's next if it is better than what was.
    pub(super) fn reconsider(&mut self, order: &Order, request: u32, head: Place) {
        debug_assert!(self.next != NIL, "a queue with requests has no next one");
        self.next = order.nearer(self.next, request, head);
    }

    /// A piece of the request was sent; if it was the last, the request is forgotten.
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs a third of it"
    )]
    #[inline(always)]
    pub(super) fn sent(&mut self, order: &mut Order, request: u32, now: Instant) {
        if order.item(request).is_last() {
            self.remove(order, request, now);
        } else {
            order.item_mut(request).advance();
        }
    }

    /// Takes a request out and finds the queue's next if it was that (Linux: `bfq_remove_request`).
    pub(super) fn remove(&mut self, order: &mut Order, request: u32, now: Instant) {
        if self.next == request {
            self.next = self.find_next(order, request, now);
        }
        order.take_out(&mut self.sorted, &mut self.fifo, request);
    }

    /// Linux: `bfq_find_next_rq`.
    fn find_next(&mut self, order: &Order, last: u32, now: Instant) -> u32 {
        let overdue = self.overdue(order, last, now);
        let next = overdue.or_else(|| order.after(&self.sorted, last));
        next.unwrap_or(NIL)
    }

    /// The oldest request if it is overdue; looked at once a turn (Linux: `bfq_check_fifo`).
    fn overdue(&mut self, order: &Order, last: u32, now: Instant) -> Option<u32> {
        if self.fifo_checked {
            return None;
        }
        self.fifo_checked = true;
        let oldest = self.fifo.first()?;
        (oldest != last && now >= order.item(oldest).due()).then_some(oldest)
    }
}
