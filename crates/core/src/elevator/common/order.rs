//! Queued requests in two orders: by position, and by arrival. BFQ and CFQ share this module.

use super::seek::{BackSeek, SeekPosition, is_nearer, sectors};
use crate::list::{Links, List, NIL};
use crate::merge::Side;
use crate::table::Table;
use crate::tree::{Sorted, Tree};
use crate::{Flags, Instant, Op, SpaceId};
use alloc::vec;
use alloc::vec::Vec;

/// A request with its queue and its next piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// The queue of the request. It is valid until the last piece has completed.
    pub(crate) queue: u32,
    space: SpaceId,
    /// The offset of the next piece in bytes.
    offset: u64,
    /// Number of bytes that are not dispatched.
    left: u32,
    /// Length of the next piece in bytes.
    pub(crate) bytes: u32,
    op: Op,
    /// True if the request is preferred within its queue (Linux: `REQ_META` in BFQ, `REQ_PRIO` in
    /// CFQ).
    pub(crate) meta: bool,
    /// True if no piece has been dispatched.
    whole: bool,
    /// The time at which the request becomes overdue.
    due: Instant,
}

impl Item {
    const NONE: Self = Self {
        queue: NIL,
        space: SpaceId(0),
        offset: 0,
        left: 0,
        bytes: 0,
        op: Op::Read,
        meta: false,
        whole: true,
        due: Instant::ZERO,
    };

    #[inline]
    pub(crate) fn new(table: &Table, request: u32, queue: u32, due: Instant) -> Self {
        let live = &table.requests[request];
        let (bytes, _) = table.piece(request);
        Self {
            queue,
            space: live.request.space,
            offset: live.request.offset + u64::from(live.issued),
            left: live.request.length - live.issued,
            bytes,
            op: live.request.op,
            meta: live.request.flags.has(Flags::META),
            whole: live.issued == 0,
            due,
        }
    }

    /// Returns the position of the next piece.
    pub(crate) fn start(&self) -> SeekPosition {
        SeekPosition {
            space: self.space,
            sector: self.offset / 512,
        }
    }

    /// Returns the position after `bytes` from the beginning of the next piece.
    pub(crate) fn end(&self, bytes: u32) -> SeekPosition {
        SeekPosition {
            space: self.space,
            sector: sectors(self.offset + u64::from(bytes)),
        }
    }

    /// Returns the time at which the request becomes overdue.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Returns the number of bytes that are not dispatched.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Returns true if the next piece is the last one.
    pub(crate) fn is_last(&self) -> bool {
        self.bytes == self.left
    }

    /// Returns true if the operation moves data.
    pub(crate) fn moves_data(&self) -> bool {
        self.op.moves_data()
    }

    /// Returns the number of sectors that the next piece is charged. A discard or a look-up of
    /// extents is charged one sector in all, with its first piece.
    pub(crate) fn charge(&self) -> u64 {
        match self.op {
            // Only the first piece is charged.
            Op::Discard | Op::Extents => u64::from(self.whole),
            _ => sectors(u64::from(self.bytes)),
        }
    }

    /// Moves on to the next piece after one that was dispatched and is not the last.
    pub(crate) fn advance(&mut self) {
        self.offset += u64::from(self.bytes);
        self.left -= self.bytes;
        self.bytes = self.bytes.min(self.left);
        self.whole = false;
    }
}

/// The requests of all queues in both orders. The queues store the ends of their own orders.
#[derive(Debug)]
pub(crate) struct Order {
    sorted: Sorted,
    fifo: Links,
    items: Vec<Item>,
    /// The cost of backward seeks.
    back: BackSeek,
}

impl Order {
    pub(crate) fn new(requests: u32, back: BackSeek) -> Self {
        Self {
            back,
            sorted: Sorted::new(requests),
            fifo: Links::new(requests),
            items: vec![Item::NONE; requests as usize],
        }
    }

    #[inline]
    pub(crate) fn item(&self, request: u32) -> &Item {
        &self.items[request as usize]
    }

    #[inline]
    pub(crate) fn item_mut(&mut self, request: u32) -> &mut Item {
        &mut self.items[request as usize]
    }

    /// Adds a request, whose item is set, to the orders of a queue. It begins at `start`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        sorted: &mut Tree,
        fifo: &mut List,
        request: u32,
        start: SeekPosition,
    ) {
        self.sorted.insert(sorted, request, start.key(), 0);
        self.fifo.push_back(fifo, request);
    }

    /// Removes a request from the orders of a queue.
    #[inline]
    pub(crate) fn take_out(&mut self, sorted: &mut Tree, fifo: &mut List, request: u32) {
        self.sorted.remove(sorted, request);
        self.fifo.remove(fifo, request);
    }

    /// Updates a request that has grown at its end or at its beginning. Returns the item before the
    /// change.
    pub(crate) fn update_grown(&mut self, sorted: &mut Tree, request: u32, table: &Table) -> Item {
        let before = *self.item(request);
        let item = Item::new(table, request, before.queue, before.due);
        self.items[request as usize] = item;
        let (was, is) = (before.start().key(), item.start().key());
        // Growth at the end does not change the position.
        if was != is {
            self.sorted.remove(sorted, request);
            self.sorted.insert(sorted, request, is, 0);
        }
        before
    }

    /// Returns the request after or before a request in the order of positions.
    pub(crate) fn neighbour(&self, request: u32, side: Side) -> Option<u32> {
        match side {
            Side::Back => self.sorted.next(request),
            Side::Front => self.sorted.prev(request),
        }
    }

    /// Returns a request of the queue that begins at `start`.
    pub(crate) fn at(&self, sorted: &Tree, start: SeekPosition) -> Option<u32> {
        let found = self.sorted.last_up_to(sorted, start.key())?;
        (self.item(found).start() == start).then_some(found)
    }

    /// Passes the age of a request to the request `by` that absorbs it. If the absorbed request is
    /// more urgent, `by` takes over its deadline and its place in the order of arrival (Linux: in
    /// `bfq_requests_merged`, `cfq_merged_requests`).
    pub(crate) fn inherit_age(&mut self, fifo: &mut List, by: u32, request: u32) {
        let (due, own) = (self.item(request).due, self.item(by).due);
        if due < own {
            self.items[by as usize].due = due;
            self.fifo.remove(fifo, by);
            self.fifo.insert_before(fifo, request, by);
        }
    }

    /// Returns the request with which a queue continues after the request `last` (Linux:
    /// `bfq_find_next_rq`, `cfq_find_next_rq`).
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs 1 % of it"
    )]
    #[inline(always)]
    pub(crate) fn after(&self, sorted: &Tree, last: u32) -> Option<u32> {
        // Without a request behind `last`, the order wraps to the first one.
        let next = self.sorted.next(last);
        let first = || self.sorted.first(sorted).filter(|&r| r != last);
        match (next.or_else(first), self.sorted.prev(last)) {
            (Some(a), Some(b)) if a != b => Some(self.nearer(a, b, self.item(last).start())),
            (a, b) => a.or(b),
        }
    }

    /// Returns the request that is better to serve when the head is at `head` (Linux:
    /// `bfq_choose_req`, `cfq_choose_req`).
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs a third of it"
    )]
    #[inline(always)]
    pub(crate) fn nearer(&self, a: u32, b: u32, head: SeekPosition) -> u32 {
        let (item_a, item_b) = (self.item(a), self.item(b));
        // A preferred request is served first, regardless of its position.
        let first = if item_a.meta == item_b.meta {
            is_nearer(item_a.start(), item_b.start(), head, self.back)
        } else {
            item_a.meta
        };
        if first { a } else { b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With equal deadlines, the absorbing request keeps its place in front of the others.
    #[test]
    fn absorbing_an_older_request_takes_over_its_place() {
        for (due, expected) in [([5, 5, 5], [0, 1, 2]), ([6, 5, 4], [1, 0, 2])] {
            let back = BackSeek {
                max: 16,
                penalty: 2,
            };
            let (mut order, mut sorted, mut fifo) = (Order::new(3, back), Tree::EMPTY, List::EMPTY);
            for (request, due) in (0..3).zip(due) {
                let item = order.item_mut(request);
                (item.due, item.offset) = (Instant::from_nanos(due), 4096 * u64::from(request));
                let start = item.start();
                order.add(&mut sorted, &mut fifo, request, start);
            }
            order.inherit_age(&mut fifo, 0, 2);
            assert!(order.fifo.iter(&fifo).eq(expected));
            assert_eq!(order.item(0).due, Instant::from_nanos(due[2]));
        }
    }
}
