//! The memory of a request: where a write's bytes lie, and where those that are read are put.

use weir_core::{Dispatch, Op};
use weir_uring::{Arena, Buf, GuestSlice, MAX_PIECES, SharedBuf};

use super::memory;
use crate::backend::{Data, Extents, Traits};

/// Whose memory a request works on.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Buffers of the shard's arena: a write's from when it is received, a read's from its dispatch until its answer has left.
    Arena(ArenaPayload),
    /// The client's own memory. Pieces that the drive cannot reach there go through a buffer of the arena, from their dispatch until
    /// they are over.
    Guest(GuestPayload),
}

/// Buffers of the shard's arena.
#[derive(Debug, Default)]
pub(crate) struct ArenaPayload {
    /// What a write carries.
    written: Vec<SharedBuf>,
    /// What has been read: place in the request, bytes.
    read: Vec<(u32, Buf)>,
    /// What a look-up has found.
    extents: Option<Extents>,
}

/// Parts of a guest's memory, as many bytes as the request has, in order.
#[derive(Debug, Default)]
pub(crate) struct GuestPayload(pub(super) Vec<GuestSlice>);

impl Default for Payload {
    fn default() -> Self {
        Self::Arena(ArenaPayload::default())
    }
}

impl Payload {
    /// Takes what a write carries; gives the empty vector back.
    pub(super) fn fill(&mut self, mut bufs: Vec<Buf>) -> Vec<Buf> {
        if let Self::Arena(arena) = self {
            arena.written.extend(bufs.drain(..).map(Buf::into_shared));
        }
        bufs
    }

    /// The memory of a piece; `None` if there is none just now.
    pub(super) fn data(&self, arena: &Arena, piece: &Dispatch, traits: &Traits) -> Option<Data> {
        match (piece.op, self) {
            (Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents, _) => Some(Data::None),
            (Op::Read, Self::Arena(_)) => {
                memory::for_read(arena, piece.offset, piece.length, traits.align)
            }
            (Op::Write, Self::Arena(own)) => {
                Some(memory::for_write(&own.written, piece.within, piece.length))
            }
            (op, Self::Guest(guest)) => {
                let slices = guest.cut(piece.within, piece.length);
                if is_direct(&slices, piece.offset, traits) {
                    Some(Data::Guest(slices))
                } else if op == Op::Read {
                    memory::for_read(arena, piece.offset, piece.length, traits.align)
                } else {
                    copied(arena, &slices, piece.length)
                }
            }
        }
    }

    /// Keeps what came back of a piece that began at `within` of its request.
    pub(super) fn keep(&mut self, mut within: u32, data: Data) {
        let mut keep = |buf: Buf| {
            let length = buf.len() as u32;
            match self {
                Self::Arena(arena) => arena.read.push((within, buf)),
                Self::Guest(guest) => guest.put(within, &buf),
            }
            within += length;
        };
        match data {
            Data::Read(buf) => keep(buf),
            Data::ReadMany(bufs) => bufs.into_iter().for_each(keep),
            Data::Extents(extents) => {
                if let Self::Arena(arena) = self {
                    arena.extents = Some(extents);
                }
            }
            Data::None | Data::Write(_) | Data::WriteMany(_) | Data::Guest(_) => {}
        }
    }

    /// What a look-up has found.
    pub(super) fn extents(&self) -> Option<&Extents> {
        match self {
            Self::Arena(arena) => arena.extents.as_ref(),
            Self::Guest(_) => None,
        }
    }

    /// Takes out what was read into the shard's memory, in order.
    pub(crate) fn take_read(&mut self) -> impl Iterator<Item = Buf> {
        let read = match self {
            Self::Arena(arena) => Some(&mut arena.read),
            Self::Guest(_) => None,
        };
        let sorted = read.map(|read| {
            if read.len() > 1 {
                read.sort_unstable_by_key(|(within, _)| *within);
            }
            read.drain(..).map(|(_, buf)| buf)
        });
        sorted.into_iter().flatten()
    }

    /// Gives the memory back and keeps the vectors.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Arena(arena) => {
                arena.written.clear();
                arena.read.clear();
                arena.extents = None;
            }
            Self::Guest(guest) => guest.0.clear(),
        }
    }
}

impl GuestPayload {
    /// The parts of it that `length` bytes from `within` on lie in.
    fn cut(&self, within: u32, length: u32) -> Vec<GuestSlice> {
        let (mut skip, mut left) = (within as usize, length as usize);
        let mut slices = Vec::with_capacity(self.0.len());
        for slice in &self.0 {
            if left == 0 {
                break;
            }
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            let here = (slice.len() - skip).min(left);
            slices.push(slice.slice(skip, here));
            left -= here;
            skip = 0;
        }
        slices
    }

    /// Copies what was read into a buffer to where it belongs.
    fn put(&self, within: u32, mut bytes: &[u8]) {
        for slice in self.cut(within, bytes.len() as u32) {
            let (here, rest) = bytes.split_at(slice.len());
            slice.copy_from(0, here);
            bytes = rest;
        }
    }
}

/// Whether the storage can work on a guest's memory as it is. If that is so for a request, it is so
/// for its pieces that are cut at multiples of the storage's alignment.
pub(crate) fn is_direct(slices: &[GuestSlice], offset: u64, traits: &Traits) -> bool {
    let align = traits.align as usize;
    traits.guest
        && slices.len() <= MAX_PIECES
        && offset.is_multiple_of(u64::from(traits.align))
        && slices.iter().all(|slice| slice.is_aligned(align))
}

/// What a guest's memory holds now, in the shard's; `None` if there is none.
fn copied(arena: &Arena, slices: &[GuestSlice], length: u32) -> Option<Data> {
    let mut bufs = Vec::new();
    if !memory::for_payload(arena, length, &mut bufs) {
        return None;
    }
    let (mut at, mut filled) = (0, 0);
    for slice in slices {
        let mut done = 0;
        while done < slice.len() {
            let buf = &mut bufs[at];
            let here = (slice.len() - done).min(buf.len() - filled);
            slice.copy_to(done, &mut buf[filled..filled + here]);
            done += here;
            filled += here;
            if filled == buf.len() {
                (at, filled) = (at + 1, 0);
            }
        }
    }
    let shared: Vec<SharedBuf> = bufs.into_iter().map(Buf::into_shared).collect();
    Some(memory::for_write(&shared, 0, length))
}
