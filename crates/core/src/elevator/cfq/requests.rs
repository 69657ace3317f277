//! The legacy layer's requests: a number for each direction of a group, and which stream may have one when they run out (Linux:
//! `request_list`, `__get_request`).
//!
//! A stream that takes the last request of a list may go on for a batch, and so may one that has waited: a process would otherwise wake up
//! for a single request. All others wait until some are free again.

use crate::{Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// Requests that a stream may take in a batch (Linux: `BLK_BATCH_REQ`).
const BATCH: u32 = 32;
/// For how long it may (Linux: `BLK_BATCH_TIME`).
const BATCH_TIME: Span = Span::from_millis(20);

/// The requests of one direction of a group.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    taken: u32,
    /// Only batches go on (Linux: `blk_rl_full`).
    is_full: bool,
}

/// A stream that may go on although its list is full (Linux: `nr_batch_requests`, `last_waited`).
#[derive(Clone, Copy, Debug)]
struct Batch {
    left: u32,
    since: Instant,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) stream: u32,
    pub(super) group: u32,
    pub(super) sync: bool,
}

/// The lists of all groups.
#[derive(Debug)]
pub(super) struct Requests {
    limit: u32,
    lists: Vec<[List; 2]>,
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
            lists: vec![[List::default(); 2]; groups as usize],
            batches: vec![none; streams as usize],
        }
    }

    /// A stream came.
    pub(super) fn open(&mut self, stream: u32) {
        self.batches[stream as usize].left = 0;
    }

    /// Somebody may take a request. `expected`: the drive idles for it.
    pub(super) fn allows(&self, now: Instant, of: Owner, expected: bool) -> bool {
        let list = self.lists[of.group as usize][usize::from(of.sync)];
        let runs_out = list.taken + 1 >= self.limit;
        let waits = runs_out && list.is_full && !expected && !self.is_in_batch(now, of.stream);
        let most = self.limit + self.limit / 2;
        !waits && list.taken < most
    }

    /// Somebody has taken one, and may have waited for it.
    pub(super) fn took(&mut self, now: Instant, of: Owner, waited: bool) {
        let list = &mut self.lists[of.group as usize][usize::from(of.sync)];
        let fills = list.taken + 1 >= self.limit && !list.is_full;
        list.is_full |= fills;
        list.taken += 1;
        // No stream begins a batch in a batch: one that waited while it had a batch would go on for ever, past those that wait for the list
        // to empty.
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

    /// A request is free again.
    pub(super) fn gave(&mut self, of: Owner) {
        let list = &mut self.lists[of.group as usize][usize::from(of.sync)];
        debug_assert!(list.taken > 0, "a request that nobody had");
        list.taken -= 1;
        if list.taken < self.limit {
            list.is_full = false;
        }
    }

    /// Linux: `ioc_batching`.
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

    fn of(stream: u32, group: u32, sync: bool) -> Owner {
        Owner {
            stream,
            group,
            sync,
        }
    }

    /// How many a stream gets at an instant.
    fn take(requests: &mut Requests, now: Instant, owner: Owner, expected: bool) -> u32 {
        let mut taken = 0;
        while requests.allows(now, owner, expected) {
            requests.took(now, owner, false);
            taken += 1;
        }
        taken
    }

    #[test]
    fn who_fills_the_list_goes_on_for_a_batch_and_others_wait() {
        let mut requests = Requests::new(128, 2, 3);
        let (first, second) = (of(0, 0, true), of(1, 0, true));
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
    fn a_list_is_open_again_below_its_limit_and_never_exceeds_it_by_more_than_a_half() {
        let mut requests = Requests::new(128, 1, 2);
        let taken: u32 = (0..2)
            .map(|stream| take(&mut requests, ms(1), of(stream, 0, true), true))
            .sum();
        assert_eq!(taken, 192);
        for _ in 0..64 {
            requests.gave(of(0, 0, true));
            assert!(!requests.allows(ms(99), of(1, 0, true), false));
        }
        requests.gave(of(0, 0, true));
        assert!(requests.allows(ms(99), of(1, 0, true), false));
    }

    #[test]
    fn who_waits_in_a_batch_begins_no_other() {
        let mut requests = Requests::new(4, 1, 2);
        let (first, second) = (of(0, 0, true), of(1, 0, true));
        assert_eq!(take(&mut requests, ms(1), first, false), 6);
        // Of the 32 three are gone: the first three were taken before it was full.
        let mut taken = 3;
        for _ in 0..100 {
            requests.gave(first);
            if requests.allows(ms(2), second, false) {
                break;
            }
            if requests.allows(ms(2), first, false) {
                requests.took(ms(2), first, true);
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
        (0..8).for_each(|_| requests.took(ms(1), owner, false));
        assert!(requests.allows(ms(20), owner, false));
        assert!(!requests.allows(ms(21), owner, false));
    }
}
