//! The request lists of Linux's single-queue layer, which limit the requests of each direction of a
//! group (Linux: `request_list`, `__get_request`).
//!
//! A stream that takes the last request of a list, or that has waited for one, may exceed the limit
//! for a batch. Otherwise a process would wake up for a single request. All other streams wait
//! until requests are free again.

use crate::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// The number of requests that a stream may take in a batch (Linux: `BLK_BATCH_REQ`).
const BATCH: u32 = 32;
/// The duration of a batch (Linux: `BLK_BATCH_TIME`).
const BATCH_TIME: Span = Span::from_millis(20);

/// The requests of one direction of a group that are in use.
#[derive(Clone, Copy, Debug, Default)]
struct RequestList {
    taken: u32,
    /// True if only streams with a batch may take requests (Linux: `blk_rl_full`).
    is_full: bool,
}

/// The rest of a stream's batch, in which it may exceed a full list (Linux: `nr_batch_requests`,
/// `last_waited`).
#[derive(Clone, Copy, Debug)]
struct Batch {
    left: u32,
    since: Instant,
}

/// The stream, group and direction that a request is counted for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestOwner {
    pub(super) stream: u32,
    pub(super) group: u32,
    pub(super) sync: bool,
}

/// The request lists of all groups and the batches of all streams.
#[derive(Debug)]
pub(super) struct Requests {
    limit: u32,
    lists: Vec<[RequestList; 2]>,
    batches: Vec<Batch>,
}

impl Requests {
    pub(super) fn new(limit: u32, groups: u32, streams: u32) -> Self {
        let none = Batch {
            left: 0,
            since: Instant::ZERO,
        };
        Self {
            limit,
            lists: vec![[RequestList::default(); 2]; groups as usize],
            batches: vec![none; streams as usize],
        }
    }

    /// Resets the batch of a new stream.
    pub(super) fn open(&mut self, stream: u32) {
        self.batches[stream as usize].left = 0;
    }

    /// Returns true if a stream may take a request. `expected` means that the drive idles for it.
    pub(super) fn allows(&self, now: Instant, of: RequestOwner, expected: bool) -> bool {
        let list = self.lists[of.group as usize][usize::from(of.sync)];
        let runs_out = list.taken + 1 >= self.limit;
        let waits = runs_out && list.is_full && !expected && !self.is_in_batch(now, of.stream);
        // All batches together exceed the limit by at most 50 %.
        let most = self.limit + self.limit / 2;
        !waits && list.taken < most
    }

    /// Counts a request that a stream has taken. `waited` means that the stream had to wait for it.
    pub(super) fn count_taken(&mut self, now: Instant, of: RequestOwner, waited: bool) {
        let list = &mut self.lists[of.group as usize][usize::from(of.sync)];
        let fills = list.taken + 1 >= self.limit && !list.is_full;
        list.is_full |= fills;
        list.taken += 1;
        // No batch begins within a batch. Otherwise a stream that waited during its batch would
        // continue without end, past streams that wait for the list to become free.
        if (fills || waited) && !self.is_in_batch(now, of.stream) {
            self.batches[of.stream as usize] = Batch {
                left: BATCH,
                since: now,
            };
        }
        if self.is_in_batch(now, of.stream) {
            self.batches[of.stream as usize].left -= 1;
        }
    }

    /// Counts a request that is free again.
    pub(super) fn count_returned(&mut self, of: RequestOwner) {
        let list = &mut self.lists[of.group as usize][usize::from(of.sync)];
        debug_assert!(list.taken > 0, "a request that nobody had");
        list.taken -= 1;
        // Only below the limit does the list open for streams without a batch (Linux:
        // `blk_clear_rl_full` in `__freed_request`).
        if list.taken < self.limit {
            list.is_full = false;
        }
    }

    /// Returns true if the stream is in a batch (Linux: `ioc_batching`). A batch of which no
    /// request was taken yet does not end.
    fn is_in_batch(&self, now: Instant, stream: u32) -> bool {
        let batch = self.batches[stream as usize];
        batch.left == BATCH || batch.left > 0 && now < batch.since + BATCH_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn of(stream: u32, group: u32, sync: bool) -> RequestOwner {
        RequestOwner {
            stream,
            group,
            sync,
        }
    }

    /// Takes all requests that a stream gets at one instant and returns their number.
    fn take(requests: &mut Requests, now: Instant, owner: RequestOwner, expected: bool) -> u32 {
        let mut taken = 0;
        while requests.allows(now, owner, expected) {
            requests.count_taken(now, owner, false);
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_stream_that_fills_the_list_gets_a_batch_and_others_wait() {
        let mut requests = Requests::new(128, 2, 3);
        let (first, second) = (of(0, 0, true), of(1, 0, true));
        // The 128th request fills the list and is the first of the batch of 32.
        assert_eq!(take(&mut requests, ms(1), first, false), 127 + 32);
        assert!(!requests.allows(ms(1), second, false));
        assert!(requests.allows(ms(1), second, true), "it is idled for");
        assert!(
            requests.allows(ms(1), of(1, 0, false), false),
            "the other direction"
        );
        assert!(
            requests.allows(ms(1), of(1, 1, true), false),
            "another group"
        );
    }

    #[test]
    fn a_list_reopens_below_its_limit_and_is_limited_to_150_percent() {
        let mut requests = Requests::new(128, 1, 2);
        let taken: u32 = (0..2)
            .map(|stream| take(&mut requests, ms(1), of(stream, 0, true), true))
            .sum();
        // Even expected requests end at 1.5 times the limit.
        assert_eq!(taken, 192);
        for _ in 0..64 {
            requests.count_returned(of(0, 0, true));
            assert!(!requests.allows(ms(99), of(1, 0, true), false));
        }
        requests.count_returned(of(0, 0, true));
        assert!(requests.allows(ms(99), of(1, 0, true), false));
    }

    #[test]
    fn a_stream_begins_no_second_batch_while_it_waits() {
        let mut requests = Requests::new(4, 1, 2);
        let (first, second) = (of(0, 0, true), of(1, 0, true));
        assert_eq!(take(&mut requests, ms(1), first, false), 6);
        // Three requests of the batch of 32 are used, because the first three were taken before the
        // list was full.
        let mut taken = 3;
        for _ in 0..100 {
            requests.count_returned(first);
            if requests.allows(ms(2), second, false) {
                break;
            }
            if requests.allows(ms(2), first, false) {
                requests.count_taken(ms(2), first, true);
                taken += 1;
            }
        }
        assert_eq!(
            taken, 32,
            "then the list empties, and it is the other's turn"
        );
        assert!(requests.allows(ms(2), second, false));
    }

    #[test]
    fn a_batch_ends_after_twenty_milliseconds() {
        let mut requests = Requests::new(8, 1, 2);
        let owner = of(0, 0, true);
        (0..8).for_each(|_| requests.count_taken(ms(1), owner, false));
        assert!(requests.allows(ms(20), owner, false));
        assert!(!requests.allows(ms(21), owner, false));
    }
}
