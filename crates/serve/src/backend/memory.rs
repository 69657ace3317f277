//! A volume in memory: chunks that come with the first write and go with a trim.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use weir_config::units::Size;
use weir_core::Op;
use weir_uring::{Completion, GuestSlice};

use crate::errno::ENOSPC;

use super::{Allocation, Backend, Context, Data, Extents, Job, Prepare, Traits};

/// Bytes of a chunk: what is allocated, given back and told apart in a look-up of extents.
const CHUNK: usize = 64 << 10;
/// Bytes that a chunk which is not there takes.
const TABLE: u64 = size_of::<Option<Box<[u8]>>>() as u64;
static ZEROES: [u8; CHUNK] = [0; CHUNK];
/// What looking at whether a chunk is there counts as, bytes.
const LOOK: u64 = 64;
/// Chunks that one look-up of extents looks at. NBD permits an answer that covers only the beginning of the range; 4 GiB would keep the
/// shard for 165 us, these for 10.
const LOOKS: usize = 4096;

/// Bytes that live as long as the server. Nothing is stable storage here, and clients know it: a flush has nothing to do.
#[derive(Debug)]
pub struct Memory {
    size: u64,
    read_only: bool,
    chunks: Vec<Option<Box<[u8]>>>,
    /// A chunk of zeroes, if there is memory for one.
    fresh: fn() -> Option<Box<[u8]>>,
}

/// Whether there can be a volume of this size here at all.
///
/// # Errors
/// Its table, or all of it once it is written, is more than the machine could ever hold.
pub(super) fn look(size: u64) -> io::Result<()> {
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
        Size(size),
        Size(table),
        Size(all)
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, what))
}

/// How far a call has come: bytes of the job, and bytes of memory that it touched.
#[derive(Clone, Copy, Default, Debug)]
struct Progress {
    done: u32,
    touched: u64,
}

/// A volume in memory that is served.
#[derive(Debug)]
struct Served {
    memory: Memory,
    /// Jobs that were deferred, in their order.
    jobs: VecDeque<Job>,
    /// How far the first of them is, bytes.
    done: u32,
}

impl Memory {
    /// A volume of `size` bytes that reads as zeroes. Takes memory as it is written to, plus 16 bytes for every 64 KiB.
    pub fn new(size: u64, read_only: bool) -> Self {
        let count = size.div_ceil(CHUNK as u64) as usize;
        Self {
            size,
            read_only,
            chunks: std::iter::repeat_with(|| None).take(count).collect(),
            fresh,
        }
    }

    /// Allocates what a write to the range needs. False if there is no memory for that: nothing can be written then.
    fn make_room(&mut self, offset: u64, length: u64) -> bool {
        parts(offset, length).all(|(chunk, _)| {
            let slot = &mut self.chunks[chunk];
            if slot.is_none() {
                *slot = (self.fresh)();
            }
            slot.is_some()
        })
    }

    /// Has `size` bytes from now on, no fewer than before; what comes reads as zeroes.
    pub(super) fn grow(&mut self, size: u64) {
        self.size = size;
        let count = size.div_ceil(CHUNK as u64) as usize;
        self.chunks.resize_with(count, || None);
    }

    /// Puts the bytes from `offset` on into `into`. The range must lie within the volume.
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

    /// Takes the bytes of `from` over, from `offset` on, except where there is no memory for them. The range must lie within the volume.
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

    /// Puts what a job reads into the guest's memory.
    fn read_guest(&self, job: &Job) {
        for_guest(job, |slice, done, chunk, range| match &self.chunks[chunk] {
            Some(bytes) => slice.copy_from(done, &bytes[range]),
            None => slice.copy_from(done, &ZEROES[range]),
        });
    }

    /// Takes over what a job writes from the guest's memory.
    fn write_guest(&mut self, job: &Job) {
        for_guest(job, |slice, done, chunk, range| {
            if let Some(bytes) = &mut self.chunks[chunk] {
                slice.copy_to(done, &mut bytes[range]);
            }
        });
    }

    /// Makes the range read as zeroes until about `most` bytes of memory have been touched; says how far that went. Whole chunks
    /// are given back, unless `keep` says that they are not to become holes. Holes stay what they are: memory that nobody has
    /// written to could not be promised anyway.
    fn zero(&mut self, offset: u64, length: u32, keep: bool, most: u64) -> Progress {
        let mut progress = Progress::default();
        for (chunk, range) in parts(offset, u64::from(length)) {
            if progress.touched >= most {
                break;
            }
            progress.done += range.len() as u32;
            let slot = &mut self.chunks[chunk];
            progress.touched += match slot {
                Some(_) if range.len() == CHUNK && !keep => {
                    *slot = None;
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

    /// What of a look-up's range is there, and how many bytes of memory it took to see that.
    fn extents(&self, job: &Job) -> (Extents, u64) {
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

    /// Carries a job on from `done`, until about `most` bytes of memory have been touched. What is read or written is one piece,
    /// which the drive's `max_transfer` bounds; what is zeroed may be 64 MiB and is done in parts.
    fn carry_on(&mut self, job: &mut Job, done: u32, most: u64) -> Progress {
        let offset = job.offset;
        let keep = match job.op {
            Op::Read if matches!(job.data, Data::Guest(_)) => {
                self.read_guest(job);
                return Progress::whole(job);
            }
            Op::Write if matches!(job.data, Data::Guest(_)) => {
                self.write_guest(job);
                return Progress::whole(job);
            }
            Op::Read => {
                let read = |at, bytes: &mut [u8]| self.read(offset + at as u64, bytes);
                job.data.each_target(read);
                return Progress::whole(job);
            }
            Op::Write => {
                let write = |at, bytes: &[u8]| self.write(offset + at as u64, bytes);
                job.data.each_source(write);
                return Progress::whole(job);
            }
            Op::Flush => return Progress::whole(job),
            Op::Extents => {
                let (extents, touched) = self.extents(job);
                job.data = Data::Extents(extents);
                return Progress {
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

impl Progress {
    fn whole(job: &Job) -> Self {
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
        Ok(Box::new(Served {
            memory: *self,
            jobs: VecDeque::new(),
            done: 0,
        }))
    }
}

impl Served {
    /// Carries a job out from `done` on. Where it has to be deferred it comes back, with how far it is.
    fn carry_out(
        &mut self,
        mut job: Job,
        mut done: u32,
        cx: &mut Context<'_>,
    ) -> Option<(Job, u32)> {
        loop {
            if cx.budget() == 0 {
                return Some((job, done));
            }
            if job.op == Op::Write && !self.memory.make_room(job.offset, job.length.into()) {
                cx.finish(job.tag, Err(ENOSPC), Data::None);
                return None;
            }
            let progress = self.memory.carry_on(&mut job, done, cx.budget());
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

impl Backend for Served {
    fn submit(&mut self, job: Job, cx: &mut Context<'_>) {
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
        look(size)?;
        Ok(size)
    }

    fn resize(&mut self, size: u64) {
        self.memory.grow(size);
    }

    fn completed(&mut self, _op: u32, _completion: Completion, _cx: &mut Context<'_>) {}
}

fn fresh() -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(CHUNK).ok()?;
    bytes.resize(CHUNK, 0);
    Some(bytes.into_boxed_slice())
}

/// Calls `each` for the parts of a guest's memory that a job works on: the slice, where in it, the chunk, and where in that.
fn for_guest(job: &Job, mut each: impl FnMut(&GuestSlice, usize, usize, Range<usize>)) {
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

/// The chunks that a range touches, each with the part of it that lies within.
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

    /// What was there before stays, and can be written to.
    #[test]
    fn without_memory_there_is_no_room_for_a_new_chunk() {
        let mut memory = Memory::new(4 * CHUNK as u64, false);
        memory.write(0, &[7; 10]);
        memory.fresh = || None;
        assert!(memory.make_room(5, CHUNK as u64 - 5));
        assert!(!memory.make_room(CHUNK as u64 - 1, 2));
        memory.write(CHUNK as u64 - 1, &[9, 9]);
        let mut bytes = [1; 3];
        memory.read(CHUNK as u64 - 2, &mut bytes);
        assert_eq!(bytes, [0, 9, 0]);
    }

    /// 4 GiB have 65,536 chunks.
    #[test]
    fn a_look_up_goes_through_a_bounded_number_of_chunks() {
        let memory = Memory::new(4 << 30, false);
        let job = Job {
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
    fn whole_chunks_come_and_go() {
        let mut memory = Memory::new(4 * CHUNK as u64, false);
        let held = |memory: &Memory| memory.chunks.iter().flatten().count();
        memory.write(CHUNK as u64 - 1, &[1, 2]);
        assert_eq!(held(&memory), 2);
        memory.zero(0, CHUNK as u32 * 2 - 1, false, u64::MAX);
        assert_eq!(held(&memory), 1);
        memory.zero(0, CHUNK as u32 * 4, true, u64::MAX);
        assert_eq!(held(&memory), 1);
        memory.zero(0, CHUNK as u32 * 4, false, u64::MAX);
        assert_eq!(held(&memory), 0);
    }
}
