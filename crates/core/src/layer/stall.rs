//! Stalled spaces. The commands of a space whose storage does not answer occupy no places in the
//! drive, and the space gets few further commands until it answers.
//!
//! See `docs/decisions/stalled-spaces.md` for the reasons.

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

/// The number of single requests that a stalled space gets one after the other, each when it stalls
/// again, as long as nothing completes.
const PROBES: u32 = 4;
/// The time without another stall after which the bound on a stalled space's requests doubles.
const DOUBLES: Span = Span::from_secs(1);

/// The state of a space. For a space that does not stall, it is [`Stall::OVER`].
#[derive(Clone, Copy, Debug)]
struct Stall {
    is_on: bool,
    /// The requests that wait outside of the elevator, in the order in which they continue.
    waiting: List,
    /// The number of requests that were admitted since the space stalled and have not ended, and
    /// their maximum. As in the slow start of TCP, the maximum grows by one with each completion,
    /// up to the bound.
    admitted: u32,
    allowed: u32,
    /// The upper bound of `allowed`. It is halved when the space stalls again, unless nothing
    /// completed in between.
    bound: u32,
    /// The time of the last change of the bound.
    changed: Instant,
    /// The number of stalls since the last completion.
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

    /// Starts a stall in which `requests` requests are in the drive.
    fn begin(&mut self, now: Instant, requests: u32) {
        // If nothing completed since the last stall, the bound was halved for the same event
        // already.
        if self.silent == 0 {
            self.bound = (self.bound.min(requests) / 2).max(1);
        }
        self.is_on = true;
        self.silent += 1;
        self.admitted = 0;
        self.allowed = u32::from(self.silent <= PROBES);
        self.changed = now;
    }

    /// Accounts for a completion.
    fn answer(&mut self, now: Instant) {
        self.silent = 0;
        let doublings = now.since(self.changed).as_nanos() / DOUBLES.as_nanos();
        if doublings > 0 {
            // The limit keeps the shift in range. 16 doublings multiply the bound by 65,536.
            self.bound = self.bound.saturating_mul(1 << doublings.min(16));
            self.changed = now;
        }
        self.allowed = (self.allowed + 1).min(self.bound);
    }
}

/// The states of all spaces.
#[derive(Debug)]
pub(super) struct Stalls {
    spaces: Vec<Stall>,
    /// The links of live requests in the lists of waiting ones.
    links: Links,
    /// The number of spaces that stall.
    number: u32,
}

impl Stalls {
    /// Creates the states. They are empty if no space can stall.
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

    /// Returns true if any space stalls.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.number > 0
    }

    /// Returns true if this space stalls.
    #[inline]
    pub(super) fn is_on(&self, space: SpaceId) -> bool {
        self.any() && self.spaces[space.0 as usize].is_on
    }
}

impl Layer {
    /// Reports that the storage of a space has not answered for much longer than usual, while the
    /// drive's other spaces have storage of their own. Only the driver can know that.
    ///
    /// Pieces of the space in the drive keep their tags until they complete, but are no longer
    /// counted: the same number of other tags becomes free, and the elevator treats the pieces as
    /// returned. Requests that are not in the drive wait, except one. Each completion admits one
    /// more, up to half of the requests that were in the drive. This bound doubles every second. If
    /// the space stalls again before anything completed, it gets one more request, at most three
    /// times, and then none until something completes.
    ///
    /// Returns false, without any effect, if the drive has no piece of the space that has not
    /// stalled yet, if it returned one as busy, or if there are no free places
    /// ([`Sizes::stalled`]). The call takes time in proportion to the number of live requests and
    /// tags.
    pub fn stall(&mut self, now: Instant, space: SpaceId) -> bool {
        let now = self.advance(now);
        self.run_timers(now);
        let pieces = self.pieces_to_stall(space);
        // All pieces of the space stall or none, so that no request is stalled in part.
        let stalls = pieces > 0 && pieces <= self.cx.table.pieces.spares();
        if stalls {
            self.begin_stall(now, space);
            self.release(now);
        }
        #[cfg(debug_assertions)]
        self.check();
        stalls
    }

    /// Returns the number of pieces of a space that can stall, or zero if one of them is waiting
    /// for a busy queue.
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

    /// Withdraws the requests of a space, and lets its pieces in the drive stall.
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
            // Flushes need not be withdrawn, because at most one of each queue is in the drive.
            if live.request.op != Op::Flush {
                self.withdraw(now, request);
            }
        }
        self.stall_pieces(space);
        let mut stalled = 0;
        for &request in &listed {
            let live = &mut self.cx.table.requests[request];
            // The request has no piece left that counts, so its scheduler tag is for others.
            // `pieces` has the stalled ones, so that it ends with the last of them.
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

    /// Stops counting the pieces of a space in the drive. Afterwards, its requests have them in
    /// `stalled`, and none in `pieces`.
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

    /// Returns true if a request must wait because its space stalls and the request was not
    /// admitted.
    #[inline]
    pub(super) fn must_wait_for_space(&self, request: u32) -> bool {
        if !self.stalls.any() {
            return false;
        }
        let live = &self.cx.table.requests[request];
        let waits = !live.admitted && live.request.op != Op::Flush;
        waits && self.stalls.is_on(live.request.space)
    }

    /// Lets a request of a stalled space, which was removed or stopped, wait until the space may
    /// have it. If the stream of the request is on hold, the request leaves its place to others
    /// instead. Requests that have stalled themselves do not wait.
    pub(super) fn wait_for_space(&mut self, now: Instant, request: u32) {
        let live = &self.cx.table.requests[request];
        let (space, stream) = (live.request.space, live.request.stream.index);
        if live.stage != Stage::OnHold || live.stalled > 0 || self.stalls.links.contains(request) {
            return;
        }
        if self.cx.table.streams[stream].state != State::Open {
            // A stream on hold must not use one of the few places of the space.
            return self.hold_in_space(now, request);
        }
        let stall = &mut self.stalls.spaces[space.0 as usize];
        self.stalls.links.push_back(&mut stall.waiting, request);
        self.fill_space(now, space);
    }

    /// Admits waiting requests to a stalled space, as many as it may have.
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
            // The wait for the space must not count as time throttled by a limit.
            live.since = now;
            self.climb(now, request, self.chain.gate());
        }
    }

    /// Removes a request from a stalled space because it ended or is on hold, so that another can
    /// take its place.
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
            // The time in the list counts as time in the elevator, not as throttled.
            self.stalls.links.remove(&mut stall.waiting, request);
            live.since = self.cx.now;
        }
    }

    /// Lets a request of a stream on hold leave its place in a stalled space, unless a piece of it
    /// is in the drive.
    pub(super) fn hold_in_space(&mut self, now: Instant, request: u32) {
        let live = &self.cx.table.requests[request];
        let space = live.request.space;
        if live.stage == Stage::OnHold && live.pieces == 0 && self.stalls.is_on(space) {
            self.leave_space(request);
            self.fill_space(now, space);
        }
    }

    /// Processes the end of a request of a stalled space. `answered` is true if at least one piece
    /// completed.
    #[cold]
    pub(super) fn space_has_room(&mut self, now: Instant, space: SpaceId, answered: bool) {
        let stall = &mut self.stalls.spaces[space.0 as usize];
        if !stall.is_on {
            return;
        }
        if answered {
            stall.answer(now);
            // As soon as the bound no longer limits anything, the stall is over.
            if stall.bound >= self.config.drive.all_tags() {
                self.end_stall(space);
            }
        }
        self.fill_space(now, space);
    }

    /// Ends the stall of a space. The caller then admits the waiting requests.
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

    /// Applies a new size of a space, or its removal.
    pub(super) fn space_changed(&mut self, now: Instant, space: SpaceId, size: Option<u64>) {
        self.cx.table.spaces.set(space, size);
        if size.is_none() && self.stalls.is_on(space) {
            self.end_stall(space);
            self.fill_space(now, space);
        }
    }

    /// Processes the completion of a tag that is not in flight. It belongs to a stalled piece, or
    /// is ignored.
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
        self.complete_piece(now, piece.request, outcome);
    }

    /// Continues a request that was removed from the scheduler and of which nothing is in the drive
    /// any more. If its space stalls, it continues only as that allows.
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

    /// Updates whether the end of each request must be processed.
    pub(super) fn update_ends_seen(&mut self) {
        self.ends_seen = self.fast_path_off || self.stalls.any();
    }

    /// Checks that the requests that wait for a space are in its list, and that its counts are
    /// correct.
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
