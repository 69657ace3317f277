//! The memory of a request, which holds the data to write or receives the data that is read.

use weir_core::{Dispatch, Op};
use weir_uring::{Arena, Buf, GuestSlice, MAX_PIECES, SharedBuf};

use super::memory;
use crate::backend::{Data, Extents, Traits};

/// The memory that a request works on.
#[derive(Debug)]
pub(crate) enum RequestPayload {
    /// Buffers of the shard's arena. A write has them from its reception on, and a read from its
    /// dispatch until its answer has left.
    Arena(ArenaPayload),
    /// The client's own memory. Pieces that the storage cannot carry out in this memory go through
    /// a buffer of the arena from their dispatch to their completion.
    Guest(GuestPayload),
}

/// Buffers of the shard's arena that belong to one request.
#[derive(Debug, Default)]
pub(crate) struct ArenaPayload {
    /// The payload of a write.
    written: Vec<SharedBuf>,
    /// The data that was read, each buffer with its position in the request.
    read: Vec<(u32, Buf)>,
    /// The result of a look-up of extents.
    extents: Option<Extents>,
}

/// Parts of a guest's memory in the order of the request, of the same total length.
#[derive(Debug, Default)]
pub(crate) struct GuestPayload(pub(super) Vec<GuestSlice>);

impl Default for RequestPayload {
    fn default() -> Self {
        Self::Arena(ArenaPayload::default())
    }
}

impl RequestPayload {
    /// Takes the payload of a write from `bufs`, and returns the empty vector.
    pub(super) fn fill(&mut self, mut bufs: Vec<Buf>) -> Vec<Buf> {
        if let Self::Arena(arena) = self {
            arena.written.extend(bufs.drain(..).map(Buf::into_shared));
        }
        bufs
    }

    /// Returns the memory of a piece, or `None` if the arena has none at present.
    pub(super) fn data(&self, arena: &Arena, piece: &Dispatch, traits: &Traits) -> Option<Data> {
        match (piece.op, self) {
            (Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents, _) => Some(Data::None),
            (Op::Read, Self::Arena(_)) => {
                memory::allocate_read(arena, piece.offset, piece.length, traits.align)
            }
            (Op::Write, Self::Arena(own)) => Some(memory::payload_slice(
                &own.written,
                piece.within,
                piece.length,
            )),
            (op, Self::Guest(guest)) => {
                let slices = guest.cut(piece.within, piece.length);
                if is_direct(&slices, piece.offset, traits) {
                    Some(Data::Guest(slices))
                } else if op == Op::Read {
                    memory::allocate_read(arena, piece.offset, piece.length, traits.align)
                } else {
                    copy_from_guest(arena, &slices, piece.length)
                }
            }
        }
    }

    /// Stores the data of a piece that begins at `within` of its request.
    pub(super) fn store_result(&mut self, mut within: u32, data: Data) {
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

    /// Returns the result of a look-up of extents.
    pub(super) fn extents(&self) -> Option<&Extents> {
        match self {
            Self::Arena(arena) => arena.extents.as_ref(),
            Self::Guest(_) => None,
        }
    }

    /// Calls `each` with the parts of a write's payload, in order. The memory of a guest is its
    /// own.
    pub(crate) fn for_each_written(&self, each: impl FnMut(&[u8])) {
        if let Self::Arena(arena) = self {
            arena.written.iter().map(|buf| &**buf).for_each(each);
        }
    }

    /// Takes out the buffers with read data, in the order of the request.
    pub(crate) fn take_read(&mut self) -> impl Iterator<Item = Buf> {
        let read = match self {
            Self::Arena(arena) => Some(&mut arena.read),
            Self::Guest(_) => None,
        };
        let sorted = read.map(|read| {
            // Pieces can complete in any order.
            if read.len() > 1 {
                read.sort_unstable_by_key(|(within, _)| *within);
            }
            read.drain(..).map(|(_, buf)| buf)
        });
        sorted.into_iter().flatten()
    }

    /// Releases the buffers and keeps the vectors for later requests.
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
    /// Returns the parts of guest memory that hold `length` bytes from `within` on.
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

    /// Copies read data from a buffer to its position in the guest's memory.
    fn put(&self, within: u32, mut bytes: &[u8]) {
        for slice in self.cut(within, bytes.len() as u32) {
            let (here, rest) = bytes.split_at(slice.len());
            slice.copy_from(0, here);
            bytes = rest;
        }
    }
}

/// Returns true if the storage can work directly on a guest's memory. If that holds for a request,
/// it holds for all its pieces that are cut at multiples of the storage's alignment.
pub(crate) fn is_direct(slices: &[GuestSlice], offset: u64, traits: &Traits) -> bool {
    let align = traits.align as usize;
    traits.guest
        && slices.len() <= MAX_PIECES
        && offset.is_multiple_of(u64::from(traits.align))
        && slices.iter().all(|slice| slice.is_aligned(align))
}

/// Copies the present content of a guest's memory into the shard's. Returns `None` if there is no
/// memory.
fn copy_from_guest(arena: &Arena, slices: &[GuestSlice], length: u32) -> Option<Data> {
    let mut bufs = Vec::new();
    if !memory::allocate_payload_buffers(arena, length, &mut bufs) {
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
    Some(memory::payload_slice(&shared, 0, length))
}
