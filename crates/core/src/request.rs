//! What clients ask for, what goes to the drive, and what comes back.

use crate::id::{QueueId, SpaceId, StreamId, Tag};
use crate::setters::setters;
use crate::time::{Instant, Span};
use core::ops::{AddAssign, Sub};

/// The driver's own name for a request. The core never looks into it; unique per stream while the request lives if the driver
/// wants to [`cancel`](crate::Layer::cancel) by it.
pub type Cookie = u64;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Transfers bytes from the drive.
    Read = 0,
    /// Transfers bytes to the drive.
    Write = 1,
    /// Makes every write completed before it durable. Offset and length are zero.
    Flush = 2,
    /// Says that a range is no longer needed.
    Discard = 3,
    /// Makes a range read as zeroes.
    WriteZeroes = 4,
    /// Looks up which parts of a range hold data, and moves none of it. How long the range is says nothing about the work: a driver
    /// may pass its first sector and keep the rest to itself.
    Extents = 5,
}

impl Op {
    /// All operations, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Extents,
    ];

    /// True for what counts against read limits; everything else counts against write limits.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Extents)
    }

    /// True for what moves bytes over the drive's link.
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Bytes that an operation of `length` bytes moves over the drive's link: all of a read or a write, none of any other.
    pub const fn transfer(self, length: u64) -> u64 {
        if self.moves_data() { length } else { 0 }
    }

    /// Bytes that an operation of `length` bytes counts as in limits, shares and promises: a read, a write and zeroing count as what
    /// they cover, a discard and a look-up of extents as 512, a flush as none (each also counts as one request).
    pub const fn charge(self, length: u64) -> u64 {
        match self {
            Self::Read | Self::Write | Self::WriteZeroes => length,
            Self::Discard | Self::Extents => 512,
            Self::Flush => 0,
        }
    }
}

/// Properties of a request beside its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// None of them: an asynchronous request.
    pub const NONE: Self = Self(0);
    /// Somebody waits for it. Reads always count as synchronous.
    pub const SYNC: Self = Self(1);
    /// File-system metadata.
    pub const META: Self = Self(2);
    /// Force unit access: done only when durable.
    pub const FUA: Self = Self(4);
    /// For write-zeroes: the range must stay allocated.
    pub const NO_HOLE: Self = Self(8);
    /// For write-zeroes: fail rather than be slower than a discard.
    pub const FAST_ZERO: Self = Self(16);
    /// For extents: only the first is wanted.
    pub const FIRST_ONLY: Self = Self(32);

    const KNOWN: u8 = 63;

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if every flag of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags as bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags of `bits`; unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::KNOWN)
    }
}

/// A request as a client makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The stream that asks.
    pub stream: StreamId,
    /// The address space it is in.
    pub space: SpaceId,
    /// What it does.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// First byte.
    pub offset: u64,
    /// Bytes; zero only for [`Op::Flush`].
    pub length: u32,
    /// The driver's name for it.
    pub cookie: Cookie,
    /// Where in the request that its client sent this one begins, in bytes: zero unless the driver split that request before it
    /// submitted the parts. Limits on requests count the client's request, not its parts.
    pub within: u32,
}

setters! { Request:
    stream: StreamId, space: SpaceId, op: Op, flags: Flags, offset: u64, length: u32, cookie: Cookie,
    within: u32,
}

impl Request {
    /// True if somebody waits for it: reads, and what carries [`Flags::SYNC`] (as Linux's `op_is_sync`).
    pub const fn is_sync(&self) -> bool {
        self.op.is_read() || self.flags.has(Flags::SYNC)
    }

    /// Where it ends: the first byte behind it.
    pub(crate) const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// True if the drive may answer it before its work is done: what writes, unless it has to be on stable storage first.
    pub(crate) const fn may_be_cached(&self) -> bool {
        !self.op.is_read() && !self.flags.has(Flags::FUA)
    }

    /// True if it may be one command with its neighbours (Linux: `bio_mergeable`, `rq_mergeable`).
    pub(crate) const fn is_mergeable(&self) -> bool {
        matches!(self.op, Op::Read | Op::Write | Op::Discard) && !self.flags.has(Flags::FUA)
    }

    /// How many requests a max counts it as, if every `size` bytes count as one; zero: every request that a client sent counts as one,
    /// however long it is. The parts of a request that the driver split add up to the number of the whole request.
    pub fn operations(&self, size: u64) -> u64 {
        let up_to = |bytes: u64| match size {
            0 => u64::from(bytes > 0),
            size => bytes.div_ceil(size),
        };
        let begins = u64::from(self.within);
        let all = up_to(begins + self.charge());
        match self.within {
            0 => all.max(1),
            _ => all.saturating_sub(up_to(begins)),
        }
    }

    /// Bytes it counts as: the [charge](Op::charge) of its operation.
    pub const fn charge(&self) -> u64 {
        self.op.charge(self.length as u64)
    }
}

/// How something ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Outcome {
    /// As asked.
    Ok,
    /// The drive failed it; the code is the driver's (an errno).
    Error(u16),
    /// Given up before it reached the drive.
    Cancelled,
}

/// Why a request was not accepted. Nothing was charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reject {
    /// The layer is full. The stream is owed an [`Output::Resume`](crate::Output::Resume); submit again then.
    Full,
    /// The stream has as many live requests as it may have. It has been told to pause; submit again when it resumes.
    StreamFull,
    /// The stream is not open (any more).
    UnknownStream,
    /// The space does not exist.
    UnknownSpace,
    /// The range is not inside the space.
    OutOfRange,
    /// A length of zero where bytes are needed, or a flush with a range.
    BadLength,
}

/// A piece of a request for the drive to carry out now. The driver answers with one [`Completion`] for its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Hardware queue.
    pub queue: QueueId,
    /// Place in it; unique among what is in flight.
    pub tag: Tag,
    /// Whose request.
    pub stream: StreamId,
    /// The request's cookie.
    pub cookie: Cookie,
    /// Address space.
    pub space: SpaceId,
    /// Operation.
    pub op: Op,
    /// The request's flags.
    pub flags: Flags,
    /// First byte of the piece in its space.
    pub offset: u64,
    /// Bytes of the piece.
    pub length: u32,
    /// Where in the request the piece begins: zero unless the request was split.
    pub within: u32,
}

impl Dispatch {
    /// A whole request without flags, in the first space, of the first stream, under the first tag of the first queue.
    pub const fn new(op: Op, offset: u64, length: u32) -> Self {
        Self {
            queue: QueueId(0),
            tag: Tag(0),
            stream: StreamId::from_bits(0),
            cookie: 0,
            space: SpaceId(0),
            op,
            flags: Flags::NONE,
            offset,
            length,
            within: 0,
        }
    }
}

/// A tag came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The tag of the [`Dispatch`].
    pub tag: Tag,
    /// `None`: the drive's queue was busy, nothing was done, dispatch it again. Otherwise how the piece ended.
    pub outcome: Option<Outcome>,
}

impl Completion {
    /// The piece was carried out.
    pub const fn ok(tag: Tag) -> Self {
        Self {
            tag,
            outcome: Some(Outcome::Ok),
        }
    }

    /// The drive failed the piece.
    pub const fn error(tag: Tag, code: u16) -> Self {
        Self {
            tag,
            outcome: Some(Outcome::Error(code)),
        }
    }

    /// The drive's queue was full.
    pub const fn busy(tag: Tag) -> Self {
        Self { tag, outcome: None }
    }
}

/// Where a request's time went. The three add up to its whole time in the layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Held back by a controller, or because its client was on hold.
    pub limit: Span,
    /// Waiting in the elevator (and for a tag, or for its space while that stalled) until the drive
    /// got its first piece.
    pub elevator: Span,
    /// From the first piece's dispatch to the last one's completion.
    pub drive: Span,
}

impl Waits {
    /// The whole time of the request in the layer.
    pub fn total(&self) -> Span {
        self.limit + self.elevator + self.drive
    }

    /// The part of the waits that lies in their last `length`: they follow one another in the order of the fields.
    #[must_use]
    pub fn last(&self, length: Span) -> Self {
        let mut left = length;
        let mut part = |wait: Span| {
            let part = wait.min(left);
            left = left - part;
            part
        };
        let (drive, elevator) = (part(self.drive), part(self.elevator));
        Self {
            limit: part(self.limit),
            elevator,
            drive,
        }
    }
}

impl AddAssign for Waits {
    fn add_assign(&mut self, more: Self) {
        self.limit += more.limit;
        self.elevator += more.elevator;
        self.drive += more.drive;
    }
}

impl Sub for Waits {
    type Output = Self;
    fn sub(self, part: Self) -> Self {
        Self {
            limit: self.limit - part.limit,
            elevator: self.elevator - part.elevator,
            drive: self.drive - part.drive,
        }
    }
}

/// A request is over. Every accepted request ends in exactly one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Whose.
    pub stream: StreamId,
    /// Its cookie.
    pub cookie: Cookie,
    /// What it did.
    pub op: Op,
    /// Its length in bytes.
    pub length: u32,
    /// How it ended; of several failed pieces, the first to fail.
    pub outcome: Outcome,
    /// When it was submitted.
    pub submitted: Instant,
    /// Where its time went.
    pub waits: Waits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_the_known_ones_of_their_bits() {
        for bits in 0..=u8::MAX {
            assert_eq!(Flags::from_bits(bits).bits(), bits & Flags::KNOWN);
        }
        assert!(!Flags::from_bits(Flags::FUA.bits()).has(Flags::SYNC));
    }
}
