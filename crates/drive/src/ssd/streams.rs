//! Which commands go on where another ended.

use alloc::vec::Vec;
use weir_core::Instant;

/// Streams told apart.
const STREAMS: usize = 32;

/// One stream: commands each of which begins where the one before ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Where the next command of the stream begins.
    next: u64,
    /// It has been read ahead up to here, and out of the flash by then.
    pub(super) ahead: u64,
    pub(super) ready: Instant,
    used: u64,
}

/// The streams seen last.
#[derive(Debug)]
pub(super) struct Streams {
    list: Vec<Stream>,
    clock: u64,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            list: Vec::with_capacity(STREAMS),
            clock: 0,
        }
    }

    /// A command came. Returns its stream and whether it goes on in it.
    pub(super) fn arrived(&mut self, start: u64, end: u64) -> (usize, bool) {
        self.clock += 1;
        let known = self.list.iter().position(|s| s.next == start);
        let at = known.unwrap_or_else(|| self.room());
        let stream = &mut self.list[at];
        if known.is_none() {
            (stream.ahead, stream.ready) = (0, Instant::ZERO);
        }
        (stream.next, stream.used) = (end, self.clock);
        (at, known.is_some())
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut Stream {
        &mut self.list[at]
    }

    /// A place for a new stream: a free one, or that of the one longest unused.
    fn room(&mut self) -> usize {
        if self.list.len() < STREAMS {
            self.list.push(Stream {
                next: 0,
                ahead: 0,
                ready: Instant::ZERO,
                used: 0,
            });
            return self.list.len() - 1;
        }
        let ages = self.list.iter().enumerate();
        ages.min_by_key(|(_, s)| s.used).map_or(0, |(at, _)| at)
    }
}
