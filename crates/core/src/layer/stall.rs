//! Spaces that stall: what their storage does not answer takes up no place in the drive, and they
//! get little more until it answers.

use super::Layer;
use crate::list::{Links, List};
use crate::request::Op;
use crate::stream::State;
#[cfg(debug_assertions)]
use crate::table::Live;
use crate::table::Stage;
use crate::{Completion, Instant, Sizes, SpaceId, Span, Tag};
use alloc::vec;
use alloc::vec::Vec;

/// Requests that a stalled space gets one after the other, each when it stalls again, while nothing
/// of it is answered.
const PROBES: u32 = 4;
/// The bound on what a stalled space has under way doubles in each of these in which it does not
/// stall again.
const DOUBLES: Span = Span::from_secs(1);

/// A space's state. Of one that does not stall it is [`Stall::OVER`].
#[derive(Clone, Copy, Debug)]
struct Stall {
    is_on: bool,
    /// Requests that wait outside of the elevator, the next first.
    waiting: List,
    /// Requests that have been let in since it stalled and are not over, and how many there may be.
    /// As in TCP's slow start one more for each that is answered, up to the bound.
    admitted: u32,
    allowed: u32,
    /// Halved when the space stalls again, unless nothing was answered in between.
    bound: u32,
    /// When the bound changed last.
    changed: Instant,
    /// How often it has stalled since something was answered.
    silent: u32,
}

impl Stall {
    const OVER: Self = Self {
        is_on: false,
        waiting: List::EMPTY,
        admitted: 0,
        allowed: 0,
        bound: u32::MAX,
        changed: Instant::ZERO,
        silent: 0,
    };

    /// `requests` have stalled that the drive had.
    fn begin(&mut self, now: Instant, requests: u32) {
        if self.silent == 0 {
            self.bound = (self.bound.min(requests) / 2).max(1);
        }
        self.is_on = true;
        self.silent += 1;
        self.admitted = 0;
        self.allowed = u32::from(self.silent <= PROBES);
        self.changed = now;
    }

    /// Something was answered.
    fn answer(&mut self, now: Instant) {
        self.silent = 0;
        let doublings = now.since(self.changed).as_nanos() / DOUBLES.as_nanos();
        if doublings > 0 {
            self.bound = self.bound.saturating_mul(1 << doublings.min(16));
            self.changed = now;
        }
        self.allowed = (self.allowed + 1).min(self.bound);
    }
}

/// All spaces, as far as they stall.
#[derive(Debug)]
pub(super) struct Stalls {
    spaces: Vec<Stall>,
    /// Of live requests.
    links: Links,
    /// How many spaces stall.
    number: u32,
}

impl Stalls {
    /// Without room for anything if none can stall.
    pub(super) fn new(sizes: &Sizes) -> Self {
        let (spaces, requests) = match sizes.stalled {
            0 => (0, 0),
            _ => (sizes.spaces, sizes.requests),
        };
        Self {
            spaces: vec![Stall::OVER; spaces as usize],
            links: Links::new(requests),
            number: 0,
        }
    }

    /// Some space stalls.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.number > 0
    }

    /// A space stalls.
    #[inline]
    pub(super) fn is_on(&self, space: SpaceId) -> bool {
        self.any() && self.spaces[space.0 as usize].is_on
    }
}

impl Layer {
    /// The storage of a space stalls: it has not answered for far longer than it takes, while the
    /// drive's other spaces have storage of their own that may go on. Only the driver can know
    /// that.
    ///
    /// What the drive has of the space keeps its tags until they are completed, but counts no
    /// longer: as many other tags are free, and the elevator is told that it is back. What the
    /// drive has not got yet waits, except one request; each that is answered lets in one more, up
    /// to half of those that the drive had, a bound that doubles each second. A space that stalls
    /// again before anything was answered gets one more request four times, and then none until
    /// something is answered.
    ///
    /// False, and nothing changes, if the drive has nothing of the space but what has stalled
    /// already, if it has sent a piece of it back as busy, or if there is no room
    /// ([`Sizes::stalled`]). Takes time in proportion to the live requests and the tags.
    pub fn stall(&mut self, now: Instant, space: SpaceId) -> bool {
        let now = self.advance(now);
        self.run_timers(now);
        let pieces = self.pieces_to_stall(space);
        let stalls = pieces > 0 && pieces <= self.cx.table.pieces.spares();
        if stalls {
            self.begin_stall(now, space);
            self.release(now);
        }
        #[cfg(debug_assertions)]
        self.check();
        stalls
    }

    /// How many pieces of a space can stall.
    fn pieces_to_stall(&self, space: SpaceId) -> u32 {
        let table = &self.cx.table;
        let of_space = |request: u32| table.requests[request].request.space == space;
        let mut pieces = 0;
        for (tag, _) in table.pieces.iter().filter(|(_, p)| of_space(p.request)) {
            if self.busy.contains(tag) {
                return 0;
            }
            pieces += 1;
        }
        pieces
    }

    fn begin_stall(&mut self, now: Instant, space: SpaceId) {
        let mut listed = core::mem::take(&mut self.listed);
        let live = self.cx.table.requests.iter();
        let of_space = live.filter(|(_, live)| live.request.space == space);
        listed.extend(of_space.map(|(request, _)| request));
        listed.sort_unstable_by_key(|&request| self.cx.table.requests[request].number);
        let stall = &mut self.stalls.spaces[space.0 as usize];
        let was_on = core::mem::replace(&mut stall.is_on, true);
        self.stalls.number += u32::from(!was_on);
        for &request in &listed {
            let live = &mut self.cx.table.requests[request];
            live.admitted = false;
            // At most one flush of each queue is in the drive anyway.
            if live.request.op != Op::Flush {
                self.withdraw(now, request);
            }
        }
        self.stall_pieces(space);
        let mut stalled = 0;
        for &request in &listed {
            let live = &mut self.cx.table.requests[request];
            if live.stalled > 0 && live.pieces == 0 {
                live.pieces = live.stalled;
                stalled += 1;
                if core::mem::replace(&mut live.tagged, false) {
                    self.untag(request);
                    self.fill_front(self.cx.table.queue_of(request));
                }
            }
        }
        let stall = &mut self.stalls.spaces[space.0 as usize];
        stall.begin(now, stalled);
        self.cx.table.spaces.set_stalled(space, true);
        self.update_ends_seen();
        for &request in &listed {
            self.wait_for_space(now, request);
        }
        self.fill_space(now, space);
        listed.clear();
        self.listed = listed;
    }

    /// What the drive has of a space counts no longer. The requests have their pieces in `stalled`
    /// afterwards, and none in `pieces`.
    fn stall_pieces(&mut self, space: SpaceId) {
        for tag in (0..self.cx.table.pieces.names()).map(Tag) {
            let Some(&piece) = self.cx.table.pieces.get(tag) else {
                continue;
            };
            if self.cx.table.requests[piece.request].request.space != space {
                continue;
            }
            self.cx.table.pieces.stall(tag);
            if let Some(elevator) = self.elevator.other_mut() {
                elevator.stall(&mut self.cx, tag);
            }
            let live = &mut self.cx.table.requests[piece.request];
            live.pieces -= 1;
            live.stalled += 1;
        }
    }

    /// A request may not go on because its space stalls and has as many under way as it may.
    #[inline]
    pub(super) fn must_wait_for_space(&self, request: u32) -> bool {
        if !self.stalls.any() {
            return false;
        }
        let live = &self.cx.table.requests[request];
        let waits = !live.admitted && live.request.op != Op::Flush;
        waits && self.stalls.is_on(live.request.space)
    }

    /// A request of a stalled space that was taken out or stopped waits until the space may have
    /// it, unless it has stalled or its stream is on hold: then it leaves its place to others.
    pub(super) fn wait_for_space(&mut self, now: Instant, request: u32) {
        let live = &self.cx.table.requests[request];
        let (space, stream) = (live.request.space, live.request.stream.index);
        if live.stage != Stage::OnHold || live.stalled > 0 || self.stalls.links.contains(request) {
            return;
        }
        if self.cx.table.streams[stream].state != State::Open {
            return self.hold_in_space(now, request);
        }
        let stall = &mut self.stalls.spaces[space.0 as usize];
        self.stalls.links.push_back(&mut stall.waiting, request);
        self.fill_space(now, space);
    }

    /// Lets in what a stalled space may have.
    fn fill_space(&mut self, now: Instant, space: SpaceId) {
        loop {
            let stall = &mut self.stalls.spaces[space.0 as usize];
            if stall.is_on && stall.admitted >= stall.allowed {
                return;
            }
            let Some(request) = self.stalls.links.pop_front(&mut stall.waiting) else {
                return;
            };
            let live = &mut self.cx.table.requests[request];
            if self.cx.table.streams[live.request.stream.index].state != State::Open {
                continue;
            }
            stall.admitted += u32::from(stall.is_on);
            live.admitted = stall.is_on;
            // It was not held back by a limit.
            live.since = now;
            self.climb(now, request, self.chain.gate());
        }
    }

    /// A request of a space that stalls is there no longer: it is over, or on hold. Others may take
    /// its place.
    #[cold]
    pub(super) fn leave_space(&mut self, request: u32) {
        let live = &mut self.cx.table.requests[request];
        let stall = &mut self.stalls.spaces[live.request.space.0 as usize];
        if !stall.is_on {
            return;
        }
        if core::mem::take(&mut live.admitted) {
            stall.admitted -= 1;
        } else if self.stalls.links.contains(request) {
            self.stalls.links.remove(&mut stall.waiting, request);
            live.since = self.cx.now;
        }
    }

    /// A request that was taken out because its stream is on hold leaves its place in its space, if
    /// that stalls and the drive has nothing of it.
    pub(super) fn hold_in_space(&mut self, now: Instant, request: u32) {
        let live = &self.cx.table.requests[request];
        let space = live.request.space;
        if live.stage == Stage::OnHold && live.pieces == 0 && self.stalls.is_on(space) {
            self.leave_space(request);
            self.fill_space(now, space);
        }
    }

    /// A request of a stalled space has left it, having been answered in whole or in part if
    /// `answered`.
    #[cold]
    pub(super) fn space_has_room(&mut self, now: Instant, space: SpaceId, answered: bool) {
        let stall = &mut self.stalls.spaces[space.0 as usize];
        if !stall.is_on {
            return;
        }
        if answered {
            stall.answer(now);
            if stall.bound >= self.config.drive.all_tags() {
                self.end_stall(space);
            }
        }
        self.fill_space(now, space);
    }

    /// A space stalls no longer; what waits there is to be let in.
    fn end_stall(&mut self, space: SpaceId) {
        let stall = &mut self.stalls.spaces[space.0 as usize];
        *stall = Stall {
            waiting: stall.waiting,
            ..Stall::OVER
        };
        self.stalls.number -= 1;
        self.cx.table.spaces.set_stalled(space, false);
        self.update_ends_seen();
    }

    /// A space has gone, or its size has changed.
    pub(super) fn space_changed(&mut self, now: Instant, space: SpaceId, size: Option<u64>) {
        self.cx.table.spaces.set(space, size);
        if size.is_none() && self.stalls.is_on(space) {
            self.end_stall(space);
            self.fill_space(now, space);
        }
    }

    /// A tag came back that is not in flight: a piece that has stalled, or nothing.
    #[cold]
    pub(super) fn complete_stalled(&mut self, now: Instant, completion: &Completion) {
        let tag = completion.tag;
        let Some(&piece) = self.cx.table.pieces.get_stalled(tag) else {
            self.counters.stray += 1;
            return;
        };
        let Some(outcome) = completion.outcome else {
            return self.requeue(now, tag);
        };
        self.cx.table.pieces.remove_stalled(tag);
        self.cx.table.requests[piece.request].stalled -= 1;
        self.piece_is_back(now, piece.request, outcome);
    }

    /// Nothing of a request that was taken out is in the drive any more. Its space may have
    /// stalled; then it goes on as that allows.
    pub(super) fn resume_stalled(&mut self, now: Instant, request: u32) {
        let live = &self.cx.table.requests[request].request;
        let (space, stream) = (live.space, live.stream.index);
        if self.stalls.is_on(space) {
            self.leave_space(request);
            self.wait_for_space(now, request);
            self.space_has_room(now, space, true);
        } else if self.cx.table.streams[stream].state == State::Open {
            self.climb(now, request, self.chain.gate());
        }
    }

    /// The end of each request is seen by those that must, and by spaces that stall.
    pub(super) fn update_ends_seen(&mut self) {
        self.ends_seen = self.fast_path_off || self.stalls.any();
    }

    /// What waits for its space waits there, and there are as many under way as were let in.
    #[cfg(debug_assertions)]
    pub(super) fn check_stalls(&self) {
        let table = &self.cx.table;
        let on = self.stalls.spaces.iter().filter(|stall| stall.is_on);
        assert_eq!(on.count(), self.stalls.number as usize, "spaces that stall");
        for (space, stall) in (0..).map(SpaceId).zip(&self.stalls.spaces) {
            let live = || {
                let all = table.all_live().map(|(_, live)| live);
                all.filter(|live| live.request.space == space)
            };
            if !stall.is_on {
                assert!(stall.waiting.is_empty(), "space {} keeps some", space.0);
                continue;
            }
            let idle = |live: &Live| live.stage == Stage::OnHold && live.pieces == 0;
            let lost = live().filter(|live| live.admitted && idle(live)).count();
            assert_eq!(lost, 0, "places of space {}", space.0);
            let admitted = live().filter(|live| live.admitted).count();
            assert_eq!(admitted, stall.admitted as usize, "space {}", space.0);
            assert!(stall.admitted <= stall.allowed, "space {}", space.0);
            let full = stall.admitted == stall.allowed;
            assert!(full || stall.waiting.is_empty(), "space {}", space.0);
            let waits = |live: &&Live| {
                let stream = &table.streams[live.request.stream.index];
                let here = live.stage == Stage::OnHold && live.stalled == 0;
                here && stream.state == State::Open
            };
            let waiting = self.stalls.links.checked(&stall.waiting);
            assert_eq!(waiting.count(), live().filter(waits).count());
        }
        for (request, live) in table.all_live() {
            let all = live.stalled == 0 || live.stalled == live.pieces;
            assert!(all, "request {request} has stalled in part: {live:?}");
        }
    }
}
