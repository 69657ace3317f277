//! The limit on the scheduler tags of a queue (Linux: `bfq_limit_depth`).
//!
//! It leaves tags for processes that wait for their requests. If there are as many tags as there
//! can be requests, no request waits for a tag and there is no limit.

use super::Bfq;
use crate::Request;
use crate::table::Table;
use alloc::vec;
use alloc::vec::Vec;

/// Parts of the tags for asynchronous requests and for all writes (Linux: `bfq_update_depths`). The
/// second row applies while raised queues have requests.
const PARTS: [[(u32, u32); 2]; 2] = [[(1, 2), (3, 4)], [(3, 16), (6, 16)]];

/// The counts of requests that hold scheduler tags.
#[derive(Debug)]
pub(super) struct TagDepth {
    tags: u32,
    /// True if there are fewer tags than requests, so that tags must be limited.
    pub(super) is_limited: bool,
    /// Asynchronous requests with a tag. `writes` counts all writes with one.
    asynchronous: u32,
    writes: u32,
    /// Requests with a tag by entity: those of each queue and those in each group.
    by_entity: Vec<u32>,
}

impl TagDepth {
    pub(super) fn new(table: &Table, entities: u32) -> Self {
        let is_limited = table.tags < table.requests.capacity();
        Self {
            tags: table.tags,
            is_limited,
            asynchronous: 0,
            writes: 0,
            by_entity: vec![0; if is_limited { entities as usize } else { 0 }],
        }
    }

    /// Returns the number of tags for all requests of this kind, and whether these tags are used up
    /// (Linux: `word_depths`).
    fn of_kind(&self, request: &Request, raised: bool) -> (u32, bool) {
        let part = |which: usize| {
            let (times, of) = PARTS[usize::from(raised)][which];
            ((u64::from(self.tags) * u64::from(times) / u64::from(of)) as u32).max(1)
        };
        if request.op.is_read() {
            (self.tags, false)
        } else if request.is_sync() {
            (part(1), self.writes >= part(1))
        } else {
            let full = self.asynchronous >= part(0) || self.writes >= part(1);
            (part(0), full)
        }
    }
}

impl Bfq {
    /// Returns true if a request may take a scheduler tag (Linux: `bfq_limit_depth`,
    /// `bfqq_request_over_limit`).
    pub(super) fn is_within_depth(&self, request: u32, table: &Table) -> bool {
        let raised = self.symmetry.raised_busy() > 0;
        let (limit, full) = (self.depth).of_kind(&table.requests[request].request, raised);
        if full {
            return false;
        }
        let e = self.entity_of(self.members.queue_of(request, table));
        // An entity without a tag always gets its first one, whatever its part is.
        self.depth.by_entity[e as usize] == 0
            || (self.engine).is_within(e, limit.into(), &self.depth.by_entity)
    }

    /// Counts a tag that a request has taken or returned, in its queue and in every group above.
    #[cold]
    pub(super) fn count_tag(&mut self, request: u32, table: &Table, taken: bool) {
        let count = |n: &mut u32| *n = if taken { *n + 1 } else { *n - 1 };
        let kind = &table.requests[request].request;
        let depth = &mut self.depth;
        if !kind.is_sync() {
            count(&mut depth.asynchronous);
        }
        if !kind.op.is_read() {
            count(&mut depth.writes);
        }
        let q = self.order.item(request).queue;
        for e in self.engine.path(self.groups + q) {
            count(&mut depth.by_entity[e as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;
    use crate::{Flags, Op, StreamId};

    #[test]
    fn writes_get_a_part_of_the_tags_and_less_while_a_queue_is_raised() {
        let request = |op, flags| request(StreamId::from_bits(0), op, 0, 4096).flags(flags);
        let read = request(Op::Read, Flags::NONE);
        let synced = request(Op::Write, Flags::SYNC);
        let later = request(Op::Write, Flags::NONE);
        // Each row has the tags and the limits for reads, synchronous writes and asynchronous
        // writes, unraised and raised. 64 tags: 3/4 are 48 and 1/2 is 32, raised 6/16 are 24 and
        // 3/16 are 12.
        for (tags, unraised, raised) in [
            (64, [64, 48, 32], [64, 24, 12]),
            (31, [31, 23, 15], [31, 11, 5]),
            (1, [1, 1, 1], [1, 1, 1]),
        ] {
            let depth = TagDepth {
                tags,
                is_limited: true,
                asynchronous: 0,
                writes: 0,
                by_entity: Vec::new(),
            };
            for (is_raised, expected) in [(false, unraised), (true, raised)] {
                let kinds = [read, synced, later];
                assert_eq!(kinds.map(|r| depth.of_kind(&r, is_raised).0), expected);
            }
        }
    }
}
