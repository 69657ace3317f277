//! What every stage may look at: live requests, streams, groups, what is in the drive.

use super::{DriveShape, Limits};
use crate::group::{GroupId, Groups};
use crate::list::{Links, NIL};
use crate::pool::Pool;
use crate::space::Spaces;
use crate::stream::Stream;
use crate::{
    Capacity, Flags, Instant, Op, Outcome, QueueId, Request, SpaceId, Span, StreamId, Tag,
};
use alloc::vec::Vec;

/// Where a live request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// Held back by a limit.
    Limit,
    /// Waiting for a scheduler tag.
    Front,
    /// Taken out because its stream is on hold; it has passed its limits.
    Held,
    /// A flush that waits for the one in flight.
    Flush,
    /// In the elevator, perhaps with some pieces in the drive already.
    Elevator,
    /// Wholly in the drive.
    Drive,
    /// Over, waiting to be reported.
    Finished,
}

/// A request that was accepted and is not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) request: Request,
    pub(crate) group: GroupId,
    pub(crate) at: At,
    /// Has a scheduler tag.
    pub(crate) tagged: bool,
    /// No further piece of it is to be sent.
    pub(crate) given_up: bool,
    /// Bytes handed to the drive so far.
    pub(crate) issued: u32,
    /// Pieces in the drive.
    pub(crate) pieces: u32,
    pub(crate) outcome: Outcome,
    pub(crate) submitted: Instant,
    /// When it came to where it is.
    pub(crate) since: Instant,
    pub(crate) limited: Span,
    pub(crate) queued: Span,
    /// When its first piece went to the drive.
    pub(crate) dispatched: Option<Instant>,
}

impl Live {
    /// What stands in a free slot.
    const EMPTY: Self = Self {
        request: Request {
            stream: StreamId {
                index: 0,
                generation: 0,
            },
            space: SpaceId(0),
            op: Op::Read,
            flags: Flags::NONE,
            offset: 0,
            length: 0,
            cookie: 0,
        },
        group: GroupId(0),
        at: At::Finished,
        tagged: false,
        given_up: false,
        issued: 0,
        pieces: 0,
        outcome: Outcome::Ok,
        submitted: Instant::ZERO,
        since: Instant::ZERO,
        limited: Span::ZERO,
        queued: Span::ZERO,
        dispatched: None,
    };
}

/// A part of a request in the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) request: u32,
    pub(crate) stream: u32,
    pub(crate) group: GroupId,
    pub(crate) op: Op,
    pub(crate) within: u32,
    pub(crate) length: u32,
    pub(crate) dispatched: Instant,
    pub(crate) queue: QueueId,
}

impl Piece {
    const NONE: Self = Self {
        request: NIL,
        stream: 0,
        group: GroupId(0),
        op: Op::Read,
        within: 0,
        length: 0,
        dispatched: Instant::ZERO,
        queue: QueueId(0),
    };
}

/// The tables.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) requests: Pool<Live>,
    pub(crate) streams: Pool<Stream>,
    /// Links of each stream's list of live requests.
    pub(crate) by_stream: Links,
    pub(crate) groups: Groups,
    pub(crate) spaces: Spaces,
    pub(crate) pieces: Pieces,
    pub(crate) shape: DriveShape,
}

impl Table {
    pub(super) fn new(limits: &Limits, shape: DriveShape) -> Self {
        Self {
            requests: Pool::new(limits.requests, Live::EMPTY),
            streams: Pool::new(limits.streams, Stream::EMPTY),
            by_stream: Links::new(limits.requests),
            groups: Groups::new(limits.groups),
            spaces: Spaces::new(limits.spaces),
            pieces: Pieces::new(&shape),
            shape,
        }
    }

    /// The length of the next piece of a request if it is sent whole, and whether that is all that is left of it.
    #[inline]
    pub(crate) fn piece(&self, request: u32) -> (u32, bool) {
        let live = &self.requests[request];
        let left = live.request.length - live.issued;
        let most = piece_max(live.request.op, self.shape.max_transfer);
        (left.min(most), left <= most)
    }

    /// Bytes of a request that have not been sent.
    pub(crate) fn left(&self, request: u32) -> u32 {
        let live = &self.requests[request];
        live.request.length - live.issued
    }

    pub(crate) fn capacity(&self) -> Option<Capacity> {
        self.shape.capacity
    }

    pub(crate) fn stream_id(&self, index: u32) -> StreamId {
        StreamId {
            index,
            generation: self.streams.generation(index),
        }
    }
}

/// The longest piece: what the drive takes at a time, and 64 MiB of discarding or zeroing, which move no data.
fn piece_max(op: Op, max_transfer: u32) -> u32 {
    match op {
        Op::Read | Op::Write => max_transfer,
        Op::Flush | Op::Discard | Op::WriteZeroes => 64 << 20,
    }
}

/// Pieces by tag. Each hardware queue has its own run of tags.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// A piece of request [`NIL`] stands for none.
    slots: Vec<Piece>,
    free: Vec<Vec<u32>>,
    in_flight: u32,
}

impl Pieces {
    fn new(shape: &DriveShape) -> Self {
        let (queues, tags) = (u32::from(shape.queues), u32::from(shape.tags));
        let free = (0..queues)
            .map(|q| (q * tags..(q + 1) * tags).rev().collect())
            .collect();
        Self {
            slots: alloc::vec![Piece::NONE; (queues * tags) as usize],
            free,
            in_flight: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.in_flight
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.in_flight as usize == self.slots.len()
    }

    /// Gives `piece` a tag of the queue its stream prefers, or of the next one that has any; not to be called when full.
    #[inline]
    pub(super) fn insert(&mut self, mut piece: Piece) -> (QueueId, Tag) {
        let queues = self.free.len();
        let mut queue = if queues == 1 {
            0
        } else {
            piece.stream as usize % queues
        };
        let tag = loop {
            match self.free[queue].pop() {
                Some(tag) => break tag,
                None => queue = (queue + 1) % queues,
            }
        };
        piece.queue = QueueId(queue as u16);
        self.slots[tag as usize] = piece;
        self.in_flight += 1;
        (piece.queue, Tag(tag))
    }

    #[inline]
    pub(super) fn get(&self, tag: Tag) -> Option<&Piece> {
        self.slots.get(tag.0 as usize).filter(|p| p.request != NIL)
    }

    /// Frees the tag of a piece that is in flight.
    #[inline]
    pub(super) fn remove(&mut self, tag: Tag) {
        let piece = &mut self.slots[tag.0 as usize];
        debug_assert!(piece.request != NIL, "the tag is free");
        piece.request = NIL;
        self.free[usize::from(piece.queue.0)].push(tag.0);
        self.in_flight -= 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tag, &Piece)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, p)| p.request != NIL)
            .map(|(i, p)| (Tag(i as u32), p))
    }
}
