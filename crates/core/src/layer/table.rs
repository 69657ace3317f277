//! What every stage may look at: live requests, streams, groups, what is in the drive.

use super::{DriveShape, Limits};
use crate::group::{GroupId, Groups};
use crate::list::Links;
use crate::pool::Pool;
use crate::space::Spaces;
use crate::stream::Stream;
use crate::{Capacity, Instant, Op, Outcome, QueueId, Request, Span, StreamId, Tag};
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
            requests: Pool::new(limits.requests),
            streams: Pool::new(limits.streams),
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
    slots: Vec<Option<Piece>>,
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
            slots: alloc::vec![None; (queues * tags) as usize],
            free,
            in_flight: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight as usize == self.slots.len()
    }

    /// Gives `piece` a tag of the queue its stream prefers, or of the next one that has any; not to be called when full.
    pub(super) fn insert(&mut self, mut piece: Piece) -> (QueueId, Tag) {
        let queues = self.free.len();
        let preferred = piece.stream as usize % queues;
        let queue = (0..queues)
            .map(|i| (preferred + i) % queues)
            .find(|&q| !self.free[q].is_empty())
            .expect("a tag is free");
        let tag = self.free[queue].pop().expect("the queue has a free tag");
        piece.queue = QueueId(queue as u16);
        self.slots[tag as usize] = Some(piece);
        self.in_flight += 1;
        (piece.queue, Tag(tag))
    }

    pub(super) fn get(&self, tag: Tag) -> Option<&Piece> {
        self.slots.get(tag.0 as usize)?.as_ref()
    }

    pub(super) fn remove(&mut self, tag: Tag) -> Option<Piece> {
        let piece = self.slots.get_mut(tag.0 as usize)?.take()?;
        self.free[usize::from(piece.queue.0)].push(tag.0);
        self.in_flight -= 1;
        Some(piece)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tag, &Piece)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, p)| p.as_ref().map(|p| (Tag(i as u32), p)))
    }
}
