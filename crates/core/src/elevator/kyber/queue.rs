//! What waits for one hardware queue (Linux: `struct kyber_hctx_data`, `struct kyber_ctx_queue`).

use super::domain::{BATCHES, DOMAINS};
use crate::list::{Links, List};
use alloc::vec;
use alloc::vec::Vec;

/// How many of the last to enter are tried for a merge (Linux: `blk_bio_list_merge`).
const TRIED: usize = 8;

/// Where each request that waits stands.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) links: Links,
    /// Which of its line a request is.
    numbers: Vec<u64>,
}

impl Waiting {
    pub(super) fn new(requests: u32) -> Self {
        Self {
            links: Links::new(requests),
            numbers: vec![0; requests as usize],
        }
    }
}

/// The requests of one domain in the order in which they came. Linux takes them from the software queues together, when nothing is left of
/// those that it took before; what has been taken merges with nothing any more.
#[derive(Clone, Copy, Debug)]
struct Line {
    list: List,
    /// Requests that have entered.
    entered: u64,
    /// Requests of these that have been taken from the software queues.
    taken: u64,
}

/// The lines of a hardware queue, and whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    lines: [Line; DOMAINS],
    domain: usize,
    /// Requests of this domain that went in its turn.
    sent: u32,
    /// All that waits.
    waiting: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self {
        lines: [Line {
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

    pub(super) fn insert(&mut self, waiting: &mut Waiting, domain: usize, request: u32) {
        let line = &mut self.lines[domain];
        waiting.numbers[request as usize] = line.entered;
        line.entered += 1;
        waiting.links.push_back(&mut line.list, request);
        self.waiting += 1;
    }

    pub(super) fn remove(&mut self, waiting: &mut Waiting, domain: usize, request: u32) {
        waiting.links.remove(&mut self.lines[domain].list, request);
        self.waiting -= 1;
    }

    /// The request of which a piece goes next: of the domain whose turn it is, or else of the next that has one and a place for it
    /// (Linux: `kyber_dispatch_request`).
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

    /// The first request of the domain whose turn it is, if there is a place for it (Linux: `kyber_dispatch_cur_domain`).
    fn first(&self, has_place: impl Fn(usize) -> bool) -> Option<u32> {
        let first = self.lines[self.domain].list.first();
        first.filter(|_| has_place(self.domain))
    }

    /// A piece of the request that was chosen goes, its `last` or not.
    pub(super) fn send(&mut self, waiting: &mut Waiting, request: u32, last: bool) {
        let line = &mut self.lines[self.domain];
        if waiting.numbers[request as usize] >= line.taken {
            line.taken = line.entered;
        }
        self.sent += 1;
        if last {
            self.remove(waiting, self.domain, request);
        }
    }

    /// The last few of a domain that are in the software queue still, the last first.
    pub(super) fn fresh<'a>(
        &self,
        waiting: &'a Waiting,
        domain: usize,
    ) -> impl Iterator<Item = u32> + 'a {
        let line = &self.lines[domain];
        let taken = line.taken;
        let last = waiting.links.iter_back(&line.list);
        last.take_while(move |&request| waiting.numbers[request as usize] >= taken)
            .take(TRIED)
    }
}
