//! The detection of sequential streams.

use weir_core::Instant;

/// The number of streams that a drive tracks.
const STREAMS: usize = 32;

/// A sequential stream, in which each command begins where the previous one ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequentialStream {
    /// The offset of the stream's next command.
    next: u64,
    /// The offset that read-ahead has reached. Its data have left the flash by `ready`.
    pub(super) ahead: u64,
    pub(super) ready: Instant,
    used: u64,
}

/// The most recently used streams of a drive.
#[derive(Debug)]
pub(super) struct Streams {
    list: Vec<SequentialStream>,
    clock: u64,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            list: Vec::with_capacity(STREAMS),
            clock: 0,
        }
    }

    /// Assigns a command to a stream. Returns the index of the stream, and true if the command
    /// continues it.
    pub(super) fn assign(&mut self, start: u64, end: u64) -> (usize, bool) {
        self.clock += 1;
        let known = self.list.iter().position(|s| s.next == start);
        let at = known.unwrap_or_else(|| self.slot_for_new_stream());
        let stream = &mut self.list[at];
        if known.is_none() {
            (stream.ahead, stream.ready) = (0, Instant::ZERO);
        }
        (stream.next, stream.used) = (end, self.clock);
        (at, known.is_some())
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut SequentialStream {
        &mut self.list[at]
    }

    /// The index for a new stream: a free one, or that of the least recently used stream.
    fn slot_for_new_stream(&mut self) -> usize {
        if self.list.len() < STREAMS {
            self.list.push(SequentialStream {
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
