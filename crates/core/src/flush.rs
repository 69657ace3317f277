//! Flushes: one in flight for each space; those that come while it runs wait for the next one and share it.
//!
//! A flush promises that every write *completed* before it was submitted is durable. A flush the drive has begun cannot promise
//! that for writes completed since, so a newcomer never joins it (Linux: `block/blk-flush.c`).

use crate::id::SpaceId;
use crate::list::{Links, List};
use crate::mutant;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Space {
    waiting: List,
    running: List,
}

/// The flushes of every space. Numbers are slots of live requests.
#[derive(Debug)]
pub(crate) struct Flushes {
    spaces: Vec<Space>,
    requests: Links,
    ready: List,
    ready_links: Links,
    /// All that wait or run.
    all: List,
    all_links: Links,
}

impl Flushes {
    pub(crate) fn new(spaces: u32, requests: u32) -> Self {
        Self {
            spaces: vec![
                Space {
                    waiting: List::EMPTY,
                    running: List::EMPTY
                };
                spaces as usize
            ],
            requests: Links::new(requests),
            ready: List::EMPTY,
            ready_links: Links::new(spaces),
            all: List::EMPTY,
            all_links: Links::new(requests),
        }
    }

    /// A flush wants to go to the drive.
    pub(crate) fn insert(&mut self, id: SpaceId, request: u32) {
        let space = &mut self.spaces[id.0 as usize];
        self.requests.push_back(&mut space.waiting, request);
        self.all_links.push_back(&mut self.all, request);
        self.make_ready(id);
    }

    /// A flush that waits is given up.
    pub(crate) fn remove(&mut self, id: SpaceId, request: u32) {
        let space = &mut self.spaces[id.0 as usize];
        self.requests.remove(&mut space.waiting, request);
        self.all_links.remove(&mut self.all, request);
        if space.waiting.is_empty() && self.ready_links.contains(id.0) {
            self.ready_links.remove(&mut self.ready, id.0);
        }
    }

    /// True if a flush could begin now.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Every flush that waits or runs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.all_links.iter(&self.all)
    }

    /// The next flush command for the drive: it stands for every flush of its space that waits now. Gives the first of them.
    pub(crate) fn begin(&mut self) -> Option<u32> {
        let id = self.ready_links.pop_front(&mut self.ready)?;
        let space = &mut self.spaces[id as usize];
        space.running = core::mem::replace(&mut space.waiting, List::EMPTY);
        space.running.first()
    }

    /// The flushes that the running command of a space stands for.
    pub(crate) fn running(&self, id: SpaceId) -> impl Iterator<Item = u32> + '_ {
        self.requests.iter(&self.spaces[id.0 as usize].running)
    }

    /// The running command of a space ended: takes the flushes it stood for one by one.
    pub(crate) fn end(&mut self, id: SpaceId) -> Option<u32> {
        let space = &mut self.spaces[id.0 as usize];
        let mut request = self.requests.pop_front(&mut space.running);
        if request.is_none() && mutant::is(mutant::FLUSH_JOINS_RUNNING) {
            request = self.requests.pop_front(&mut space.waiting);
        }
        match request {
            Some(request) => self.all_links.remove(&mut self.all, request),
            None => self.make_ready(id),
        }
        request
    }

    fn make_ready(&mut self, id: SpaceId) {
        let space = &self.spaces[id.0 as usize];
        if !space.waiting.is_empty() && space.running.is_empty() && !self.ready_links.contains(id.0)
        {
            self.ready_links.push_back(&mut self.ready, id.0);
        }
    }
}
