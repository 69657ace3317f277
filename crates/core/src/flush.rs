//! Flushes: one in flight for each space and hardware queue; those that come while it runs wait for the next one and share it.
//!
//! A flush promises that every write *completed* before it was submitted is durable. A flush the drive has begun cannot promise
//! that for writes completed since, so a newcomer never joins it (Linux: `block/blk-flush.c`).

use crate::id::{QueueId, SpaceId};
use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// The flushes of one space and hardware queue.
#[derive(Clone, Copy, Debug)]
struct Lane {
    waiting: List,
    running: List,
}

/// Lanes at most, as long as there is one for each space: beyond that hardware queues share.
const LANES_MAX: u32 = 1 << 16;

/// All flushes. Numbers are slots of live requests.
#[derive(Debug)]
pub(crate) struct Flushes {
    lanes: Vec<Lane>,
    /// Lanes of a space.
    queues: u32,
    requests: Links,
    ready: List,
    ready_links: Links,
    /// All that wait or run.
    all: List,
    all_links: Links,
}

impl Flushes {
    pub(crate) fn new(spaces: u32, queues: u16, requests: u32) -> Self {
        let queues = u32::from(queues).min((LANES_MAX / spaces).max(1));
        let lanes = spaces * queues;
        Self {
            lanes: vec![
                Lane {
                    waiting: List::EMPTY,
                    running: List::EMPTY
                };
                lanes as usize
            ],
            queues,
            requests: Links::new(requests),
            ready: List::EMPTY,
            ready_links: Links::new(lanes),
            all: List::EMPTY,
            all_links: Links::new(requests),
        }
    }

    /// The lane of a space and hardware queue.
    fn lane(&self, space: SpaceId, queue: QueueId) -> u32 {
        space.0 * self.queues + u32::from(queue.0) % self.queues
    }

    /// A flush wants to go to the drive.
    pub(crate) fn insert(&mut self, space: SpaceId, queue: QueueId, request: u32) {
        let at = self.lane(space, queue);
        let lane = &mut self.lanes[at as usize];
        self.requests.push_back(&mut lane.waiting, request);
        self.all_links.push_back(&mut self.all, request);
        self.make_ready(at);
    }

    /// A flush that waits is given up.
    pub(crate) fn remove(&mut self, space: SpaceId, queue: QueueId, request: u32) {
        let at = self.lane(space, queue);
        let lane = &mut self.lanes[at as usize];
        self.requests.remove(&mut lane.waiting, request);
        self.all_links.remove(&mut self.all, request);
        if lane.waiting.is_empty() && self.ready_links.contains(at) {
            self.ready_links.remove(&mut self.ready, at);
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

    /// The next flush command for the drive: it stands for every flush of its space and queue that waits now. Gives the first of them.
    pub(crate) fn begin(&mut self) -> Option<u32> {
        let at = self.ready_links.pop_front(&mut self.ready)?;
        let lane = &mut self.lanes[at as usize];
        lane.running = core::mem::replace(&mut lane.waiting, List::EMPTY);
        lane.running.first()
    }

    /// The flushes that the running command of a space and queue stands for.
    pub(crate) fn running(&self, space: SpaceId, queue: QueueId) -> impl Iterator<Item = u32> + '_ {
        let at = self.lane(space, queue);
        self.requests.iter(&self.lanes[at as usize].running)
    }

    /// The running command of a space and queue ended: takes the flushes it stood for one by one.
    pub(crate) fn end(&mut self, space: SpaceId, queue: QueueId) -> Option<u32> {
        let at = self.lane(space, queue);
        let lane = &mut self.lanes[at as usize];
        let request = self.requests.pop_front(&mut lane.running);
        match request {
            Some(request) => self.all_links.remove(&mut self.all, request),
            None => self.make_ready(at),
        }
        request
    }

    /// Each flush waits or runs in one lane; a lane is ready if some wait in it and none runs. Returns the number of those that wait.
    #[cfg(debug_assertions)]
    pub(crate) fn invariants(&self) -> u32 {
        let (mut waiting, mut running, mut ready) = (0, 0, 0);
        for (at, lane) in (0..).zip(&self.lanes) {
            let is_ready = !lane.waiting.is_empty() && lane.running.is_empty();
            assert_eq!(self.ready_links.contains(at), is_ready, "lane {at}");
            for flush in [&lane.waiting, &lane.running]
                .into_iter()
                .flat_map(|l| self.requests.checked(l))
            {
                assert!(
                    self.all_links.contains(flush),
                    "flush {flush} is not listed"
                );
            }
            ready += u32::from(is_ready);
            waiting += lane.waiting.len();
            running += lane.running.len();
        }
        assert_eq!(
            self.ready_links.checked(&self.ready).count(),
            ready as usize
        );
        assert_eq!(
            self.all_links.checked(&self.all).count(),
            (waiting + running) as usize
        );
        waiting
    }

    fn make_ready(&mut self, at: u32) {
        let lane = &self.lanes[at as usize];
        if !lane.waiting.is_empty() && lane.running.is_empty() && !self.ready_links.contains(at) {
            self.ready_links.push_back(&mut self.ready, at);
        }
    }
}
