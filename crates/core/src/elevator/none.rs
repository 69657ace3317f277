//! `none`: first come, first served.

use super::{Next, Schedule};
use crate::Instant;
use crate::event::Events;
use crate::layer::Table;
use crate::list::{Links, List};

/// One queue for all.
#[derive(Debug)]
pub(super) struct Fifo {
    queue: List,
    links: Links,
}

impl Fifo {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            queue: List::EMPTY,
            links: Links::new(table.requests.capacity()),
        }
    }
}

impl Schedule for Fifo {
    fn insert(&mut self, _now: Instant, request: u32, _table: &Table) {
        self.links.push_back(&mut self.queue, request);
    }

    fn remove(&mut self, _now: Instant, request: u32, _table: &Table) {
        self.links.remove(&mut self.queue, request);
    }

    fn next(&mut self, _now: Instant, table: &Table, _events: &mut Events) -> Next {
        let Some(request) = self.queue.first() else {
            return Next::Nothing;
        };
        let (bytes, last) = table.piece(request);
        if last {
            self.links.remove(&mut self.queue, request);
        }
        Next::Take { request, bytes }
    }
}
