//! Detection of sequential streams.

use weir_core::Instant;

/// Number of streams that are tracked.
const STREAMS: usize = 32;

/// A sequential stream: each command begins where the previous one ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Offset of the stream's next command.
    next: u64,
    /// Read-ahead has reached this offset; the data has left the flash by `ready`.
    pub(super) ahead: u64,
    pub(super) ready: Instant,
    used: u64,
}

/// The most recently used streams.
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

    /// Assigns a command to a stream. Returns the stream and whether the command continues it.
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

    /// The slot for a new stream: a free one, or the least recently used.
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
