//! A job on its way to a server: cut into parts, each of which is one request.

use std::ops::Range;

use weir_core::{Flags, Op, Tag};
use weir_uring::Buf;
use weir_wire::nbd::{Extent, ExtentFlags, TransmissionFlags};

use super::super::{Allocation, Data, Extents, Job};
use super::dial::Shape;
use super::wire::Found;

/// Most bytes that are zeroed, given back or looked up by one request.
const SPACE: u64 = 1 << 30;
/// Most bytes of zeroes that are written at a time.
const ZEROES: u64 = 128 << 10;

/// A job, and how far it is.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) tag: Tag,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) range: Range<u64>,
    pub(super) data: Data,
    /// What a look-up has found.
    extents: Option<Extents>,
    /// All before this was asked for; of a look-up, was found.
    pub(super) next: u64,
    /// Parts that are not over.
    pub(super) open: u32,
    /// It waits for memory.
    pub(super) hungry: bool,
    /// It holds a range, or waits for it.
    pub(super) locked: bool,
    pub(super) error: Option<u16>,
}

/// A part of a job.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) work: u32,
    /// Bytes of the volume that it is for; of a look-up, from what is told next to what was wanted first.
    pub(super) range: Range<u64>,
    /// Of blocks that are read to change a part of them: where they begin, and their memory.
    pub(super) patch: Option<(u64, Buf)>,
}

/// What to ask for next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// These blocks, of which the range is wanted.
    Read(Range<u64>, Range<u64>),
    /// A write of whole blocks.
    Write(Range<u64>),
    /// These blocks are read, and written with the range changed.
    Patch(Range<u64>, Range<u64>),
    /// Zeroing, or giving back.
    Space(Range<u64>),
    /// The extents of these blocks.
    LookUp(Range<u64>),
    Flush,
    Nothing,
}

impl Work {
    pub(super) fn new(job: Job) -> Self {
        let extents = (job.op == Op::Extents).then(|| job.extents());
        Self {
            tag: job.tag,
            op: job.op,
            flags: job.flags,
            // A flush is asked for once, too.
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

    /// The blocks that it changes.
    pub(super) fn blocks(&self, shape: &Shape) -> Range<u64> {
        widened(&self.range, shape)
    }

    /// Everything was asked for, or nothing more is.
    pub(super) fn is_asked(&self) -> bool {
        self.error.is_some() || self.next >= self.range.end
    }

    /// What is to be asked for next.
    pub(super) fn step(&self, shape: &Shape) -> Step {
        if self.op == Op::Flush {
            return Step::Flush;
        }
        let block = u64::from(shape.block);
        let has = |flag| shape.flags.contains(flag);
        let most = match self.op {
            Op::Discard if !has(TransmissionFlags::SEND_TRIM) => return Step::Nothing,
            Op::WriteZeroes if !has(TransmissionFlags::SEND_WRITE_ZEROES) => ZEROES.min(shape.part),
            Op::Read | Op::Write | Op::Flush => shape.part,
            Op::Discard | Op::WriteZeroes | Op::Extents => SPACE,
        };
        let first = self.next / block * block;
        let part = self.next..self.range.end.min(first + most);
        let blocks = widened(&part, shape);
        let inner = part.start.next_multiple_of(block)..part.end / block * block;
        match self.op {
            Op::Read => Step::Read(blocks, part),
            Op::Extents => Step::LookUp(blocks),
            Op::Discard if inner.is_empty() => Step::Nothing,
            Op::Discard => Step::Space(inner),
            Op::WriteZeroes if has(TransmissionFlags::SEND_WRITE_ZEROES) => {
                if inner.is_empty() {
                    Step::Patch(blocks, part)
                } else if inner.start > part.start {
                    Step::Patch(first..inner.start, part.start..inner.start)
                } else {
                    Step::Space(inner)
                }
            }
            Op::Write | Op::WriteZeroes if blocks == part => Step::Write(part),
            Op::Write | Op::WriteZeroes | Op::Flush => Step::Patch(blocks, part),
        }
    }

    /// Puts what it writes into memory that is written to from byte `first` of the volume on.
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

    /// Takes what the server has found of a part.
    pub(super) fn found(&mut self, part: &mut Part, found: Found<'_>) {
        match found {
            Found::Extent(extent) => self.extent(part, extent),
            Found::Data(at, bytes) => {
                if let Some((first, buf)) = &mut part.patch {
                    buf[(at - *first) as usize..][..bytes.len()].copy_from_slice(bytes);
                } else if let Some((at, from)) = within(at, bytes.len(), &part.range) {
                    let start = (at - self.range.start) as usize;
                    self.data.put(start, &bytes[from]);
                }
            }
            Found::Zeroes(at, length) => {
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

    fn extent(&mut self, part: &mut Part, extent: Extent) {
        let ends = part.range.start + u64::from(extent.length);
        // The first may begin before what was wanted, by less than a block.
        let known = ends
            .saturating_sub(self.next)
            .min(self.range.end - self.next);
        part.range.start = ends;
        let hole = extent.flags.contains(ExtentFlags::HOLE | ExtentFlags::ZERO);
        let allocation = if hole {
            Allocation::Hole
        } else {
            Allocation::Data
        };
        self.allocated(known, allocation);
    }

    /// The next `length` bytes of a look-up are this.
    pub(super) fn allocated(&mut self, length: u64, allocation: Allocation) {
        self.next = self.next.saturating_add(length);
        let extents = self.extents.as_mut();
        if !extents.is_some_and(|extents| extents.push(length, allocation)) {
            self.next = self.range.end;
        }
    }

    /// What it came with, or has found.
    pub(super) fn take_data(&mut self) -> Data {
        match self.extents.take() {
            Some(extents) if self.error.is_none() => Data::Extents(extents),
            _ => std::mem::take(&mut self.data),
        }
    }
}

/// A range in whole blocks.
fn widened(range: &Range<u64>, shape: &Shape) -> Range<u64> {
    let block = u64::from(shape.block);
    range.start / block * block..range.end.next_multiple_of(block)
}

/// What of `length` bytes from `at` on lies in a range: its beginning, and which of them.
fn within(at: u64, length: usize, range: &Range<u64>) -> Option<(u64, Range<usize>)> {
    let start = at.max(range.start);
    let end = (at + length as u64).min(range.end);
    (start < end).then(|| (start, (start - at) as usize..(end - at) as usize))
}
