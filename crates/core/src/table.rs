//! The tables that every stage can read: live requests, streams, groups, spaces and pieces in
//! flight.

use crate::contract::Capacity;
use crate::group::Groups;
use crate::id::{GroupId, QueueId, SpaceId, StreamId, Tag};
use crate::list::NIL;
use crate::merge::{self, Commands};
use crate::pool::{HalfLine, Lines, Pool};
use crate::request::{Flags, Op, Outcome, Request};
use crate::shape::{DriveShape, Sizes};
use crate::space::Spaces;
use crate::stream::Stream;
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// The stage of a live request: the place where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Throttled by the controller with this number in the chain.
    Controller(u8),
    /// Waiting in front of the elevator for a scheduler tag.
    Front,
    /// Outside of the scheduler because its stream is on hold or its space stalls.
    OnHold,
    /// In the plug. It has a scheduler tag and enters the elevator at the end of its batch.
    Plug,
    /// Part of the command of another request, its leader.
    Merged,
    /// A flush that waits until the one in flight completes.
    Flush,
    /// A flush that is in the drive.
    Flushing,
    /// In the elevator, possibly with some pieces in the drive already.
    Elevator,
    /// Completely dispatched to the drive.
    Drive,
    /// Finished, but not reported to the driver yet.
    Finished,
}

/// A request that is accepted and not completed.
///
/// There can be many more live requests than fit into the cache. Therefore the fields that a
/// dispatch and a completion need come first and fill one cache line. Fields that are needed mostly
/// for the report at the end are in the next line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Live {
    /// The request as it was submitted. For the leader of a command, offset and length are those of
    /// the whole command until it ends.
    pub(crate) request: Request,
    /// Bytes that were dispatched to the drive so far.
    pub(crate) issued: u32,
    /// The number of its pieces in the drive.
    pub(crate) pieces: u32,
    pub(crate) outcome: Outcome,
    /// True if it has a scheduler tag.
    pub(crate) tagged: bool,
    pub(crate) stage: Stage,
    pub(crate) group: GroupId,
    /// The time at which its first piece was dispatched, or [`Instant::MAX`] before that. No other
    /// work has to wait for this write, and it fetches the second cache line, from which the report
    /// will be made.
    pub(crate) dispatched: Instant,
    pub(crate) submitted: Instant,
    /// The time at which it entered the stage that delays it, or at which it ended.
    pub(crate) since: Instant,
    /// The time of its submission plus the time for which it was throttled or on hold.
    pub(crate) cleared: Instant,
    /// The number of requests that were accepted before it.
    pub(crate) number: u64,
    /// The number of its pieces that are in the drive of a stalled space and count nowhere else. It
    /// is either zero or the number of all pieces in the drive.
    pub(crate) stalled: u32,
    /// True if it is one of the few requests that a stalled space may have in progress. It has no
    /// meaning if the space does not stall.
    pub(crate) admitted: bool,
}

/// The second cache line begins with `dispatched`. The assertion keeps the fields of a dispatch
/// within the first line.
const _: () = assert!(core::mem::offset_of!(Live, dispatched) == 64);

impl Live {
    /// The content of a free slot.
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
            within: 0,
        },
        number: 0,
        group: GroupId(0),
        stage: Stage::Finished,
        tagged: false,
        issued: 0,
        pieces: 0,
        outcome: Outcome::Ok,
        submitted: Instant::ZERO,
        since: Instant::ZERO,
        cleared: Instant::ZERO,
        dispatched: Instant::MAX,
        stalled: 0,
        admitted: false,
    };
}

impl Live {
    /// Fills the slot of an accepted request, which goes to the elevator unless a later step finds
    /// that it belongs elsewhere. The slot is written in place.
    #[inline]
    pub(crate) fn accept(&mut self, request: &Request, number: u64, group: GroupId, now: Instant) {
        self.request = *request;
        self.number = number;
        self.group = group;
        self.stage = Stage::Elevator;
        self.tagged = true;
        self.issued = 0;
        self.pieces = 0;
        self.outcome = Outcome::Ok;
        self.submitted = now;
        self.cleared = now;
        self.dispatched = Instant::MAX;
    }

    /// Returns true if a piece of it was dispatched to the drive.
    #[inline]
    pub(crate) fn is_dispatched(&self) -> bool {
        // `Instant::MAX` stands for "never" in this field.
        self.dispatched < Instant::MAX
    }

    /// Records that a piece failed or that the request was given up. The first such outcome is
    /// kept.
    #[cold]
    pub(crate) fn fail(&mut self, outcome: Outcome) {
        if self.outcome == Outcome::Ok {
            self.outcome = outcome;
        }
    }

    /// Marks the request as finished. Returns true if it had a scheduler tag, which the caller must
    /// free.
    #[inline]
    pub(crate) fn finish(&mut self, now: Instant) -> bool {
        self.stage = Stage::Finished;
        self.since = now;
        self.tagged
    }
}

/// A part of a request in the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) request: u32,
    pub(crate) op: Op,
    pub(crate) within: u32,
    pub(crate) length: u32,
    pub(crate) dispatched: Instant,
    pub(crate) queue: QueueId,
}

impl Piece {
    /// Creates a piece that is dispatched now. Its hardware queue is not known yet.
    #[inline]
    pub(crate) fn of(live: &Live, request: u32, within: u32, length: u32, now: Instant) -> Self {
        Self {
            request,
            op: live.request.op,
            within,
            length,
            dispatched: now,
            queue: QueueId(0),
        }
    }

    const NONE: Self = Self {
        request: NIL,
        op: Op::Read,
        within: 0,
        length: 0,
        dispatched: Instant::ZERO,
        queue: QueueId(0),
    };
}

/// All tables that the stages share.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) requests: Pool<Live, Lines>,
    pub(crate) streams: Pool<Stream, HalfLine>,
    pub(crate) groups: Groups,
    pub(crate) spaces: Spaces,
    pub(crate) pieces: Pieces,
    pub(crate) shape: DriveShape,
    /// The commands into which requests are merged.
    pub(crate) merges: Commands,
    /// The length up to which no request is split, whatever its operation.
    whole: u32,
    /// The number of scheduler tags of all hardware queues together.
    pub(crate) tags: u32,
    /// True if limits let requests pass one by one, and not in slices as in Linux.
    pub(crate) paces: bool,
}

impl Table {
    pub(crate) fn new(sizes: &Sizes, shape: DriveShape, merge: &merge::Config) -> Self {
        Self {
            requests: Pool::new(sizes.requests, Live::EMPTY),
            streams: Pool::new(sizes.streams, Stream::EMPTY),
            groups: Groups::new(sizes.groups),
            spaces: Spaces::new(sizes.spaces),
            pieces: Pieces::new(&shape, sizes.stalled),
            shape,
            merges: Commands::new(merge, sizes.requests),
            whole: shape.max_transfer.min(UNMOVED_MAX),
            tags: (sizes.scheduler_tags).saturating_mul(shape.queues.into()),
            paces: false,
        }
    }

    /// Frees the slot of a request. Returns the number of live requests that its stream still has.
    #[inline]
    pub(crate) fn forget(&mut self, request: u32) -> u32 {
        let live = &self.requests[request];
        debug_assert!(
            live.stage == Stage::Finished && live.pieces == 0,
            "it is not over"
        );
        let index = live.request.stream.index;
        // The slot is freed only after the request was reported, so its content is valid until
        // then.
        self.requests.remove(request);
        let stream = &mut self.streams[index];
        stream.live -= 1;
        stream.live
    }

    /// Returns the length of the next piece of a request if it has the maximum length, and true if
    /// the piece is the last one.
    #[inline]
    pub(crate) fn piece(&self, request: u32) -> (u32, bool) {
        let live = &self.requests[request];
        let left = live.request.length - live.issued;
        // The common case needs no comparison of operations.
        if left <= self.whole {
            return (left, true);
        }
        let most = piece_max(live.request.op, self.shape.max_transfer);
        (left.min(most), left <= most)
    }

    /// Reads a field of each cache line of a request that will be dispatched soon. If that is done
    /// for several requests in a row, the processor fetches their lines at the same time instead of
    /// one by one.
    #[inline]
    pub(crate) fn prefetch(&self, request: u32) {
        let live = &self.requests[request];
        // `black_box` keeps the compiler from removing a read without a use.
        core::hint::black_box((live.issued, live.since));
    }

    /// Returns the hardware queue of a request, which is that of its stream.
    #[inline]
    pub(crate) fn queue_of(&self, request: u32) -> QueueId {
        let stream = self.requests[request].request.stream;
        self.pieces.queue_of(stream.index)
    }

    /// Returns the bytes of a request that have not been dispatched.
    pub(crate) fn left(&self, request: u32) -> u32 {
        let live = &self.requests[request];
        live.request.length - live.issued
    }

    /// Returns the live requests of a stream, in no particular order.
    ///
    /// It visits every slot up to the last request of the stream. That is acceptable because it is
    /// used only if a client disconnects, stops reading or gives a request up, and it saves a list
    /// for each stream on the path of every request.
    pub(crate) fn of_stream(&self, stream: u32) -> impl Iterator<Item = (u32, &Live)> {
        let all = self.requests.iter();
        all.filter(move |(_, live)| live.request.stream.index == stream)
            // The scan ends at the last live request of the stream.
            .take(self.streams[stream].live as usize)
    }

    /// Returns all live requests in the order of their slots. It stops at the last one.
    #[cfg(debug_assertions)]
    pub(crate) fn all_live(&self) -> impl Iterator<Item = (u32, &Live)> {
        let live: u32 = self.streams.iter().map(|(_, stream)| stream.live).sum();
        self.requests.iter().take(live as usize)
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

/// The longest piece of an operation that moves no data, to which `max_transfer` does not apply.
const UNMOVED_MAX: u32 = 64 << 20;

/// Returns the longest piece of an operation in bytes.
pub(crate) fn piece_max(op: Op, max_transfer: u32) -> u32 {
    match op {
        Op::Read | Op::Write => max_transfer,
        Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => UNMOVED_MAX,
    }
}

/// The pieces by their names. A *name* is the number by which the driver knows a piece: the tag
/// that the piece got at its dispatch. Each hardware queue has a range of tags of its own.
#[derive(Debug)]
pub(crate) struct Pieces {
    slots: Vec<TagSlot>,
    /// The first free tag of each hardware queue, or [`NIL`].
    free: Vec<u32>,
    /// For each closed hardware queue, the first of the tags that were free when it was closed.
    /// Nothing is sent to a closed queue.
    closed: Vec<u32>,
    /// The number of free tags of all open queues.
    left: u32,
    /// The first name that stands for no tag, or [`NIL`]. `spares` is the number of such names.
    spare: u32,
    spares: u32,
}

/// The link of a tag that is in use.
const TAKEN: u32 = NIL - 1;

/// The link of a piece in the drive of a stalled space. Its name remains in use, and another name
/// stands for its tag.
const STALLED: u32 = NIL - 2;

/// The slot of a tag.
#[derive(Clone, Debug)]
struct TagSlot {
    piece: Piece,
    /// The next free tag of the same queue or [`NIL`] if this one is free, and otherwise [`TAKEN`]
    /// or [`STALLED`].
    next_free: u32,
}

impl Pieces {
    fn new(shape: &DriveShape, spares: u32) -> Self {
        let (queues, tags) = (u32::from(shape.queues), u32::from(shape.tags));
        let (all, names) = (shape.all_tags(), shape.all_tags() + spares);
        let slot = |name: u32| {
            let is_last = name + 1 == names || name < all && (name + 1).is_multiple_of(tags);
            TagSlot {
                piece: Piece::NONE,
                next_free: if is_last { NIL } else { name + 1 },
            }
        };
        Self {
            slots: (0..names).map(slot).collect(),
            free: (0..queues).map(|queue| queue * tags).collect(),
            closed: vec![NIL; queues as usize],
            left: all,
            spare: if spares > 0 { all } else { NIL },
            spares,
        }
    }

    /// Returns the number of pieces in the drive, including those of stalled spaces.
    pub(crate) fn len(&self) -> u32 {
        let closed = self.closed.iter();
        let closed = closed.map(|&first| self.run(first).count() as u32);
        self.slots.len() as u32 - self.spares - self.left - closed.sum::<u32>()
    }

    /// Returns true if no open queue has a free tag.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Returns true if a queue is open and has a free tag.
    #[inline]
    pub(crate) fn has_room(&self, queue: QueueId) -> bool {
        self.free[usize::from(queue.0)] != NIL
    }

    /// Returns the hardware queue of a stream. Streams are spread evenly over the queues, as
    /// processors are in Linux (`blk_mq_map_queues`).
    #[inline]
    pub(crate) fn queue_of(&self, stream: u32) -> QueueId {
        match self.free.len() {
            // With one queue, the division is saved.
            1 => QueueId(0),
            queues => QueueId((stream as usize % queues) as u16),
        }
    }

    /// Returns the free tags from this one on.
    fn run(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let first = Some(first).filter(|&tag| tag != NIL);
        core::iter::successors(first, |&tag| {
            Some(self.slots[tag as usize].next_free).filter(|&next| next != NIL)
        })
    }

    /// Closes a queue, so that nothing is sent to it until it is opened. It can be closed already.
    #[cold]
    pub(crate) fn close(&mut self, queue: QueueId) {
        let queue = usize::from(queue.0);
        let first = core::mem::replace(&mut self.free[queue], NIL);
        self.left -= self.run(first).count() as u32;
        self.splice(queue, first);
    }

    /// Opens a queue, so that its free tags can be used again.
    #[cold]
    pub(crate) fn open(&mut self, queue: QueueId) {
        let queue = usize::from(queue.0);
        let first = core::mem::replace(&mut self.free[queue], NIL);
        // Tags that were freed while the queue was closed are in `left` already.
        let freed = self.run(first).count() as u32;
        self.splice(queue, first);
        let all = core::mem::replace(&mut self.closed[queue], NIL);
        self.left += self.run(all).count() as u32 - freed;
        self.free[queue] = all;
    }

    /// Moves free tags to the front of the list of a closed queue.
    fn splice(&mut self, queue: usize, first: u32) {
        if let Some(last) = self.run(first).last() {
            self.slots[last as usize].next_free = self.closed[queue];
            self.closed[queue] = first;
        }
    }

    /// Gives `piece` a tag of its stream's queue, or of the next queue that has a free one. At
    /// least one open queue must have a free tag.
    #[inline]
    pub(crate) fn insert(&mut self, mut piece: Piece, stream: u32) -> (QueueId, Tag) {
        // With one queue, the search is saved.
        let (queue, free) = if let [only] = &mut self.free[..] {
            (0, only)
        } else {
            let queue = self.next_with_room(stream);
            (queue, &mut self.free[queue])
        };
        let tag = *free;
        debug_assert!(tag != NIL && self.left > 0, "no tag is free");
        let slot = &mut self.slots[tag as usize];
        *free = slot.next_free;
        // The link is unused while the tag is in use, so it marks that state.
        slot.next_free = TAKEN;
        piece.queue = QueueId(queue as u16);
        slot.piece = piece;
        self.left -= 1;
        (piece.queue, Tag(tag))
    }

    #[inline(never)]
    fn next_with_room(&self, stream: u32) -> usize {
        let mut queue = usize::from(self.queue_of(stream).0);
        while self.free[queue] == NIL {
            queue = (queue + 1) % self.free.len();
        }
        queue
    }

    #[inline]
    pub(crate) fn get(&self, tag: Tag) -> Option<&Piece> {
        let slot = self.slots.get(tag.0 as usize)?;
        (slot.next_free == TAKEN).then_some(&slot.piece)
    }

    /// Returns the piece that had this tag last.
    pub(crate) fn last(&self, tag: Tag) -> &Piece {
        &self.slots[tag.0 as usize].piece
    }

    /// Returns the number of names that a piece can have: those of tags, and spare ones.
    pub(crate) fn names(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of pieces that can stall in addition to those that have stalled.
    pub(crate) fn spares(&self) -> u32 {
        self.spares
    }

    /// Returns the piece that stalled with this name.
    #[cold]
    pub(crate) fn get_stalled(&self, tag: Tag) -> Option<&Piece> {
        let slot = self.slots.get(tag.0 as usize)?;
        (slot.next_free == STALLED).then_some(&slot.piece)
    }

    /// Marks a piece in flight as stalled. It keeps its name, and a spare name takes over its tag,
    /// which is free now. There must be a spare name.
    #[cold]
    pub(crate) fn stall(&mut self, tag: Tag) {
        let spare = self.spare;
        let queue = self.slots[tag.0 as usize].piece.queue;
        debug_assert!(self.slots[tag.0 as usize].next_free == TAKEN && self.spares > 0);
        self.slots[tag.0 as usize].next_free = STALLED;
        let slot = &mut self.slots[spare as usize];
        self.spare = slot.next_free;
        self.spares -= 1;
        slot.next_free = TAKEN;
        slot.piece.queue = queue;
        // The spare name takes the place of the tag and is freed as if its piece had completed.
        self.remove(Tag(spare));
    }

    /// Returns the name of a stalled piece to the spare names when it completes.
    #[cold]
    pub(crate) fn remove_stalled(&mut self, tag: Tag) {
        let slot = &mut self.slots[tag.0 as usize];
        debug_assert!(slot.next_free == STALLED, "it has not stalled");
        slot.next_free = self.spare;
        self.spare = tag.0;
        self.spares += 1;
    }

    /// Frees the tag of a piece in flight.
    #[inline]
    pub(crate) fn remove(&mut self, tag: Tag) {
        let slot = &mut self.slots[tag.0 as usize];
        debug_assert!(slot.next_free == TAKEN, "the tag is free");
        let free = match &mut self.free[..] {
            [only] => only,
            all => &mut all[usize::from(slot.piece.queue.0)],
        };
        slot.next_free = *free;
        *free = tag.0;
        self.left += 1;
    }

    /// Checks that every name is in use, stalled, spare, or once in one list of free names of its
    /// queue, and that each queue has its original number of tags.
    #[cfg(debug_assertions)]
    pub(crate) fn invariants(&self, shape: &DriveShape) {
        let taken = self.iter().count();
        let (mut open, mut closed) = (0, 0);
        for (queue, (&first, &kept)) in self.free.iter().zip(&self.closed).enumerate() {
            let of_queue = |p: &Piece| usize::from(p.queue.0) == queue;
            let free = self.run(first).chain(self.run(kept)).count();
            let out = self.iter().filter(|(_, p)| of_queue(p)).count();
            assert_eq!(free + out, shape.tags.into(), "tags of queue {queue}");
            open += self.run(first).count();
            closed += self.run(kept).count();
        }
        let stalled = self.slots.iter().filter(|s| s.next_free == STALLED);
        let spare = self.run(self.spare).count();
        assert_eq!(spare, self.spares as usize, "spare names");
        assert_eq!(open, self.left as usize, "free tags");
        let all = taken + open + closed + stalled.count() + spare;
        assert_eq!(all, self.slots.len(), "a tag is lost");
    }

    /// Returns the pieces in flight with their tags. Pieces that stalled are not included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tag, &Piece)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, s)| s.next_free == TAKEN)
            .map(|(i, s)| (Tag(i as u32), &s.piece))
    }
}
