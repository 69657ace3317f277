//! For how long this thread was ready to run and had no processor, as the kernel counts it.

use std::fs::File;
use std::os::fd::AsFd;

use weir_core::{Instant, Span};

/// How often the kernel is asked.
const EVERY: Span = Span::from_millis(10);

/// The kernel's count of the calling thread.
#[derive(Debug)]
pub(super) struct Waited {
    /// Linux: `/proc/thread-self/schedstat`. `None` where there is none.
    file: Option<File>,
    asked: Instant,
}

impl Waited {
    /// Of the calling thread.
    pub(super) fn new() -> Self {
        Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            asked: Instant::ZERO,
        }
    }

    /// Nanoseconds so far, if they have not just been asked for.
    pub(super) fn look(&mut self, now: Instant) -> Option<u64> {
        if now.since(self.asked) < EVERY {
            return None;
        }
        self.asked = now;
        self.total()
    }

    /// Nanoseconds so far, by the kernel.
    pub(super) fn total(&self) -> Option<u64> {
        let mut text = [0; 64];
        let read = rustix::io::pread(self.file.as_ref()?.as_fd(), &mut text, 0).ok()?;
        parse(&text[..read])
    }
}

/// The second figure of three.
fn parse(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_wait() {
        assert_eq!(parse(b"1234 567 8\n"), Some(567));
        assert_eq!(parse(b"1234\n"), None);
        assert_eq!(parse(b"1234 x 8\n"), None);
    }

    #[test]
    fn the_kernel_is_asked_now_and_then() {
        let mut waited = Waited::new();
        let at = |ms: u64| Instant::ZERO + Span::from_millis(ms);
        let first = waited.look(at(10));
        assert_eq!(waited.look(at(19)), None);
        assert!(waited.look(at(20)) >= first);
    }
}
