//! A volume in memory: chunks that come with the first write and go with a trim.

use std::io;
use std::ops::Range;

use weir_core::Op;
use weir_uring::Completion;

use super::{Backend, Context, DATA, Data, HOLE, Job, Prepare, Query, Traits};

/// Bytes of a chunk: what is allocated, given back and told apart in the answer to `BLOCK_STATUS`.
const CHUNK: usize = 64 << 10;

/// Bytes that live as long as the server. Nothing is stable storage here, and clients know it: a flush has nothing to do.
#[derive(Debug)]
pub struct Memory {
    size: u64,
    read_only: bool,
    chunks: Vec<Option<Box<[u8]>>>,
}

impl Memory {
    /// A volume of `size` bytes that reads as zeroes. Takes memory as it is written to, plus 16 bytes for every 64 KiB.
    pub fn new(size: u64, read_only: bool) -> Self {
        let count = size.div_ceil(CHUNK as u64) as usize;
        Self {
            size,
            read_only,
            chunks: std::iter::repeat_with(|| None).take(count).collect(),
        }
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

    /// Takes the bytes of `from` over, from `offset` on. The range must lie within the volume.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        let mut done = 0;
        for (chunk, range) in parts(offset, from.len() as u64) {
            let part = &from[done..done + range.len()];
            done += range.len();
            self.chunks[chunk].get_or_insert_with(fresh)[range].copy_from_slice(part);
        }
    }

    /// Makes the range read as zeroes. Whole chunks are given back, unless `keep` says that they are not to become holes.
    /// Holes stay what they are: memory that nobody has written to could not be promised anyway.
    fn zero(&mut self, offset: u64, length: u32, keep: bool) {
        for (chunk, range) in parts(offset, u64::from(length)) {
            let slot = &mut self.chunks[chunk];
            match slot {
                Some(_) if range.len() == CHUNK && !keep => *slot = None,
                Some(bytes) => bytes[range].fill(0),
                None => {}
            }
        }
    }

    fn carry_out(&mut self, job: &mut Job) {
        let offset = job.offset;
        match job.op {
            Op::Read => job
                .data
                .each_target(|at, bytes| self.read(offset + at as u64, bytes)),
            Op::Write => job
                .data
                .each_source(|at, bytes| self.write(offset + at as u64, bytes)),
            Op::Flush => {}
            Op::Discard => self.zero(offset, job.length, false),
            Op::WriteZeroes => {
                self.zero(offset, job.length, job.flags.has(weir_core::Flags::NO_HOLE));
            }
        }
    }
}

impl Prepare for Memory {
    fn size(&self) -> u64 {
        self.size
    }

    fn traits(&self) -> Traits {
        Traits {
            align: 1,
            preferred: 4096,
            read_only: self.read_only,
            rotational: false,
            trim: true,
            fast_zero: true,
            allocation: true,
            multi_connection: true,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(self)
    }
}

impl Backend for Memory {
    fn submit(&mut self, mut job: Job, cx: &mut Context<'_>) {
        self.carry_out(&mut job);
        let data = match job.data {
            read @ (Data::Read(_) | Data::ReadMany(_)) => read,
            Data::None | Data::Write(_) | Data::WriteMany(_) => Data::None,
        };
        cx.finish(job.tag, Ok(()), data);
    }

    fn completed(&mut self, _op: u32, _completion: Completion, _cx: &mut Context<'_>) {}

    fn status(&mut self, query: Query, cx: &mut Context<'_>) {
        let mut extents = query.extents();
        for (chunk, range) in parts(query.offset, u64::from(query.length)) {
            let flags = if self.chunks[chunk].is_some() {
                DATA
            } else {
                HOLE
            };
            if !extents.push(range.len() as u64, flags) {
                break;
            }
        }
        cx.answer(query.id, Ok(extents));
    }
}

fn fresh() -> Box<[u8]> {
    vec![0; CHUNK].into_boxed_slice()
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
    use super::*;

    #[test]
    fn behaves_as_a_vector_of_bytes() {
        let size = 5 * CHUNK as u64 + 1234;
        let mut memory = Memory::new(size, false);
        let mut model = vec![0u8; size as usize];
        let mut state = 9u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
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
                    memory.zero(offset, length as u32, round % 2 == 0);
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

    #[test]
    fn whole_chunks_come_and_go() {
        let mut memory = Memory::new(4 * CHUNK as u64, false);
        let held = |memory: &Memory| memory.chunks.iter().flatten().count();
        memory.write(CHUNK as u64 - 1, &[1, 2]);
        assert_eq!(held(&memory), 2);
        memory.zero(0, CHUNK as u32 * 2 - 1, false);
        assert_eq!(held(&memory), 1);
        memory.zero(0, CHUNK as u32 * 4, true);
        assert_eq!(held(&memory), 1);
        memory.zero(0, CHUNK as u32 * 4, false);
        assert_eq!(held(&memory), 0);
    }
}
