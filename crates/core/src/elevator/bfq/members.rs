//! Streams and groups come, change and go.

use super::Bfq;
use super::entity::{BEST_EFFORT, class_number};
use super::queue::{LEVELS, Queue, weight};
use crate::ROOT;
use crate::cx::Cx;
use crate::event::Expiry;
use crate::id::GroupId;
use crate::list::{Links, List, NIL};
use crate::table::Table;
use alloc::vec;
use alloc::vec::Vec;

/// Which queues serve which stream. Of asynchronous ones there are never more than streams; of synchronous ones, with those that
/// their streams have left, never more than twice as many. The asynchronous ones' numbers come after these.
#[derive(Debug)]
pub(super) struct Members {
    sync_of: Vec<u32>,
    async_of: Vec<u32>,
    sync_free: Vec<u32>,
    free: Vec<u32>,
    /// The asynchronous queues of each group, in the order in which they came; linked by their number less the first of them.
    by_group: Vec<List>,
    links: Links,
    streams: u32,
    /// Groups that the engine knows, with their parents.
    parents: Vec<Option<u32>>,
}

impl Members {
    pub(super) fn new(groups: u32, streams: u32) -> Self {
        Self {
            sync_of: vec![NIL; streams as usize],
            async_of: vec![NIL; streams as usize],
            sync_free: (0..2 * streams).rev().collect(),
            free: (0..streams).rev().collect(),
            by_group: vec![List::EMPTY; groups as usize],
            links: Links::new(streams),
            streams,
            parents: vec![None; groups as usize],
        }
    }

    /// The queue of a stream's asynchronous requests.
    pub(super) fn async_queue(&self, stream: u32) -> u32 {
        self.async_of[stream as usize]
    }

    /// The queue of a stream's synchronous requests.
    #[inline]
    pub(super) fn sync_queue(&self, stream: u32) -> u32 {
        self.sync_of[stream as usize]
    }

    /// A stream's synchronous requests go there from now on.
    pub(super) fn set_sync_queue(&mut self, stream: u32, q: u32) {
        self.sync_of[stream as usize] = q;
    }

    /// A synchronous queue is gone.
    pub(super) fn free_sync(&mut self, q: u32) {
        self.sync_free.push(q);
    }

    /// Streams there may be.
    pub(super) fn streams(&self) -> u32 {
        self.streams
    }

    /// The number of an asynchronous queue.
    fn number(&self, slot: u32) -> u32 {
        2 * self.streams + slot
    }
}

impl Bfq {
    pub(super) fn open_stream(&mut self, stream: u32, table: &Table) {
        self.open_sync_queue(stream, table);
        let new = self.new_queue(stream, false, table);
        let shared = self.find_async(&new);
        let q = shared.unwrap_or_else(|| {
            let slot = self.members.free.pop().expect("one for each stream");
            let list = &mut self.members.by_group[new.group as usize];
            self.members.links.push_back(list, slot);
            let q = self.members.number(slot);
            self.add_queue(q, new);
            q
        });
        self.queues[q as usize].sharing.users += 1;
        self.members.async_of[stream as usize] = q;
    }

    /// Gives a stream a synchronous queue of its own.
    pub(super) fn open_sync_queue(&mut self, stream: u32, table: &Table) -> u32 {
        let queue = self.new_queue(stream, true, table);
        let q = self.members.sync_free.pop();
        let q = q.expect("streams have one each, and no more than so many linger");
        self.add_queue(q, queue);
        let sharing = &mut self.queues[q as usize].sharing;
        (sharing.owner, sharing.users) = (stream, 1);
        self.members.set_sync_queue(stream, q);
        q
    }

    pub(super) fn close_stream(&mut self, cx: &mut Cx, stream: u32) {
        self.leave_queues(cx, stream);
        let q = self.members.async_queue(stream);
        self.members.sync_of[stream as usize] = NIL;
        self.members.async_of[stream as usize] = NIL;
        let queue = &mut self.queues[q as usize];
        queue.sharing.users -= 1;
        if queue.sharing.users > 0 {
            return;
        }
        let group = queue.group as usize;
        if self.turn.queue == q {
            self.expire(cx, Expiry::NoMoreRequests, cx.now);
        }
        if self.queue(q).busy {
            self.empty_out_of_service(q);
        }
        self.forget_queue(q);
        let slot = q - self.members.number(0);
        let list = &mut self.members.by_group[group];
        self.members.links.remove(list, slot);
        self.members.free.push(slot);
    }

    /// A group came or its share changed.
    pub(super) fn set_group_weight(&mut self, id: GroupId, table: &Table) {
        let Some(group) = table.groups.get(id).filter(|_| id != ROOT) else {
            return;
        };
        let weight = u32::from(group.contract.share);
        let known = self.members.parents[id.0 as usize];
        if known.is_some_and(|parent| parent != group.parent.0) {
            self.forget_group(id);
        }
        let known = self.members.parents[id.0 as usize].replace(group.parent.0);
        if known.is_some() {
            self.engine.set_weight(id.0, weight);
        } else {
            self.engine.add(id.0, group.parent.0, BEST_EFFORT, weight);
        }
    }

    /// A group without members goes.
    pub(super) fn forget_group(&mut self, id: GroupId) {
        if self.members.parents[id.0 as usize].take().is_some() {
            self.engine.forget(id.0);
        }
    }

    fn find_async(&self, wanted: &Queue) -> Option<u32> {
        let list = &self.members.by_group[wanted.group as usize];
        self.members
            .links
            .iter(list)
            .map(|slot| self.members.number(slot))
            .find(|&q| {
                let queue = self.queue(q);
                (queue.class, queue.level) == (wanted.class, wanted.level)
            })
    }

    fn add_queue(&mut self, q: u32, queue: Queue) {
        let e = self.entity_of(q);
        self.engine
            .add(e, queue.group, queue.class, weight(queue.level));
        self.queues[q as usize] = queue;
    }

    fn new_queue(&self, stream: u32, sync: bool, table: &Table) -> Queue {
        let spec = table.streams[stream].spec;
        Queue {
            group: spec.group.0,
            class: class_number(spec.priority.class),
            level: spec.priority.level.min(LEVELS as u8 - 1),
            sync,
            stream: table.stream_id(stream),
            max_budget: self.budgets.first(),
            ..Queue::UNUSED
        }
    }

    /// A queue goes that has no requests and is not in the scheduler.
    pub(super) fn forget_queue(&mut self, q: u32) {
        self.engine.forget(self.entity_of(q));
        self.burst.forget(q);
        self.wakers.forget(q);
        debug_assert!(!self.queue(q).pending, "queue {q} goes with requests");
        self.queues[q as usize] = Queue::UNUSED;
    }
}
