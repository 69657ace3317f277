//! Requests and responses of Xen's block devices, in the format of a slot (`io/blkif.h`, 64-bit
//! layout).

use super::SLOT;

/// The maximum number of segments of a request, which are 11 pages or 44 KiB.
pub const MAX_SEGMENTS: usize = 11;
/// The length of a sector in bytes, in which positions and segments are counted.
pub const SECTOR: u32 = 512;
/// The number of sectors of a page.
pub const SECTORS_IN_PAGE: u8 = 8;

/// The operation that a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XenOperation {
    /// Reads into the segments.
    Read,
    /// Writes from the segments.
    Write,
    /// Writes after all earlier requests and before all later ones. Without segments, it only
    /// enforces that order.
    WriteBarrier,
    /// Puts earlier writes on stable storage. With segments, Linux's back end writes them after
    /// that.
    Flush,
    /// States that the range is no longer needed.
    Discard,
    /// Any other operation, with its number. Indirect segments (6) are not offered here.
    Unknown(u8),
}

impl XenOperation {
    /// Returns the operation with this number.
    pub const fn from_wire(number: u8) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::WriteBarrier,
            3 => Self::Flush,
            // Number 4 is reserved in `io/blkif.h`.
            5 => Self::Discard,
            other => Self::Unknown(other),
        }
    }

    /// Returns the number of the operation.
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

/// A range of sectors in a page that the guest has granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct XenSegment {
    /// The grant reference of the page.
    pub grant: u32,
    /// The first sector of the segment in the page.
    pub first: u8,
    /// The last sector of the segment, at least `first` and below [`SECTORS_IN_PAGE`].
    pub last: u8,
}

impl XenSegment {
    /// Returns the number of sectors of the segment.
    pub const fn sectors(&self) -> u32 {
        self.last as u32 - self.first as u32 + 1
    }
}

/// A request that obeys the ring's own rules. The caller must check that its range is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XenRequest {
    /// The operation that the request asks for.
    pub operation: XenOperation,
    /// The guest's number of the disk.
    pub handle: u16,
    /// The guest's identifier of the request, which the response repeats.
    pub id: u64,
    /// The position on the disk in sectors.
    pub sector: u64,
    /// The number of sectors of a discard, or 0 for all other operations.
    pub discarded: u64,
    /// True for a discard after which the old data must not be readable.
    pub secure: bool,
    segments: [XenSegment; MAX_SEGMENTS],
    used: u8,
}

impl XenRequest {
    /// Creates a request with segments.
    ///
    /// # Panics
    /// If there are more than [`MAX_SEGMENTS`].
    pub fn new(operation: XenOperation, id: u64, sector: u64, segments: &[XenSegment]) -> Self {
        let mut all = [XenSegment::default(); MAX_SEGMENTS];
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

    /// Creates a flush without segments.
    pub fn flush(id: u64) -> Self {
        Self::new(XenOperation::Flush, id, 0, &[])
    }

    /// Creates a discard of `sectors` sectors from `sector` on.
    pub fn discard(id: u64, sector: u64, sectors: u64) -> Self {
        Self {
            discarded: sectors,
            ..Self::new(XenOperation::Discard, id, sector, &[])
        }
    }

    /// Returns the segments of the request.
    pub fn segments(&self) -> &[XenSegment] {
        &self.segments[..usize::from(self.used)]
    }

    /// Returns the total number of sectors of the segments.
    pub fn sectors(&self) -> u32 {
        self.segments().iter().map(XenSegment::sectors).sum()
    }

    /// Encodes the request in the format of a slot.
    pub fn encode(&self) -> [u8; SLOT] {
        let mut out = [0; SLOT];
        out[0] = self.operation.to_wire();
        out[2..4].copy_from_slice(&self.handle.to_le_bytes());
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16..24].copy_from_slice(&self.sector.to_le_bytes());
        if self.operation == XenOperation::Discard {
            // A discard has another layout than the other operations (`struct
            // blkif_request_discard`).
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

    /// Decodes the request in a slot.
    ///
    /// # Errors
    /// Returns [`XenRequestError`] with the reason, and with the fields that a response needs.
    pub fn decode(bytes: &[u8; SLOT]) -> Result<Self, XenRequestError> {
        let operation = XenOperation::from_wire(bytes[0]);
        let id = le_u64(bytes, 8);
        let refused = |why| XenRequestError { operation, id, why };
        let mut request = Self::new(operation, id, le_u64(bytes, 16), &[]);
        request.handle = u16::from_le_bytes([bytes[2], bytes[3]]);
        match operation {
            XenOperation::Unknown(_) => return Err(refused(XenRefusal::UnknownOperation)),
            XenOperation::Discard => {
                // Bit 0 is `BLKIF_DISCARD_SECURE`.
                request.secure = bytes[1] & 1 != 0;
                request.discarded = le_u64(bytes, 24);
                return Ok(request);
            }
            _ => {}
        }
        let count = bytes[1];
        if usize::from(count) > MAX_SEGMENTS {
            return Err(refused(XenRefusal::TooManySegments { count }));
        }
        if count == 0 && matches!(operation, XenOperation::Read | XenOperation::Write) {
            return Err(refused(XenRefusal::NoSegments));
        }
        request.used = count;
        for (index, raw) in (0..count).zip(bytes[24..].chunks_exact(8)) {
            let (first, last) = (raw[4], raw[5]);
            if first > last || last >= SECTORS_IN_PAGE {
                return Err(refused(XenRefusal::BadSegment { index, first, last }));
            }
            let grant = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
            request.segments[usize::from(index)] = XenSegment { grant, first, last };
        }
        Ok(request)
    }
}

/// A request that cannot be executed, with the fields that its response needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XenRequestError {
    /// The operation that the request asked for.
    pub operation: XenOperation,
    /// The guest's identifier of the request.
    pub id: u64,
    /// The reason for the refusal.
    pub why: XenRefusal,
}

impl XenRequestError {
    /// Returns the response to the refused request.
    pub fn response(&self) -> Response {
        Response {
            id: self.id,
            operation: self.operation,
            status: match self.why {
                XenRefusal::UnknownOperation => XenStatus::NotSupported,
                _ => XenStatus::Error,
            },
        }
    }
}

/// The reason why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XenRefusal {
    /// The operation is not offered.
    UnknownOperation,
    /// A read or a write has no segments.
    NoSegments,
    /// The request has more segments than are permitted.
    TooManySegments {
        /// The number of segments in the request.
        count: u8,
    },
    /// A segment ends before it begins, or beyond its page.
    BadSegment {
        /// The index of the segment in the request.
        index: u8,
        /// The first sector of the segment.
        first: u8,
        /// The last sector of the segment.
        last: u8,
    },
}

impl std::fmt::Display for XenRequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.operation.to_wire();
        match self.why {
            XenRefusal::UnknownOperation => write!(f, "operation {number} is not offered"),
            XenRefusal::NoSegments => write!(f, "operation {number} has no segments"),
            XenRefusal::TooManySegments { count } => {
                write!(f, "{count} segments, more than {MAX_SEGMENTS}")
            }
            XenRefusal::BadSegment { index, first, last } => {
                write!(
                    f,
                    "segment {index} is sectors {first} to {last} of a page of {SECTORS_IN_PAGE}"
                )
            }
        }
    }
}

impl std::error::Error for XenRequestError {}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XenStatus {
    /// The request was executed successfully.
    Okay,
    /// The request failed with an error.
    Error,
    /// The operation is not offered.
    NotSupported,
    /// Any other status, with its number.
    Unknown(i16),
}

impl XenStatus {
    const fn from_wire(number: i16) -> Self {
        match number {
            // `BLKIF_RSP_OKAY`, `BLKIF_RSP_ERROR` and `BLKIF_RSP_EOPNOTSUPP`.
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

/// The response to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// The guest's identifier of the request.
    pub id: u64,
    /// The operation that the request asked for.
    pub operation: XenOperation,
    /// The result of the request.
    pub status: XenStatus,
}

impl Response {
    /// The length in bytes of a response in its slot.
    pub const LEN: usize = 16;

    /// Creates the response to `request`.
    pub const fn to(request: &XenRequest, status: XenStatus) -> Self {
        Self {
            id: request.id,
            operation: request.operation,
            status,
        }
    }

    /// Encodes the response in the format of a slot.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8] = self.operation.to_wire();
        out[10..12].copy_from_slice(&self.status.to_wire().to_le_bytes());
        out
    }

    /// Decodes the response in a slot.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            id: le_u64(bytes, 0),
            operation: XenOperation::from_wire(bytes[8]),
            status: XenStatus::from_wire(i16::from_le_bytes([bytes[10], bytes[11]])),
        }
    }
}

/// Returns the little-endian 64-bit number at `at`.
fn le_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
