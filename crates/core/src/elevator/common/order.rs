//! Requests that wait, sorted by place and first come, first served. BFQ and CFQ share it.

use super::seek::{BackSeek, Place, is_nearer, sectors};
use crate::list::{Links, List, NIL};
use crate::merge::Side;
use crate::table::Table;
use crate::tree::{Sorted, Tree};
use crate::{Flags, Instant, Op, SpaceId};
use alloc::vec;
use alloc::vec::Vec;

/// A request: whose it is, and while it waits, what the next piece of it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Its queue; known until its last piece has come back.
    pub(crate) queue: u32,
    space: SpaceId,
    /// Where the next piece begins, in bytes.
    offset: u64,
    /// Bytes not sent.
    left: u32,
    /// Bytes of the next piece.
    pub(crate) bytes: u32,
    op: Op,
    /// It is preferred within its queue (Linux: `REQ_PRIO`).
    pub(crate) meta: bool,
    /// Nothing of it was sent.
    whole: bool,
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

    /// Where it begins.
    pub(crate) fn start(&self) -> Place {
        Place {
            space: self.space,
            sector: self.offset / 512,
        }
    }

    /// Where the request ends, or with only `bytes` sent would end.
    pub(crate) fn end(&self, bytes: u32) -> Place {
        Place {
            space: self.space,
            sector: sectors(self.offset + u64::from(bytes)),
        }
    }

    /// When it becomes overdue.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Bytes not sent.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// True if the next piece is the last.
    pub(crate) fn is_last(&self) -> bool {
        self.bytes == self.left
    }

    /// True if it moves data.
    pub(crate) fn moves_data(&self) -> bool {
        self.op.moves_data()
    }

    /// Sectors that the next piece is charged: what it covers, one sector for a whole discard or
    /// look-up of extents.
    pub(crate) fn charge(&self) -> u64 {
        match self.op {
            Op::Discard | Op::Extents => u64::from(self.whole),
            _ => sectors(u64::from(self.bytes)),
        }
    }

    /// The next piece was sent and is not the last.
    pub(crate) fn advance(&mut self) {
        self.offset += u64::from(self.bytes);
        self.left -= self.bytes;
        self.bytes = self.bytes.min(self.left);
        self.whole = false;
    }
}

/// The requests of all queues: sorted by place, and first come, first served. The ends of both
/// orders are in the queues.
#[derive(Debug)]
pub(crate) struct Order {
    sorted: Sorted,
    fifo: Links,
    items: Vec<Item>,
    /// What seeks backwards are worth.
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

    /// Adds a request that was noted and begins at `start`.
    #[inline]
    pub(crate) fn add(&mut self, sorted: &mut Tree, fifo: &mut List, request: u32, start: Place) {
        self.sorted.insert(sorted, request, start.key(), 0);
        self.fifo.push_back(fifo, request);
    }

    /// Takes a request out.
    #[inline]
    pub(crate) fn take_out(&mut self, sorted: &mut Tree, fifo: &mut List, request: u32) {
        self.sorted.remove(sorted, request);
        self.fifo.remove(fifo, request);
    }

    /// The request has become longer, at its end or at its beginning. Returns the request before
    /// that.
    pub(crate) fn grown(&mut self, sorted: &mut Tree, request: u32, table: &Table) -> Item {
        let before = *self.item(request);
        let item = Item::new(table, request, before.queue, before.due);
        self.items[request as usize] = item;
        let (was, is) = (before.start().key(), item.start().key());
        if was != is {
            self.sorted.remove(sorted, request);
            self.sorted.insert(sorted, request, is, 0);
        }
        before
    }

    /// The one behind a request, or before it, in the order of their places.
    pub(crate) fn neighbour(&self, request: u32, side: Side) -> Option<u32> {
        match side {
            Side::Back => self.sorted.next(request),
            Side::Front => self.sorted.prev(request),
        }
    }

    /// A request of the queue that begins there.
    pub(crate) fn at(&self, sorted: &Tree, start: Place) -> Option<u32> {
        let found = self.sorted.last_up_to(sorted, start.key())?;
        (self.item(found).start() == start).then_some(found)
    }

    /// A request becomes part of another of its queue, which is as urgent then as the more urgent
    /// of the two, and takes its turn where the other would have had it (Linux: in
    /// `bfq_requests_merged`, `cfq_merged_requests`).
    pub(crate) fn inherit_age(&mut self, fifo: &mut List, by: u32, request: u32) {
        let (due, own) = (self.item(request).due, self.item(by).due);
        if due < own {
            self.items[by as usize].due = due;
            self.fifo.remove(fifo, by);
            self.fifo.insert_before(fifo, request, by);
        }
    }

    /// The request with which a queue goes on behind another (Linux: `bfq_find_next_rq`,
    /// `cfq_find_next_rq`).
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs 1 % of it"
    )]
    #[inline(always)]
    pub(crate) fn after(&self, sorted: &Tree, last: u32) -> Option<u32> {
        let next = self.sorted.next(last);
        let first = || self.sorted.first(sorted).filter(|&r| r != last);
        match (next.or_else(first), self.sorted.prev(last)) {
            (Some(a), Some(b)) if a != b => Some(self.nearer(a, b, self.item(last).start())),
            (a, b) => a.or(b),
        }
    }

    /// The one of two requests that is better to serve when the head is at `head` (Linux:
    /// `bfq_choose_req`, `cfq_choose_req`).
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs a third of it"
    )]
    #[inline(always)]
    pub(crate) fn nearer(&self, a: u32, b: u32, head: Place) -> u32 {
        let (item_a, item_b) = (self.item(a), self.item(b));
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

    /// One that is as old keeps its place before others that are.
    #[test]
    fn who_absorbs_an_older_request_takes_its_turn() {
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
