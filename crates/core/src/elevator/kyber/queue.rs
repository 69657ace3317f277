//! Queued requests of one hardware queue (Linux: `struct kyber_hctx_data`, `struct
//! kyber_ctx_queue`).

use super::domain::{BATCHES, DOMAINS};
use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// Number of recent requests that are tried for a merge (Linux: `blk_bio_list_merge`).
const TRIED: usize = 8;

/// The places of all queued requests in their lines.
#[derive(Debug)]
pub(super) struct KyberRequests {
    pub(super) links: Links,
    /// The number of each request in its line, in the order of arrival.
    numbers: Vec<u64>,
}

impl KyberRequests {
    pub(super) fn new(requests: u32) -> Self {
        Self {
            links: Links::new(requests),
            numbers: vec![0; requests as usize],
        }
    }
}

/// The requests of one domain in the order of arrival. Linux takes all of them from the software
/// queues at once, when none of those is left that it took earlier. Requests that have been taken
/// no longer merge.
#[derive(Clone, Copy, Debug)]
struct DomainQueue {
    list: List,
    /// Number of requests that have entered.
    entered: u64,
    /// Number of the first request that is still in a software queue.
    taken: u64,
}

/// The lines of a hardware queue, and the domain that has the turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct KyberQueue {
    lines: [DomainQueue; DOMAINS],
    /// The domain that has the turn.
    domain: usize,
    /// Number of pieces of this domain that were dispatched in its turn.
    sent: u32,
    /// Number of requests in all lines.
    waiting: u32,
}

impl KyberQueue {
    pub(super) const EMPTY: Self = Self {
        lines: [DomainQueue {
            list: List::EMPTY,
            entered: 0,
            taken: 0,
        }; DOMAINS],
        domain: 0,
        sent: 0,
        waiting: 0,
    };

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn insert(&mut self, waiting: &mut KyberRequests, domain: usize, request: u32) {
        let line = &mut self.lines[domain];
        waiting.numbers[request as usize] = line.entered;
        line.entered += 1;
        waiting.links.push_back(&mut line.list, request);
        self.waiting += 1;
    }

    pub(super) fn remove(&mut self, waiting: &mut KyberRequests, domain: usize, request: u32) {
        waiting.links.remove(&mut self.lines[domain].list, request);
        self.waiting -= 1;
    }

    /// Returns the domain and the request of the next piece. The domain that has the turn continues
    /// until its batch ends. After that, the next domain with a request and a token for it has the
    /// turn (Linux: `kyber_dispatch_request`).
    pub(super) fn choose(&mut self, has_place: impl Fn(usize) -> bool) -> Option<(usize, u32)> {
        let goes_on = self.sent < BATCHES[self.domain];
        if goes_on && let Some(request) = self.first(&has_place) {
            return Some((self.domain, request));
        }
        self.sent = 0;
        for _ in 0..DOMAINS {
            self.domain = (self.domain + 1) % DOMAINS;
            if let Some(request) = self.first(&has_place) {
                return Some((self.domain, request));
            }
        }
        None
    }

    /// Returns the first request of the domain that has the turn, if there is a token for it
    /// (Linux: `kyber_dispatch_cur_domain`).
    fn first(&self, has_place: impl Fn(usize) -> bool) -> Option<u32> {
        let first = self.lines[self.domain].list.first();
        first.filter(|_| has_place(self.domain))
    }

    /// Dispatches a piece of the chosen request. With the `last` piece, the request leaves.
    pub(super) fn send(&mut self, waiting: &mut KyberRequests, request: u32, last: bool) {
        let line = &mut self.lines[self.domain];
        // A request of the software queues is chosen only if none is left that was taken, so all of
        // them are taken now.
        if waiting.numbers[request as usize] >= line.taken {
            line.taken = line.entered;
        }
        self.sent += 1;
        if last {
            self.remove(waiting, self.domain, request);
        }
    }

    /// Iterates over the last few requests of a domain that are still in a software queue, from the
    /// last one back.
    pub(super) fn fresh<'a>(
        &self,
        waiting: &'a KyberRequests,
        domain: usize,
    ) -> impl Iterator<Item = u32> + 'a {
        let line = &self.lines[domain];
        let taken = line.taken;
        let last = waiting.links.iter_back(&line.list);
        last.take_while(move |&request| waiting.numbers[request as usize] >= taken)
            .take(TRIED)
    }
}
