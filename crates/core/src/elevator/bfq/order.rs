//! Which request of a queue comes next: by offset, but by age when one has waited too long.

use super::queue::Queue;
use crate::elevator::common::seek::{BackSeek, Place, is_nearer, sectors};
use crate::list::{Links, NIL};
use crate::merge::Side;
use crate::table::Table;
use crate::tree::Sorted;
use crate::{Flags, Instant, Op, SpaceId};
use alloc::vec;
use alloc::vec::Vec;

/// A request: whose it is, and while it waits, what the next piece of it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its queue; known until its last piece has come back.
    pub(super) queue: u32,
    space: SpaceId,
    /// Where the next piece begins, in bytes.
    offset: u64,
    /// Bytes not sent.
    left: u32,
    /// Bytes of the next piece.
    pub(super) bytes: u32,
    op: Op,
    meta: bool,
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
    pub(super) fn new(table: &Table, request: u32, queue: u32, due: Instant) -> Self {
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
    pub(super) fn start(&self) -> Place {
        Place {
            space: self.space,
            sector: self.offset / 512,
        }
    }

    /// Where the request ends, or with only `bytes` sent would end.
    pub(super) fn end(&self, bytes: u32) -> Place {
        Place {
            space: self.space,
            sector: sectors(self.offset + u64::from(bytes)),
        }
    }

    /// Bytes not sent.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// True if the next piece is the last.
    pub(super) fn is_last(&self) -> bool {
        self.bytes == self.left
    }

    /// True if it moves data.
    pub(super) fn moves_data(&self) -> bool {
        self.op.moves_data()
    }

    /// Sectors that the next piece is charged: what it covers, one sector for a whole discard or look-up of extents.
    pub(super) fn charge(&self) -> u64 {
        match self.op {
            Op::Discard | Op::Extents => u64::from(self.whole),
            _ => sectors(u64::from(self.bytes)),
        }
    }

    /// The next piece was sent and is not the last.
    fn advance(&mut self) {
        self.offset += u64::from(self.bytes);
        self.left -= self.bytes;
        self.bytes = self.bytes.min(self.left);
        self.whole = false;
    }
}

/// The requests of all queues: sorted by place, and first come first served.
#[derive(Debug)]
pub(super) struct Order {
    sorted: Sorted,
    fifo: Links,
    items: Vec<Item>,
    /// What seeks backwards are worth.
    back: BackSeek,
}

impl Order {
    pub(super) fn new(requests: u32, back: BackSeek) -> Self {
        Self {
            back,
            sorted: Sorted::new(requests),
            fifo: Links::new(requests),
            items: vec![Item::NONE; requests as usize],
        }
    }

    #[inline]
    pub(super) fn item(&self, request: u32) -> &Item {
        &self.items[request as usize]
    }

    /// Notes what a request is.
    #[inline]
    pub(super) fn note(&mut self, request: u32, item: Item) -> &Item {
        let place = &mut self.items[request as usize];
        *place = item;
        place
    }

    /// Adds a request that was noted and begins at `start`, and lets it be the queue's next if it is better than what was (Linux:
    /// `bfq_add_request`).
    pub(super) fn insert(&mut self, queue: &mut Queue, request: u32, start: Place, head: Place) {
        self.sorted
            .insert(&mut queue.sorted, request, start.key(), 0);
        self.fifo.push_back(&mut queue.fifo, request);
        queue.next = if queue.next == NIL {
            request
        } else {
            self.nearer(queue.next, request, head)
        };
    }

    /// The request has become longer, at its end or at its beginning.
    pub(super) fn grown(&mut self, queue: &mut Queue, request: u32, table: &Table) {
        let before = *self.item(request);
        let item = Item::new(table, request, before.queue, before.due);
        self.items[request as usize] = item;
        let (was, is) = (before.start().key(), item.start().key());
        if was != is {
            self.sorted.remove(&mut queue.sorted, request);
            self.sorted.insert(&mut queue.sorted, request, is, 0);
        }
    }

    /// A request has come before others: it is the queue's next if it is better than what was.
    pub(super) fn reconsider(&self, queue: &mut Queue, request: u32, head: Place) {
        debug_assert!(queue.next != NIL, "a queue with requests has no next one");
        queue.next = self.nearer(queue.next, request, head);
    }

    /// The one behind a request, or before it, in the order of their places.
    pub(super) fn neighbour(&self, request: u32, side: Side) -> Option<u32> {
        match side {
            Side::Back => self.sorted.next(request),
            Side::Front => self.sorted.prev(request),
        }
    }

    /// A request of the queue that begins there.
    pub(super) fn at(&self, queue: &Queue, start: Place) -> Option<u32> {
        let found = self.sorted.last_up_to(&queue.sorted, start.key())?;
        (self.item(found).start() == start).then_some(found)
    }

    /// A request becomes part of another of its queue, which is as urgent then as the more urgent of the two, and takes its turn
    /// where the other would have had it (Linux: in `bfq_requests_merged`).
    pub(super) fn inherit_age(&mut self, queue: &mut Queue, by: u32, request: u32) {
        let (due, own) = (self.item(request).due, self.item(by).due);
        if due < own {
            self.items[by as usize].due = due;
            self.fifo.remove(&mut queue.fifo, by);
            self.fifo.insert_before(&mut queue.fifo, request, by);
        }
    }

    /// A piece of the request was sent; if it was the last, the request is forgotten.
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs a third of it"
    )]
    #[inline(always)]
    pub(super) fn sent(&mut self, queue: &mut Queue, request: u32, now: Instant) {
        if self.item(request).is_last() {
            self.remove(queue, request, now);
        } else {
            self.items[request as usize].advance();
        }
    }

    /// Takes a request out and finds the queue's next if it was that (Linux: `bfq_remove_request`).
    pub(super) fn remove(&mut self, queue: &mut Queue, request: u32, now: Instant) {
        if queue.next == request {
            queue.next = self.find_next(queue, request, now);
        }
        self.sorted.remove(&mut queue.sorted, request);
        self.fifo.remove(&mut queue.fifo, request);
    }

    /// Linux: `bfq_find_next_rq`.
    fn find_next(&self, queue: &mut Queue, last: u32, now: Instant) -> u32 {
        if let Some(overdue) = self.overdue(queue, last, now) {
            return overdue;
        }
        let after = self
            .sorted
            .next(last)
            .or_else(|| self.sorted.first(&queue.sorted).filter(|&r| r != last));
        let before = self.sorted.prev(last);
        match (after, before) {
            (Some(a), Some(b)) if a != b => self.nearer(a, b, self.item(last).start()),
            (Some(only), _) | (None, Some(only)) => only,
            (None, None) => NIL,
        }
    }

    /// The oldest request if it is overdue; looked at once a turn (Linux: `bfq_check_fifo`).
    fn overdue(&self, queue: &mut Queue, last: u32, now: Instant) -> Option<u32> {
        if queue.fifo_checked {
            return None;
        }
        queue.fifo_checked = true;
        let oldest = queue.fifo.first()?;
        (oldest != last && now >= self.item(oldest).due).then_some(oldest)
    }

    /// The one of two requests that is better to serve when the head is at `head` (Linux: `bfq_choose_req`).
    #[expect(
        clippy::inline_always,
        reason = "once a request, and a call costs a third of it"
    )]
    #[inline(always)]
    fn nearer(&self, a: u32, b: u32, head: Place) -> u32 {
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
            let (mut order, mut queue) = (Order::new(3, back), Queue::UNUSED);
            for (request, due) in (0..3).zip(due) {
                let item = Item {
                    due: Instant::from_nanos(due),
                    offset: 4096 * u64::from(request),
                    ..Item::NONE
                };
                order.note(request, item);
                let start = order.item(request).start();
                order.insert(&mut queue, request, start, Place::START);
            }
            order.inherit_age(&mut queue, 0, 2);
            assert!(order.fifo.iter(&queue.fifo).eq(expected));
            assert_eq!(order.item(0).due, Instant::from_nanos(due[2]));
        }
    }
}
