//! Clients: each keeps a stated number of requests in flight, thinks after an answer, and asks for the next place of its pattern.

use weir_core::{Flags, GroupId, Op, Priority, ROOT};

/// Where a client reads or writes.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// One request after the other.
    Sequential,
    /// The same, but only every `n`th piece of the file: the others are somebody else's.
    Every(u64),
    /// One request before the other, from the end of the file.
    Backwards,
    /// Anywhere in its file.
    Random,
    /// `Every(of)` for `each` requests, then `Random` for as many, and so on.
    Alternately { of: u64, each: u64 },
}

/// What a client does.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) group: GroupId,
    pub(crate) priority: Priority,
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    pub(crate) place: Place,
    /// Where its file begins; the file is 256 MiB.
    pub(crate) base: u64,
    pub(crate) length: u32,
    /// Requests in flight.
    pub(crate) depth: u32,
    /// Microseconds between an answer and the next request.
    pub(crate) think: u64,
    /// Milliseconds after which it begins, and after which it asks for nothing more.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// Every `n`th request is a flush. 0: none is.
    pub flush_every: u64,
}

const FILE: u64 = 256 << 20;

/// Reads its file from the start, 64 KiB at a time, one request after the other.
pub(crate) const READER: Client = Client {
    group: ROOT,
    priority: Priority {
        class: weir_core::PriorityClass::BestEffort,
        level: 4,
    },
    op: Op::Read,
    flags: Flags::NONE,
    place: Place::Sequential,
    base: 0,
    length: 64 << 10,
    depth: 1,
    think: 20,
    from: 0,
    until: u64::MAX,
    flush_every: 0,
};

/// Reads 4 KiB anywhere, one request after the other.
pub(crate) const RANDOM: Client = Client {
    place: Place::Random,
    length: 4 << 10,
    ..READER
};

/// Writes much at a time and waits for nothing.
pub(crate) const WRITER: Client = Client {
    op: Op::Write,
    length: 256 << 10,
    depth: 16,
    think: 0,
    ..READER
};

impl Client {
    /// The same in `group`, with the `n`th file.
    pub(crate) const fn of(self, group: GroupId, n: u64) -> Self {
        Self {
            group,
            base: n * FILE,
            ..self
        }
    }

    /// Operation, offset and length of its request number `n`.
    pub(crate) fn request(&self, n: u64) -> (Op, u64, u32) {
        if self.flush_every > 0 && n % self.flush_every == self.flush_every - 1 {
            return (Op::Flush, 0, 0);
        }
        let pieces = FILE / u64::from(self.length);
        // Knuth's multiplier for linear congruences, and its upper bits.
        let random = (n + 1).wrapping_mul(6_364_136_223_846_793_005) >> 33;
        let piece = match self.place {
            Place::Sequential => n,
            Place::Backwards => pieces - 1 - n % pieces,
            Place::Every(of) => n * of,
            Place::Alternately { of, each } if (n / each).is_multiple_of(2) => n * of,
            Place::Alternately { .. } | Place::Random => random,
        };
        let offset = self.base + piece % pieces * u64::from(self.length);
        (self.op, offset, self.length)
    }
}
