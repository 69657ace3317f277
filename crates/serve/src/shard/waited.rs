//! The time that this thread was ready to run without having a processor, as the kernel measures
//! it.

use std::fs::File;
use std::os::fd::AsFd;

use weir_core::{Instant, Span};

/// The interval between two reads of the kernel's counter.
const EVERY: Span = Span::from_millis(10);

/// The kernel's run-queue wait counter of the calling thread.
#[derive(Debug)]
pub(super) struct RunQueueWait {
    /// The open file `/proc/thread-self/schedstat`, or `None` if there is none.
    file: Option<File>,
    asked: Instant,
}

impl RunQueueWait {
    /// Opens the counter of the calling thread.
    pub(super) fn new() -> Self {
        Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            asked: Instant::ZERO,
        }
    }

    /// Returns the total in nanoseconds, or `None` if it was read less than [`EVERY`] ago or the
    /// kernel does not provide it.
    pub(super) fn read_if_due(&mut self, now: Instant) -> Option<u64> {
        if now.since(self.asked) < EVERY {
            return None;
        }
        self.asked = now;
        self.total()
    }

    /// Returns the total in nanoseconds, read from the kernel.
    pub(super) fn total(&self) -> Option<u64> {
        let mut text = [0; 64];
        let read = rustix::io::pread(self.file.as_ref()?.as_fd(), &mut text, 0).ok()?;
        parse(&text[..read])
    }
}

/// Returns the second figure of three: `schedstat` has the time on the processor, the time waited
/// on a run queue, and the number of time slices (Linux:
/// `Documentation/scheduler/sched-stats.rst`).
fn parse(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_of_schedstat_is_the_wait() {
        assert_eq!(parse(b"1234 567 8\n"), Some(567));
        assert_eq!(parse(b"1234\n"), None);
        assert_eq!(parse(b"1234 x 8\n"), None);
    }

    #[test]
    fn the_kernel_is_queried_at_most_every_10_ms() {
        let mut waited = RunQueueWait::new();
        let at = |ms: u64| Instant::ZERO + Span::from_millis(ms);
        let first = waited.read_if_due(at(10));
        assert_eq!(waited.read_if_due(at(19)), None);
        assert!(waited.read_if_due(at(20)) >= first);
    }
}
