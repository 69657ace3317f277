//! What is visible from outside: the state of every request, stream, group and tag, derived from calls, outputs and events.
//!
//! All auditors share one model, so that each of them consists of its rule only. The model follows whatever it is told, however
//! wrong, without panicking; reporting errors is the auditors' task.

mod index;
mod lane;
mod tree;

pub(crate) use index::NIL;
pub use lane::{Lane, Lanes, Queue};
pub use tree::{Group, Tree};

use index::Index;
use weir_core::{
    Completion, Config, Dispatch, Edit, GroupId, Instant, Op, Outcome, Request, SpaceId, StreamId,
    StreamSpec,
};

/// A request that was accepted and is not done.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// As it was submitted.
    pub request: Request,
    /// Its stream's group.
    pub group: GroupId,
    /// When it was submitted, and its position among all events.
    pub submitted: Instant,
    /// See [`Self::submitted`].
    pub sequence: u64,
    /// It has passed its limits.
    pub released: bool,
    /// When, if it has.
    pub released_at: Instant,
    /// It is throttled in favour of another group's latency.
    pub throttled: bool,
    /// Cancelled, or its stream closed, before all of it was dispatched.
    pub given_up: bool,
    /// Only its report is missing.
    pub over: bool,
    /// Bytes dispatched to the drive.
    pub issued: u32,
    /// Pieces in flight.
    pub pieces: u32,
    /// When its first piece was dispatched; for a flush, when its flush command was.
    pub dispatched: Option<Instant>,
    /// When its last event happened.
    pub ended: Instant,
    /// How the first failed piece failed; cancelled if it was given up before any piece did.
    pub failure: Option<Outcome>,
    /// Its stream was on hold at some time.
    pub was_held: bool,
    /// A flush that is served by a command in flight.
    pub riding: bool,
    /// Start of the range of the command that it leads: its own, unless others were merged into it.
    pub offset: u64,
    /// Length of that range.
    pub length: u32,
    /// It was merged into the command of this one; [`NIL`]: it is for itself.
    pub(crate) leader: u32,
    /// The next of those merged into the same command, in no order; of a leader, the first of them.
    member: u32,
    /// Requests in the command that it leads.
    pub members: u32,
    /// Its command was taken apart while it waited, so that a controller may have had it anew.
    pub was_parted: bool,
    /// Its space has stalled: what of it may be sent is for [`Stalls`](crate::audit::Stalls) to say.
    pub in_stalled_space: bool,
    /// What of it is in flight has stalled.
    pub stalled: bool,
    /// Bytes of a piece that is on its way to the drive and has no tag yet.
    pub ahead: u32,
    /// Neighbours in the list of its stream.
    prev: u32,
    next: u32,
    in_use: bool,
}

/// State of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Open.
    Open,
    /// Open and on hold.
    Held,
    /// Closed; some of its pieces are still in flight.
    Closing,
}

/// A stream that is open or draining.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its name.
    pub id: StreamId,
    /// Its group.
    pub group: GroupId,
    /// Its state.
    pub state: State,
    /// Its live requests.
    pub live: u32,
    /// Those of them with something left that might be dispatched now if there were room; flushes not counted.
    pub sendable: u32,
    first: u32,
    last: u32,
}

/// A piece in flight.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// As it was dispatched.
    pub dispatch: Dispatch,
    /// The request's slot, and its sequence number in case the slot is reused.
    pub slot: u32,
    sequence: u64,
    /// The drive returned it as busy.
    pub busy: bool,
    /// Its space has stalled: it takes up no place in its queue.
    pub stalled: bool,
}

/// A space.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Its size, if it exists.
    pub size: Option<u64>,
    /// It has stalled at some time.
    pub stalls: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Model {
    /// The configuration of the layer; its capacity is the current one.
    pub config: Config,
    /// Time, clamped as in the layer.
    pub now: Instant,
    /// Number of events so far.
    pub sequence: u64,
    /// The groups.
    pub tree: Tree,
    /// The spaces, by slot.
    pub spaces: Vec<Space>,
    /// Flushes, by space and hardware queue.
    pub lanes: Vec<Lane>,
    /// What is in each hardware queue.
    pub queues: Vec<Queue>,
    /// Which of them are whose.
    pub layout: Lanes,
    /// Pieces in flight, by tag.
    pub tags: Vec<Option<Flight>>,
    /// Their number, busy ones included and those that have stalled not.
    pub in_flight: u32,
    /// How many have stalled.
    pub stalled: u32,
    /// How many of them the drive returned as busy.
    pub busy: u32,
    /// Live requests.
    pub live: u32,
    /// Requests with something left that might be dispatched now if there were room; flushes not counted.
    pub sendable: u32,
    /// Requests with pieces in flight; flushes not counted.
    pub in_drive: u32,
    /// Live requests beyond those reserved for their stream.
    pub shared: u32,
    requests: Vec<Live>,
    free: Vec<u32>,
    index: Index,
    streams: Vec<Option<Stream>>,
}

impl Model {
    /// The model of a layer that was just created.
    pub fn new(config: &Config) -> Self {
        let (limits, layout) = (config.sizes, Lanes::new(config));
        let tags = config.tags() as usize;
        Self {
            config: config.clone(),
            now: Instant::ZERO,
            sequence: 0,
            tree: Tree::new(limits.groups),
            spaces: vec![Space::default(); limits.spaces as usize],
            lanes: vec![Lane::default(); layout.count()],
            queues: vec![Queue::default(); config.drive.queues.into()],
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
            index: Index::new(limits.requests.max(1)),
            streams: vec![None; limits.streams as usize],
        }
    }

    /// The slot of a live request.
    pub fn find(&self, stream: StreamId, cookie: u64) -> Option<u32> {
        let slot = self.index.get((stream.to_bits(), cookie));
        (slot != NIL).then_some(slot)
    }

    /// A live request.
    pub fn request(&self, slot: u32) -> &Live {
        &self.requests[slot as usize]
    }

    /// A stream that is open or draining.
    pub fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.in_slot(id.slot()).filter(|s| s.id == id)
    }

    /// The stream in a slot, whichever it is.
    pub fn in_slot(&self, slot: u32) -> Option<&Stream> {
        self.streams.get(slot as usize)?.as_ref()
    }

    /// All streams.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().flatten()
    }

    /// Live requests of a stream, oldest first.
    pub fn requests_of(&self, stream: &Stream) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NIL).then_some(slot);
        std::iter::successors(some(stream.first), move |&s| some(self.request(s).next))
    }

    /// All live requests.
    pub fn live_requests(&self) -> impl Iterator<Item = (u32, &Live)> {
        let named = |(i, l): (usize, &'_ Live)| l.in_use.then_some(i as u32);
        let slots = self.requests.iter().enumerate().filter_map(named);
        slots.map(|slot| (slot, self.request(slot)))
    }

    /// Whether a flush of some space could be dispatched now if there were room.
    pub fn flush_sendable(&self) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| !lane.flushing && !lane.flushes.is_empty())
    }

    /// Whether a hardware queue takes another piece: it has a free tag, and has sent back nothing that waits.
    pub fn has_room(&self, queue: usize) -> bool {
        let all = self.config.drive.tags.into();
        let queue = self.queues[queue];
        queue.busy == 0 && queue.in_flight < all
    }

    /// True if this dispatches again what the drive returned as busy.
    pub fn is_repetition(&self, dispatch: &Dispatch) -> bool {
        let flight = self.tags.get(dispatch.tag.0 as usize);
        matches!(flight, Some(Some(f)) if f.busy && f.dispatch == *dispatch)
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    pub(crate) fn opened(&mut self, id: StreamId, spec: StreamSpec) {
        let stream = Stream {
            id,
            group: spec.group,
            state: State::Open,
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
        let mut next = stream.first;
        self.set_state(id, State::Closing);
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
        if stream.state != State::Closing {
            self.set_state(id, if held { State::Held } else { State::Open });
        }
    }

    /// Adds an accepted request; `None` if its name is in use.
    pub(crate) fn accepted(&mut self, request: &Request) -> Option<u32> {
        let name = (request.stream.to_bits(), request.cookie);
        let &stream = self.stream(request.stream)?;
        if self.index.get(name) != NIL || self.live as usize >= self.config.sizes.requests as usize
        {
            return None;
        }
        self.sequence += 1;
        let live = Live {
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
            was_held: stream.state == State::Held,
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

    /// Those merged into a request.
    pub(crate) fn members(&self, leader: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NIL).then_some(slot);
        let first = some(self.request(leader).member);
        std::iter::successors(first, move |&s| some(self.request(s).member))
    }

    /// A request, with those merged into it, was merged into another.
    pub(crate) fn merged(&mut self, slot: u32, leader: u32) {
        let other = *self.request(slot);
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

    /// Those merged into a request are for themselves again, before any of it was sent.
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

    /// A piece of a request is on its way to the drive and has no tag yet.
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

    /// All of a request's command is in the drive or on its way.
    pub(crate) fn is_wholly_sent(&self, slot: u32) -> bool {
        let live = self.request(slot);
        let command = if live.leader == NIL {
            live
        } else {
            self.request(live.leader)
        };
        live.riding || live.request.op != Op::Flush && command.issued == command.length
    }

    /// A request is given up, as [`weir_core::Layer::cancel`] does.
    pub(crate) fn give_up(&mut self, slot: u32) {
        let live = self.request(slot);
        if self.is_wholly_sent(slot) || live.over || live.given_up {
            return;
        }
        let now = self.now;
        self.update(slot, |live| {
            live.given_up = true;
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
        *place = Some(Flight {
            dispatch: *dispatch,
            slot,
            sequence: self.requests[slot as usize].sequence,
            busy: false,
            stalled: before.is_some_and(|f| f.stalled),
        });
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
        if flight.busy {
            return;
        }
        let mut nowhere = Queue::default();
        let queue = self.queues.get_mut(usize::from(flight.dispatch.queue.0));
        let queue = queue.unwrap_or(&mut nowhere);
        let Some(outcome) = completion.outcome else {
            flight.busy = true;
            self.busy += 1;
            queue.busy += 1;
            return;
        };
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
        if live.in_use && live.sequence == flight.sequence {
            self.piece_back(flight.slot, outcome);
        }
    }

    /// Pieces of a space in flight that have not stalled.
    fn flights_of(&self, space: SpaceId) -> impl Iterator<Item = &Flight> {
        let flights = self.tags.iter().flatten();
        flights.filter(move |f| f.dispatch.space == space && !f.stalled)
    }

    /// Whether [`weir_core::Layer::stall`] changes anything for a space.
    pub fn can_stall(&self, space: SpaceId) -> bool {
        let pieces = self.flights_of(space).count() as u32;
        let busy = self.flights_of(space).any(|f| f.busy);
        let room = self.config.sizes.stalled - self.stalled;
        pieces > 0 && !busy && pieces <= room
    }

    /// A space stalls.
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

    /// Removes a request that is done.
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

    /// Applies a change that was accepted. False if it should not have been.
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

    fn set_state(&mut self, id: StreamId, state: State) {
        let Some(Some(stream)) = self.streams.get_mut(id.slot() as usize) else {
            return;
        };
        let before = std::mem::replace(&mut stream.state, state);
        let mut next = stream.first;
        while next != NIL {
            let slot = next;
            // What could be sent in the old state may not be in the new one.
            self.count(slot, before, false);
            let live = &mut self.requests[slot as usize];
            live.was_held |= state == State::Held;
            next = live.next;
            self.count(slot, state, true);
        }
    }

    fn forget_if_drained(&mut self, id: StreamId) {
        if let Some(slot) = self.streams.get_mut(id.slot() as usize)
            && slot.is_some_and(|s| s.id == id && s.state == State::Closing && s.live == 0)
        {
            *slot = None;
        }
    }

    /// Changes a request, and the counters with it.
    #[inline]
    fn update(&mut self, slot: u32, change: impl FnOnce(&mut Live)) {
        let state = self.state_of(slot);
        self.count(slot, state, false);
        change(&mut self.requests[slot as usize]);
        self.count(slot, state, true);
    }

    #[inline]
    fn state_of(&self, slot: u32) -> State {
        let id = self.request(slot).request.stream;
        self.stream(id).map_or(State::Closing, |s| s.state)
    }

    #[inline]
    fn is_sendable(live: &Live, state: State) -> bool {
        live.released
            && !live.throttled
            && !live.given_up
            && !live.over
            && live.leader == NIL
            && (live.request.op == Op::Flush || !live.in_stalled_space)
            && state == State::Open
    }

    /// Counts a request among those that might be dispatched, or no longer.
    #[inline]
    fn count(&mut self, slot: u32, state: State, more: bool) {
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

    /// A flush command is dispatched: it serves every flush of its space and hardware queue that waits.
    fn begin_flush(&mut self, dispatch: &Dispatch) {
        let now = self.now;
        let lane = self.layout.lane(dispatch.space, dispatch.stream);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        lane.flushing = true;
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

    /// A command is over, and with it all requests merged into it.
    fn end_members(&mut self, leader: u32) {
        let Live { ended, failure, .. } = *self.request(leader);
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
            live.over = live.pieces == 0 && (live.given_up || live.issued == live.length);
        });
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

    /// A request has its first piece on the way to the drive.
    fn enters_drive(&mut self, slot: u32) {
        let queue = self.layout.queue_of(self.request(slot).request.stream);
        self.in_drive += 1;
        self.queues[queue].requests += 1;
    }

    /// A request has no piece there any more.
    fn leaves_drive(&mut self, slot: u32) {
        let queue = self.layout.queue_of(self.request(slot).request.stream);
        self.in_drive -= 1;
        self.queues[queue].requests -= 1;
    }
}
