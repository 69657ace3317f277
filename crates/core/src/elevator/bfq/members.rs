//! Creation, changes and removal of streams, groups and their queues.

use super::Bfq;
use super::entity::{BEST_EFFORT, class_number};
use super::queue::{BfqQueue, LEVELS, weight};
use crate::ROOT;
use crate::cx::Cx;
use crate::event::Expiry;
use crate::id::GroupId;
use crate::list::NIL;
use crate::table::Table;

impl Bfq {
    pub(super) fn open_stream(&mut self, stream: u32, table: &Table) {
        self.open_sync_queue(stream, table);
        let new = self.new_queue(stream, false, table);
        let shared = self.find_async(&new);
        let q = shared.unwrap_or_else(|| {
            let q = self.members.take_async(new.group);
            self.add_queue(q, new);
            q
        });
        self.queues[q as usize].sharing.users += 1;
        self.members.set_async_queue(stream, q);
    }

    /// Gives a stream a synchronous queue of its own and returns the queue.
    pub(super) fn open_sync_queue(&mut self, stream: u32, table: &Table) -> u32 {
        let queue = self.new_queue(stream, true, table);
        let q = self.members.take_sync();
        self.add_queue(q, queue);
        let sharing = &mut self.queues[q as usize].sharing;
        (sharing.owner, sharing.users) = (stream, 1);
        self.members.set_sync_queue(stream, q);
        q
    }

    pub(super) fn close_stream(&mut self, cx: &mut Cx, stream: u32) {
        self.leave_queues(cx, stream);
        let q = self.members.async_queue(stream);
        self.members.set_sync_queue(stream, NIL);
        self.members.set_async_queue(stream, NIL);
        let queue = &mut self.queues[q as usize];
        debug_assert!(queue.sharing.users > 0 && !queue.sync);
        queue.sharing.users -= 1;
        if queue.sharing.users > 0 {
            return;
        }
        let group = queue.group;
        if self.turn.queue == q {
            self.expire(cx, Expiry::NoMoreRequests, cx.now);
        }
        if self.queue(q).busy {
            self.empty_out_of_service(q);
        }
        self.forget_queue(q);
        self.members.free_async(group, q);
    }

    /// Adds a group, or changes its weight or parent.
    pub(super) fn set_group_weight(&mut self, id: GroupId, table: &Table) {
        let Some(group) = table.groups.get(id).filter(|_| id != ROOT) else {
            return;
        };
        let weight = u32::from(group.contract.share);
        self.symmetry.set_group(id.0, group.parent.0, weight);
        // An entity cannot change its parent. A group that was moved is removed and added again,
        // and has no queues that compete at this time.
        let known = self.parents[id.0 as usize];
        if known.is_some_and(|parent| parent != group.parent.0) {
            self.forget_group(id);
        }
        let known = self.parents[id.0 as usize].replace(group.parent.0);
        if known.is_some() {
            self.engine.set_weight(id.0, weight);
        } else {
            self.engine.add(id.0, group.parent.0, BEST_EFFORT, weight);
        }
    }

    /// Removes a group that has no members.
    pub(super) fn forget_group(&mut self, id: GroupId) {
        if self.parents[id.0 as usize].take().is_some() {
            self.engine.forget(id.0);
        }
    }

    fn find_async(&self, wanted: &BfqQueue) -> Option<u32> {
        self.members.async_queues(wanted.group).find(|&q| {
            let queue = self.queue(q);
            (queue.class, queue.level) == (wanted.class, wanted.level)
        })
    }

    fn add_queue(&mut self, q: u32, queue: BfqQueue) {
        let e = self.entity_of(q);
        self.engine
            .add(e, queue.group, queue.class, weight(queue.level));
        self.queues[q as usize] = queue;
    }

    fn new_queue(&self, stream: u32, sync: bool, table: &Table) -> BfqQueue {
        let spec = table.streams[stream].spec;
        BfqQueue {
            group: spec.group.0,
            class: class_number(spec.priority.class),
            // Larger levels than Linux's lowest count as the lowest.
            level: spec.priority.level.min(LEVELS as u8 - 1),
            sync,
            stream: table.stream_id(stream),
            max_budget: self.budgets.first(),
            ..BfqQueue::UNUSED
        }
    }

    /// Removes a queue that has no requests and is not in the scheduler.
    pub(super) fn forget_queue(&mut self, q: u32) {
        self.engine.forget(self.entity_of(q));
        self.burst.forget(q);
        self.wakers.forget(q);
        debug_assert!(!self.queue(q).pending, "queue {q} goes with requests");
        self.queues[q as usize] = BfqQueue::UNUSED;
    }
}
