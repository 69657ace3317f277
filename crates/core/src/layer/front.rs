//! Requests that wait for a scheduler tag.

use crate::QueueId;
use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// Tags that a stream that is answered and asks again at once may take past those that wait. In Linux that process runs before they do
/// until it has had a millisecond more of the processor (`sysctl_sched_wakeup_granularity`), and a request takes two microseconds or so.
const PASSES_MAX: u32 = 500;

/// Requests that wait, in lanes. Each lane is first come, first served; the lanes of a hardware queue take turns. There is one for each
/// queue, unless the elevator limits tags: a request that is refused a tag must not stand in the way of the others.
#[derive(Debug)]
pub(super) struct Front {
    lanes: Vec<List>,
    requests: Links,
    /// Lanes of each queue in which some wait, the next first.
    turns: Vec<List>,
    turn_links: Links,
    /// Requests that wait.
    waiting: u32,
    /// Tags that were left to others since the last of them got one.
    passes: u32,
    /// Tags may have been left to others since those that wait were last asked.
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

    /// Nobody waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Nobody waits in this lane.
    pub(super) fn is_free(&self, lane: u32) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    /// A request waits in a lane of this queue.
    pub(super) fn push(&mut self, queue: QueueId, lane: u32, request: u32) {
        let waiting = &mut self.lanes[lane as usize];
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

    /// The requests that wait, in order of lanes; a lane has a turn in one queue as long as some wait in it.
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

    /// A tag is left to a stream that does not wait. False if those that wait have been passed too often.
    pub(super) fn pass(&mut self) -> bool {
        self.passes += 1;
        self.is_owed = true;
        self.passes <= PASSES_MAX
    }

    /// Tags that are free are given out later.
    pub(super) fn owe(&mut self) {
        self.is_owed = self.waiting > 0;
    }

    /// Whether they are to be given out now.
    pub(super) fn take_owed(&mut self) -> bool {
        core::mem::take(&mut self.is_owed)
    }

    /// The first request of the lane whose turn it is.
    pub(super) fn first(&self, queue: QueueId) -> Option<u32> {
        let lane = self.turns[usize::from(queue.0)].first()?;
        self.lanes[lane as usize].first()
    }

    /// That request goes on, and it is the next lane's turn.
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
        if !waiting.is_empty() {
            self.turn_links.push_back(turns, lane);
        }
    }

    /// It is the next lane's turn.
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
