//! What every stage may look at: live requests, streams, groups, what is in the drive.

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

/// Where a live request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Held back by the controller of this number in the chain.
    Controller(u8),
    /// Waiting for a scheduler tag.
    Front,
    /// Taken out because its stream is on hold or its space stalls.
    OnHold,
    /// In the plug: it has a scheduler tag and goes to the elevator at the end of its batch.
    Plug,
    /// Part of the command of another request, its leader.
    Merged,
    /// A flush that waits for the one in flight.
    Flush,
    /// A flush in the drive.
    Flushing,
    /// In the elevator, perhaps with some pieces in the drive already.
    Elevator,
    /// Wholly in the drive.
    Drive,
    /// Over, waiting to be reported.
    Finished,
}

/// A request that was accepted and is not done. There may be many more than the cache holds, so what a dispatch and a completion look at
/// stands first and fills one cache line; what is told at the end and seldom looked at before is in the next.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Live {
    /// As it was submitted; of the leader of a command, offset and length are the command's until it is over.
    pub(crate) request: Request,
    /// Bytes handed to the drive so far.
    pub(crate) issued: u32,
    /// Pieces in the drive.
    pub(crate) pieces: u32,
    pub(crate) outcome: Outcome,
    /// Has a scheduler tag.
    pub(crate) tagged: bool,
    pub(crate) stage: Stage,
    pub(crate) group: GroupId,
    /// When its first piece went to the drive; [`Instant::MAX`]: none has yet. Nothing waits until this is written, and with it comes the
    /// line that the answer is made from.
    pub(crate) dispatched: Instant,
    pub(crate) submitted: Instant,
    /// When it came to where it is held back, or ended.
    pub(crate) since: Instant,
    /// Its submission, plus the time for which it was held back.
    pub(crate) cleared: Instant,
    /// Number of requests that were accepted before it.
    pub(crate) number: u64,
    /// How many of its pieces are in the drive of a stalled space and count nowhere else: none of
    /// them, or all.
    pub(crate) stalled: u32,
    /// It is one of those that its space may have under way although it stalls; says nothing where
    /// the space does not stall.
    pub(crate) admitted: bool,
}

/// The second cache line begins with it.
const _: () = assert!(core::mem::offset_of!(Live, dispatched) == 64);

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
    /// A request was accepted and goes to the elevator, unless it is found to belong elsewhere. Written where it stands.
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

    /// Some of it has gone to the drive.
    #[inline]
    pub(crate) fn is_dispatched(&self) -> bool {
        self.dispatched < Instant::MAX
    }

    /// A piece of it failed, or it is given up. The first to happen counts.
    #[cold]
    pub(crate) fn fail(&mut self, outcome: Outcome) {
        if self.outcome == Outcome::Ok {
            self.outcome = outcome;
        }
    }

    /// It is over as of now. Returns whether it had a scheduler tag, which is free now.
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
    /// A piece of a request that goes to the drive now; its queue is not known yet.
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

/// The tables.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) requests: Pool<Live, Lines>,
    pub(crate) streams: Pool<Stream, HalfLine>,
    pub(crate) groups: Groups,
    pub(crate) spaces: Spaces,
    pub(crate) pieces: Pieces,
    pub(crate) shape: DriveShape,
    /// Which requests are merged.
    pub(crate) merges: Commands,
    /// Requests up to this length are never split.
    whole: u32,
    /// Scheduler tags of all hardware queues.
    pub(crate) tags: u32,
    /// Limits let requests through one by one, and not in slices as Linux's do.
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

    /// Frees the slot of a request. Returns how many its stream has left.
    #[inline]
    pub(crate) fn forget(&mut self, request: u32) -> u32 {
        let live = &self.requests[request];
        debug_assert!(
            live.stage == Stage::Finished && live.pieces == 0,
            "it is not over"
        );
        let index = live.request.stream.index;
        self.requests.remove(request);
        let stream = &mut self.streams[index];
        stream.live -= 1;
        stream.live
    }

    /// The length of the next piece of a request if it is sent whole, and whether that is all that is left of it.
    #[inline]
    pub(crate) fn piece(&self, request: u32) -> (u32, bool) {
        let live = &self.requests[request];
        let left = live.request.length - live.issued;
        if left <= self.whole {
            return (left, true);
        }
        let most = piece_max(live.request.op, self.shape.max_transfer);
        (left.min(most), left <= most)
    }

    /// Reads something of each cache line of a request. Where several will be sent soon, the cache fetches them at the same time then,
    /// and not one by one.
    #[inline]
    pub(crate) fn look_at(&self, request: u32) {
        let live = &self.requests[request];
        core::hint::black_box((live.issued, live.since));
    }

    /// The hardware queue of a request: its stream's.
    #[inline]
    pub(crate) fn queue_of(&self, request: u32) -> QueueId {
        let stream = self.requests[request].request.stream;
        self.pieces.queue_of(stream.index)
    }

    /// Bytes of a request that have not been sent.
    pub(crate) fn left(&self, request: u32) -> u32 {
        let live = &self.requests[request];
        live.request.length - live.issued
    }

    /// The live requests of a stream, in no order. It looks at every slot up to the last of them: for when a client leaves, no
    /// longer reads or gives something up, so that nothing has to be kept in order while requests come and go.
    pub(crate) fn of_stream(&self, stream: u32) -> impl Iterator<Item = (u32, &Live)> {
        let all = self.requests.iter();
        all.filter(move |(_, live)| live.request.stream.index == stream)
            .take(self.streams[stream].live as usize)
    }

    /// All live requests, in the order of their slots; it stops at the last of them.
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

/// The longest piece of what moves no data.
const UNMOVED_MAX: u32 = 64 << 20;

/// The longest piece.
pub(crate) fn piece_max(op: Op, max_transfer: u32) -> u32 {
    match op {
        Op::Read | Op::Write => max_transfer,
        Op::Flush | Op::Discard | Op::WriteZeroes | Op::Extents => UNMOVED_MAX,
    }
}

/// Pieces by tag. Each hardware queue has its own run of tags.
#[derive(Debug)]
pub(crate) struct Pieces {
    slots: Vec<Slot>,
    /// The first free tag of each queue, or [`NIL`].
    free: Vec<u32>,
    /// The first free tag of each queue to which nothing is sent: its free tags as of when it was closed.
    closed: Vec<u32>,
    /// Free tags of all queues but those closed.
    left: u32,
    /// The first name that stands for no tag, or [`NIL`], and how many there are.
    spare: u32,
    spares: u32,
}

/// "Not free".
const TAKEN: u32 = NIL - 1;

/// The piece is in the drive of a stalled space: its name is taken, and another one stands for its
/// tag.
const STALLED: u32 = NIL - 2;

/// A tag's place.
#[derive(Clone, Debug)]
struct Slot {
    piece: Piece,
    /// The free tag after this one in its queue, while this one is free, or [`NIL`]; otherwise
    /// [`TAKEN`] or [`STALLED`].
    next_free: u32,
}

impl Pieces {
    fn new(shape: &DriveShape, spares: u32) -> Self {
        let (queues, tags) = (u32::from(shape.queues), u32::from(shape.tags));
        let (all, names) = (shape.all_tags(), shape.all_tags() + spares);
        let slot = |name: u32| {
            let is_last = name + 1 == names || name < all && (name + 1).is_multiple_of(tags);
            Slot {
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

    /// Pieces in the drive, those of stalled spaces among them.
    pub(crate) fn len(&self) -> u32 {
        let closed = self.closed.iter();
        let closed = closed.map(|&first| self.run(first).count() as u32);
        self.slots.len() as u32 - self.spares - self.left - closed.sum::<u32>()
    }

    /// No queue that is open has a free tag.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// A queue is open and has a free tag.
    #[inline]
    pub(crate) fn has_room(&self, queue: QueueId) -> bool {
        self.free[usize::from(queue.0)] != NIL
    }

    /// The hardware queue of a stream: processors, and the programs that run on them, are spread evenly over the queues
    /// (Linux: `blk_mq_map_queues`).
    #[inline]
    pub(crate) fn queue_of(&self, stream: u32) -> QueueId {
        match self.free.len() {
            1 => QueueId(0),
            queues => QueueId((stream as usize % queues) as u16),
        }
    }

    /// The free tags from this one on.
    fn run(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let first = Some(first).filter(|&tag| tag != NIL);
        core::iter::successors(first, |&tag| {
            Some(self.slots[tag as usize].next_free).filter(|&next| next != NIL)
        })
    }

    /// Nothing is sent to a queue until it is opened; it may be closed already.
    #[cold]
    pub(crate) fn close(&mut self, queue: QueueId) {
        let queue = usize::from(queue.0);
        let first = core::mem::replace(&mut self.free[queue], NIL);
        self.left -= self.run(first).count() as u32;
        self.splice(queue, first);
    }

    /// What is free in a queue can be had again.
    #[cold]
    pub(crate) fn open(&mut self, queue: QueueId) {
        let queue = usize::from(queue.0);
        let first = core::mem::replace(&mut self.free[queue], NIL);
        let freed = self.run(first).count() as u32;
        self.splice(queue, first);
        let all = core::mem::replace(&mut self.closed[queue], NIL);
        self.left += self.run(all).count() as u32 - freed;
        self.free[queue] = all;
    }

    /// Puts free tags in front of those of a closed queue.
    fn splice(&mut self, queue: usize, first: u32) {
        if let Some(last) = self.run(first).last() {
            self.slots[last as usize].next_free = self.closed[queue];
            self.closed[queue] = first;
        }
    }

    /// Gives `piece` a tag of its stream's queue, or of the next one that has any; not to be called when full.
    #[inline]
    pub(crate) fn insert(&mut self, mut piece: Piece, stream: u32) -> (QueueId, Tag) {
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

    /// The piece that had a tag last.
    pub(crate) fn last(&self, tag: Tag) -> &Piece {
        &self.slots[tag.0 as usize].piece
    }

    /// Names that a piece may have: those of tags, and spare ones.
    pub(crate) fn names(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Pieces that can stall beside those that have.
    pub(crate) fn spares(&self) -> u32 {
        self.spares
    }

    /// The piece that stalled with this name.
    #[cold]
    pub(crate) fn get_stalled(&self, tag: Tag) -> Option<&Piece> {
        let slot = self.slots.get(tag.0 as usize)?;
        (slot.next_free == STALLED).then_some(&slot.piece)
    }

    /// A piece in flight stalls: it keeps its name, and another name stands for its tag, which is
    /// free. There is a spare name.
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
        self.remove(Tag(spare));
    }

    /// A piece that stalled is back: its name is spare.
    #[cold]
    pub(crate) fn remove_stalled(&mut self, tag: Tag) {
        let slot = &mut self.slots[tag.0 as usize];
        debug_assert!(slot.next_free == STALLED, "it has not stalled");
        slot.next_free = self.spare;
        self.spare = tag.0;
        self.spares += 1;
    }

    /// Frees the tag of a piece that is in flight.
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

    /// Every name is taken, stalled, spare, or in one list of free ones of its queue, once; and
    /// each queue has as many tags as at the beginning.
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

    /// The pieces in flight with their tags; of stalled spaces only those that have gone since.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tag, &Piece)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, s)| s.next_free == TAKEN)
            .map(|(i, s)| (Tag(i as u32), &s.piece))
    }
}
