//! Which queue a stream's requests go to.

use crate::list::{Links, List, NIL};
use crate::table::Table;
use alloc::vec;
use alloc::vec::Vec;

/// Which queues serve which stream. Of asynchronous ones there are never more than streams; of synchronous ones, with those that
/// their streams have left, never more than twice as many. The asynchronous ones' numbers come after these.
#[derive(Debug)]
pub(crate) struct Members {
    sync_of: Vec<u32>,
    async_of: Vec<u32>,
    sync_free: Vec<u32>,
    free: Vec<u32>,
    /// The asynchronous queues of each group, in the order in which they came; linked by their number less the first of them.
    by_group: Vec<List>,
    links: Links,
    streams: u32,
}

impl Members {
    pub(crate) fn new(groups: u32, streams: u32) -> Self {
        Self {
            sync_of: vec![NIL; streams as usize],
            async_of: vec![NIL; streams as usize],
            sync_free: (0..2 * streams).rev().collect(),
            free: (0..streams).rev().collect(),
            by_group: vec![List::EMPTY; groups as usize],
            links: Links::new(streams),
            streams,
        }
    }

    /// The queue of a stream's asynchronous requests.
    pub(crate) fn async_queue(&self, stream: u32) -> u32 {
        self.async_of[stream as usize]
    }

    /// The queue of a stream's synchronous requests.
    #[inline]
    pub(crate) fn sync_queue(&self, stream: u32) -> u32 {
        self.sync_of[stream as usize]
    }

    /// The queue that a request belongs to.
    #[inline]
    pub(crate) fn queue_of(&self, request: u32, table: &Table) -> u32 {
        let request = &table.requests[request].request;
        let stream = request.stream.index;
        if request.is_sync() {
            self.sync_queue(stream)
        } else {
            self.async_queue(stream)
        }
    }

    /// A stream's synchronous requests go there from now on.
    pub(crate) fn set_sync_queue(&mut self, stream: u32, q: u32) {
        self.sync_of[stream as usize] = q;
    }

    /// A synchronous queue is gone.
    pub(crate) fn free_sync(&mut self, q: u32) {
        self.sync_free.push(q);
    }

    /// Streams there may be.
    pub(crate) fn streams(&self) -> u32 {
        self.streams
    }

    /// A number for a synchronous queue, of which there is one: streams have one each, and no more than `streams` linger.
    pub(crate) fn take_sync(&mut self) -> u32 {
        let q = self.sync_free.pop();
        q.expect("streams have one each, and no more than that number linger")
    }

    /// A number for an asynchronous queue of a group.
    pub(crate) fn take_async(&mut self, group: u32) -> u32 {
        let slot = self.free.pop().expect("one for each stream");
        let list = &mut self.by_group[group as usize];
        self.links.push_back(list, slot);
        self.number(slot)
    }

    /// An asynchronous queue of a group is gone.
    pub(crate) fn free_async(&mut self, group: u32, q: u32) {
        let slot = q - self.number(0);
        let list = &mut self.by_group[group as usize];
        self.links.remove(list, slot);
        self.free.push(slot);
    }

    /// The asynchronous queues of a group.
    pub(crate) fn async_queues(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let list = &self.by_group[group as usize];
        self.links.iter(list).map(|slot| self.number(slot))
    }

    /// A stream's asynchronous requests go there from now on; [`NIL`]: it is gone.
    pub(crate) fn set_async_queue(&mut self, stream: u32, q: u32) {
        self.async_of[stream as usize] = q;
    }

    /// The number of an asynchronous queue.
    fn number(&self, slot: u32) -> u32 {
        2 * self.streams + slot
    }
}
