//! A volume in memory. Chunks are allocated by the first write, and freed by a trim or by zeroing.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SeekFrom};
use rustix::io::Errno;
use weir_config::units::ByteSize;
use weir_core::Op;
use weir_uring::{GuestSlice, RingCompletion};

use crate::errno::ENOSPC;

use super::{Allocation, Backend, BackendJob, Context, Data, Extents, Prepare, Traits};

/// The size of a chunk in bytes, which is the unit of allocation, of freeing, and of extents.
const CHUNK: usize = 64 << 10;
/// The number of bytes that the table needs for each chunk, allocated or not.
const TABLE: u64 = size_of::<Option<Box<[u8]>>>() as u64;
static ZEROES: [u8; CHUNK] = [0; CHUNK];
/// The number of bytes that checking a chunk counts as in the budget.
const LOOK: u64 = 64;
/// The maximum number of chunks that one look-up of extents checks. NBD permits a reply that covers
/// only the beginning of the range. A look-up of 4 GiB would occupy the shard for 165 µs, and this
/// limit for 10 µs.
const LOOKS: usize = 4096;

/// The content of a volume in memory, which exists as long as the server. Memory is not stable
/// storage, and clients know this, so that a flush has nothing to do.
#[derive(Debug)]
pub struct Memory {
    size: u64,
    read_only: bool,
    chunks: Vec<Option<Box<[u8]>>>,
    /// The number of allocated chunks.
    allocated: u64,
    /// Allocates a chunk of zeroes, or returns `None` if there is no memory. Tests replace this
    /// function.
    fresh: fn() -> Option<Box<[u8]>>,
}

/// Checks whether a volume of this size is possible on this machine.
///
/// Allocating the table of chunks of an impossible size would end the process instead of returning
/// an error. Only the table counts, because the chunks themselves are allocated when they are
/// written, and a write without memory fails. This is no promise that the memory is free: several
/// volumes and a limit of the process can still exceed it.
///
/// # Errors
/// Fails if the table of chunks alone exceeds the machine's memory and swap space.
pub(super) fn check_size(size: u64) -> io::Result<()> {
    let memory = rustix::system::sysinfo();
    let all = (memory.totalram as u64)
        .saturating_add(memory.totalswap as u64)
        .saturating_mul(memory.mem_unit.into());
    let table = size.div_ceil(CHUNK as u64).saturating_mul(TABLE);
    if table < all {
        return Ok(());
    }
    let what = format!(
        "not enough memory: a volume of {} needs {} for its table alone, and the machine has {}; reduce `size`",
        ByteSize(size),
        ByteSize(table),
        ByteSize(all)
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, what))
}

/// The progress of a call: the completed bytes of the job, and the bytes of memory that were
/// touched.
#[derive(Clone, Copy, Default, Debug)]
struct JobProgress {
    done: u32,
    touched: u64,
}

/// A volume in memory that is being served.
#[derive(Debug)]
struct MemoryBackend {
    memory: Memory,
    /// The deferred jobs, in their order.
    jobs: VecDeque<BackendJob>,
    /// The number of completed bytes of the first deferred job.
    done: u32,
}

impl Memory {
    /// Creates a volume of `size` bytes that reads as zeroes. It takes 16 bytes of memory for every
    /// 64 KiB at once, and the rest as it is written to.
    pub fn new(size: u64, read_only: bool) -> Self {
        let count = size.div_ceil(CHUNK as u64) as usize;
        Self {
            size,
            read_only,
            chunks: std::iter::repeat_with(|| None).take(count).collect(),
            allocated: 0,
            fresh,
        }
    }

    /// Allocates the chunks for a write to the range. Returns false if there is not enough memory.
    /// The write must not be carried out then.
    fn make_room(&mut self, offset: u64, length: u64) -> bool {
        parts(offset, length).all(|(chunk, _)| {
            let slot = &mut self.chunks[chunk];
            if slot.is_none() {
                *slot = (self.fresh)();
                self.allocated += u64::from(slot.is_some());
            }
            slot.is_some()
        })
    }

    /// Changes the size to `size` bytes, which must not be smaller. The added space reads as
    /// zeroes.
    pub(super) fn grow(&mut self, size: u64) {
        self.size = size;
        let count = size.div_ceil(CHUNK as u64) as usize;
        self.chunks.resize_with(count, || None);
    }

    /// Copies the bytes from `offset` on to `into`. The range must be within the volume.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let mut done = 0;
        for (chunk, range) in parts(offset, into.len() as u64) {
            let part = &mut into[done..done + range.len()];
            done += range.len();
            match &self.chunks[chunk] {
                Some(bytes) => part.copy_from_slice(&bytes[range]),
                None => part.fill(0),
            }
        }
    }

    /// Copies `from` into the volume from `offset` on, except for chunks that cannot be allocated.
    /// The range must be within the volume.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        self.make_room(offset, from.len() as u64);
        let mut done = 0;
        for (chunk, range) in parts(offset, from.len() as u64) {
            let part = &from[done..done + range.len()];
            done += range.len();
            if let Some(bytes) = &mut self.chunks[chunk] {
                bytes[range].copy_from_slice(part);
            }
        }
    }

    /// Copies the allocated chunks to a file in memory, each to its offset. The other chunks are
    /// holes of the file. A chunk of zeroes is written as well, so that it stays allocated.
    pub(crate) fn save(&self) -> io::Result<Option<File>> {
        if self.allocated == 0 {
            return Ok(None);
        }
        let file = rustix::fs::memfd_create("weir-memory", MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        for (chunk, bytes) in (0..).zip(&self.chunks) {
            if let Some(bytes) = bytes {
                file.write_all_at(bytes, chunk * CHUNK as u64)?;
            }
        }
        Ok(Some(file))
    }

    /// Copies the data of a file that [`Self::save`] returned. Pages of the file can be larger than
    /// a chunk, so that holes next to data may become chunks of zeroes.
    fn restore(&mut self, content: &File) -> io::Result<()> {
        let mut at = 0;
        while let Some(data) = found(content, SeekFrom::Data(at))? {
            // The end of the file counts as a hole.
            let end = found(content, SeekFrom::Hole(data))?.unwrap_or(data);
            for chunk in data / CHUNK as u64..end.div_ceil(CHUNK as u64) {
                let slot = self.chunks.get_mut(chunk as usize);
                let slot = slot.ok_or(io::ErrorKind::InvalidData)?;
                let mut bytes = (self.fresh)().ok_or(io::ErrorKind::OutOfMemory)?;
                read_up_to(content, &mut bytes, chunk * CHUNK as u64)?;
                self.allocated += u64::from(slot.is_none());
                *slot = Some(bytes);
            }
            at = end.max(data + 1);
        }
        Ok(())
    }

    /// Copies the data of a read into the guest's memory.
    fn read_guest(&self, job: &BackendJob) {
        for_guest(job, |slice, done, chunk, range| match &self.chunks[chunk] {
            Some(bytes) => slice.copy_from(done, &bytes[range]),
            None => slice.copy_from(done, &ZEROES[range]),
        });
    }

    /// Copies the data of a write from the guest's memory.
    fn write_guest(&mut self, job: &BackendJob) {
        for_guest(job, |slice, done, chunk, range| {
            if let Some(bytes) = &mut self.chunks[chunk] {
                slice.copy_to(done, &mut bytes[range]);
            }
        });
    }

    /// Zeroes the range until about `most` bytes of memory have been touched. Returns the progress.
    /// Whole chunks are freed, unless `keep` forbids holes. Existing holes stay holes even then,
    /// because memory that has not been written cannot be guaranteed anyway.
    fn zero(&mut self, offset: u64, length: u32, keep: bool, most: u64) -> JobProgress {
        let mut progress = JobProgress::default();
        for (chunk, range) in parts(offset, u64::from(length)) {
            // The rest follows in a later turn, so that a zeroing of 64 MiB lets other clients in
            // between (docs/decisions/bounded-turns.md).
            if progress.touched >= most {
                break;
            }
            progress.done += range.len() as u32;
            let slot = &mut self.chunks[chunk];
            progress.touched += match slot {
                Some(_) if range.len() == CHUNK && !keep => {
                    *slot = None;
                    self.allocated -= 1;
                    CHUNK as u64
                }
                Some(bytes) => {
                    bytes[range.clone()].fill(0);
                    range.len() as u64
                }
                None => LOOK,
            };
        }
        progress
    }

    /// Returns the extents of a look-up, and the number of bytes of memory that it touched.
    fn extents(&self, job: &BackendJob) -> (Extents, u64) {
        let mut extents = job.extents();
        let mut touched = 0;
        for (chunk, range) in parts(job.offset, u64::from(job.length)).take(LOOKS) {
            touched += LOOK;
            let allocation = match self.chunks[chunk] {
                Some(_) => Allocation::Data,
                None => Allocation::Hole,
            };
            if !extents.push(range.len() as u64, allocation) {
                break;
            }
        }
        (extents, touched)
    }

    /// Continues a job from byte `done` on, until about `most` bytes of memory have been touched. A
    /// read or write is a single piece, which the drive's `max_transfer` limits, and is done at
    /// once. Zeroing can cover 64 MiB and is done in parts.
    fn advance(&mut self, job: &mut BackendJob, done: u32, most: u64) -> JobProgress {
        let offset = job.offset;
        let keep = match job.op {
            Op::Read if matches!(job.data, Data::Guest(_)) => {
                self.read_guest(job);
                return JobProgress::whole(job);
            }
            Op::Write if matches!(job.data, Data::Guest(_)) => {
                self.write_guest(job);
                return JobProgress::whole(job);
            }
            Op::Read => {
                let read = |at, bytes: &mut [u8]| self.read(offset + at as u64, bytes);
                job.data.each_target(read);
                return JobProgress::whole(job);
            }
            Op::Write => {
                let write = |at, bytes: &[u8]| self.write(offset + at as u64, bytes);
                job.data.each_source(write);
                return JobProgress::whole(job);
            }
            Op::Flush => return JobProgress::whole(job),
            Op::Extents => {
                let (extents, touched) = self.extents(job);
                job.data = Data::Extents(extents);
                return JobProgress {
                    done: job.length,
                    touched,
                };
            }
            Op::Discard => false,
            Op::WriteZeroes => job.flags.has(weir_core::Flags::NO_HOLE),
        };
        self.zero(offset + u64::from(done), job.length - done, keep, most)
    }
}

impl JobProgress {
    fn whole(job: &BackendJob) -> Self {
        Self {
            done: job.length,
            touched: u64::from(job.length),
        }
    }
}

impl Prepare for Memory {
    fn size(&self) -> u64 {
        self.size
    }

    fn traits(&self) -> Traits {
        Traits {
            guest: true,
            align: 1,
            preferred: 4096,
            read_only: self.read_only,
            trim: true,
            fast_zero: true,
            allocation: true,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(MemoryBackend {
            memory: *self,
            jobs: VecDeque::new(),
            done: 0,
        }))
    }
}

impl MemoryBackend {
    /// Carries out a job from byte `done` on. If the job must be deferred, returns it together with
    /// its progress.
    fn carry_out(
        &mut self,
        mut job: BackendJob,
        mut done: u32,
        cx: &mut Context<'_>,
    ) -> Option<(BackendJob, u32)> {
        loop {
            if cx.budget() == 0 {
                return Some((job, done));
            }
            // Space for the whole write is allocated first, so that a write that fails has changed
            // nothing.
            if job.op == Op::Write && !self.memory.make_room(job.offset, job.length.into()) {
                cx.finish(job.tag, Err(ENOSPC), Data::None);
                return None;
            }
            let progress = self.memory.advance(&mut job, done, cx.budget());
            done += progress.done;
            cx.touched(progress.touched);
            if done == job.length {
                break;
            }
        }
        let data = match job.data {
            found @ (Data::Read(_) | Data::ReadMany(_) | Data::Extents(_)) => found,
            Data::None | Data::Write(_) | Data::WriteMany(_) | Data::Guest(_) => Data::None,
        };
        cx.finish(job.tag, Ok(()), data);
        None
    }
}

impl Backend for MemoryBackend {
    fn submit(&mut self, job: BackendJob, cx: &mut Context<'_>) {
        // Jobs are carried out in their order, so that a new one waits after those that are
        // deferred.
        if self.jobs.is_empty() {
            let Some((job, done)) = self.carry_out(job, 0, cx) else {
                return;
            };
            self.done = done;
            self.jobs.push_back(job);
        } else {
            self.jobs.push_back(job);
        }
        cx.defer();
    }

    fn resume_deferred(&mut self, cx: &mut Context<'_>) {
        while let Some(job) = self.jobs.pop_front() {
            let done = std::mem::take(&mut self.done);
            if let Some((job, done)) = self.carry_out(job, done, cx) {
                self.jobs.push_front(job);
                self.done = done;
                return cx.defer();
            }
        }
    }

    fn size(&self, wanted: Option<u64>) -> io::Result<u64> {
        let size = wanted.unwrap_or(self.memory.size);
        check_size(size)?;
        Ok(size)
    }

    fn resize(&mut self, size: u64) {
        self.memory.grow(size);
    }

    fn completed(&mut self, _op: u32, _completion: RingCompletion, _cx: &mut Context<'_>) {}

    fn memory(&self) -> u64 {
        self.memory.allocated * CHUNK as u64
    }

    fn save(&self) -> io::Result<Option<File>> {
        self.memory.save()
    }

    fn restore(&mut self, content: &File) -> io::Result<()> {
        self.memory.restore(content)
    }
}

/// Returns the offset of the next data or hole of a file, or `None` after the last.
fn found(file: &File, from: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, from) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads from a file up to its end. The rest of `into` stays as it is.
fn read_up_to(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        let read = file.read_at(into, at)?;
        if read == 0 {
            break;
        }
        into = &mut into[read..];
        at += read as u64;
    }
    Ok(())
}

fn fresh() -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    // `try_reserve_exact`, because an ordinary allocation would end the process if there is no
    // memory.
    bytes.try_reserve_exact(CHUNK).ok()?;
    bytes.resize(CHUNK, 0);
    Some(bytes.into_boxed_slice())
}

/// Calls `each` with each part of a guest's memory that a job uses: the slice, the offset in the
/// slice, the chunk, and the range in the chunk.
fn for_guest(job: &BackendJob, mut each: impl FnMut(&GuestSlice, usize, usize, Range<usize>)) {
    let Data::Guest(slices) = &job.data else {
        return;
    };
    let mut at = job.offset;
    for slice in slices {
        let mut done = 0;
        for (chunk, range) in parts(at, slice.len() as u64) {
            let length = range.len();
            each(slice, done, chunk, range);
            done += length;
        }
        at += slice.len() as u64;
    }
}

/// Returns the chunks that a range touches, each with the affected range within the chunk.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (usize, Range<usize>)> {
    let (mut at, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let chunk = at / CHUNK as u64;
        let start = (at % CHUNK as u64) as usize;
        let stop = (end - chunk * CHUNK as u64).min(CHUNK as u64) as usize;
        at = chunk * CHUNK as u64 + stop as u64;
        Some((chunk as usize, start..stop))
    })
}

#[cfg(test)]
mod tests {
    use weir_core::random::Rng;

    use super::*;

    #[test]
    fn behaves_as_a_vector_of_bytes() {
        let size = 5 * CHUNK as u64 + 1234;
        let mut memory = Memory::new(size, false);
        let mut model = vec![0u8; size as usize];
        let mut rng = Rng::new(9);
        let mut draw = |below: u64| rng.range(0, below - 1);
        for round in 0..2_000u32 {
            let offset = draw(size);
            let length = 1 + draw((size - offset).min(2 * CHUNK as u64 + 9));
            let range = offset as usize..(offset + length) as usize;
            match draw(4) {
                0 => {
                    let bytes: Vec<u8> = (0..length).map(|_| round as u8 | 1).collect();
                    memory.write(offset, &bytes);
                    model[range].copy_from_slice(&bytes);
                }
                1 => {
                    let done = memory
                        .zero(offset, length as u32, round % 2 == 0, u64::MAX)
                        .done;
                    assert_eq!(u64::from(done), length);
                    model[range].fill(0);
                }
                _ => {
                    let mut bytes = vec![0xee; length as usize];
                    memory.read(offset, &mut bytes);
                    assert_eq!(bytes, model[range]);
                }
            }
        }
    }

    /// Random contents, with chunks of zeroes and a last chunk that is not whole.
    #[test]
    fn another_volume_restores_a_saved_one_with_its_holes() {
        let size = 40 * CHUNK as u64 + 1234;
        let mut rng = Rng::new(10);
        for _ in 0..50 {
            let mut memory = Memory::new(size, false);
            for chunk in 0..=40 {
                let at = chunk * CHUNK as u64;
                match rng.range(0, 3) {
                    0 => memory.write(at + rng.range(0, 1_000), &[chunk as u8 | 1; 200]),
                    1 => memory.write(at, &[0]),
                    _ => {}
                }
            }
            let mut restored = Memory::new(size, false);
            match memory.save().unwrap() {
                Some(content) => restored.restore(&content).unwrap(),
                None => assert_eq!(memory.allocated, 0),
            }
            assert_eq!(restored.chunks, memory.chunks);
            assert_eq!(restored.allocated, memory.allocated);
            let held = restored.chunks.iter().flatten().count() as u64;
            assert_eq!(restored.allocated, held);
        }
    }

    #[test]
    fn a_content_that_does_not_fit_is_refused() {
        let mut memory = Memory::new(4 * CHUNK as u64, false);
        memory.write(3 * CHUNK as u64, &[1]);
        let content = memory.save().unwrap().unwrap();
        let refused = Memory::new(3 * CHUNK as u64, false).restore(&content);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut restored = Memory::new(4 * CHUNK as u64, false);
        restored.fresh = || None;
        let refused = restored.restore(&content);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }

    /// Existing chunks stay, and can be written to.
    #[test]
    fn a_new_chunk_is_refused_without_memory() {
        let mut memory = Memory::new(4 * CHUNK as u64, false);
        memory.write(0, &[7; 10]);
        memory.fresh = || None;
        // The write from byte 5 to the end of chunk 0 needs no new chunk. One that crosses into
        // chunk 1 does.
        assert!(memory.make_room(5, CHUNK as u64 - 5));
        assert!(!memory.make_room(CHUNK as u64 - 1, 2));
        memory.write(CHUNK as u64 - 1, &[9, 9]);
        let mut bytes = [1; 3];
        memory.read(CHUNK as u64 - 2, &mut bytes);
        assert_eq!(bytes, [0, 9, 0]);
    }

    /// 4 GiB consist of 65,536 chunks, of which one look-up checks 4,096.
    #[test]
    fn a_look_up_goes_through_a_bounded_number_of_chunks() {
        let memory = Memory::new(4 << 30, false);
        let job = BackendJob {
            tag: weir_core::Tag(0),
            op: Op::Extents,
            flags: weir_core::Flags::NONE,
            offset: 0,
            length: u32::MAX,
            data: Data::None,
        };
        let (extents, touched) = memory.extents(&job);
        assert_eq!(touched, LOOKS as u64 * LOOK);
        let found = extents.extents();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].length as usize, LOOKS * CHUNK);
    }

    #[test]
    fn chunks_are_allocated_and_freed_as_a_whole() {
        let mut memory = Memory::new(4 * CHUNK as u64, false);
        let held = |memory: &Memory| memory.chunks.iter().flatten().count();
        memory.write(CHUNK as u64 - 1, &[1, 2]);
        assert_eq!(held(&memory), 2);
        // The range ends one byte before the end of chunk 1, so only chunk 0 is freed.
        memory.zero(0, CHUNK as u32 * 2 - 1, false, u64::MAX);
        assert_eq!(held(&memory), 1);
        memory.zero(0, CHUNK as u32 * 4, true, u64::MAX);
        assert_eq!(held(&memory), 1);
        assert_eq!(memory.allocated, 1);
        memory.zero(0, CHUNK as u32 * 4, false, u64::MAX);
        assert_eq!(held(&memory), 0);
        assert_eq!(memory.allocated, 0);
    }
}
