//! Keeping clients from filling the log.
//!
//! A client can cause lines as fast as it can connect. Of each kind of them [`PER_SECOND`] are
//! written, and the others are counted and summed up. The cost of a line that is left out is one
//! atomic operation. Repetitions of one and the same line are summed up where the log is written
//! (`weir`'s own `log`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines of one kind that clients can cause in a second.
const PER_SECOND: u64 = 10;
/// Least time between two lines that sum up, seconds.
const SUMMED_UP_EVERY: u64 = 10;

/// Clients that come and go.
static PASSING: Limiter = Limiter::new();
/// Clients that do something wrong.
static WRONG: Limiter = Limiter::new();

#[derive(Debug)]
struct Limiter {
    /// Seconds in the upper bits, lines in this second in the lower 16.
    state: AtomicU64,
    /// Lines that were left out and not summed up yet.
    left_out: AtomicU64,
    /// Second of the last sum.
    summed_up: AtomicU64,
}

/// Whether one more line about a client that did something wrong may be written now.
pub(crate) fn allowed() -> bool {
    let second = second();
    if let Some(lines) = WRONG.sum(second) {
        tracing::warn!(
            lines,
            "clients caused more than {PER_SECOND} warnings within one second; the server omitted some from the log"
        );
    }
    WRONG.allowed(second)
}

/// Whether one more line about a client that comes or goes may be written now.
pub(crate) fn passing() -> bool {
    let second = second();
    if let Some(lines) = PASSING.sum(second) {
        tracing::info!(
            lines,
            "more than {PER_SECOND} clients connected or disconnected within one second; the server omitted some from the log"
        );
    }
    PASSING.allowed(second)
}

fn second() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

impl Limiter {
    const fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            summed_up: AtomicU64::new(0),
        }
    }

    fn allowed(&self, second: u64) -> bool {
        let update = |state: u64| {
            if state >> 16 != second {
                Some(second << 16 | 1)
            } else if state & 0xffff < PER_SECOND {
                Some(state + 1)
            } else {
                None
            }
        };
        let updated = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        if updated.is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        updated.is_ok()
    }

    /// The number of lines that were left out, if it is to be written now.
    fn sum(&self, second: u64) -> Option<u64> {
        let summed_up = self.summed_up.load(Ordering::Relaxed);
        // The system's clock may have been set back.
        if self.left_out.load(Ordering::Relaxed) == 0
            || second.abs_diff(summed_up) < SUMMED_UP_EVERY
        {
            return None;
        }
        let (done, other) = (Ordering::Relaxed, Ordering::Relaxed);
        let mine = self
            .summed_up
            .compare_exchange(summed_up, second, done, other);
        mine.ok().map(|_| self.left_out.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second() {
        let limiter = Limiter::new();
        for second in [5, 6, 9] {
            let written = (0..100).filter(|_| limiter.allowed(second)).count();
            assert_eq!(written, 10);
        }
    }

    #[test]
    fn what_is_left_out_is_counted_and_summed_up_every_ten_seconds() {
        let limiter = Limiter::new();
        let mut sums = Vec::new();
        for second in 100..130 {
            for _ in 0..15 {
                sums.extend(limiter.sum(second));
                limiter.allowed(second);
            }
        }
        assert_eq!(sums, [1, 49, 50]);
        assert_eq!(limiter.sum(200), Some(50));
        assert_eq!(limiter.sum(300), None);
    }
}
