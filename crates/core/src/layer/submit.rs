//! Requests come in: checked, counted against their stream, charged by the limits, put in the elevator.

use super::{At, Layer, Reject, Rejected};
use crate::event::Event;
use crate::mutant;
use crate::stream::State;
use crate::{Instant, Op, Request, StreamId};

/// Lanes in front of the elevator that are tried for one tag. Whoever is refused has a tag, so there will be another try.
const REFUSALS_MAX: u32 = 8;

impl Layer {
    /// A batch of requests from clients. Every accepted one ends in exactly one [`Output::Done`](crate::Output::Done).
    ///
    /// # Errors
    /// A request was not accepted; those before it were, those after it were not looked at.
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
        let now = self.advance(now);
        self.run_timers(now);
        let before = self.counters.accepted;
        for request in batch {
            if let Err(reason) = self.accept(now, request) {
                self.counters.rejected += 1;
                let accepted = (self.counters.accepted - before) as usize;
                return Err(Rejected { accepted, reason });
            }
        }
        Ok(())
    }

    /// Lets what the limits hold back go on where its time has come: before anything else that happens at `now`.
    #[inline]
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.limits.wake() <= now || self.latency.wake() <= now {
            self.release_held(now);
        }
    }

    /// Lets those go on whom `io.latency` holds back no longer.
    pub(super) fn pass_latency(&mut self, now: Instant) {
        while let Some(request) = self.latency.next_passed() {
            let Request { stream, cookie, .. } = self.table.requests[request].request;
            self.events
                .publish(now, || Event::Passed { stream, cookie });
            self.after_limits(now, request);
        }
    }

    #[cold]
    fn release_held(&mut self, now: Instant) {
        while let Some(request) = self.limits.release(now) {
            let passed = self.table.requests[request].request;
            self.left_limits(&passed);
            self.publish_release(now, request);
            self.after_limits(now, request);
        }
        self.latency.run(now);
        self.pass_latency(now);
    }

    /// A request has passed its limits, or its stream is no longer on hold: on to its flush queue, or to the elevator if a
    /// scheduler tag is free.
    pub(super) fn after_limits(&mut self, now: Instant, request: u32) {
        let live = &self.table.requests[request];
        let held = self.table.streams[live.request.stream.index].state == State::Held;
        if held {
            // Who waits for its client takes nobody's place.
            self.latency.leave(now, request, &live.request, None);
        } else if self.latency.is_enabled() && !live.tagged && !self.enter_latency(now, request) {
            // What has a scheduler tag is in the drive in part and past this stage.
            return;
        }
        let live = &self.table.requests[request];
        let room = self.tags_left > 0;
        let mut at = first_place(live.request.op, true, held, room);
        if live.tagged && at != At::Held {
            // It kept its scheduler tag: some of it is in the drive.
            at = At::Elevator;
            self.untag(request);
        }
        let live = &mut self.table.requests[request];
        // Between its first piece and its last a request's time is the drive's, also where its stream was on hold.
        if !live.is_dispatched() {
            live.cleared += now.since(live.since);
        }
        live.since = now;
        live.tagged |= at == At::Elevator;
        live.at = at;
        self.put(now, request, at);
    }

    /// Gives free scheduler tags to those who wait for one.
    pub(super) fn fill_front(&mut self, now: Instant) {
        let mut refusals = 0;
        while self.tags_left > 0 && refusals < REFUSALS_MAX {
            let Some(request) = self.front.first() else {
                return;
            };
            if self.limits_tags && !self.may_tag(request) {
                self.front.skip();
                refusals += 1;
                continue;
            }
            self.front.pop();
            let live = &mut self.table.requests[request];
            live.tagged = true;
            live.at = At::Elevator;
            self.tag(now, request);
            self.tell_tagged(request, true);
        }
    }

    /// A scheduler tag is free again.
    #[inline]
    pub(super) fn untag(&mut self, request: u32) {
        self.tags_left += 1;
        self.tell_tagged(request, false);
    }

    /// Whether the elevator lets a request have a scheduler tag.
    fn may_tag(&self, request: u32) -> bool {
        let elevator = self.elevator.other();
        elevator.is_none_or(|e| e.may_tag(request, &self.table))
    }

    /// Tells the elevator, where that limits tags, that a request has one, or has it no longer.
    pub(super) fn tell_tagged(&mut self, request: u32, tagged: bool) {
        if !self.limits_tags {
            return;
        }
        match self.elevator.other_mut() {
            Some(elevator) if tagged => elevator.tagged(request, &self.table),
            Some(elevator) => elevator.untagged(request, &self.table),
            None => {}
        }
    }

    /// Where a request waits for a scheduler tag: with its kind of its stream, or with all.
    pub(super) fn lane(&self, request: &Request) -> u32 {
        if self.limits_tags {
            2 * request.stream.index + u32::from(!request.is_sync())
        } else {
            0
        }
    }

    /// Gives a request a scheduler tag, of which there is one.
    #[inline]
    fn tag(&mut self, now: Instant, request: u32) {
        self.tags_left -= 1;
        self.elevator.insert(now, request, &self.table);
    }

    /// Gives a request a scheduler tag, of which there is one, if it may have it; otherwise it waits.
    #[cold]
    fn try_tag(&mut self, now: Instant, request: u32) {
        let live = &self.table.requests[request];
        let lane = self.lane(&live.request);
        // What is in the drive in part goes on.
        let may = live.pieces > 0 || self.front.is_free(lane) && self.may_tag(request);
        if may {
            self.tag(now, request);
            self.tell_tagged(request, true);
        } else {
            let live = &mut self.table.requests[request];
            (live.at, live.tagged) = (At::Front, false);
            self.front.push(lane, request);
        }
    }

    /// Accepts a request. Of most there is nothing to say: they go straight to the elevator.
    #[inline]
    fn accept(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let StreamId { index, generation } = request.stream;
        let limits = &self.config.limits;
        // What stood in a free slot was closed, and nothing goes straight from there.
        if self.tags_left > 0
            && let Some(stream) = self.table.streams.get_of(index, generation)
            && stream.straight
            && self.table.spaces.fits(request)
            && stream.live + 1 < limits.per_stream
            && let shared = self.shared + u32::from(stream.live >= limits.reserved)
            && shared <= self.shared_max
        {
            let slot = self.take_slot(now, request, shared);
            self.tag(now, slot);
            return Ok(());
        }
        self.accept_closely(now, request)
    }

    /// Accepts a request of which there is something to say, or refuses it.
    #[inline(never)]
    fn accept_closely(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let StreamId { index, generation } = request.stream;
        let (streams, limits) = (&self.table.streams, &self.config.limits);
        let live = match streams.get_named(index, generation) {
            Some(stream) if stream.state != State::Closing => stream.live,
            _ => return Err(Reject::UnknownStream),
        };
        self.table.spaces.check(request)?;
        let shared = self.shared + u32::from(live >= limits.reserved);
        if live >= limits.per_stream || shared > self.shared_max {
            return Err(self.refuse(index, live));
        }
        let slot = self.take_slot(now, request, shared);
        let passed = self.place(now, slot);
        if passed && live + 1 >= self.config.limits.per_stream {
            self.reconsider_pause(index);
        }
        Ok(())
    }

    /// A slot for a request for which there is room, and what is taken of the shared room with it.
    #[inline]
    fn take_slot(&mut self, now: Instant, request: &Request, shared: u32) -> u32 {
        let stream = &mut self.table.streams[request.stream.index];
        let requests = &mut self.table.requests;
        let (slot, live) = requests.take().expect("there is room");
        live.accept(request, self.counters.accepted, stream.spec.group, now);
        self.shared = shared;
        stream.live += 1;
        self.counters.accepted += 1;
        slot
    }

    /// Puts a request that was accepted where it belongs. Returns whether it has passed its limits.
    fn place(&mut self, now: Instant, slot: u32) -> bool {
        let live = &mut self.table.requests[slot];
        let request = live.request;
        let stream = &self.table.streams[request.stream.index];
        let passed = !stream.limited_path || self.limits.pass(now, live.group, &request);
        let room = self.tags_left > 0;
        let at = first_place(request.op, passed, stream.state == State::Held, room);
        (live.at, live.tagged, live.since) = (at, at == At::Elevator, now);
        if !passed {
            self.limits.hold(slot, live.group, &request);
            self.came_to_limits(&request);
        } else if self.events.listening() {
            self.publish_release(now, slot);
        }
        let enters = passed && at != At::Held && self.latency.is_enabled();
        if !enters || self.enter_latency(now, slot) {
            self.put(now, slot, at);
        }
        passed
    }

    /// Whether a request that has passed its limits passes `io.latency`, too; otherwise it is held back there.
    #[cold]
    fn enter_latency(&mut self, now: Instant, request: u32) -> bool {
        let live = &mut self.table.requests[request];
        let passes = self.latency.enter(now, request, live.group, &live.request);
        if !passes {
            if !live.is_dispatched() {
                live.cleared += now.since(live.since);
            }
            (live.since, live.at, live.tagged) = (now, At::Latency, false);
            let Request { stream, cookie, .. } = live.request;
            self.events
                .publish(now, || Event::Throttled { stream, cookie });
        }
        passes
    }

    /// Puts a request into the stage that its `at` names.
    #[inline]
    fn put(&mut self, now: Instant, slot: u32, at: At) {
        if at != At::Elevator {
            self.put_elsewhere(now, slot, at);
        } else if self.limits_tags {
            self.try_tag(now, slot);
        } else {
            self.tag(now, slot);
        }
    }

    fn put_elsewhere(&mut self, now: Instant, slot: u32, at: At) {
        match at {
            At::Front => {
                let lane = self.lane(&self.table.requests[slot].request);
                self.front.push(lane, slot);
            }
            At::Flush => self
                .flushes
                .insert(self.table.requests[slot].request.space, slot),
            At::Drive => self.finish_if_over(now, slot),
            At::Limit | At::Latency | At::Held | At::Finished | At::Elevator => {}
        }
    }

    #[cold]
    fn publish_release(&mut self, now: Instant, request: u32) {
        let live = &self.table.requests[request];
        self.events.publish(now, || Event::Released {
            stream: live.request.stream,
            cookie: live.request.cookie,
            group: live.group,
            op: live.request.op,
            bytes: live.request.charge(),
        });
    }

    /// There is no room for one more request of the stream: it has as many as it may, or what is common to all is used up.
    #[cold]
    fn refuse(&mut self, index: u32, live: u32) -> Reject {
        if live >= self.config.limits.per_stream {
            // Should the pause be over before the driver has heard of it, the resume it waits for must come all the same.
            self.table.streams[index].owed_resume = true;
            return Reject::StreamFull;
        }
        self.starve(index);
        Reject::Full
    }
}

/// Where a request goes that comes in or has passed its limits; `room` if there is a scheduler tag for it.
#[inline]
fn first_place(op: Op, passed: bool, held: bool, room: bool) -> At {
    let held = held && !mutant::is(mutant::HELD_STREAM_DISPATCHED);
    if passed && !held && room && op != Op::Flush {
        At::Elevator
    } else {
        other_place(op, passed, held)
    }
}

#[cold]
fn other_place(op: Op, passed: bool, held: bool) -> At {
    if !passed {
        At::Limit
    } else if held {
        At::Held
    } else if op == Op::Flush {
        if mutant::is(mutant::FLUSH_IGNORED) {
            At::Drive
        } else {
            At::Flush
        }
    } else {
        At::Front
    }
}
