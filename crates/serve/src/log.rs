//! Keeping clients from filling the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines a second that clients can cause.
const PER_SECOND: u64 = 10;

/// Seconds in the upper bits, lines in this second in the lower 16.
static STATE: AtomicU64 = AtomicU64::new(0);

/// Whether one more line that a client has caused may be written now.
pub(crate) fn allowed() -> bool {
    let second = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let update = |state: u64| {
        if state >> 16 != second {
            Some(second << 16 | 1)
        } else if state & 0xffff < PER_SECOND {
            Some(state + 1)
        } else {
            None
        }
    };
    STATE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
        .is_ok()
}
