//! Streams and groups come, change and go.

use super::Bfq;
use super::entity::{BEST_EFFORT, class_number};
use super::queue::{LEVELS, Queue, weight};
use crate::event::Expiry;
use crate::group::GroupId;
use crate::layer::Table;
use crate::list::{Links, List, NIL};
use crate::{Instant, ROOT};
use alloc::vec;
use alloc::vec::Vec;

/// Which asynchronous queue serves which stream. There are never more than streams.
#[derive(Debug)]
pub(super) struct Members {
    of_stream: Vec<u32>,
    free: Vec<u32>,
    /// The asynchronous queues of each group, in the order in which they came; linked by their number less that of streams.
    by_group: Vec<List>,
    links: Links,
    streams: u32,
    /// Groups that the engine knows, with their parents.
    parents: Vec<Option<u32>>,
}

impl Members {
    pub(super) fn new(groups: u32, streams: u32) -> Self {
        Self {
            of_stream: vec![NIL; streams as usize],
            free: (0..streams).rev().collect(),
            by_group: vec![List::EMPTY; groups as usize],
            links: Links::new(streams),
            streams,
            parents: vec![None; groups as usize],
        }
    }

    /// The queue of a stream's asynchronous requests.
    pub(super) fn async_queue(&self, stream: u32) -> u32 {
        self.of_stream[stream as usize]
    }
}

impl Bfq {
    pub(super) fn open_stream(&mut self, stream: u32, table: &Table) {
        let spec = table.streams[stream].spec;
        let level = spec.priority.level.min(LEVELS as u8 - 1);
        let new = |sync, bfq: &Self| Queue {
            group: spec.group.0,
            class: class_number(spec.priority.class),
            level,
            sync,
            stream: table.stream_id(stream),
            max_budget: bfq.budgets.first(),
            ..Queue::UNUSED
        };
        let queue = new(true, self);
        self.add_queue(stream, queue);
        let shared = self.find_async(&new(false, self));
        let q = shared.unwrap_or_else(|| {
            let slot = self.members.free.pop().expect("one for each stream");
            let list = &mut self.members.by_group[spec.group.0 as usize];
            self.members.links.push_back(list, slot);
            let queue = new(false, self);
            self.add_queue(self.members.streams + slot, queue);
            self.members.streams + slot
        });
        self.queues[q as usize].users += 1;
        self.members.of_stream[stream as usize] = q;
    }

    pub(super) fn close_stream(&mut self, now: Instant, stream: u32) {
        self.drop_queue(now, stream);
        let q = self.members.async_queue(stream);
        self.members.of_stream[stream as usize] = NIL;
        let queue = &mut self.queues[q as usize];
        queue.users -= 1;
        if queue.users > 0 {
            return;
        }
        let group = queue.group as usize;
        self.drop_queue(now, q);
        let slot = q - self.members.streams;
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
            .map(|slot| self.members.streams + slot)
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

    /// A queue without requests goes.
    fn drop_queue(&mut self, now: Instant, q: u32) {
        if self.turn.queue == q {
            self.expire(Expiry::NoMoreRequests, now, now);
        }
        if self.queue(q).busy {
            self.empty_out_of_service(q);
        }
        self.engine.forget(self.entity_of(q));
        self.burst.forget(q);
        self.wakers.forget(q);
        debug_assert!(!self.queue(q).pending, "queue {q} goes with requests");
        self.queues[q as usize] = Queue::UNUSED;
    }
}
