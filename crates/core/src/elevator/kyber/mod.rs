//! `kyber`: reads, writes, discards and everything else have places in the drive of their own, and a domain that is fast enough gives some of
//! them up when the drive is too slow for another (Linux: `block/kyber-iosched.c` of 6.1).
//!
//! Each *domain* has *tokens*, one for each of its requests that may be in the drive. The domains take turns by batches. Every tenth of a
//! second the tokens follow from latencies and targets.
//!
//! The lists and the turns are in `queue`, latencies and depths in `latency`, the domains in `domain`. `docs/kyber.md` leads through them.

mod config;
mod domain;
mod latency;
mod queue;
#[cfg(test)]
mod tests;

pub use config::Config;

use super::common::depth::Depth;
use super::{Next, Schedule};
use crate::cx::Cx;
use crate::id::{QueueId, Tag};
use crate::merge::Join;
use crate::request::Op;
use crate::sample::{Domain, Sample, Take, Wanted};
use crate::table::Table;
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;
use domain::DOMAINS;
use latency::Latency;
use queue::{Queue, Waiting};

/// The elevator (Linux: `struct kyber_queue_data`).
#[derive(Debug)]
pub(crate) struct Kyber {
    waiting: Waiting,
    /// What waits for each hardware queue.
    queues: Vec<Queue>,
    /// The hardware queue that is asked first.
    turn: usize,
    /// When each request came.
    came: Vec<Instant>,
    /// Pieces in the drive of each domain.
    in_drive: [u32; DOMAINS],
    latency: Latency,
    /// Scheduler tags of what is asynchronous, for each hardware queue.
    depths: Vec<Depth>,
}

impl Kyber {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let requests = table.requests.capacity();
        let queues = u32::from(table.shape.queues);
        let depth = Depth::new(table, async_depth(table.tags / queues));
        Self {
            waiting: Waiting::new(requests),
            queues: vec![Queue::EMPTY; queues as usize],
            turn: 0,
            came: vec![Instant::ZERO; requests as usize],
            in_drive: [0; DOMAINS],
            latency: Latency::new(config),
            depths: vec![depth; queues as usize],
        }
    }

    /// The queue of a request, and its domain.
    fn place_of(table: &Table, request: u32) -> (usize, usize) {
        let queue = usize::from(table.queue_of(request).0);
        (queue, domain::of(table.requests[request].request.op))
    }
}

/// Tags of a hardware queue with `tags` that asynchronous requests may hold: three quarters of each word of the map in which Linux keeps
/// them, and all where words have one bit (Linux: `kyber_depth_updated`, `sbitmap_calculate_shift`).
fn async_depth(tags: u32) -> u32 {
    let word = if tags < 4 {
        64
    } else {
        1 << (tags / 4).ilog2().min(6)
    };
    match word * 3 / 4 {
        0 => tags,
        most => tags / word * most + (tags % word).min(most),
    }
}

impl Schedule for Kyber {
    /// Linux: `kyber_insert_requests`.
    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let (queue, domain) = Self::place_of(&cx.table, request);
        self.came[request as usize] = cx.now;
        (self.queues[queue]).insert(&mut self.waiting, domain, request);
    }

    fn remove(&mut self, cx: &mut Cx, request: u32) {
        let (queue, domain) = Self::place_of(&cx.table, request);
        (self.queues[queue]).remove(&mut self.waiting, domain, request);
    }

    /// Linux: `kyber_dispatch_request`, for one hardware queue after the other.
    fn next(&mut self, cx: &mut Cx) -> Next {
        self.latency.run(cx.now);
        let (in_drive, depths) = (&self.in_drive, &self.latency.depths);
        let has_token = |domain: usize| in_drive[domain] < depths[domain];
        let pieces = &cx.table.pieces;
        for _ in 0..self.queues.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % self.queues.len();
            // Where the whole drive is full, somebody is asked for what goes ahead.
            let has_room = pieces.has_room(QueueId(turn as u16)) || pieces.is_full();
            let queue = &mut self.queues[turn];
            if queue.is_empty() || !has_room {
                continue;
            }
            if let Some((domain, request)) = queue.choose(has_token) {
                let (bytes, last) = cx.table.piece(request);
                queue.send(&mut self.waiting, request, last);
                self.in_drive[domain] += 1;
                return Next::Take { request, bytes };
            }
        }
        Next::Nothing
    }

    /// Requests of one domain leave as they came, and Linux looks for neighbours in the software queues only.
    fn sorts(&self) -> bool {
        false
    }

    fn limits_tags(&self) -> bool {
        self.depths[0].is_limited()
    }

    /// Linux: `kyber_limit_depth`.
    fn may_tag(&self, cx: &Cx, request: u32) -> bool {
        let queue = usize::from(cx.table.queue_of(request).0);
        cx.table.requests[request].request.is_sync() || self.depths[queue].allows()
    }

    fn tagged(&mut self, cx: &mut Cx, request: u32) {
        if !cx.table.requests[request].request.is_sync() {
            self.depths[usize::from(cx.table.queue_of(request).0)].tagged();
        }
    }

    fn untagged(&mut self, cx: &mut Cx, request: u32) {
        if !cx.table.requests[request].request.is_sync() {
            self.depths[usize::from(cx.table.queue_of(request).0)].untagged();
        }
    }

    /// Linux: `kyber_finish_request` and `kyber_completed_request`, for each piece as if it were a request of its own.
    fn complete(&mut self, cx: &mut Cx, tag: Tag) {
        let piece = cx.table.pieces.last(tag);
        // Flushes never came through here.
        if piece.op == Op::Flush {
            return;
        }
        let domain = domain::of(piece.op);
        self.in_drive[domain] -= 1;
        let total = cx.now.since(self.came[piece.request as usize]);
        let in_drive = cx.now.since(piece.dispatched);
        self.latency.run_before(cx.now);
        self.latency.ended(domain, cx.now, total, in_drive);
    }

    /// How long it took is no latency of the drive's.
    fn stall(&mut self, cx: &mut Cx, tag: Tag) {
        let piece = cx.table.pieces.last(tag);
        if piece.op != Op::Flush {
            self.in_drive[domain::of(piece.op)] -= 1;
        }
    }

    /// Linux: `kyber_bio_merge`.
    fn find_join(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
        if cx.table.merges.is_one_hit() {
            return None;
        }
        let (queue, domain) = Self::place_of(&cx.table, request);
        let fresh = self.queues[queue].fresh(&self.waiting, domain);
        cx.table.first_join(fresh, request)
    }

    fn sample(&self, _cx: &Cx, wanted: Wanted, take: &mut Take<'_>) {
        if !wanted.has(Wanted::DRIVE) {
            return;
        }
        for (place, &domain) in Domain::ALL.iter().enumerate() {
            take(Sample::Tokens {
                domain,
                depth: self.latency.depths[place],
                in_flight: self.in_drive[place],
            });
        }
    }
}
