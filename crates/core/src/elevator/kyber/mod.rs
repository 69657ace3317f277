//! The elevator `kyber`: separate places in the drive for reads, writes, discards and all other
//! requests (Linux: `block/kyber-iosched.c` of 6.1).
//!
//! Each *domain* has *tokens*, one for each of its requests that may be in the drive. The domains
//! take turns in batches. Every 100 ms, the numbers of tokens are adapted to the latencies and
//! their targets: if the drive is too slow for one domain, the domains that are fast enough give up
//! some of theirs.
//!
//! The lists and the turns are in `queue`, latencies and depths in `latency`, the domains in
//! `domain`. `docs/kyber.md` explains them.

mod config;
mod domain;
mod latency;
mod queue;
#[cfg(test)]
mod tests;

pub use config::Config;

use super::common::depth::TagLimit;
use super::{DispatchDecision, Schedule};
use crate::cx::Cx;
use crate::id::{QueueId, Tag};
use crate::merge::Join;
use crate::request::Op;
use crate::sample::{Domain, Sample, SampleMask, Take};
use crate::table::Table;
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;
use domain::DOMAINS;
use latency::DomainLatency;
use queue::{KyberQueue, KyberRequests};

/// The state of the elevator for one drive (Linux: `struct kyber_queue_data`).
#[derive(Debug)]
pub(crate) struct Kyber {
    waiting: KyberRequests,
    /// The queued requests of each hardware queue.
    queues: Vec<KyberQueue>,
    /// The hardware queue that is tried first.
    turn: usize,
    /// The arrival time of each request.
    came: Vec<Instant>,
    /// Number of pieces in flight of each domain.
    in_drive: [u32; DOMAINS],
    latency: DomainLatency,
    /// Scheduler tags of asynchronous requests, for each hardware queue.
    depths: Vec<TagLimit>,
}

impl Kyber {
    pub(super) fn new(config: &Config, table: &Table) -> Self {
        let requests = table.requests.capacity();
        let queues = u32::from(table.shape.queues);
        let depth = TagLimit::new(table, async_depth(table.tags / queues));
        Self {
            waiting: KyberRequests::new(requests),
            queues: vec![KyberQueue::EMPTY; queues as usize],
            turn: 0,
            came: vec![Instant::ZERO; requests as usize],
            in_drive: [0; DOMAINS],
            latency: DomainLatency::new(config),
            depths: vec![depth; queues as usize],
        }
    }

    /// Returns the hardware queue and the domain of a request.
    fn place_of(table: &Table, request: u32) -> (usize, usize) {
        let queue = usize::from(table.queue_of(request).0);
        (queue, domain::of(table.requests[request].request.op))
    }
}

/// Returns the number of tags that asynchronous requests may hold of a hardware queue with `tags`
/// tags. It is three quarters of each word of the bitmap in which Linux keeps tags, and all tags if
/// words have one bit (Linux: `kyber_depth_updated`, `sbitmap_calculate_shift`).
fn async_depth(tags: u32) -> u32 {
    let word = if tags < 4 {
        64
    } else {
        1 << (tags / 4).ilog2().min(6)
    };
    match word * 3 / 4 {
        // Three quarters of a word of one bit are zero. Linux does not limit in this case.
        0 => tags,
        most => tags / word * most + (tags % word).min(most),
    }
}

impl Schedule for Kyber {
    /// Adds a request (Linux: `kyber_insert_requests`).
    fn insert(&mut self, cx: &mut Cx, request: u32) {
        let (queue, domain) = Self::place_of(&cx.table, request);
        self.came[request as usize] = cx.now;
        (self.queues[queue]).insert(&mut self.waiting, domain, request);
    }

    fn remove(&mut self, cx: &mut Cx, request: u32) {
        let (queue, domain) = Self::place_of(&cx.table, request);
        (self.queues[queue]).remove(&mut self.waiting, domain, request);
    }

    /// Tries one hardware queue after the other (Linux: `kyber_dispatch_request`).
    fn next(&mut self, cx: &mut Cx) -> DispatchDecision {
        self.latency.run(cx.now);
        let (in_drive, depths) = (&self.in_drive, &self.latency.depths);
        let has_token = |domain: usize| in_drive[domain] < depths[domain];
        let pieces = &cx.table.pieces;
        for _ in 0..self.queues.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % self.queues.len();
            // If the whole drive is full, the layer asks for the request that is pulled ahead, from
            // any queue.
            let has_room = pieces.has_room(QueueId(turn as u16)) || pieces.is_full();
            let queue = &mut self.queues[turn];
            if queue.is_empty() || !has_room {
                continue;
            }
            if let Some((domain, request)) = queue.choose(has_token) {
                let (bytes, last) = cx.table.piece(request);
                queue.send(&mut self.waiting, request, last);
                self.in_drive[domain] += 1;
                return DispatchDecision::Take { request, bytes };
            }
        }
        DispatchDecision::Nothing
    }

    /// Returns false, because the requests of one domain leave in the order of arrival, and Linux
    /// searches only the software queues for neighbours.
    fn sorts(&self) -> bool {
        false
    }

    fn limits_tags(&self) -> bool {
        self.depths[0].is_limited()
    }

    /// Limits asynchronous requests (Linux: `kyber_limit_depth`).
    fn may_tag(&self, cx: &Cx, request: u32) -> bool {
        let queue = usize::from(cx.table.queue_of(request).0);
        cx.table.requests[request].request.is_sync() || self.depths[queue].allows()
    }

    fn on_tag_taken(&mut self, cx: &mut Cx, request: u32) {
        if !cx.table.requests[request].request.is_sync() {
            self.depths[usize::from(cx.table.queue_of(request).0)].take_tag();
        }
    }

    fn on_tag_returned(&mut self, cx: &mut Cx, request: u32) {
        if !cx.table.requests[request].request.is_sync() {
            self.depths[usize::from(cx.table.queue_of(request).0)].return_tag();
        }
    }

    /// Accounts for each piece as if it were a request of its own (Linux: `kyber_finish_request`
    /// and `kyber_completed_request`).
    fn complete(&mut self, cx: &mut Cx, tag: Tag) {
        let piece = cx.table.pieces.last(tag);
        // Flushes do not pass the elevator, so they hold no token.
        if piece.op == Op::Flush {
            return;
        }
        let domain = domain::of(piece.op);
        self.in_drive[domain] -= 1;
        let total = cx.now.since(self.came[piece.request as usize]);
        let in_drive = cx.now.since(piece.dispatched);
        self.latency.run_before(cx.now);
        self.latency.add_completion(domain, cx.now, total, in_drive);
    }

    /// Returns the token of a stalled piece. Its latency shows nothing about the drive.
    fn stall(&mut self, cx: &mut Cx, tag: Tag) {
        let piece = cx.table.pieces.last(tag);
        if piece.op != Op::Flush {
            self.in_drive[domain::of(piece.op)] -= 1;
        }
    }

    /// Searches the software queue of the request's domain (Linux: `kyber_bio_merge`).
    fn find_join(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
        if cx.table.merges.is_one_hit() {
            return None;
        }
        let (queue, domain) = Self::place_of(&cx.table, request);
        let fresh = self.queues[queue].fresh(&self.waiting, domain);
        cx.table.first_join(fresh, request)
    }

    fn sample(&self, _cx: &Cx, wanted: SampleMask, take: &mut Take<'_>) {
        if !wanted.has(SampleMask::DRIVE) {
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
