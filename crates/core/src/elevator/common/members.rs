//! The assignment of streams to queues in BFQ and CFQ.

use crate::list::{Links, List, NIL};
use crate::table::Table;
use alloc::vec;
use alloc::vec::Vec;

/// The queues of each stream, and the free numbers of queues.
///
/// There are never more asynchronous queues than streams. There are at most twice as many
/// synchronous queues, including those that their streams have left. The numbers of asynchronous
/// queues follow those of synchronous ones.
#[derive(Debug)]
pub(crate) struct Members {
    /// The synchronous queue of each stream, or [`NIL`].
    sync_of: Vec<u32>,
    /// The asynchronous queue of each stream, or [`NIL`].
    async_of: Vec<u32>,
    /// Free numbers of synchronous queues.
    sync_free: Vec<u32>,
    /// Free slots of asynchronous queues.
    free: Vec<u32>,
    /// The asynchronous queues of each group, in the order of their creation. They are linked by
    /// their slots.
    by_group: Vec<List>,
    links: Links,
    streams: u32,
}

impl Members {
    pub(crate) fn new(groups: u32, streams: u32) -> Self {
        Self {
            sync_of: vec![NIL; streams as usize],
            async_of: vec![NIL; streams as usize],
            // Numbers are taken from the end, so the smallest ones come first.
            sync_free: (0..2 * streams).rev().collect(),
            free: (0..streams).rev().collect(),
            by_group: vec![List::EMPTY; groups as usize],
            links: Links::new(streams),
            streams,
        }
    }

    /// Returns the queue of a stream's asynchronous requests.
    pub(crate) fn async_queue(&self, stream: u32) -> u32 {
        self.async_of[stream as usize]
    }

    /// Returns the queue of a stream's synchronous requests.
    #[inline]
    pub(crate) fn sync_queue(&self, stream: u32) -> u32 {
        self.sync_of[stream as usize]
    }

    /// Returns the queue that a request belongs to.
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

    /// Assigns a synchronous queue to a stream.
    pub(crate) fn set_sync_queue(&mut self, stream: u32, q: u32) {
        self.sync_of[stream as usize] = q;
    }

    /// Frees the number of a synchronous queue.
    pub(crate) fn free_sync(&mut self, q: u32) {
        self.sync_free.push(q);
    }

    /// Returns the largest number of streams.
    pub(crate) fn streams(&self) -> u32 {
        self.streams
    }

    /// Takes a free number for a synchronous queue. There always is one, because each stream has
    /// one queue and at most `streams` queues linger.
    pub(crate) fn take_sync(&mut self) -> u32 {
        let q = self.sync_free.pop();
        q.expect("streams have one each, and no more than that number linger")
    }

    /// Takes a free number for an asynchronous queue of a group.
    pub(crate) fn take_async(&mut self, group: u32) -> u32 {
        let slot = self.free.pop().expect("one for each stream");
        let list = &mut self.by_group[group as usize];
        self.links.push_back(list, slot);
        self.number(slot)
    }

    /// Frees the number of an asynchronous queue of a group.
    pub(crate) fn free_async(&mut self, group: u32, q: u32) {
        let slot = q - self.number(0);
        let list = &mut self.by_group[group as usize];
        self.links.remove(list, slot);
        self.free.push(slot);
    }

    /// Iterates over the asynchronous queues of a group.
    pub(crate) fn async_queues(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let list = &self.by_group[group as usize];
        self.links.iter(list).map(|slot| self.number(slot))
    }

    /// Assigns an asynchronous queue to a stream, or [`NIL`] if the stream has none.
    pub(crate) fn set_async_queue(&mut self, stream: u32, q: u32) {
        self.async_of[stream as usize] = q;
    }

    /// Returns the number of the asynchronous queue in a slot.
    fn number(&self, slot: u32) -> u32 {
        2 * self.streams + slot
    }
}
