//! Requests of clients, pieces for the drive, and completions.

use crate::id::{QueueId, SpaceId, StreamId, Tag};
use crate::setters::setters;
use crate::time::{Instant, Span};
use core::ops::{AddAssign, Sub};

/// The driver's name for a request, which the core returns unchanged. It must be unique among the
/// live requests of a stream if the driver calls [`cancel`](crate::Layer::cancel) with it.
pub type Cookie = u64;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Transfers bytes from the drive.
    Read = 0,
    /// Transfers bytes to the drive.
    Write = 1,
    /// Makes every write completed before it durable. Offset and length are zero.
    Flush = 2,
    /// Tells the drive that a range is no longer needed.
    Discard = 3,
    /// Makes a range read as zeroes.
    WriteZeroes = 4,
    /// Looks up which parts of a range hold data, without transferring any. The length of the range
    /// does not indicate the amount of work, so a driver may pass only the first sector and
    /// remember the rest itself.
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

    /// Returns true if the operation counts against read limits. All others count against write
    /// limits.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Extents)
    }

    /// Returns true if the operation moves bytes over the drive's link.
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Returns the bytes that an operation of `length` bytes moves over the drive's link: all of a
    /// read or a write, and none of any other.
    pub const fn transfer(self, length: u64) -> u64 {
        if self.moves_data() { length } else { 0 }
    }

    /// Returns the bytes that an operation of `length` bytes counts as in limits, shares and
    /// promises.
    ///
    /// Reads, writes and zeroing count with their full length, a discard and a look-up of extents
    /// as 512 bytes, and a flush as none. Each operation also counts as one request.
    pub const fn charge(self, length: u64) -> u64 {
        match self {
            Self::Read | Self::Write | Self::WriteZeroes => length,
            // A discard and a look-up transfer no data, so the length of their range does not
            // indicate their work. One sector is charged.
            Self::Discard | Self::Extents => 512,
            // A flush has no length. It counts as one request only.
            Self::Flush => 0,
        }
    }
}

/// Properties of a request in addition to its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag: an asynchronous request.
    pub const NONE: Self = Self(0);
    /// The issuer waits for the request. Reads always count as synchronous.
    pub const SYNC: Self = Self(1);
    /// The request accesses file-system metadata.
    pub const META: Self = Self(2);
    /// Force unit access: the request completes only when its data is durable.
    pub const FUA: Self = Self(4);
    /// For write-zeroes: the range must stay allocated.
    pub const NO_HOLE: Self = Self(8);
    /// For write-zeroes: the request must fail quickly if it would not be faster than a write.
    pub const FAST_ZERO: Self = Self(16);
    /// For extents: only the first extent is needed.
    pub const FIRST_ONLY: Self = Self(32);

    // The union of the six flags above.
    const KNOWN: u8 = 63;

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if every flag of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags as bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the flags of `bits`. Unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::KNOWN)
    }
}

/// A request as a client sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The stream that sends the request.
    pub stream: StreamId,
    /// The address space of the range.
    pub space: SpaceId,
    /// The operation to carry out.
    pub op: Op,
    /// The flags of the request.
    pub flags: Flags,
    /// The first byte of the range in its space.
    pub offset: u64,
    /// The length in bytes. It is zero only for [`Op::Flush`].
    pub length: u32,
    /// The driver's name for the request.
    pub cookie: Cookie,
    /// The offset of this request in the request that the client sent, in bytes. It is zero unless
    /// the driver split the client's request before it submitted the parts. Limits on requests
    /// count the client's request, not the parts.
    pub within: u32,
}

setters! { Request:
    stream: StreamId, space: SpaceId, op: Op, flags: Flags, offset: u64, length: u32, cookie: Cookie,
    within: u32,
}

impl Request {
    /// Returns true if the issuer waits for the request, as it does for reads and for requests with
    /// [`Flags::SYNC`] (Linux: `op_is_sync`).
    pub const fn is_sync(&self) -> bool {
        self.op.is_read() || self.flags.has(Flags::SYNC)
    }

    /// Returns the first byte after the range.
    pub(crate) const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// Returns true if the drive may complete the request before its work is done. That applies to
    /// every operation that writes, unless it must be on stable storage first.
    pub(crate) const fn may_be_cached(&self) -> bool {
        !self.op.is_read() && !self.flags.has(Flags::FUA)
    }

    /// Returns true if the request may be joined with its neighbours into one command (Linux:
    /// `bio_mergeable`, `rq_mergeable`).
    pub(crate) const fn is_mergeable(&self) -> bool {
        // Linux does not merge requests with `REQ_FUA` or `REQ_PREFLUSH` either
        // (`REQ_NOMERGE_FLAGS`).
        matches!(self.op, Op::Read | Op::Write | Op::Discard) && !self.flags.has(Flags::FUA)
    }

    /// Returns the number of requests that a max counts this request as.
    ///
    /// If `size` is not zero, every `size` bytes count as one request. If it is zero, every request
    /// that a client sent counts as one, regardless of its length. The parts of a request that the
    /// driver split add up to the number for the whole request.
    pub fn operations(&self, size: u64) -> u64 {
        let up_to = |bytes: u64| match size {
            0 => u64::from(bytes > 0),
            size => bytes.div_ceil(size),
        };
        let begins = u64::from(self.within);
        let all = up_to(begins + self.charge());
        // The difference of two running totals, so that the parts of a split request add up to the
        // count of the whole request, without rounding each part up. The first part counts at least
        // one, because a flush has no bytes.
        match self.within {
            0 => all.max(1),
            _ => all.saturating_sub(up_to(begins)),
        }
    }

    /// Returns the bytes that the request counts as: the [charge](Op::charge) of its operation.
    pub const fn charge(&self) -> u64 {
        self.op.charge(self.length as u64)
    }
}

/// The result of a request or a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Outcome {
    /// The operation succeeded.
    Ok,
    /// The drive failed the operation. The code is the driver's (an errno).
    Error(u16),
    /// The request was given up before all of it had been sent to the drive.
    Cancelled,
}

/// The reason why a request was refused. A refused request is not charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reject {
    /// The layer is full. The stream receives an [`Output::Resume`](crate::Output::Resume) when
    /// there is room again. The driver should submit the request again then.
    Full,
    /// The stream has as many live requests as it may have, and its driver was told to pause it.
    /// The driver should submit the request again when the stream resumes.
    StreamFull,
    /// The stream is not open, or no longer open.
    UnknownStream,
    /// The space does not exist.
    UnknownSpace,
    /// The range is not completely inside the space.
    OutOfRange,
    /// The length is zero although the operation needs bytes, or a flush has a range.
    BadLength,
}

/// A piece of a request that the driver must send to the drive now. The driver reports its end with
/// one [`Completion`] for its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// The hardware queue of the piece.
    pub queue: QueueId,
    /// The place in the hardware queue, which is unique among all pieces in flight.
    pub tag: Tag,
    /// The stream that sent the request.
    pub stream: StreamId,
    /// The driver's name for the request.
    pub cookie: Cookie,
    /// The address space of the range.
    pub space: SpaceId,
    /// The operation to carry out.
    pub op: Op,
    /// The flags of the request.
    pub flags: Flags,
    /// The first byte of the piece in its space.
    pub offset: u64,
    /// The length of the piece in bytes.
    pub length: u32,
    /// The offset of the piece in the request. It is zero unless the request was split.
    pub within: u32,
}

impl Dispatch {
    /// Returns a whole request without flags, in the first space, of the first stream, with the
    /// first tag of the first queue.
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

/// A report of the driver that a piece ended, or could not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The tag of the [`Dispatch`].
    pub tag: Tag,
    /// The result of the piece. `None` means that the drive's queue was busy, that nothing was
    /// done, and that the piece must be dispatched again.
    pub outcome: Option<Outcome>,
}

impl Completion {
    /// Returns the completion of a piece that succeeded.
    pub const fn ok(tag: Tag) -> Self {
        Self {
            tag,
            outcome: Some(Outcome::Ok),
        }
    }

    /// Returns the completion of a piece that the drive failed.
    pub const fn error(tag: Tag, code: u16) -> Self {
        Self {
            tag,
            outcome: Some(Outcome::Error(code)),
        }
    }

    /// Returns the report that the drive's queue was full.
    pub const fn busy(tag: Tag) -> Self {
        Self { tag, outcome: None }
    }
}

/// The division of a request's time among the places where it was spent. The three parts add up to
/// its whole time in the layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// The time for which a controller throttled the request, or its stream was on hold.
    pub limit: Span,
    /// The time in the elevator until the drive got the first piece, including the waits for a tag
    /// and for a stalled space.
    pub elevator: Span,
    /// The time from the dispatch of the first piece to the completion of the last one.
    pub drive: Span,
}

impl Waits {
    /// Returns the whole time of the request in the layer.
    pub fn total(&self) -> Span {
        self.limit + self.elevator + self.drive
    }

    /// Returns the part of the waits that falls into their last `length`. The waits follow one
    /// another in the order of the fields.
    #[must_use]
    pub fn last(&self, length: Span) -> Self {
        // The drive's time is the last one, so `length` is filled from the drive backwards.
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

/// The report that a request is over. Every accepted request ends in exactly one `Done`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The stream that sent the request.
    pub stream: StreamId,
    /// The driver's name for the request.
    pub cookie: Cookie,
    /// The operation of the request.
    pub op: Op,
    /// The length of the request in bytes.
    pub length: u32,
    /// The result of the request. If several pieces failed, it is the result of the first to fail.
    pub outcome: Outcome,
    /// The time of the submission.
    pub submitted: Instant,
    /// The division of the request's time.
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
