//! The choice of a queue's next request: by position from the last one, or the oldest if it is
//! overdue.

use super::queue::CfqQueue;
use crate::Instant;
use crate::elevator::common::order::{Item, Order};
use crate::elevator::common::seek::SeekPosition;
use crate::list::NIL;
use crate::table::Table;

impl CfqQueue {
    /// Adds a request to the queue, and makes it the next if it is nearer than the present one
    /// (Linux: `cfq_add_rq_rb`).
    pub(super) fn insert(
        &mut self,
        order: &mut Order,
        request: u32,
        item: Item,
        head: SeekPosition,
    ) {
        *order.item_mut(request) = item;
        order.add(&mut self.sorted, &mut self.fifo, request, item.start());
        self.metas += u32::from(item.meta);
        self.prefer(order, request, head);
    }

    /// Makes a request of the queue its next if it is nearer than the present one.
    pub(super) fn prefer(&mut self, order: &Order, request: u32, head: SeekPosition) {
        self.next = match self.next {
            NIL => request,
            next => order.nearer(next, request, head),
        };
    }

    /// Removes a request. If it was the next, the queue continues behind it (Linux:
    /// `cfq_remove_request`).
    pub(super) fn remove(&mut self, order: &mut Order, request: u32) {
        if self.next == request {
            self.next = order.after(&self.sorted, request).unwrap_or(NIL);
        }
        self.metas -= u32::from(order.item(request).meta);
        order.take_out(&mut self.sorted, &mut self.fifo, request);
    }

    /// Advances a request by the piece that was sent. The queue continues with the rest of the
    /// request, or behind it (Linux: `cfq_dispatch_insert`).
    pub(super) fn advance_request(&mut self, order: &mut Order, request: u32) {
        if order.item(request).is_last() {
            // The queue continues behind the sent request even if another one was its next, because
            // an overdue request can be sent out of order.
            let after = order.after(&self.sorted, request);
            self.remove(order, request);
            self.next = after.unwrap_or(NIL);
        } else {
            order.item_mut(request).advance();
            self.next = request;
        }
    }

    /// Returns the oldest request if it has waited for too long (Linux: `cfq_check_fifo`).
    pub(super) fn overdue(&self, order: &Order, now: Instant) -> Option<u32> {
        let oldest = self.fifo.first()?;
        (now >= order.item(oldest).due()).then_some(oldest)
    }

    /// Updates the order after a command has grown at its end or beginning.
    pub(super) fn grown(&mut self, order: &mut Order, request: u32, table: &Table) {
        let before = order.update_grown(&mut self.sorted, request, table);
        self.metas += u32::from(order.item(request).meta);
        self.metas -= u32::from(before.meta);
    }

    /// Passes age and precedence of a request on to the command `by`, which it becomes a part of
    /// (Linux: in `cfq_merged_requests`).
    pub(super) fn inherit(&mut self, order: &mut Order, by: u32, request: u32) {
        order.inherit_age(&mut self.fifo, by, request);
        if self.next == request {
            self.next = by;
        }
    }
}
