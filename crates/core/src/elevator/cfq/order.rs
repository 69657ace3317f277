//! Which request of a queue comes next: by position from where the queue was, unless the oldest is overdue.

use super::queue::Queue;
use crate::elevator::common::seek::{BackSeek, Place, is_nearer, sectors};
use crate::list::{Links, NIL};
use crate::merge::Side;
use crate::table::Table;
use crate::tree::Sorted;
use crate::{Flags, Instant, SpaceId};
use alloc::vec;
use alloc::vec::Vec;

/// A request that waits, or of which something is in the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its queue; known until its last piece has come back.
    pub(super) queue: u32,
    space: SpaceId,
    /// Where its next piece begins, in bytes.
    offset: u64,
    /// Bytes not sent.
    left: u32,
    /// It is preferred within its queue (Linux: `REQ_PRIO`).
    pub(super) meta: bool,
    due: Instant,
}

impl Item {
    const NONE: Self = Self {
        queue: NIL,
        space: SpaceId(0),
        offset: 0,
        left: 0,
        meta: false,
        due: Instant::ZERO,
    };

    pub(super) fn new(table: &Table, request: u32, queue: u32, due: Instant) -> Self {
        let live = &table.requests[request];
        Self {
            queue,
            space: live.request.space,
            offset: live.request.offset + u64::from(live.issued),
            left: live.request.length - live.issued,
            meta: live.request.flags.has(Flags::META),
            due,
        }
    }

    /// Where it begins.
    pub(super) fn start(&self) -> Place {
        self.place(self.offset / 512)
    }

    /// Where the request ends, or with only `bytes` would end.
    pub(super) fn end(&self, bytes: u32) -> Place {
        self.place(sectors(self.offset + u64::from(bytes)))
    }

    /// Bytes not sent.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// When it becomes overdue.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    fn place(&self, sector: u64) -> Place {
        let space = self.space;
        Place { space, sector }
    }
}

/// The requests of all queues: sorted by place, and first come first served.
#[derive(Debug)]
pub(super) struct Order {
    sorted: Sorted,
    fifo: Links,
    items: Vec<Item>,
    back: BackSeek,
}

impl Order {
    pub(super) fn new(requests: u32, back: BackSeek) -> Self {
        Self {
            sorted: Sorted::new(requests),
            fifo: Links::new(requests),
            items: vec![Item::NONE; requests as usize],
            back,
        }
    }

    pub(super) fn item(&self, request: u32) -> &Item {
        &self.items[request as usize]
    }

    /// A request enters a queue; it is the queue's next if it is better than what was (Linux: `cfq_add_rq_rb`).
    pub(super) fn insert(&mut self, queue: &mut Queue, request: u32, item: Item, head: Place) {
        self.items[request as usize] = item;
        (self.sorted).insert(&mut queue.sorted, request, item.start().key(), 0);
        self.fifo.push_back(&mut queue.fifo, request);
        queue.metas += u32::from(item.meta);
        self.prefer(queue, request, head);
    }

    /// A request of the queue becomes its next if it is better than what was.
    pub(super) fn prefer(&self, queue: &mut Queue, request: u32, head: Place) {
        queue.next = match queue.next {
            NIL => request,
            next => self.nearer(next, request, head),
        };
    }

    /// A request leaves. The queue goes on behind it if it was the next (Linux: `cfq_remove_request`).
    pub(super) fn remove(&mut self, queue: &mut Queue, request: u32) {
        if queue.next == request {
            queue.next = self.after(queue, request).unwrap_or(NIL);
        }
        queue.metas -= u32::from(self.item(request).meta);
        self.sorted.remove(&mut queue.sorted, request);
        self.fifo.remove(&mut queue.fifo, request);
    }

    /// A piece of the request goes to the drive; a queue goes on with what is left of it, or behind it (Linux: `cfq_dispatch_insert`).
    pub(super) fn sent(&mut self, queue: &mut Queue, request: u32, bytes: u32) {
        let after = self.after(queue, request);
        let item = &mut self.items[request as usize];
        if bytes < item.left {
            item.offset += u64::from(bytes);
            item.left -= bytes;
            queue.next = request;
        } else {
            self.remove(queue, request);
            queue.next = after.unwrap_or(NIL);
        }
    }

    /// The request with which a queue goes on behind another (Linux: `cfq_find_next_rq`).
    fn after(&self, queue: &Queue, last: u32) -> Option<u32> {
        let next = self.sorted.next(last);
        let first = || self.sorted.first(&queue.sorted).filter(|&r| r != last);
        match (next.or_else(first), self.sorted.prev(last)) {
            (Some(a), Some(b)) if a != b => Some(self.nearer(a, b, self.item(last).start())),
            (a, b) => a.or(b),
        }
    }

    /// The oldest request, if it has waited for too long (Linux: `cfq_check_fifo`).
    pub(super) fn overdue(&self, queue: &Queue, now: Instant) -> Option<u32> {
        let oldest = queue.fifo.first()?;
        (now >= self.item(oldest).due).then_some(oldest)
    }

    /// The request behind one or before it, in the order of their places.
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

    /// A command has become longer, at its end or at its beginning.
    pub(super) fn grown(&mut self, queue: &mut Queue, request: u32, table: &Table) {
        let before = *self.item(request);
        let item = Item::new(table, request, before.queue, before.due);
        queue.metas += u32::from(item.meta);
        queue.metas -= u32::from(before.meta);
        self.items[request as usize] = item;
        if item.start() != before.start() {
            self.sorted.remove(&mut queue.sorted, request);
            (self.sorted).insert(&mut queue.sorted, request, item.start().key(), 0);
        }
    }

    /// A request becomes part of another of its queue, which is as urgent then as the more urgent of the two, and takes its turn where
    /// the other would have had it (Linux: in `cfq_merged_requests`).
    pub(super) fn inherit(&mut self, queue: &mut Queue, by: u32, request: u32) {
        let due = self.item(request).due;
        if due < self.item(by).due {
            self.items[by as usize].due = due;
            self.fifo.remove(&mut queue.fifo, by);
            self.fifo.insert_before(&mut queue.fifo, request, by);
        }
        if queue.next == request {
            queue.next = by;
        }
    }

    /// The one of two requests that is better to serve when the head is there (Linux: `cfq_choose_req`).
    fn nearer(&self, a: u32, b: u32, head: Place) -> u32 {
        let (one, other) = (self.item(a), self.item(b));
        let first = if one.meta == other.meta {
            is_nearer(one.start(), other.start(), head, self.back)
        } else {
            one.meta
        };
        if first { a } else { b }
    }
}
