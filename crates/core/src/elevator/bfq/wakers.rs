//! Wakers: queues whose requests other queues wait for (Linux: `bfq_check_waker`).
//!
//! While the drive idles for a queue, the requests of its waker are sent. Without them, the queue
//! could wait for its waker while the drive waits for the queue.

use super::{Bfq, Config};
use crate::Instant;
use crate::list::{Links, List, NIL};
use alloc::vec;
use alloc::vec::Vec;

/// The number of idle slices (`slice_idle`) within which all detections of a waker must be (Linux:
/// in `bfq_check_waker`).
const WITHIN: u64 = 128;

#[derive(Clone, Copy, Debug)]
struct WakerEntry {
    queue: u32,
    tentative: u32,
    detections: u32,
    since: Instant,
    woken: List,
}

const NONE: WakerEntry = WakerEntry {
    queue: NIL,
    tentative: NIL,
    detections: 0,
    since: Instant::ZERO,
    woken: List::EMPTY,
};

/// The waker of each queue and the queues that each waker wakes.
#[derive(Debug)]
pub(super) struct Wakers {
    queues: Vec<WakerEntry>,
    links: Links,
    /// The number of queues that have a waker.
    count: u32,
    /// The queue with the last completion, or [`NIL`].
    pub(super) last: u32,
}

impl Wakers {
    pub(super) fn new(queues: u32) -> Self {
        Self {
            queues: vec![NONE; queues as usize],
            links: Links::new(queues),
            count: 0,
            last: NIL,
        }
    }

    /// Returns true if no queue has a waker.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.count == 0
    }

    /// Returns the waker of a queue, or [`NIL`].
    pub(super) fn of(&self, q: u32) -> u32 {
        self.queues[q as usize].queue
    }

    /// Returns the first queue that a queue wakes, or [`NIL`].
    pub(super) fn woken_by(&self, q: u32) -> u32 {
        self.queues[q as usize].woken.first().unwrap_or(NIL)
    }

    /// Records that a request of `q` arrived soon after a completion of the queue `last`. After
    /// enough detections in a row, `last` becomes the waker.
    fn suspect(&mut self, now: Instant, q: u32, config: &Config) {
        let last = self.last;
        let waker = &mut self.queues[q as usize];
        // Another queue in between, or too long a time, begins the count again.
        if last != waker.tentative || now > waker.since + config.slice_idle.saturating_mul(WITHIN) {
            waker.tentative = last;
            waker.detections = 1;
            waker.since = now;
        } else {
            waker.detections += 1;
        }
        if waker.detections == config.waker_detections {
            waker.tentative = NIL;
            let before = core::mem::replace(&mut waker.queue, last);
            self.unlink(q, before);
            self.count += 1;
            self.links
                .push_back(&mut self.queues[last as usize].woken, q);
        }
    }

    /// Gives a queue the waker of `other`, unless it has one already (Linux: in `bfq_merge_bfqqs`).
    pub(super) fn inherit(&mut self, q: u32, other: u32) {
        let waker = self.of(other);
        // A queue cannot be its own waker. This would happen if a queue merges with its waker.
        if waker == NIL || waker == q || self.of(q) != NIL {
            return;
        }
        self.queues[q as usize].queue = waker;
        self.queues[q as usize].tentative = NIL;
        self.count += 1;
        self.links
            .push_back(&mut self.queues[waker as usize].woken, q);
    }

    /// Removes a queue as a waker and as a queue that is woken.
    pub(super) fn forget(&mut self, q: u32) {
        if self.last == q {
            self.last = NIL;
        }
        let before = self.of(q);
        self.unlink(q, before);
        while let Some(woken) = self.links.pop_front(&mut self.queues[q as usize].woken) {
            self.queues[woken as usize].queue = NIL;
            self.count -= 1;
        }
        self.queues[q as usize] = NONE;
    }

    fn unlink(&mut self, q: u32, waker: u32) {
        if waker != NIL {
            self.links.remove(&mut self.queues[waker as usize].woken, q);
            self.count -= 1;
        }
    }
}

impl Bfq {
    /// Looks for a waker when a queue with a long think time gets a request after it had none
    /// waiting.
    pub(super) fn check_waker(&mut self, now: Instant, q: u32) {
        let last = self.wakers.last;
        let soon = now.since(self.peak.last_completion()) < self.config.waker_window;
        if soon && last != NIL && last != q {
            self.wakers.suspect(now, q, &self.config);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn three_detections_in_a_row_within_a_second_make_a_waker() {
        // The default is three detections within 128 idle slices of 8 ms, which are 1,024 ms. Queue
        // 2 at 20 ms interrupts the first series, and 1,100 ms is too late for the series that
        // began at 30 ms.
        let (mut wakers, config) = (Wakers::new(4), Config::default());
        for (last, at) in [(1, 0), (1, 10), (2, 20), (1, 30), (1, 40), (1, 1_100)] {
            wakers.last = last;
            wakers.suspect(ms(at), 0, &config);
            assert_eq!(wakers.of(0), NIL);
        }
        wakers.suspect(ms(1_110), 0, &config);
        wakers.suspect(ms(1_120), 0, &config);
        assert_eq!((wakers.of(0), wakers.woken_by(1)), (1, 0));
        wakers.last = 3;
        for at in 2_000..2_003 {
            wakers.suspect(ms(at), 0, &config);
        }
        assert_eq!((wakers.of(0), wakers.woken_by(1)), (3, NIL));
        wakers.forget(3);
        assert_eq!((wakers.of(0), wakers.last), (NIL, NIL));
        assert!(wakers.are_none());
    }
}
