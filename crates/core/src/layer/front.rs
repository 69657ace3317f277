//! The requests that wait for a scheduler tag, in front of the elevator.

use crate::QueueId;
use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// The number of tags that a stream which gets a completion and submits again at once may take
/// before waiting requests get one. In Linux, its process runs before theirs until it has had one
/// millisecond more of processor time (`sysctl_sched_wakeup_granularity`), and a request takes
/// about two microseconds.
const PASSES_MAX: u32 = 500;

/// The waiting requests, in lanes. Each lane is served in the order of arrival, and the lanes of a
/// hardware queue take turns. There is one lane for each hardware queue. If the elevator limits
/// tags, or with `ahead`, each stream has two instead, for synchronous and asynchronous requests,
/// because a request that is refused a tag must not block the others.
#[derive(Debug)]
pub(super) struct Front {
    lanes: Vec<List>,
    requests: Links,
    /// For each hardware queue, its lanes with waiting requests, in the order of their turns.
    turns: Vec<List>,
    turn_links: Links,
    /// The number of waiting requests.
    waiting: u32,
    /// The number of tags that were left to other streams since a waiting request got one.
    passes: u32,
    /// True if tags may be free that must be offered to the waiting requests.
    is_owed: bool,
}

impl Front {
    pub(super) fn new(queues: u16, lanes: u32, requests: u32) -> Self {
        Self {
            lanes: vec![List::EMPTY; lanes as usize],
            requests: Links::new(requests),
            turns: vec![List::EMPTY; queues.into()],
            turn_links: Links::new(lanes),
            waiting: 0,
            passes: 0,
            is_owed: false,
        }
    }

    /// Returns true if no request waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns true if no request waits in this lane.
    pub(super) fn is_free(&self, lane: u32) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    /// Adds a request to a lane of a hardware queue.
    pub(super) fn push(&mut self, queue: QueueId, lane: u32, request: u32) {
        let waiting = &mut self.lanes[lane as usize];
        // A lane joins the turns of its queue with its first request, and leaves them with its last
        // one.
        if waiting.is_empty() {
            let turns = &mut self.turns[usize::from(queue.0)];
            self.turn_links.push_back(turns, lane);
        }
        self.requests.push_back(waiting, request);
        self.waiting += 1;
    }

    pub(super) fn remove(&mut self, queue: QueueId, lane: u32, request: u32) {
        let waiting = &mut self.lanes[lane as usize];
        self.requests.remove(waiting, request);
        debug_assert!(self.waiting > 0, "more leave than wait");
        self.waiting -= 1;
        if waiting.is_empty() {
            let turns = &mut self.turns[usize::from(queue.0)];
            self.turn_links.remove(turns, lane);
        }
    }

    /// Returns the waiting requests with their lanes, after checking that each lane with requests
    /// has a turn in one queue.
    #[cfg(debug_assertions)]
    pub(super) fn checked(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let turns = self.turns.iter().flat_map(|t| self.turn_links.checked(t));
        let lanes = self.lanes.iter().filter(|lane| !lane.is_empty());
        let mut numbers = 0;
        for lane in turns {
            assert!(!self.is_free(lane), "lane {lane} has a turn and no request");
            numbers += 1;
        }
        assert_eq!(numbers, lanes.count(), "a lane has no turn");
        let waiting: u32 = self.lanes.iter().map(List::len).sum();
        assert_eq!(self.waiting, waiting, "requests that wait for a tag");
        let lanes = (0..).zip(&self.lanes);
        lanes.flat_map(|(n, lane)| self.requests.checked(lane).map(move |id| (n, id)))
    }

    /// Leaves a tag to a stream that does not wait. Returns false if the waiting requests were
    /// passed over too often.
    pub(super) fn pass(&mut self) -> bool {
        self.passes += 1;
        self.is_owed = true;
        self.passes <= PASSES_MAX
    }

    /// Notes that free tags must be offered to the waiting requests later.
    pub(super) fn defer_fill(&mut self) {
        self.is_owed = self.waiting > 0;
    }

    /// Returns true if free tags must be offered to the waiting requests now, and resets that.
    pub(super) fn take_deferred_fill(&mut self) -> bool {
        core::mem::take(&mut self.is_owed)
    }

    /// Returns the first request of the lane whose turn it is.
    pub(super) fn first(&self, queue: QueueId) -> Option<u32> {
        let lane = self.turns[usize::from(queue.0)].first()?;
        self.lanes[lane as usize].first()
    }

    /// Removes that request, and gives the turn to the next lane.
    pub(super) fn pop(&mut self, queue: QueueId) {
        self.passes = 0;
        let turns = &mut self.turns[usize::from(queue.0)];
        let Some(lane) = self.turn_links.pop_front(turns) else {
            return;
        };
        let waiting = &mut self.lanes[lane as usize];
        debug_assert!(!waiting.is_empty(), "lane {lane} has a turn and no request");
        if self.requests.pop_front(waiting).is_some() {
            self.waiting -= 1;
        }
        // The lane goes to the end of the turns if it has more requests.
        if !waiting.is_empty() {
            self.turn_links.push_back(turns, lane);
        }
    }

    /// Gives the turn to the next lane without serving a request.
    pub(super) fn skip(&mut self, queue: QueueId) {
        let turns = &mut self.turns[usize::from(queue.0)];
        if let Some(lane) = self.turn_links.pop_front(turns) {
            self.turn_links.push_back(turns, lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: QueueId = QueueId(0);

    #[test]
    fn lanes_take_turns_and_keep_their_order() {
        let mut front = Front::new(1, 3, 9);
        for (lane, request) in [(2, 0), (0, 1), (2, 2), (2, 3), (0, 4), (1, 5)] {
            front.push(Q, lane, request);
        }
        assert!(!front.is_free(1));
        front.remove(Q, 1, 5);
        assert!(front.is_free(1));
        let mut order = Vec::new();
        while let Some(request) = front.first(Q) {
            front.pop(Q);
            order.push(request);
        }
        assert_eq!(order, [0, 1, 2, 4, 3]);
        assert!(front.is_empty());
        front.push(Q, 0, 6);
        front.push(Q, 1, 7);
        front.skip(Q);
        assert_eq!(front.first(Q), Some(7), "the other lane's turn");
    }

    #[test]
    fn queues_have_turns_of_their_own() {
        let mut front = Front::new(2, 4, 9);
        let other = QueueId(1);
        for (queue, lane, request) in [(Q, 0, 0), (other, 1, 1), (Q, 2, 2), (other, 3, 3)] {
            front.push(queue, lane, request);
        }
        front.pop(other);
        assert_eq!((front.first(Q), front.first(other)), (Some(0), Some(3)));
        front.remove(other, 3, 3);
        assert_eq!(front.first(other), None);
        assert!(!front.is_empty());
    }
}
