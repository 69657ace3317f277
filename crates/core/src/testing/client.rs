//! Closed-loop clients: each keeps a number of requests in flight, and asks for the next place of
//! its pattern.

use super::{KIB, SECOND};
use crate::setters::setters;
use crate::{Contract, Flags, GroupId, Op, Priority, PriorityClass, ROOT, SpaceId};

/// Where a client reads or writes in its file, which is taken as pieces of the length of a request.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// One piece after the other.
    Sequential,
    /// Every `n`th piece: the others belong to other clients.
    Every(u64),
    /// Every `of`th piece until this many nanoseconds after the start, then any.
    EveryUntil {
        /// Pieces from one request to the next.
        of: u64,
        /// Nanoseconds after the start.
        until: u64,
    },
    /// One piece before the other, from the end of the file.
    Backwards,
    /// Any piece.
    Random,
    /// Every `of`th piece for `each` requests, then any for as many, and so on.
    Alternately {
        /// Pieces from one request to the next.
        of: u64,
        /// Requests of each kind in a row.
        each: u64,
    },
}

/// The behaviour of a client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The group of its stream.
    pub group: GroupId,
    /// The contract of a group of its own below that one, numbered as clients are, from one.
    pub contract: Option<Contract>,
    /// The space of its requests.
    pub space: SpaceId,
    /// The priority of its stream.
    pub priority: Priority,
    /// The operation of its requests.
    pub op: Op,
    /// The flags of its requests.
    pub flags: Flags,
    /// Every `n`th request has another operation and other flags.
    pub other: Option<(u64, Op, Flags)>,
    /// The order of its requests in its file.
    pub place: Place,
    /// The offset of its file; `None`: [`FILE`] bytes after that of the client before it.
    pub base: Option<u64>,
    /// Bytes in its file.
    pub file: u64,
    /// Bytes of a request.
    pub length: u32,
    /// Requests in flight.
    pub depth: u32,
    /// Nanoseconds from an answer to the next request.
    pub think: u64,
    /// Requests a second at most; zero: no limit.
    pub rate: u64,
    /// After this number of requests it rests for this many nanoseconds.
    pub rest: Option<(u64, u64)>,
    /// Nanoseconds after the start at which it begins.
    pub from: u64,
    /// Nanoseconds after the start at which it stops asking.
    pub until: u64,
}

/// Bytes from one client's file to the next.
pub const FILE: u64 = 256 << 20;

/// Reads 128 KiB at a time, one after the other, two in flight.
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
    place: Place::Sequential,
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

/// Reads 4 KiB at random, one in flight.
pub const RANDOM: Client = Client {
    place: Place::Random,
    length: 4 * KIB,
    depth: 1,
    ..STREAMER
};

setters! { Client:
    space: SpaceId, priority: Priority, op: Op, flags: Flags, place: Place, file: u64, length: u32,
    depth: u32, think: u64, rate: u64, from: u64, until: u64,
}

impl Client {
    /// The client in another group.
    pub const fn of(self, group: GroupId) -> Self {
        Self { group, ..self }
    }

    /// The client with the `n`th file.
    pub const fn nth(self, n: u64) -> Self {
        let base = Some(n * FILE);
        Self { base, ..self }
    }

    /// The client that has its file at this offset.
    pub const fn base(self, base: u64) -> Self {
        let base = Some(base);
        Self { base, ..self }
    }

    /// The client whose every `n`th request has another operation and flags.
    pub const fn other(self, other: (u64, Op, Flags)) -> Self {
        let other = Some(other);
        Self { other, ..self }
    }

    /// The client that rests for `time` nanoseconds after this number of requests.
    pub const fn rest(self, requests: u64, time: u64) -> Self {
        let rest = Some((requests, time));
        Self { rest, ..self }
    }

    /// The client with a group of its own.
    pub const fn with(self, contract: Contract) -> Self {
        let contract = Some(contract);
        Self { contract, ..self }
    }

    /// The client in another class of priority.
    pub const fn class(self, class: PriorityClass) -> Self {
        let level = self.priority.level;
        let priority = Priority { class, level };
        Self { priority, ..self }
    }

    /// The client at another level of its class of priority.
    pub const fn level(self, level: u8) -> Self {
        let class = self.priority.class;
        let priority = Priority { class, level };
        Self { priority, ..self }
    }

    /// Bytes a second that its own group is promised.
    pub fn promised(&self) -> u64 {
        self.contract.map_or(0, |contract| contract.min)
    }

    /// Operation, flags, offset in the file and length of request `n`, asked for at `now`.
    pub fn request(&self, n: u64, now: u64) -> (Op, Flags, u64, u32) {
        let (op, flags) = match self.other {
            Some((every, op, flags)) if n % every == every - 1 => (op, flags),
            _ => (self.op, self.flags),
        };
        if op == Op::Flush {
            return (op, flags, 0, 0);
        }
        let pieces = (self.file / u64::from(self.length)).max(1);
        let piece = match self.place {
            Place::Sequential => n,
            Place::Backwards => pieces - 1 - n % pieces,
            Place::Every(of) => n * of,
            Place::EveryUntil { of, until } if now < until => n * of,
            Place::Alternately { of, each } if (n / each).is_multiple_of(2) => n * of,
            // Not where its neighbours go, whose files may begin a piece later.
            Place::EveryUntil { .. } => scatter(n + self.base.unwrap_or(0)),
            Place::Alternately { .. } | Place::Random => scatter(n),
        };
        (
            op,
            flags,
            piece % pieces * u64::from(self.length),
            self.length,
        )
    }

    /// Nanoseconds after the start before which its rate does not allow request `n`.
    pub(super) fn due(&self, n: u64) -> u64 {
        (n * SECOND).checked_div(self.rate).unwrap_or(0)
    }
}

/// A number of 31 bits by Knuth's multiplier for linear congruences.
fn scatter(n: u64) -> u64 {
    (n + 1).wrapping_mul(6_364_136_223_846_793_005) >> 33
}
