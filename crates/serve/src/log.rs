//! Limits the lines that clients can cause in the log.
//!
//! A client can cause lines as fast as it can connect. [`PER_SECOND`] lines of each kind are
//! written per second. The others are counted, and the count is logged from time to time. A line
//! that is left out costs a few atomic operations. Repetitions of the same line are combined where
//! the log is written (`log` of the crate `weir`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum number of lines of one kind per second.
const PER_SECOND: u64 = 10;
/// The minimum time between two lines with a count, in seconds.
const SUMMED_UP_EVERY: u64 = 10;

/// The limiter of lines about clients that connect or disconnect.
static PASSING: Limiter = Limiter::new();
/// The limiter of warnings about clients.
static WRONG: Limiter = Limiter::new();

#[derive(Debug)]
struct Limiter {
    /// The second in the upper 48 bits, and the number of lines in this second in the lower 16.
    state: AtomicU64,
    /// The number of lines that were left out and not reported yet.
    left_out: AtomicU64,
    /// The second in which the count was reported last.
    summed_up: AtomicU64,
}

/// Returns true if one more warning about a client may be written now.
pub fn allowed() -> bool {
    let second = second();
    if let Some(lines) = WRONG.sum(second) {
        tracing::warn!(
            lines,
            "clients caused more than {PER_SECOND} warnings within one second; the server omitted some from the log"
        );
    }
    WRONG.allowed(second)
}

/// Returns true if one more line about a client that connects or disconnects may be written now.
pub(crate) fn connection_line_allowed() -> bool {
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
            // Seconds are compared for equality, so that a clock that is set back begins a new
            // second and does not silence the log.
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

    /// Returns the number of lines that were left out, if it is due to be written.
    fn sum(&self, second: u64) -> Option<u64> {
        let summed_up = self.summed_up.load(Ordering::Relaxed);
        // The difference is absolute, because the system's clock can be set back.
        if self.left_out.load(Ordering::Relaxed) == 0
            || second.abs_diff(summed_up) < SUMMED_UP_EVERY
        {
            return None;
        }
        // Of several threads that find the count due, only the one that advances `summed_up`
        // reports it. `Relaxed` suffices, because no other data depend on the counters.
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
    fn at_most_ten_lines_are_written_per_second() {
        let limiter = Limiter::new();
        for second in [5, 6, 9] {
            let written = (0..100).filter(|_| limiter.allowed(second)).count();
            assert_eq!(written, 10);
        }
    }

    #[test]
    fn omitted_lines_are_reported_every_ten_seconds() {
        let limiter = Limiter::new();
        let mut sums = Vec::new();
        for second in 100..130 {
            for _ in 0..15 {
                sums.extend(limiter.sum(second));
                limiter.allowed(second);
            }
        }
        // 5 of 15 lines are left out per second. The first report comes after the first line that
        // is left out, in second 100. The next reports cover ten seconds each: 4 + 9 × 5 = 49, then
        // 50. The 50 of the last ten seconds remain for second 200.
        assert_eq!(sums, [1, 49, 50]);
        assert_eq!(limiter.sum(200), Some(50));
        assert_eq!(limiter.sum(300), None);
    }
}
