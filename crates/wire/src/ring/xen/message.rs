//! Requests and responses of Xen's block devices, as bytes of a slot.

use super::SLOT;

/// How many segments a request has at most: 11 pages, 44 KiB.
pub const MAX_SEGMENTS: usize = 11;
/// How long a sector is in bytes: what positions and segments count in.
pub const SECTOR: u32 = 512;
/// How many sectors a page has.
pub const SECTORS_IN_PAGE: u8 = 8;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Read into the segments.
    Read,
    /// Write from the segments.
    Write,
    /// Write after everything before it, and before everything after; without segments, only keep that order.
    WriteBarrier,
    /// Put what was written on stable storage; with segments, after writing them.
    Flush,
    /// The range is no longer needed.
    Discard,
    /// None of these: the number. Segments in pages of their own (6) are not offered here.
    Unknown(u8),
}

impl Operation {
    /// The operation of this number.
    pub const fn from_wire(number: u8) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::WriteBarrier,
            3 => Self::Flush,
            5 => Self::Discard,
            other => Self::Unknown(other),
        }
    }

    /// Its number.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::WriteBarrier => 2,
            Self::Flush => 3,
            Self::Discard => 5,
            Self::Unknown(other) => other,
        }
    }
}

/// A part of a page that the guest has granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Segment {
    /// The grant of the page.
    pub grant: u32,
    /// Its first sector in the page.
    pub first: u8,
    /// Its last, not below `first` and below [`SECTORS_IN_PAGE`].
    pub last: u8,
}

impl Segment {
    /// How many sectors it has.
    pub const fn sectors(&self) -> u32 {
        self.last as u32 - self.first as u32 + 1
    }
}

/// A request, well formed: the ring's own rules hold. Whether the range is on the disk is for the caller to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What it asks for.
    pub operation: Operation,
    /// Which disk, as the guest numbers them.
    pub handle: u16,
    /// The guest's name for it; the response carries the same.
    pub id: u64,
    /// Where it starts, in sectors.
    pub sector: u64,
    /// How many sectors a discard covers; 0 for all others.
    pub discarded: u64,
    /// A discard that must leave nothing to be read.
    pub secure: bool,
    segments: [Segment; MAX_SEGMENTS],
    used: u8,
}

impl Request {
    /// A request with segments.
    ///
    /// # Panics
    /// If there are more than [`MAX_SEGMENTS`].
    pub fn new(operation: Operation, id: u64, sector: u64, segments: &[Segment]) -> Self {
        let mut all = [Segment::default(); MAX_SEGMENTS];
        all[..segments.len()].copy_from_slice(segments);
        Self {
            operation,
            handle: 0,
            id,
            sector,
            discarded: 0,
            secure: false,
            segments: all,
            used: segments.len() as u8,
        }
    }

    /// A flush.
    pub fn flush(id: u64) -> Self {
        Self::new(Operation::Flush, id, 0, &[])
    }

    /// A discard of `sectors` sectors from `sector` on.
    pub fn discard(id: u64, sector: u64, sectors: u64) -> Self {
        Self {
            discarded: sectors,
            ..Self::new(Operation::Discard, id, sector, &[])
        }
    }

    /// Its segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..usize::from(self.used)]
    }

    /// How many sectors its segments have together.
    pub fn sectors(&self) -> u32 {
        self.segments().iter().map(Segment::sectors).sum()
    }

    /// Its bytes in a slot.
    pub fn encode(&self) -> [u8; SLOT] {
        let mut out = [0; SLOT];
        out[0] = self.operation.to_wire();
        out[2..4].copy_from_slice(&self.handle.to_le_bytes());
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16..24].copy_from_slice(&self.sector.to_le_bytes());
        if self.operation == Operation::Discard {
            out[1] = u8::from(self.secure);
            out[24..32].copy_from_slice(&self.discarded.to_le_bytes());
            return out;
        }
        out[1] = self.used;
        for (segment, out) in self.segments().iter().zip(out[24..].chunks_exact_mut(8)) {
            out[..4].copy_from_slice(&segment.grant.to_le_bytes());
            out[4..6].copy_from_slice(&[segment.first, segment.last]);
        }
        out
    }

    /// The request in a slot's bytes.
    ///
    /// # Errors
    /// [`Refused`] with what is wrong and what a response needs.
    pub fn decode(bytes: &[u8; SLOT]) -> Result<Self, Refused> {
        let operation = Operation::from_wire(bytes[0]);
        let id = le_u64(bytes, 8);
        let refused = |why| Refused { operation, id, why };
        let mut request = Self::new(operation, id, le_u64(bytes, 16), &[]);
        request.handle = u16::from_le_bytes([bytes[2], bytes[3]]);
        match operation {
            Operation::Unknown(_) => return Err(refused(Refusal::UnknownOperation)),
            Operation::Discard => {
                request.secure = bytes[1] & 1 != 0;
                request.discarded = le_u64(bytes, 24);
                return Ok(request);
            }
            _ => {}
        }
        let count = bytes[1];
        if usize::from(count) > MAX_SEGMENTS {
            return Err(refused(Refusal::TooManySegments { count }));
        }
        if count == 0 && matches!(operation, Operation::Read | Operation::Write) {
            return Err(refused(Refusal::NoSegments));
        }
        request.used = count;
        for (index, raw) in (0..count).zip(bytes[24..].chunks_exact(8)) {
            let (first, last) = (raw[4], raw[5]);
            if first > last || last >= SECTORS_IN_PAGE {
                return Err(refused(Refusal::BadSegment { index, first, last }));
            }
            let grant = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
            request.segments[usize::from(index)] = Segment { grant, first, last };
        }
        Ok(request)
    }
}

/// A request that cannot be carried out, and what its response needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// What it asked for.
    pub operation: Operation,
    /// The guest's name for it.
    pub id: u64,
    /// What is wrong with it.
    pub why: Refusal,
}

impl Refused {
    /// The response it gets.
    pub fn response(&self) -> Response {
        Response {
            id: self.id,
            operation: self.operation,
            status: match self.why {
                Refusal::UnknownOperation => Status::NotSupported,
                _ => Status::Error,
            },
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// An operation that is not offered.
    UnknownOperation,
    /// A read or write of nothing.
    NoSegments,
    /// More segments than a request can have.
    TooManySegments {
        /// How many it says.
        count: u8,
    },
    /// A segment that ends before it begins or beyond its page.
    BadSegment {
        /// Which.
        index: u8,
        /// Its first sector.
        first: u8,
        /// Its last sector.
        last: u8,
    },
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.operation.to_wire();
        match self.why {
            Refusal::UnknownOperation => write!(f, "operation {number} is not offered"),
            Refusal::NoSegments => write!(f, "operation {number} has no segments"),
            Refusal::TooManySegments { count } => {
                write!(f, "{count} segments, more than {MAX_SEGMENTS}")
            }
            Refusal::BadSegment { index, first, last } => {
                write!(
                    f,
                    "segment {index} is sectors {first} to {last} of a page of {SECTORS_IN_PAGE}"
                )
            }
        }
    }
}

impl std::error::Error for Refused {}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// Done.
    Okay,
    /// Failed.
    Error,
    /// Not offered.
    NotSupported,
    /// None of these: the number.
    Unknown(i16),
}

impl Status {
    const fn from_wire(number: i16) -> Self {
        match number {
            0 => Self::Okay,
            -1 => Self::Error,
            -2 => Self::NotSupported,
            other => Self::Unknown(other),
        }
    }

    const fn to_wire(self) -> i16 {
        match self {
            Self::Okay => 0,
            Self::Error => -1,
            Self::NotSupported => -2,
            Self::Unknown(other) => other,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// The guest's name for the request.
    pub id: u64,
    /// What was asked for.
    pub operation: Operation,
    /// How it ended.
    pub status: Status,
}

impl Response {
    /// How many bytes of a slot it takes.
    pub const LEN: usize = 16;

    /// The answer to `request`.
    pub const fn to(request: &Request, status: Status) -> Self {
        Self {
            id: request.id,
            operation: request.operation,
            status,
        }
    }

    /// Its bytes in a slot.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8] = self.operation.to_wire();
        out[10..12].copy_from_slice(&self.status.to_wire().to_le_bytes());
        out
    }

    /// The response in a slot's bytes.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            id: le_u64(bytes, 0),
            operation: Operation::from_wire(bytes[8]),
            status: Status::from_wire(i16::from_le_bytes([bytes[10], bytes[11]])),
        }
    }
}

/// The 64-bit number at `at`.
fn le_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
