//! Requests that wait for a scheduler tag.

use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// Who waits, in lanes. Each lane is first come, first served; the lanes take turns. There is one for all, unless the elevator limits
/// tags: whom it refuses one must not stand in the way of the others.
#[derive(Debug)]
pub(super) struct Front {
    lanes: Vec<List>,
    requests: Links,
    /// Lanes in which some wait, the next first.
    turns: List,
    turn_links: Links,
}

impl Front {
    pub(super) fn new(lanes: u32, requests: u32) -> Self {
        Self {
            lanes: vec![List::EMPTY; lanes as usize],
            requests: Links::new(requests),
            turns: List::EMPTY,
            turn_links: Links::new(lanes),
        }
    }

    /// Nobody waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Nobody waits in this lane.
    pub(super) fn is_free(&self, lane: u32) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    pub(super) fn push(&mut self, lane: u32, request: u32) {
        let waiting = &mut self.lanes[lane as usize];
        if waiting.is_empty() {
            self.turn_links.push_back(&mut self.turns, lane);
        }
        self.requests.push_back(waiting, request);
    }

    pub(super) fn remove(&mut self, lane: u32, request: u32) {
        let waiting = &mut self.lanes[lane as usize];
        self.requests.remove(waiting, request);
        if waiting.is_empty() {
            self.turn_links.remove(&mut self.turns, lane);
        }
    }

    /// The first request of the lane whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        let lane = self.turns.first()?;
        self.lanes[lane as usize].first()
    }

    /// That request goes on, and it is the next lane's turn.
    pub(super) fn pop(&mut self) {
        if let Some(lane) = self.turns.first() {
            let waiting = &mut self.lanes[lane as usize];
            self.requests.pop_front(waiting);
            let rest = !waiting.is_empty();
            self.skip();
            if !rest {
                self.turn_links.remove(&mut self.turns, lane);
            }
        }
    }

    /// It is the next lane's turn.
    pub(super) fn skip(&mut self) {
        if self.turns.len() > 1
            && let Some(lane) = self.turn_links.pop_front(&mut self.turns)
        {
            self.turn_links.push_back(&mut self.turns, lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns_and_keep_their_order() {
        let mut front = Front::new(3, 9);
        for (lane, request) in [(2, 0), (0, 1), (2, 2), (2, 3), (0, 4), (1, 5)] {
            front.push(lane, request);
        }
        assert!(!front.is_free(1));
        front.remove(1, 5);
        assert!(front.is_free(1));
        let mut order = Vec::new();
        while let Some(request) = front.first() {
            front.pop();
            order.push(request);
        }
        assert_eq!(order, [0, 1, 2, 4, 3]);
        assert!(front.is_empty());
        front.push(0, 6);
        front.push(1, 7);
        front.skip();
        assert_eq!(front.first(), Some(7), "the other lane's turn");
    }
}
