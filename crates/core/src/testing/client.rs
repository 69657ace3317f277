//! Closed-loop clients: each keeps a number of requests in flight, and sends its next request after
//! a completion.

use super::{KIB, SECOND};
use crate::setters::setters;
use crate::{Contract, Flags, GroupId, Op, Priority, PriorityClass, ROOT, SpaceId};

/// The access pattern of a client in its file, which is divided into pieces of the length of a
/// request.
#[derive(Clone, Copy, Debug)]
pub enum AccessPattern {
    /// One piece after the other.
    Sequential,
    /// Every `n`th piece. The others can belong to other clients.
    Every(u64),
    /// Every `of`th piece until this many nanoseconds after the start, and random ones afterwards.
    EveryUntil {
        /// The distance between two requests in pieces.
        of: u64,
        /// Nanoseconds after the start.
        until: u64,
    },
    /// One piece before the other, from the end of the file.
    Backwards,
    /// Pieces in random order.
    Random,
    /// Every `of`th piece for `each` requests, then random ones for the same number of requests,
    /// and so on.
    Alternately {
        /// The distance between two requests in pieces.
        of: u64,
        /// The number of requests of each kind in a row.
        each: u64,
    },
}

/// The behaviour of a client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The group of its stream.
    pub group: GroupId,
    /// The contract of a group of the client's own, below `group`. Its number is that of the client
    /// plus one.
    pub contract: Option<Contract>,
    /// The space of its requests.
    pub space: SpaceId,
    /// The priority of its stream.
    pub priority: Priority,
    /// The operation of its requests.
    pub op: Op,
    /// The flags of its requests.
    pub flags: Flags,
    /// If set, every `n`th request has this operation and these flags.
    pub other: Option<(u64, Op, Flags)>,
    /// The order of its requests in its file.
    pub place: AccessPattern,
    /// The offset of its file. `None` places it [`FILE`] bytes after the file of the previous
    /// client.
    pub base: Option<u64>,
    /// Bytes in its file.
    pub file: u64,
    /// Bytes of a request.
    pub length: u32,
    /// The number of requests in flight.
    pub depth: u32,
    /// Nanoseconds from a completion to the next request.
    pub think: u64,
    /// The maximum number of requests per second. Zero means no limit.
    pub rate: u64,
    /// If set, the client rests after this number of requests for this many nanoseconds.
    pub rest: Option<(u64, u64)>,
    /// Nanoseconds after the start at which the client begins.
    pub from: u64,
    /// Nanoseconds after the start at which the client stops sending requests.
    pub until: u64,
}

/// Bytes from one client's file to the next.
pub const FILE: u64 = 256 << 20;

/// A client that reads 128 KiB at a time sequentially, with two requests in flight.
pub const STREAMER: Client = Client {
    group: ROOT,
    contract: None,
    space: SpaceId(0),
    priority: Priority {
        class: PriorityClass::BestEffort,
        level: 4,
    },
    op: Op::Read,
    flags: Flags::NONE,
    other: None,
    place: AccessPattern::Sequential,
    base: None,
    file: 8 << 30,
    length: 128 * KIB,
    depth: 2,
    think: 0,
    rate: 0,
    rest: None,
    from: 0,
    until: u64::MAX,
};

/// A client that reads 4 KiB at random offsets, with one request in flight.
pub const RANDOM: Client = Client {
    place: AccessPattern::Random,
    length: 4 * KIB,
    depth: 1,
    ..STREAMER
};

setters! { Client:
    space: SpaceId, priority: Priority, op: Op, flags: Flags, place: AccessPattern, file: u64, length: u32,
    depth: u32, think: u64, rate: u64, from: u64, until: u64,
}

impl Client {
    /// Returns the client in another group.
    pub const fn of(self, group: GroupId) -> Self {
        Self { group, ..self }
    }

    /// Returns the client with the `n`th file.
    pub const fn nth(self, n: u64) -> Self {
        let base = Some(n * FILE);
        Self { base, ..self }
    }

    /// Returns the client with its file at this offset.
    pub const fn base(self, base: u64) -> Self {
        let base = Some(base);
        Self { base, ..self }
    }

    /// Returns the client with another operation and flags for every `n`th request.
    pub const fn other(self, other: (u64, Op, Flags)) -> Self {
        let other = Some(other);
        Self { other, ..self }
    }

    /// Returns the client with a rest of `time` nanoseconds after this number of requests.
    pub const fn rest(self, requests: u64, time: u64) -> Self {
        let rest = Some((requests, time));
        Self { rest, ..self }
    }

    /// Returns the client with a group of its own.
    pub const fn with(self, contract: Contract) -> Self {
        let contract = Some(contract);
        Self { contract, ..self }
    }

    /// Returns the client in another priority class.
    pub const fn class(self, class: PriorityClass) -> Self {
        let level = self.priority.level;
        let priority = Priority { class, level };
        Self { priority, ..self }
    }

    /// Returns the client at another level of its priority class.
    pub const fn level(self, level: u8) -> Self {
        let class = self.priority.class;
        let priority = Priority { class, level };
        Self { priority, ..self }
    }

    /// Returns the bytes per second that the client's own group is promised.
    pub fn promised(&self) -> u64 {
        self.contract.map_or(0, |contract| contract.min)
    }

    /// Returns the operation, flags, offset in the file, and length of request `n`, which is sent
    /// at `now`.
    pub fn request(&self, n: u64, now: u64) -> (Op, Flags, u64, u32) {
        let (op, flags) = match self.other {
            // The last of each group of `every` requests differs.
            Some((every, op, flags)) if n % every == every - 1 => (op, flags),
            _ => (self.op, self.flags),
        };
        if op == Op::Flush {
            return (op, flags, 0, 0);
        }
        // At least one piece, so that a file that is shorter than a request is not divided by zero.
        let pieces = (self.file / u64::from(self.length)).max(1);
        let piece = match self.place {
            AccessPattern::Sequential => n,
            AccessPattern::Backwards => pieces - 1 - n % pieces,
            AccessPattern::Every(of) => n * of,
            AccessPattern::EveryUntil { of, until } if now < until => n * of,
            AccessPattern::Alternately { of, each } if (n / each).is_multiple_of(2) => n * of,
            // The base keeps clients with neighbouring files from choosing the same sequence of
            // pieces.
            AccessPattern::EveryUntil { .. } => scatter(n + self.base.unwrap_or(0)),
            AccessPattern::Alternately { .. } | AccessPattern::Random => scatter(n),
        };
        (
            op,
            flags,
            piece % pieces * u64::from(self.length),
            self.length,
        )
    }

    /// Returns the nanoseconds after the start before which the client's rate does not allow
    /// request `n`.
    pub(super) fn due(&self, n: u64) -> u64 {
        (n * SECOND).checked_div(self.rate).unwrap_or(0)
    }
}

/// Returns a pseudo-random number of 31 bits, by Knuth's multiplier for linear congruential
/// generators.
fn scatter(n: u64) -> u64 {
    (n + 1).wrapping_mul(6_364_136_223_846_793_005) >> 33
}
