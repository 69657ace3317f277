//! Which request of a queue comes next: by offset, but by age when one has waited too long.

use super::config::Config;
use super::queue::Queue;
use super::seek::{Place, start};
use crate::layer::Table;
use crate::list::{Links, NIL};
use crate::tree::Forest;
use crate::{Flags, Instant};
use alloc::vec;
use alloc::vec::Vec;

/// Sectors of a space that the sort key tells apart: 4 PiB; what lies beyond keeps the order of arrival.
const KEY_BITS: u32 = 43;

/// The requests of all queues: sorted by place, and first come first served.
#[derive(Debug)]
pub(super) struct Order {
    sorted: Forest,
    fifo: Links,
    /// When each request is due.
    due: Vec<Instant>,
}

impl Order {
    pub(super) fn new(requests: u32) -> Self {
        Self {
            sorted: Forest::new(requests),
            fifo: Links::new(requests),
            due: vec![Instant::ZERO; requests as usize],
        }
    }

    /// Adds a request and lets it be the queue's next if it is better than what was (Linux: `bfq_add_request`).
    pub(super) fn insert(
        &mut self,
        queue: &mut Queue,
        request: u32,
        due: Instant,
        head: Place,
        config: &Config,
        table: &Table,
    ) {
        let Place { space, sector } = start(table, request);
        let key = u64::from(space.0) << KEY_BITS | sector.min((1 << KEY_BITS) - 1);
        self.sorted.insert(&mut queue.sorted, request, key, 0);
        self.fifo.push_back(&mut queue.fifo, request);
        self.due[request as usize] = due;
        queue.next = if queue.next == NIL {
            request
        } else {
            nearer(queue.next, request, head, config, table)
        };
    }

    /// Takes a request out and finds the queue's next if it was that (Linux: `bfq_remove_request`).
    pub(super) fn remove(
        &mut self,
        queue: &mut Queue,
        request: u32,
        now: Instant,
        config: &Config,
        table: &Table,
    ) {
        if queue.next == request {
            queue.next = self.find_next(queue, request, now, config, table);
        }
        self.sorted.remove(&mut queue.sorted, request);
        self.fifo.remove(&mut queue.fifo, request);
    }

    /// Linux: `bfq_find_next_rq`.
    fn find_next(
        &self,
        queue: &mut Queue,
        last: u32,
        now: Instant,
        config: &Config,
        table: &Table,
    ) -> u32 {
        if let Some(overdue) = self.overdue(queue, last, now) {
            return overdue;
        }
        let after = self
            .sorted
            .next(last)
            .or_else(|| self.sorted.first(&queue.sorted).filter(|&r| r != last));
        let before = self.sorted.prev(last);
        match (after, before) {
            (Some(a), Some(b)) if a != b => nearer(a, b, start(table, last), config, table),
            (Some(only), _) | (None, Some(only)) => only,
            (None, None) => NIL,
        }
    }

    /// The oldest request if it is overdue; looked at once a turn (Linux: `bfq_check_fifo`).
    fn overdue(&self, queue: &mut Queue, last: u32, now: Instant) -> Option<u32> {
        if queue.fifo_checked {
            return None;
        }
        queue.fifo_checked = true;
        let oldest = queue.fifo.first()?;
        (oldest != last && now >= self.due[oldest as usize]).then_some(oldest)
    }
}

/// The one of two requests that is better to serve when the head is at `head` (Linux: `bfq_choose_req`).
fn nearer(a: u32, b: u32, head: Place, config: &Config, table: &Table) -> u32 {
    let meta = |r: u32| table.requests[r].request.flags.has(Flags::META);
    if meta(a) != meta(b) {
        return if meta(a) { a } else { b };
    }
    let (at_a, at_b) = (start(table, a), start(table, b));
    match (distance(at_a, head, config), distance(at_b, head, config)) {
        (Some(x), Some(y)) if x != y => {
            if x < y {
                a
            } else {
                b
            }
        }
        (Some(_), Some(_)) => {
            if at_a.sector >= at_b.sector {
                a
            } else {
                b
            }
        }
        (Some(_), None) => a,
        (None, Some(_)) => b,
        // Both far behind: the one at the very front costs one long seek, then all go forward.
        (None, None) => {
            if (at_a.space, at_a.sector) <= (at_b.space, at_b.sector) {
                a
            } else {
                b
            }
        }
    }
}

/// Sectors ahead of the head, or behind it times the penalty; `None` beyond the longest near seek backwards.
fn distance(at: Place, head: Place, config: &Config) -> Option<u64> {
    let back_max = u64::from(config.back_seek_max) * 2;
    if at.space != head.space {
        None
    } else if at.sector >= head.sector {
        Some(at.sector - head.sector)
    } else if at.sector + back_max >= head.sector {
        Some((head.sector - at.sector) * u64::from(config.back_seek_penalty))
    } else {
        None
    }
}
