//! The elevator `none` on a drive with several hardware queues: each queue has a list of its own,
//! in the order of arrival.
//!
//! A queue without a free tag, or one that is busy, delays only its own streams (Linux: the
//! software queues of each `blk_mq_hw_ctx`).

use crate::QueueId;
use crate::cx::Cx;
use crate::elevator::schedule::{DispatchDecision, Schedule};
use crate::list::{Links, List};
use crate::merge::Join;
use crate::table::Table;
use alloc::vec;
use alloc::vec::Vec;

/// Number of recent requests that are tried for a merge (Linux: the limit of `blk_bio_list_merge`).
pub(super) const TRIED: u32 = 8;

/// The lists of all hardware queues. The queues take turns, one piece each.
#[derive(Debug)]
pub(crate) struct Queues {
    lists: Vec<List>,
    links: Links,
    /// The queues with a request in their list. The next one is first.
    turns: List,
    turn_links: Links,
}

impl Queues {
    pub(crate) fn new(table: &Table) -> Self {
        let queues = u32::from(table.shape.queues);
        Self {
            lists: vec![List::EMPTY; queues as usize],
            links: Links::new(table.requests.capacity()),
            turns: List::EMPTY,
            turn_links: Links::new(queues),
        }
    }
}

impl Schedule for Queues {
    fn sorts(&self) -> bool {
        false
    }

    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let queue = cx.table.queue_of(request);
        let list = &mut self.lists[usize::from(queue.0)];
        if list.is_empty() {
            let turn = queue.0.into();
            self.turn_links.push_back(&mut self.turns, turn);
        }
        self.links.push_back(list, request);
    }

    fn remove(&mut self, cx: &mut Cx, request: u32) {
        let queue = cx.table.queue_of(request);
        let list = &mut self.lists[usize::from(queue.0)];
        self.links.remove(list, request);
        if list.is_empty() {
            let turn = queue.0.into();
            self.turn_links.remove(&mut self.turns, turn);
        }
    }

    fn next(&mut self, cx: &mut Cx) -> DispatchDecision {
        for _ in 0..self.turns.len() {
            let Some(turn) = self.turn_links.pop_front(&mut self.turns) else {
                break;
            };
            let list = &mut self.lists[turn as usize];
            // A queue without room gives its turn to the next one, and keeps its requests.
            let room = cx.table.pieces.has_room(QueueId(turn as u16));
            let first = list.first().filter(|_| room);
            let piece = first.map(|request| (request, cx.table.piece(request)));
            // Only the last piece of a request removes it from the list.
            if let Some((_, (_, true))) = piece {
                self.links.pop_front(list);
            }
            if !list.is_empty() {
                self.turn_links.push_back(&mut self.turns, turn);
            }
            if let Some((request, (bytes, _))) = piece {
                return DispatchDecision::Take { request, bytes };
            }
        }
        DispatchDecision::Nothing
    }

    /// Returns a command that a request can join: one of the last few in the request's queue, while
    /// that queue has no room.
    fn find_join(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
        let table = &cx.table;
        let queue = table.queue_of(request);
        if table.pieces.has_room(queue) || table.merges.is_one_hit() {
            return None;
        }
        let last = self.links.iter_back(&self.lists[usize::from(queue.0)]);
        table.first_join(last.take(TRIED as usize), request)
    }
}
