//! The state of a job on its way to a remote server. It is cut into parts, each of which is one
//! request.

use std::ops::Range;

use weir_core::{Flags, Op, Tag};
use weir_uring::Buf;
use weir_wire::nbd::{Extent, ExtentFlags, TransmissionFlags};

use super::super::{Allocation, BackendJob, Data, Extents};
use super::dial::ExportShape;
use super::wire::ReplyContent;

/// The maximum number of bytes that one request zeroes, discards or looks up.
const SPACE: u64 = 1 << 30;
/// The maximum number of bytes of zeroes that one request writes as data.
const ZEROES: u64 = 128 << 10;

/// A job with its progress.
#[derive(Debug)]
pub(super) struct RemoteWork {
    pub(super) tag: Tag,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) range: Range<u64>,
    pub(super) data: Data,
    /// The extents that a look-up has found.
    extents: Option<Extents>,
    /// The end of the range that was requested so far. For a look-up, the end of the range whose
    /// extents were found.
    pub(super) next: u64,
    /// The number of parts that have not ended.
    pub(super) open: u32,
    /// True while the job waits for memory.
    pub(super) hungry: bool,
    /// True if the job holds or awaits a range lock.
    pub(super) locked: bool,
    pub(super) error: Option<u16>,
}

/// A part of a job, which is one request (or two for a patch).
#[derive(Debug)]
pub(super) struct JobPart {
    pub(super) work: u32,
    /// The bytes of the volume that the part covers. For a look-up, it extends from the start of
    /// the next extent to the start of the range that was wanted first.
    pub(super) range: Range<u64>,
    /// The start and the memory of the blocks that are read in order to change a part of them.
    pub(super) patch: Option<(u64, Buf)>,
}

/// The next request of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RequestStep {
    /// Reads the first range, which consists of whole blocks. The second range is wanted.
    Read(Range<u64>, Range<u64>),
    /// Writes whole blocks.
    Write(Range<u64>),
    /// Reads the first range, which consists of whole blocks, changes the second range in memory,
    /// and writes the blocks back.
    Patch(Range<u64>, Range<u64>),
    /// Zeroes or discards a range.
    Space(Range<u64>),
    /// Looks up the extents of whole blocks.
    LookUp(Range<u64>),
    Flush,
    Nothing,
}

impl RemoteWork {
    pub(super) fn new(job: BackendJob) -> Self {
        let extents = (job.op == Op::Extents).then(|| job.extents());
        Self {
            tag: job.tag,
            op: job.op,
            flags: job.flags,
            // A flush has no length. With one byte, it is requested once, as other jobs are.
            range: job.offset..job.offset + u64::from(job.length.max(1)),
            data: job.data,
            extents,
            next: job.offset,
            open: 0,
            hungry: false,
            locked: false,
            error: None,
        }
    }

    pub(super) fn changes(&self) -> bool {
        matches!(self.op, Op::Write | Op::Discard | Op::WriteZeroes)
    }

    /// Returns the blocks that the job changes.
    pub(super) fn blocks(&self, shape: &ExportShape) -> Range<u64> {
        widened(&self.range, shape)
    }

    /// Returns true if no more parts will be requested, because all were or because one failed.
    pub(super) fn is_asked(&self) -> bool {
        self.error.is_some() || self.next >= self.range.end
    }

    /// Returns the next request.
    pub(super) fn step(&self, shape: &ExportShape) -> RequestStep {
        if self.op == Op::Flush {
            return RequestStep::Flush;
        }
        let block = u64::from(shape.block);
        let has = |flag| shape.flags.contains(flag);
        let most = match self.op {
            // A server without TRIM ignores a discard, which is a hint.
            Op::Discard if !has(TransmissionFlags::SEND_TRIM) => return RequestStep::Nothing,
            // A server without WRITE_ZEROES gets zeroes as data.
            Op::WriteZeroes if !has(TransmissionFlags::SEND_WRITE_ZEROES) => ZEROES.min(shape.part),
            Op::Read | Op::Write | Op::Flush => shape.part,
            Op::Discard | Op::WriteZeroes | Op::Extents => SPACE,
        };
        let first = self.next / block * block;
        let part = self.next..self.range.end.min(first + most);
        let blocks = widened(&part, shape);
        let inner = part.start.next_multiple_of(block)..part.end / block * block;
        match self.op {
            Op::Read => RequestStep::Read(blocks, part),
            Op::Extents => RequestStep::LookUp(blocks),
            Op::Discard if inner.is_empty() => RequestStep::Nothing,
            Op::Discard => RequestStep::Space(inner),
            Op::WriteZeroes if has(TransmissionFlags::SEND_WRITE_ZEROES) => {
                // NBD has no request that zeroes parts of blocks. These are written as data, at the
                // start of the range and at its end.
                if inner.is_empty() {
                    RequestStep::Patch(blocks, part)
                } else if inner.start > part.start {
                    RequestStep::Patch(first..inner.start, part.start..inner.start)
                } else {
                    RequestStep::Space(inner)
                }
            }
            Op::Write | Op::WriteZeroes if blocks == part => RequestStep::Write(part),
            Op::Write | Op::WriteZeroes | Op::Flush => RequestStep::Patch(blocks, part),
        }
    }

    /// Copies the job's data, or zeroes, into memory whose first byte is byte `first` of the
    /// volume.
    pub(super) fn fill(&self, range: &Range<u64>, first: u64, into: &mut [u8]) {
        let lead = (range.start - first) as usize;
        let into = &mut into[lead..][..(range.end - range.start) as usize];
        match self.op {
            Op::Write => self
                .data
                .get((range.start - self.range.start) as usize, into),
            _ => into.fill(0),
        }
    }

    /// Processes data or extents that the server has sent for a part.
    pub(super) fn found(&mut self, part: &mut JobPart, found: ReplyContent<'_>) {
        match found {
            ReplyContent::Extent(extent) => self.extent(part, extent),
            ReplyContent::Data(at, bytes) => {
                if let Some((first, buf)) = &mut part.patch {
                    buf[(at - *first) as usize..][..bytes.len()].copy_from_slice(bytes);
                } else if let Some((at, from)) = within(at, bytes.len(), &part.range) {
                    let start = (at - self.range.start) as usize;
                    self.data.put(start, &bytes[from]);
                }
            }
            ReplyContent::Zeroes(at, length) => {
                let length = length as usize;
                if let Some((first, buf)) = &mut part.patch {
                    buf[(at - *first) as usize..][..length].fill(0);
                } else if let Some((at, from)) = within(at, length, &part.range) {
                    let start = (at - self.range.start) as usize;
                    let end = start + from.len();
                    self.data.each_target(|at, bytes| {
                        let (a, b) = (at.max(start), (at + bytes.len()).min(end));
                        if a < b {
                            bytes[a - at..b - at].fill(0);
                        }
                    });
                }
            }
        }
    }

    fn extent(&mut self, part: &mut JobPart, extent: Extent) {
        let ends = part.range.start + u64::from(extent.length);
        // The first extent can begin before the wanted range, by less than a block.
        let known = ends
            .saturating_sub(self.next)
            .min(self.range.end - self.next);
        part.range.start = ends;
        // Only a hole that reads as zeroes counts as a hole. NBD also permits holes with undefined
        // content.
        let hole = extent.flags.contains(ExtentFlags::HOLE | ExtentFlags::ZERO);
        let allocation = if hole {
            Allocation::Hole
        } else {
            Allocation::Data
        };
        self.allocated(known, allocation);
    }

    /// Appends the next `length` bytes of a look-up with this allocation.
    pub(super) fn allocated(&mut self, length: u64, allocation: Allocation) {
        self.next = self.next.saturating_add(length);
        let extents = self.extents.as_mut();
        if !extents.is_some_and(|extents| extents.push(length, allocation)) {
            // The list is full, so nothing more is requested.
            self.next = self.range.end;
        }
    }

    /// Takes the job's memory, or the extents that were found.
    pub(super) fn take_data(&mut self) -> Data {
        match self.extents.take() {
            Some(extents) if self.error.is_none() => Data::Extents(extents),
            _ => std::mem::take(&mut self.data),
        }
    }
}

/// Extends a range to whole blocks.
fn widened(range: &Range<u64>, shape: &ExportShape) -> Range<u64> {
    let block = u64::from(shape.block);
    range.start / block * block..range.end.next_multiple_of(block)
}

/// Returns the part of `length` bytes from `at` on that is in `range`: its start, and the indices
/// of its bytes.
fn within(at: u64, length: usize, range: &Range<u64>) -> Option<(u64, Range<usize>)> {
    let start = at.max(range.start);
    let end = (at + length as u64).min(range.end);
    (start < end).then(|| (start, (start - at) as usize..(end - at) as usize))
}
