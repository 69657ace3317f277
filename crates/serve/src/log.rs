//! Keeping clients from filling the log, and errors of the system in words.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines of one kind that clients can cause in a second.
const PER_SECOND: u64 = 10;

/// Clients that come and go.
static PASSING: Limiter = Limiter(AtomicU64::new(0));
/// Clients that do something wrong.
static WRONG: Limiter = Limiter(AtomicU64::new(0));

/// Seconds in the upper bits, lines in this second in the lower 16.
struct Limiter(AtomicU64);

/// Whether one more line about a client that did something wrong may be written now.
pub(crate) fn allowed() -> bool {
    WRONG.allowed(second())
}

/// Whether one more line about a client that comes or goes may be written now.
pub(crate) fn passing() -> bool {
    PASSING.allowed(second())
}

fn second() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

impl Limiter {
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
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        updated.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second() {
        let limiter = Limiter(AtomicU64::new(0));
        for second in [5, 6, 9] {
            let written = (0..100).filter(|_| limiter.allowed(second)).count();
            assert_eq!(written, 10);
        }
    }
}
