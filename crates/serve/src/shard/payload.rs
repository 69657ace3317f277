//! The memory of a request: where a write's bytes lie, and where those that are read are put.

use weir_core::{Dispatch, Op};
use weir_uring::{Arena, Buf, SharedBuf};

use super::memory;
use crate::backend::{Data, Extents};

/// Whose memory a request works on.
///
/// Today it is always the shard's. Memory that a client brings (a guest's, by vhost-user) will be the other variant: [`Payload::data`]
/// then cuts the piece out of the guest's segments for reads as for writes ([`Data`] and [`weir_uring::Segment`] get the matching
/// variants), [`Payload::keep`] has nothing to keep, and nothing is reserved for it.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Buffers of the shard's arena: a write's from when it is received, a read's from its dispatch until its answer has left.
    Arena(ArenaPayload),
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

impl Default for Payload {
    fn default() -> Self {
        Self::Arena(ArenaPayload::default())
    }
}

impl Payload {
    /// Takes what a write carries; gives the empty vector back.
    pub(super) fn fill(&mut self, mut bufs: Vec<Buf>) -> Vec<Buf> {
        let Self::Arena(arena) = self;
        arena.written.extend(bufs.drain(..).map(Buf::into_shared));
        bufs
    }

    /// The memory of a piece; `None` if there is none just now.
    pub(super) fn data(&self, arena: &Arena, piece: &Dispatch, align: u32) -> Option<Data> {
        let Self::Arena(own) = self;
        match piece.op {
            Op::Read => memory::for_read(arena, piece.offset, piece.length, align),
            Op::Write => Some(memory::for_write(&own.written, piece.within, piece.length)),
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => Some(Data::None),
        }
    }

    /// Keeps what came back of a piece that began at `within` of its request.
    pub(super) fn keep(&mut self, mut within: u32, data: Data) {
        let Self::Arena(arena) = self;
        match data {
            Data::Read(buf) => arena.read.push((within, buf)),
            Data::ReadMany(bufs) => {
                for buf in bufs {
                    let length = buf.len() as u32;
                    arena.read.push((within, buf));
                    within += length;
                }
            }
            Data::Extents(extents) => arena.extents = Some(extents),
            Data::None | Data::Write(_) | Data::WriteMany(_) => {}
        }
    }

    /// What a look-up has found.
    pub(super) fn extents(&self) -> Option<&Extents> {
        let Self::Arena(arena) = self;
        arena.extents.as_ref()
    }

    /// Takes out what was read, in order.
    pub(crate) fn take_read(&mut self) -> impl Iterator<Item = Buf> {
        let Self::Arena(arena) = self;
        if arena.read.len() > 1 {
            arena.read.sort_unstable_by_key(|(within, _)| *within);
        }
        arena.read.drain(..).map(|(_, buf)| buf)
    }

    /// Gives the memory back and keeps the vectors.
    pub(super) fn clear(&mut self) {
        let Self::Arena(arena) = self;
        arena.written.clear();
        arena.read.clear();
        arena.extents = None;
    }
}
