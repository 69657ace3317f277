//! The externally visible state of a layer: the state of every request, stream, group and tag,
//! derived from calls, outputs and events.
//!
//! All auditors share one [`LayerModel`], so that each auditor contains only its rule. The model
//! follows every call, output and event without panicking, even if it is wrong. Reporting errors is
//! the task of the auditors.

mod index;
mod lane;
mod tree;

pub(crate) use index::NIL;
pub use lane::{AuditedLane, HardwareQueue, Lanes};
pub use tree::{AuditedTree, ModelGroup};

use index::RequestIndex;
use weir_core::{
    Completion, Config, Dispatch, Edit, GroupId, Instant, Op, Outcome, Request, SpaceId, StreamId,
    StreamSpec,
};

/// A request that was accepted and is not completed.
#[derive(Clone, Copy, Debug)]
pub struct LiveRequest {
    /// The request as it was submitted.
    pub request: Request,
    /// The group of its stream.
    pub group: GroupId,
    /// The time at which it was submitted.
    pub submitted: Instant,
    /// The position of its submission among all events.
    pub sequence: u64,
    /// True if it has passed its limits.
    pub released: bool,
    /// The time at which it last passed its limits or a controller that throttled it, if it is
    /// released.
    pub released_at: Instant,
    /// True while it is throttled in favour of the latency of another group.
    pub throttled: bool,
    /// True if it was cancelled, or its stream closed, before all of it was dispatched.
    pub given_up: bool,
    /// True if only its report is missing.
    pub over: bool,
    /// The number of bytes dispatched to the drive.
    pub issued: u32,
    /// The number of its pieces in flight.
    pub pieces: u32,
    /// The time at which its first piece was dispatched, or the flush command that serves it.
    pub dispatched: Option<Instant>,
    /// The time at which its last piece returned, or at which it was given up. Before that, the
    /// time of its submission.
    pub ended: Instant,
    /// The outcome of the first piece that failed. `Cancelled` if the request was given up before
    /// any piece failed.
    pub failure: Option<Outcome>,
    /// True if its stream was on hold at some time.
    pub was_held: bool,
    /// True for a flush that is served by a command in flight.
    pub riding: bool,
    /// The start of the range of the command that it leads. This is its own range, unless other
    /// requests were merged into it.
    pub offset: u64,
    /// The length of that range in bytes.
    pub length: u32,
    /// The slot of the request into whose command it was merged, or [`NIL`] if it has a command of
    /// its own.
    pub(crate) leader: u32,
    /// The next request that was merged into the same command, in no particular order. For a
    /// leader, the first of them.
    member: u32,
    /// The number of requests in the command that it leads.
    pub members: u32,
    /// True if its command was taken apart while it waited as a member of that command. In that
    /// case a controller may have throttled it again.
    pub was_parted: bool,
    /// True if its space has stalled. The auditor [`StallsAuditor`](crate::audit::StallsAuditor)
    /// then checks which of its pieces may be sent.
    pub in_stalled_space: bool,
    /// True if its pieces in flight have stalled.
    pub stalled: bool,
    /// The length in bytes of a piece that is on its way to the drive and has no tag yet.
    pub ahead: u32,
    /// The neighbours in the list of its stream's requests.
    prev: u32,
    next: u32,
    in_use: bool,
}

/// The state of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamState {
    /// The stream is open.
    Open,
    /// The stream is open and on hold.
    Held,
    /// The stream is closed, and some of its requests are not reported as done yet.
    Closing,
}

/// A stream that is open or draining.
#[derive(Clone, Copy, Debug)]
pub struct ModelStream {
    /// The id of the stream.
    pub id: StreamId,
    /// The group of the stream.
    pub group: GroupId,
    /// The state of the stream.
    pub state: StreamState,
    /// The number of its live requests.
    pub live: u32,
    /// The number of its requests with bytes left that might be dispatched now if there were space,
    /// without flushes.
    pub sendable: u32,
    first: u32,
    last: u32,
}

/// A piece that is in flight.
#[derive(Clone, Copy, Debug)]
pub struct ModelFlight {
    /// The piece as it was dispatched.
    pub dispatch: Dispatch,
    /// The slot of its request.
    pub slot: u32,
    /// The sequence number of its request, in case the slot is reused.
    sequence: u64,
    /// True if the drive returned it as busy.
    pub busy: bool,
    /// True if its space has stalled. Such a piece occupies no place in its queue.
    pub stalled: bool,
}

/// A space of the layer.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// The size of the space in bytes, if the space exists.
    pub size: Option<u64>,
    /// True if the space has stalled at some time.
    pub stalls: bool,
}

/// The state of a layer as its calls, outputs and events show it.
#[derive(Debug)]
pub struct LayerModel {
    /// The configuration of the layer, with its current capacity.
    pub config: Config,
    /// The time, clamped as in the layer.
    pub now: Instant,
    /// The number of events so far.
    pub sequence: u64,
    /// The tree of all groups.
    pub tree: AuditedTree,
    /// The spaces, by slot.
    pub spaces: Vec<Space>,
    /// The flushes, by space and hardware queue.
    pub lanes: Vec<AuditedLane>,
    /// The contents of each hardware queue.
    pub queues: Vec<HardwareQueue>,
    /// The assignment of streams to lanes and queues.
    pub layout: Lanes,
    /// The pieces in flight, by tag.
    pub tags: Vec<Option<ModelFlight>>,
    /// The number of pieces in flight, including busy ones and without stalled ones.
    pub in_flight: u32,
    /// The number of stalled pieces.
    pub stalled: u32,
    /// The number of pieces in flight that the drive returned as busy.
    pub busy: u32,
    /// The number of live requests.
    pub live: u32,
    /// The number of requests with bytes left that might be dispatched now if there were space,
    /// without flushes.
    pub sendable: u32,
    /// The number of requests with pieces in flight, without flushes.
    pub in_drive: u32,
    /// The number of live requests beyond those reserved for their stream.
    pub shared: u32,
    requests: Vec<LiveRequest>,
    free: Vec<u32>,
    index: RequestIndex,
    streams: Vec<Option<ModelStream>>,
}

impl LayerModel {
    /// Creates the model of a layer that was just created.
    pub fn new(config: &Config) -> Self {
        let (limits, layout) = (config.sizes, Lanes::new(config));
        let tags = config.tags() as usize;
        Self {
            config: config.clone(),
            now: Instant::ZERO,
            sequence: 0,
            tree: AuditedTree::new(limits.groups),
            spaces: vec![Space::default(); limits.spaces as usize],
            lanes: vec![AuditedLane::default(); layout.count()],
            queues: vec![HardwareQueue::default(); config.drive.queues.into()],
            layout,
            tags: vec![None; tags],
            in_flight: 0,
            stalled: 0,
            busy: 0,
            live: 0,
            sendable: 0,
            in_drive: 0,
            shared: 0,
            requests: Vec::with_capacity(limits.requests as usize),
            free: Vec::with_capacity(limits.requests as usize),
            index: RequestIndex::new(limits.requests.max(1)),
            streams: vec![None; limits.streams as usize],
        }
    }

    /// Returns the slot of a live request.
    pub fn find(&self, stream: StreamId, cookie: u64) -> Option<u32> {
        let slot = self.index.get((stream.to_bits(), cookie));
        (slot != NIL).then_some(slot)
    }

    /// Returns the live request in a slot.
    pub fn request(&self, slot: u32) -> &LiveRequest {
        &self.requests[slot as usize]
    }

    /// Returns a stream that is open or draining.
    pub fn stream(&self, id: StreamId) -> Option<&ModelStream> {
        self.in_slot(id.slot()).filter(|s| s.id == id)
    }

    /// Returns the stream in a slot, whichever it is.
    pub fn in_slot(&self, slot: u32) -> Option<&ModelStream> {
        self.streams.get(slot as usize)?.as_ref()
    }

    /// Returns all streams that are open or draining.
    pub fn streams(&self) -> impl Iterator<Item = &ModelStream> {
        self.streams.iter().flatten()
    }

    /// Returns the live requests of a stream, oldest first.
    pub fn requests_of(&self, stream: &ModelStream) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NIL).then_some(slot);
        std::iter::successors(some(stream.first), move |&s| some(self.request(s).next))
    }

    /// Returns all live requests with their slots.
    pub fn live_requests(&self) -> impl Iterator<Item = (u32, &LiveRequest)> {
        let named = |(i, l): (usize, &'_ LiveRequest)| l.in_use.then_some(i as u32);
        let slots = self.requests.iter().enumerate().filter_map(named);
        slots.map(|slot| (slot, self.request(slot)))
    }

    /// Returns true if a flush of some space could be dispatched now if there were space.
    pub fn flush_sendable(&self) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| !lane.flushing && !lane.flushes.is_empty())
    }

    /// Returns true if a hardware queue accepts another piece. It must have a free tag, and no busy
    /// piece that waits to be sent again.
    pub fn has_room(&self, queue: usize) -> bool {
        let all = self.config.drive.tags.into();
        let queue = self.queues[queue];
        queue.busy == 0 && queue.in_flight < all
    }

    /// Returns true if this dispatches a piece again that the drive returned as busy.
    pub fn is_repetition(&self, dispatch: &Dispatch) -> bool {
        let flight = self.tags.get(dispatch.tag.0 as usize);
        matches!(flight, Some(Some(f)) if f.busy && f.dispatch == *dispatch)
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    pub(crate) fn opened(&mut self, id: StreamId, spec: StreamSpec) {
        let stream = ModelStream {
            id,
            group: spec.group,
            state: StreamState::Open,
            live: 0,
            sendable: 0,
            first: NIL,
            last: NIL,
        };
        if let Some(slot) = self.streams.get_mut(id.slot() as usize) {
            *slot = Some(stream);
        }
    }

    pub(crate) fn closed(&mut self, id: StreamId) {
        let Some(&stream) = self.stream(id) else {
            return;
        };
        // The list is walked by hand, because giving up a request may remove it.
        let mut next = stream.first;
        self.set_state(id, StreamState::Closing);
        while next != NIL {
            let slot = next;
            next = self.request(slot).next;
            self.give_up(slot);
        }
        self.forget_if_drained(id);
    }

    pub(crate) fn held(&mut self, id: StreamId, held: bool) {
        let Some(stream) = self.stream(id) else {
            return;
        };
        if stream.state != StreamState::Closing {
            self.set_state(
                id,
                if held {
                    StreamState::Held
                } else {
                    StreamState::Open
                },
            );
        }
    }

    /// Adds an accepted request. Returns `None` if its name is in use, its stream is unknown or the
    /// layer has no space for it.
    pub(crate) fn accepted(&mut self, request: &Request) -> Option<u32> {
        let name = (request.stream.to_bits(), request.cookie);
        let &stream = self.stream(request.stream)?;
        // The driver is at fault here, and `Audit` reports it under its name.
        if self.index.get(name) != NIL || self.live as usize >= self.config.sizes.requests as usize
        {
            return None;
        }
        self.sequence += 1;
        let live = LiveRequest {
            request: *request,
            group: stream.group,
            submitted: self.now,
            sequence: self.sequence,
            released: false,
            released_at: Instant::ZERO,
            throttled: false,
            given_up: false,
            over: false,
            issued: 0,
            pieces: 0,
            dispatched: None,
            ended: self.now,
            failure: None,
            was_held: stream.state == StreamState::Held,
            riding: false,
            offset: request.offset,
            length: request.length,
            leader: NIL,
            member: NIL,
            members: 1,
            was_parted: false,
            in_stalled_space: (self.spaces.get(request.space.0 as usize)).is_some_and(|s| s.stalls),
            stalled: false,
            ahead: 0,
            prev: stream.last,
            next: NIL,
            in_use: true,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.requests[slot as usize] = live;
            slot
        } else {
            self.requests.push(live);
            (self.requests.len() - 1) as u32
        };
        self.index.insert(name, slot);
        if stream.last != NIL {
            self.requests[stream.last as usize].next = slot;
        }
        let reserved = self.config.sizes.reserved;
        if let Some(stream) = &mut self.streams[request.stream.slot() as usize] {
            stream.first = if stream.first == NIL {
                slot
            } else {
                stream.first
            };
            stream.last = slot;
            stream.live += 1;
            // Requests up to the stream's reservation do not count as shared.
            self.shared += u32::from(stream.live > reserved);
        }
        self.live += 1;
        Some(slot)
    }

    pub(crate) fn released(&mut self, slot: u32) {
        let now = self.now;
        self.update(slot, |live| {
            live.released = true;
            live.released_at = now;
        });
    }

    pub(crate) fn throttled(&mut self, slot: u32) {
        self.update(slot, |live| live.throttled = true);
    }

    pub(crate) fn passed(&mut self, slot: u32) {
        let now = self.now;
        self.update(slot, |live| {
            live.throttled = false;
            live.released_at = now;
        });
    }

    /// Returns the members of a request: those that were merged into it.
    pub(crate) fn members(&self, leader: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NIL).then_some(slot);
        let first = some(self.request(leader).member);
        std::iter::successors(first, move |&s| some(self.request(s).member))
    }

    /// Merges a request and its members into another.
    pub(crate) fn merged(&mut self, slot: u32, leader: u32) {
        let other = *self.request(slot);
        // The auditor `Once` reports such a merge. Following it would make the lists circular.
        if slot == leader || other.leader != NIL || self.request(leader).leader != NIL {
            return;
        }
        let mut last = slot;
        let members: Vec<u32> = self.members(slot).collect();
        for member in members {
            self.requests[member as usize].leader = leader;
            last = member;
        }
        self.update(slot, |live| {
            live.leader = leader;
            live.offset = live.request.offset;
            live.length = live.request.length;
            live.members = 1;
        });
        self.requests[last as usize].member = self.request(leader).member;
        self.update(leader, |live| {
            live.member = slot;
            live.offset = live.offset.min(other.offset);
            live.length = live.length.saturating_add(other.length);
            live.members += other.members;
        });
    }

    /// Takes a command apart before any of it was sent, so that its members are requests of their
    /// own again.
    pub(crate) fn parted(&mut self, leader: u32) {
        let members: Vec<u32> = self.members(leader).collect();
        for slot in members {
            self.requests[slot as usize].was_parted = true;
        }
        self.part(leader);
    }

    fn part(&mut self, leader: u32) {
        let members: Vec<u32> = self.members(leader).collect();
        for slot in members {
            self.update(slot, |live| {
                live.leader = NIL;
                live.member = NIL;
            });
        }
        self.update(leader, |live| {
            live.member = NIL;
            live.members = 1;
            live.offset = live.request.offset;
            live.length = live.request.length;
        });
    }

    /// Counts a piece of a request that is on its way to the drive and has no tag yet.
    pub(crate) fn taken(&mut self, slot: u32, bytes: u32) {
        if self.request(slot).pieces == 0 {
            self.enters_drive(slot);
        }
        self.update(slot, |live| {
            live.ahead = bytes;
            live.issued = live.issued.saturating_add(bytes);
            live.pieces += 1;
        });
    }

    /// Returns true if all of a request's command is in the drive or on its way there.
    pub(crate) fn is_wholly_sent(&self, slot: u32) -> bool {
        let live = self.request(slot);
        let command = if live.leader == NIL {
            live
        } else {
            self.request(live.leader)
        };
        live.riding || live.request.op != Op::Flush && command.issued == command.length
    }

    /// Gives a request up, as [`weir_core::Layer::cancel`] does.
    pub(crate) fn give_up(&mut self, slot: u32) {
        let live = self.request(slot);
        // Pieces in the drive complete in any case, so that such a request keeps its outcome.
        if self.is_wholly_sent(slot) || live.over || live.given_up {
            return;
        }
        let now = self.now;
        self.update(slot, |live| {
            live.given_up = true;
            // The first failure decides: an error before the cancellation stays the outcome.
            live.failure.get_or_insert(Outcome::Cancelled);
            live.over = live.pieces == 0;
            live.ended = now;
        });
    }

    pub(crate) fn dispatched(&mut self, slot: u32, dispatch: &Dispatch) {
        self.sequence += 1;
        let (now, repetition) = (self.now, self.is_repetition(dispatch));
        let Some(place) = self.tags.get_mut(dispatch.tag.0 as usize) else {
            return;
        };
        let before = *place;
        *place = Some(ModelFlight {
            dispatch: *dispatch,
            slot,
            sequence: self.requests[slot as usize].sequence,
            busy: false,
            stalled: before.is_some_and(|f| f.stalled),
        });
        // A busy piece kept its place in the counters, so only a fresh tag increases them.
        let (fresh, again) = (before.is_none(), before.is_some_and(|f| f.busy));
        if let Some(queue) = self.queues.get_mut(usize::from(dispatch.queue.0)) {
            queue.in_flight += u32::from(fresh);
            queue.busy = queue.busy.saturating_sub(again.into());
        }
        self.in_flight += u32::from(fresh);
        self.busy -= u32::from(again);
        if repetition {
            return;
        }
        if dispatch.op == Op::Flush {
            return self.begin_flush(dispatch);
        }
        let members: Vec<u32> = self.members(slot).collect();
        for member in members {
            self.requests[member as usize].dispatched.get_or_insert(now);
        }
        // The piece was already counted when it was taken, see `taken`.
        if self.request(slot).ahead > 0 {
            let live = &mut self.requests[slot as usize];
            live.ahead = 0;
            live.dispatched.get_or_insert(now);
            return;
        }
        if self.request(slot).pieces == 0 {
            self.enters_drive(slot);
        }
        self.update(slot, |live| {
            live.dispatched.get_or_insert(now);
            live.issued = live.issued.saturating_add(dispatch.length);
            live.pieces += 1;
        });
    }

    pub(crate) fn returned(&mut self, completion: &Completion) {
        let Some(Some(flight)) = self.tags.get_mut(completion.tag.0 as usize) else {
            return;
        };
        // A busy piece is not in the drive, so that its completion means nothing until it is sent
        // again.
        if flight.busy {
            return;
        }
        // A forged queue index is counted in a queue that nobody reads.
        let mut nowhere = HardwareQueue::default();
        let queue = self.queues.get_mut(usize::from(flight.dispatch.queue.0));
        let queue = queue.unwrap_or(&mut nowhere);
        let Some(outcome) = completion.outcome else {
            flight.busy = true;
            self.busy += 1;
            queue.busy += 1;
            return;
        };
        // A stalled piece left the counters of its queue when its space stalled.
        let counts = u32::from(!flight.stalled);
        queue.in_flight = queue.in_flight.saturating_sub(counts);
        let flight = *flight;
        self.tags[completion.tag.0 as usize] = None;
        self.in_flight -= counts;
        self.stalled -= 1 - counts;
        if flight.dispatch.op == Op::Flush {
            return self.end_flush(&flight.dispatch, outcome);
        }
        let live = self.request(flight.slot);
        // The slot may hold another request by now.
        if live.in_use && live.sequence == flight.sequence {
            self.piece_back(flight.slot, outcome);
        }
    }

    /// Returns the pieces of a space in flight that have not stalled.
    fn flights_of(&self, space: SpaceId) -> impl Iterator<Item = &ModelFlight> {
        let flights = self.tags.iter().flatten();
        flights.filter(move |f| f.dispatch.space == space && !f.stalled)
    }

    /// Returns true if [`weir_core::Layer::stall`] changes anything for a space.
    pub fn can_stall(&self, space: SpaceId) -> bool {
        let pieces = self.flights_of(space).count() as u32;
        let busy = self.flights_of(space).any(|f| f.busy);
        let room = self.config.sizes.stalled - self.stalled;
        pieces > 0 && !busy && pieces <= room
    }

    /// Marks the pieces of a space in flight as stalled, and its requests as being in a stalled
    /// space.
    pub(crate) fn stall(&mut self, space: SpaceId) {
        for at in 0..self.tags.len() {
            let Some(flight) = &mut self.tags[at] else {
                continue;
            };
            if flight.dispatch.space != space || flight.stalled {
                continue;
            }
            flight.stalled = true;
            let flight = *flight;
            self.stalled += 1;
            self.in_flight -= 1;
            if let Some(queue) = self.queues.get_mut(usize::from(flight.dispatch.queue.0)) {
                queue.in_flight = queue.in_flight.saturating_sub(1);
            }
            let live = &mut self.requests[flight.slot as usize];
            let is_its = live.in_use && live.sequence == flight.sequence;
            if is_its && flight.dispatch.op != Op::Flush && !live.stalled {
                live.stalled = true;
                self.leaves_drive(flight.slot);
            }
        }
        if let Some(space) = self.spaces.get_mut(space.0 as usize) {
            space.stalls = true;
        }
        for slot in 0..self.requests.len() as u32 {
            let live = self.request(slot);
            if live.in_use && live.request.space == space {
                self.update(slot, |live| live.in_stalled_space = true);
            }
        }
    }

    /// Removes a request that is completed.
    pub(crate) fn done(&mut self, slot: u32) {
        self.update(slot, |live| live.over = true);
        let live = *self.request(slot);
        let id = live.request.stream;
        if live.riding
            && let at = self.layout.lane(live.request.space, live.request.stream)
            && let Some(lane) = self.lanes.get_mut(at)
        {
            lane.riders.retain(|&s| s != slot);
        }
        if live.pieces > 0 && live.request.op != Op::Flush && !live.stalled {
            self.leaves_drive(slot);
        }
        self.index.remove((id.to_bits(), live.request.cookie));
        let reserved = self.config.sizes.reserved;
        let stream = self.streams[id.slot() as usize]
            .as_mut()
            .filter(|s| s.id == id);
        if let Some(stream) = stream {
            stream.live -= 1;
            self.shared -= u32::from(stream.live >= reserved);
            stream.first = if stream.first == slot {
                live.next
            } else {
                stream.first
            };
            stream.last = if stream.last == slot {
                live.prev
            } else {
                stream.last
            };
        }
        if live.prev != NIL {
            self.requests[live.prev as usize].next = live.next;
        }
        if live.next != NIL {
            self.requests[live.next as usize].prev = live.prev;
        }
        self.requests[slot as usize].in_use = false;
        self.free.push(slot);
        self.live -= 1;
        self.forget_if_drained(id);
    }

    /// Applies a change that was accepted. Returns false if it should not have been accepted.
    pub(crate) fn changed(&mut self, edits: &[Edit]) -> bool {
        let mut sound = true;
        for edit in edits {
            sound &= self.tree.apply(edit);
            match *edit {
                Edit::SetSpace { id, size } => match self.spaces.get_mut(id.0 as usize) {
                    Some(space) => space.size = size,
                    None => sound = false,
                },
                Edit::SetCapacity(capacity) => self.config.drive.capacity = capacity,
                _ => {}
            }
        }
        sound
    }

    fn set_state(&mut self, id: StreamId, state: StreamState) {
        let Some(Some(stream)) = self.streams.get_mut(id.slot() as usize) else {
            return;
        };
        let before = std::mem::replace(&mut stream.state, state);
        let mut next = stream.first;
        while next != NIL {
            let slot = next;
            // A request that could be sent in the old state may not be sendable in the new one.
            self.count(slot, before, false);
            let live = &mut self.requests[slot as usize];
            live.was_held |= state == StreamState::Held;
            next = live.next;
            self.count(slot, state, true);
        }
    }

    fn forget_if_drained(&mut self, id: StreamId) {
        if let Some(slot) = self.streams.get_mut(id.slot() as usize)
            && slot.is_some_and(|s| s.id == id && s.state == StreamState::Closing && s.live == 0)
        {
            *slot = None;
        }
    }

    /// Changes a request, and updates the counters with it.
    #[inline]
    fn update(&mut self, slot: u32, change: impl FnOnce(&mut LiveRequest)) {
        let state = self.state_of(slot);
        self.count(slot, state, false);
        change(&mut self.requests[slot as usize]);
        self.count(slot, state, true);
    }

    #[inline]
    fn state_of(&self, slot: u32) -> StreamState {
        let id = self.request(slot).request.stream;
        self.stream(id).map_or(StreamState::Closing, |s| s.state)
    }

    #[inline]
    fn is_sendable(live: &LiveRequest, state: StreamState) -> bool {
        live.released
            && !live.throttled
            && !live.given_up
            && !live.over
            && live.leader == NIL
            // Flushes of a stalled space may still be sent. Other requests are probes, which are
            // counted elsewhere.
            && (live.request.op == Op::Flush || !live.in_stalled_space)
            && state == StreamState::Open
    }

    /// Counts a request among those that might be dispatched, or (without `more`) removes it from
    /// the count.
    #[inline]
    fn count(&mut self, slot: u32, state: StreamState, more: bool) {
        let live = &self.requests[slot as usize];
        if !Self::is_sendable(live, state) {
            return;
        }
        if live.request.op != Op::Flush {
            if live.issued < live.length {
                let count = |n: &mut u32| *n = if more { *n + 1 } else { *n - 1 };
                count(&mut self.sendable);
                let stream = &mut self.streams[live.request.stream.slot() as usize];
                if let Some(stream) = stream {
                    count(&mut stream.sendable);
                }
            }
        } else if !live.riding {
            let lane = self.layout.lane(live.request.space, live.request.stream);
            let flushes = &mut self.lanes[lane].flushes;
            if more {
                flushes.push(slot);
            } else {
                flushes.retain(|&s| s != slot);
            }
        }
    }

    /// Begins a flush command, which serves every waiting flush of its space and hardware queue.
    fn begin_flush(&mut self, dispatch: &Dispatch) {
        let now = self.now;
        let lane = self.layout.lane(dispatch.space, dispatch.stream);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        lane.flushing = true;
        // All waiting flushes ride on this command. Those that arrive later must wait for the next
        // one.
        std::mem::swap(&mut lane.flushes, &mut lane.riders);
        lane.flushes.clear();
        for &slot in &lane.riders {
            let live = &mut self.requests[slot as usize];
            live.riding = true;
            live.dispatched = Some(now);
        }
    }

    fn end_flush(&mut self, dispatch: &Dispatch, outcome: Outcome) {
        let now = self.now;
        let lane = self.layout.lane(dispatch.space, dispatch.stream);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        lane.flushing = false;
        for slot in lane.riders.drain(..) {
            let live = &mut self.requests[slot as usize];
            live.over = true;
            live.ended = now;
            live.failure = (outcome != Outcome::Ok).then_some(outcome);
        }
    }

    /// Ends a command, and with it all requests merged into it.
    fn end_members(&mut self, leader: u32) {
        let LiveRequest { ended, failure, .. } = *self.request(leader);
        let members: Vec<u32> = self.members(leader).collect();
        self.part(leader);
        for slot in std::iter::once(leader).chain(members) {
            self.update(slot, |live| {
                live.issued = live.request.length;
                live.over = true;
                live.ended = ended;
                live.failure = live.failure.or(failure);
            });
        }
    }

    fn piece_back(&mut self, slot: u32, outcome: Outcome) {
        let now = self.now;
        self.update(slot, |live| {
            live.pieces -= 1;
            live.ended = now;
            if outcome != Outcome::Ok {
                live.failure.get_or_insert(outcome);
            }
            // A request ends with its last piece: all bytes are sent, or it was given up.
            live.over = live.pieces == 0 && (live.given_up || live.issued == live.length);
        });
        // The members have no pieces of their own and share the fate of the command.
        if self.request(slot).over && self.request(slot).members > 1 {
            self.end_members(slot);
        }
        if self.request(slot).pieces > 0 {
            return;
        }
        if !std::mem::take(&mut self.requests[slot as usize].stalled) {
            self.leaves_drive(slot);
        }
    }

    /// Counts a request whose first piece is on the way to the drive.
    fn enters_drive(&mut self, slot: u32) {
        let queue = self.layout.queue_of(self.request(slot).request.stream);
        self.in_drive += 1;
        self.queues[queue].requests += 1;
    }

    /// Stops counting a request that has no piece in the drive any more.
    fn leaves_drive(&mut self, slot: u32) {
        let queue = self.layout.queue_of(self.request(slot).request.stream);
        self.in_drive -= 1;
        self.queues[queue].requests -= 1;
    }
}
