//! Flushes: at most one is in flight for each space and hardware queue. Flushes that arrive in the
//! meantime wait and share the next one.
//!
//! A flush guarantees that every write that *completed* before it was submitted is durable. A flush
//! that the drive has begun cannot guarantee that for writes that completed since then, so a later
//! flush never joins it (Linux: `block/blk-flush.c`).

use crate::id::{QueueId, SpaceId};
use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// The flushes of one space and hardware queue.
#[derive(Clone, Copy, Debug)]
struct FlushLane {
    waiting: List,
    running: List,
}

/// The highest number of lanes, unless there are more spaces. If it is reached, several hardware
/// queues share a lane, which bounds the memory and only makes flushes wait for each other more
/// often.
const LANES_MAX: u32 = 1 << 16;

/// All flushes, as slots of live requests.
#[derive(Debug)]
pub(crate) struct Flushes {
    lanes: Vec<FlushLane>,
    /// The number of lanes of each space.
    queues: u32,
    requests: Links,
    ready: List,
    ready_links: Links,
    /// All flushes that wait or run.
    all: List,
    all_links: Links,
}

impl Flushes {
    pub(crate) fn new(spaces: u32, queues: u16, requests: u32) -> Self {
        // At least one lane for each space, because a flush must never wait for one of another
        // space.
        let queues = u32::from(queues).min((LANES_MAX / spaces).max(1));
        let lanes = spaces * queues;
        Self {
            lanes: vec![
                FlushLane {
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

    /// Returns the lane of a space and hardware queue.
    fn lane(&self, space: SpaceId, queue: QueueId) -> u32 {
        space.0 * self.queues + u32::from(queue.0) % self.queues
    }

    /// Adds a flush that is to be sent to the drive.
    pub(crate) fn insert(&mut self, space: SpaceId, queue: QueueId, request: u32) {
        let at = self.lane(space, queue);
        let lane = &mut self.lanes[at as usize];
        self.requests.push_back(&mut lane.waiting, request);
        self.all_links.push_back(&mut self.all, request);
        self.make_ready(at);
    }

    /// Removes a waiting flush that was given up.
    pub(crate) fn remove(&mut self, space: SpaceId, queue: QueueId, request: u32) {
        let at = self.lane(space, queue);
        let lane = &mut self.lanes[at as usize];
        self.requests.remove(&mut lane.waiting, request);
        self.all_links.remove(&mut self.all, request);
        if lane.waiting.is_empty() && self.ready_links.contains(at) {
            self.ready_links.remove(&mut self.ready, at);
        }
    }

    /// Returns true if a flush could begin now.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns every flush that waits or runs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.all_links.iter(&self.all)
    }

    /// Begins the next flush command for the drive and returns its first flush. The command stands
    /// for all flushes of its space and queue that wait now.
    pub(crate) fn begin(&mut self) -> Option<u32> {
        let at = self.ready_links.pop_front(&mut self.ready)?;
        let lane = &mut self.lanes[at as usize];
        // Flushes that arrive from now on wait for the next command, because this one does not
        // cover the writes that complete after it has begun.
        lane.running = core::mem::replace(&mut lane.waiting, List::EMPTY);
        lane.running.first()
    }

    /// Returns the flushes for which the running command of a space and queue stands.
    pub(crate) fn running(&self, space: SpaceId, queue: QueueId) -> impl Iterator<Item = u32> + '_ {
        let at = self.lane(space, queue);
        self.requests.iter(&self.lanes[at as usize].running)
    }

    /// Removes the flushes of a command that ended, one per call. When it returns `None`, the lane
    /// can begin its next flush.
    pub(crate) fn end(&mut self, space: SpaceId, queue: QueueId) -> Option<u32> {
        let at = self.lane(space, queue);
        let lane = &mut self.lanes[at as usize];
        let request = self.requests.pop_front(&mut lane.running);
        match request {
            Some(request) => self.all_links.remove(&mut self.all, request),
            // All members have ended. Flushes that arrived in the meantime can begin.
            None => self.make_ready(at),
        }
        request
    }

    /// Checks that each flush waits or runs in one lane, and that a lane is ready if it has waiting
    /// flushes and none that runs. Returns the number of waiting flushes.
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
