//! The state of a job on its way through a disk, and the steps of read-modify-write.

use std::ops::Range;

use weir_core::{Flags, Op, Tag};

use super::super::{BackendJob, Data, Extents};

/// The maximum number of bytes of one patch.
pub(super) const CHUNK: u64 = 128 << 10;

/// A job with its progress.
#[derive(Debug)]
pub(super) struct DiskWork {
    pub(super) tag: Tag,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) range: Range<u64>,
    /// The job's memory, which is absent while the ring uses it.
    pub(super) data: Data,
    /// True if the job has requested a lock on its range.
    pub(super) locked: bool,
    pub(super) phase: WorkPhase,
    /// The parts that are still to be patched, in order. Empty parts are skipped.
    pub(super) rest: [Range<u64>; 2],
}

/// The event that a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WorkPhase {
    /// A lock on its range, or its first step.
    Start,
    /// The ring, which uses the job's own buffers. `start` and `end` are the limits of the windows
    /// before they were widened.
    Direct { start: usize, end: usize },
    /// The ring, which uses a buffer with the blocks of a patch.
    Patch { patch: Patch, step: PatchStep },
    /// A worker, which discards, zeroes, or looks up extents.
    Space,
    /// The completion of fdatasync(2).
    Sync,
}

/// Whole blocks of which a part changes: the bytes `start` to `end` in the blocks from `first` to
/// `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Patch {
    pub(super) first: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) last: u64,
}

/// The step of a patch that is in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PatchStep {
    /// Reads the first block.
    Head,
    /// Reads the last block.
    Tail,
    /// Writes all blocks.
    Write,
    /// Reads all blocks without changing them. This step belongs to a read with more buffers than
    /// one operation of the ring takes.
    Fetch,
}

impl DiskWork {
    pub(super) fn new(job: BackendJob) -> Self {
        Self {
            tag: job.tag,
            op: job.op,
            flags: job.flags,
            range: job.offset..job.offset + u64::from(job.length),
            data: job.data,
            locked: false,
            phase: WorkPhase::Start,
            rest: [0..0, 0..0],
        }
    }

    /// Returns true if the job changes data on the medium.
    pub(super) fn changes(&self) -> bool {
        !matches!(self.op, Op::Read | Op::Flush | Op::Extents)
    }

    /// Returns the empty result of a look-up of extents.
    pub(super) fn extents(&self) -> Extents {
        let length = (self.range.end - self.range.start) as u32;
        Extents::new(length, self.flags.has(Flags::FIRST_ONLY))
    }

    /// Returns true if the job completes only when its effect is durable.
    pub(super) fn syncs(&self) -> bool {
        self.op == Op::Flush || (self.flags.has(Flags::FUA) && !self.op.is_read())
    }

    /// Returns the next patch, with at most `most` bytes but at least one block of `align` bytes.
    pub(super) fn patch(&self, align: u64, most: u64) -> Option<Patch> {
        let part = self.rest.iter().find(|part| !part.is_empty())?;
        let first = part.start / align * align;
        // Each patch except the last ends at a block limit, so that the next one does not read the
        // same block again.
        let end = part.end.min(first + most.max(align) / align * align);
        Some(Patch {
            first,
            start: part.start,
            end,
            last: end.next_multiple_of(align),
        })
    }

    /// Copies the data that were read from a patch's blocks into the job's buffers.
    pub(super) fn fetched(&mut self, patch: &Patch, blocks: &[u8]) {
        let lead = (patch.start - patch.first) as usize;
        let from = &blocks[lead..][..(patch.end - patch.start) as usize];
        let start = (patch.start - self.range.start) as usize;
        self.data.put(start, from);
    }

    /// Removes a completed patch from the remaining parts.
    pub(super) fn patched(&mut self, patch: &Patch) {
        if let Some(part) = self.rest.iter_mut().find(|part| !part.is_empty()) {
            part.start = patch.end;
        }
    }

    /// Copies the job's data, or zeroes, into a buffer with a patch's blocks.
    pub(super) fn fill(&self, patch: &Patch, blocks: &mut [u8]) {
        let lead = (patch.start - patch.first) as usize;
        let into = &mut blocks[lead..][..(patch.end - patch.start) as usize];
        if self.op != Op::Write {
            into.fill(0);
            return;
        }
        let start = (patch.start - self.range.start) as usize;
        self.data.get(start, into);
    }
}

impl Patch {
    /// Returns the first step: reading a block that changes in part, or else writing.
    pub(super) fn begin(&self, align: u64) -> PatchStep {
        // Within a single block, one read covers the bytes before and after the range.
        let one = self.last - self.first == align;
        if self.start > self.first || (one && self.end < self.last) {
            PatchStep::Head
        } else {
            self.after_head(align)
        }
    }

    /// Returns the step after the first block was read.
    pub(super) fn after_head(&self, align: u64) -> PatchStep {
        let one = self.last - self.first == align;
        if self.end < self.last && !one {
            PatchStep::Tail
        } else {
            PatchStep::Write
        }
    }

    /// Returns the range of the buffer that a step uses.
    pub(super) fn window(&self, step: PatchStep, align: u64) -> Range<usize> {
        let bytes = (self.last - self.first) as usize;
        match step {
            PatchStep::Head => 0..align as usize,
            PatchStep::Tail => bytes - align as usize..bytes,
            PatchStep::Write | PatchStep::Fetch => 0..bytes,
        }
    }
}

/// Widens the windows of a read to whole blocks of `align` bytes. Returns their previous start and
/// end.
pub(super) fn widen(data: &mut Data, align: usize) -> (usize, usize) {
    let bufs = data.targets();
    let start = bufs.first().map_or(0, |first| first.window().start);
    let end = bufs.last().map_or(0, |last| last.window().end);
    set_windows(data, 0, end.next_multiple_of(align));
    (start, end)
}

/// Sets the start of a read's first window and the end of its last.
pub(super) fn set_windows(data: &mut Data, start: usize, end: usize) {
    let bufs = data.targets();
    if let Some(last) = bufs.last_mut() {
        last.set_window(last.window().start..end);
    }
    if let Some(first) = bufs.first_mut() {
        first.set_window(start..first.window().end);
    }
}

/// Returns true if a write's memory can be passed to the medium directly. Each buffer must consist
/// of whole blocks and be aligned in memory.
pub(super) fn is_direct(data: &Data, align: usize, memory: usize) -> bool {
    let fits = |bytes: &[u8]| {
        bytes.as_ptr().addr().is_multiple_of(memory) && bytes.len().is_multiple_of(align)
    };
    match data {
        Data::Write(buf) => fits(buf),
        Data::WriteMany(segments) => {
            segments.len() <= weir_uring::MAX_PIECES && segments.iter().all(|s| fits(s))
        }
        // The shard submits only aligned slices (`Data::Guest`).
        Data::Guest(_) => true,
        Data::None | Data::Read(_) | Data::ReadMany(_) | Data::Extents(_) => false,
    }
}

/// Converts the memory that a ring returns to the memory of a job.
pub(super) fn restored(payload: weir_uring::Payload) -> Data {
    match payload {
        weir_uring::Payload::None => Data::None,
        weir_uring::Payload::Buf(buf) => Data::Read(buf),
        weir_uring::Payload::Bufs(bufs) => Data::ReadMany(bufs),
        weir_uring::Payload::Shared(buf) => Data::Write(buf),
        weir_uring::Payload::Segments(segments) => Data::WriteMany(segments),
        weir_uring::Payload::Guest(slices) => Data::Guest(slices),
    }
}

#[cfg(test)]
mod tests {
    use super::PatchStep::{Fetch, Head, Tail, Write};
    use super::*;

    fn steps(start: u64, end: u64) -> Vec<PatchStep> {
        let patch = Patch {
            first: start / 512 * 512,
            start,
            end,
            last: end.next_multiple_of(512),
        };
        let mut steps = vec![patch.begin(512)];
        while let Some(step) = steps.last().copied().filter(|s| *s != Write) {
            steps.push(match step {
                Head => patch.after_head(512),
                Tail | Write | Fetch => Write,
            });
        }
        steps
    }

    #[test]
    fn a_patch_reads_only_the_blocks_it_changes_in_part() {
        // Blocks of 512 bytes. `Head` and `Tail` read a block of which a part stays.
        assert_eq!(steps(0, 512), [Write]);
        assert_eq!(steps(0, 1536), [Write]);
        assert_eq!(steps(1, 512), [Head, Write]);
        assert_eq!(steps(0, 511), [Head, Write]);
        assert_eq!(steps(100, 200), [Head, Write]);
        assert_eq!(steps(100, 600), [Head, Tail, Write]);
        assert_eq!(steps(512, 1500), [Tail, Write]);
    }
}
