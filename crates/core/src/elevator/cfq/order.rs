//! Which request of a queue comes next: by position from where the queue was, unless the oldest is overdue.

use super::queue::Queue;
use crate::Instant;
use crate::elevator::common::order::{Item, Order};
use crate::elevator::common::seek::Place;
use crate::list::NIL;
use crate::table::Table;

impl Queue {
    /// A request enters the queue; it is the queue's next if it is better than what was (Linux:
    /// `cfq_add_rq_rb`).
    pub(super) fn insert(&mut self, order: &mut Order, request: u32, item: Item, head: Place) {
        *order.item_mut(request) = item;
        order.add(&mut self.sorted, &mut self.fifo, request, item.start());
        self.metas += u32::from(item.meta);
        self.prefer(order, request, head);
    }

    /// A request of the queue becomes its next if it is better than what was.
    pub(super) fn prefer(&mut self, order: &Order, request: u32, head: Place) {
        self.next = match self.next {
            NIL => request,
            next => order.nearer(next, request, head),
        };
    }

    /// A request leaves. The queue goes on behind it if it was the next (Linux: `cfq_remove_request`).
    pub(super) fn remove(&mut self, order: &mut Order, request: u32) {
        if self.next == request {
            self.next = order.after(&self.sorted, request).unwrap_or(NIL);
        }
        self.metas -= u32::from(order.item(request).meta);
        order.take_out(&mut self.sorted, &mut self.fifo, request);
    }

    /// The next piece of the request goes to the drive; the queue goes on with what is left of it,
    /// or behind it (Linux:
    /// `cfq_dispatch_insert`).
    pub(super) fn sent(&mut self, order: &mut Order, request: u32) {
        if order.item(request).is_last() {
            let after = order.after(&self.sorted, request);
            self.remove(order, request);
            self.next = after.unwrap_or(NIL);
        } else {
            order.item_mut(request).advance();
            self.next = request;
        }
    }

    /// The oldest request, if it has waited for too long (Linux: `cfq_check_fifo`).
    pub(super) fn overdue(&self, order: &Order, now: Instant) -> Option<u32> {
        let oldest = self.fifo.first()?;
        (now >= order.item(oldest).due()).then_some(oldest)
    }

    /// A command has become longer, at its end or at its beginning.
    pub(super) fn grown(&mut self, order: &mut Order, request: u32, table: &Table) {
        let before = order.grown(&mut self.sorted, request, table);
        self.metas += u32::from(order.item(request).meta);
        self.metas -= u32::from(before.meta);
    }

    /// A request becomes part of another of the queue (Linux: in `cfq_merged_requests`).
    pub(super) fn inherit(&mut self, order: &mut Order, by: u32, request: u32) {
        order.inherit_age(&mut self.fifo, by, request);
        if self.next == request {
            self.next = by;
        }
    }
}
