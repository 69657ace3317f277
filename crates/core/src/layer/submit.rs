//! Requests come in: checked, counted against their stream, charged by the limits, put in the elevator.

use super::{Layer, Rejected};
use crate::stream::{State, Stream};
use crate::table::Stage;
use crate::{Instant, Op, QueueId, Reject, Request, StreamId};

/// Lanes in front of the elevator that are tried for one tag. A stream that is refused has a tag, so there will be another try.
const REFUSALS_MAX: u32 = 8;

impl Layer {
    /// A batch of requests from clients. Every accepted one ends in exactly one [`Output::Done`](crate::Output::Done).
    ///
    /// # Errors
    /// A request was not accepted; those before it were, those after it were not looked at.
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
        let now = self.advance(now);
        self.run_timers(now);
        if self.merging {
            self.plug.set_open(true);
        }
        let result = self.accept_all(now, batch);
        if self.merging {
            self.close_plug();
        }
        #[cfg(debug_assertions)]
        self.check();
        result
    }

    #[inline]
    fn accept_all(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
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

    /// Lets controllers do what they wanted to do by now: before anything else that happens at `now`.
    #[inline]
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.chain.due() <= now {
            self.run_chain(now);
        }
    }

    #[cold]
    fn run_chain(&mut self, now: Instant) {
        if self.merging {
            self.plug.set_open(true);
        }
        for number in 0..self.chain.len() {
            self.chain.run(&mut self.cx, number);
            self.release(now);
        }
        if self.merging {
            self.close_plug();
        }
    }

    /// Releases requests that controllers no longer hold.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some((request, holder)) = self.chain.next_passed(&mut self.cx) {
            self.leave_controller(request, holder);
            self.climb(now, request, holder + 1);
        }
    }

    /// A request that a controller held is held no longer.
    pub(super) fn leave_controller(&mut self, request: u32, holder: u8) {
        let stream = self.cx.table.requests[request].request.stream.index;
        if holder < self.chain.gate() {
            debug_assert!(self.cx.table.streams[stream].throttled > 0);
            self.cx.table.streams[stream].throttled -= 1;
        }
        self.holds_changed(stream, holder);
    }

    /// A controller holds one more of a stream's requests, or one fewer. What is held behind the gate makes no backlog by itself.
    #[inline]
    fn holds_changed(&mut self, stream: u32, holder: u8) {
        if holder < self.chain.gate() || self.cx.table.streams[stream].is_throttled() {
            self.reconsider_pause(stream);
        }
    }

    /// Takes a request through the chain from controller `from` on: until one holds it, or past all of them to where it goes then.
    /// A stream on hold sends nothing past the gate.
    pub(super) fn climb(&mut self, now: Instant, request: u32, from: u8) {
        let (gate, len) = (self.chain.gate(), self.chain.len());
        let live = &self.cx.table.requests[request];
        let (tagged, Request { stream, op, .. }) = (live.tagged, live.request);
        let stream = &self.cx.table.streams[stream.index];
        let (through_chain, mut on_hold) = (stream.through_chain, stream.state == State::Held);
        let mut holder = None;
        on_hold |= self.must_wait_for_space(request);
        // What has a scheduler tag is in the drive in part and was past the chain before.
        let is_stopped = on_hold || tagged || self.merging;
        let stop = if is_stopped { gate } else { len };
        if through_chain {
            holder = self.chain.climb(&mut self.cx, request, from, stop);
        }
        if holder.is_none() && on_hold {
            // What waits for its client takes up no place.
            self.chain.ended(&mut self.cx, request, None);
        } else if holder.is_none() && !tagged {
            if self.merging && from <= gate && self.merge_arrived(request) {
                return;
            }
            if through_chain && is_stopped {
                holder = self.chain.climb(&mut self.cx, request, from.max(gate), len);
            }
            if self.merging && holder.is_some() {
                // Its process sleeps, and what it had plugged goes on.
                self.unplug();
            }
        }
        let stage = match holder {
            Some(number) => Stage::Controller(number),
            None if on_hold => Stage::OnHold,
            None if tagged => Stage::Elevator,
            None => self.stage_behind_chain(request, op),
        };
        self.enter_stage(now, request, stage);
    }

    /// Where a request goes that is past the chain.
    fn stage_behind_chain(&self, request: u32, op: Op) -> Stage {
        if op == Op::Flush {
            Stage::Flush
        } else if self.tags.has(self.cx.table.queue_of(request))
            && !self.is_submitter_asleep(request)
        {
            Stage::Elevator
        } else {
            Stage::Front
        }
    }

    /// Its process waits for a tag with another request, and has not come to this one.
    #[inline]
    fn is_submitter_asleep(&self, request: u32) -> bool {
        self.config.merge.ahead
            && !self.front.is_empty()
            && !(self.front).is_free(self.lane(&self.cx.table.requests[request].request))
    }

    /// A request comes out of the chain, or stays in it. The time since it came to where it was counts as held back.
    fn enter_stage(&mut self, now: Instant, request: u32, stage: Stage) {
        let live = &mut self.cx.table.requests[request];
        debug_assert!(live.since <= now && live.stage != Stage::Finished);
        // Between its first piece and its last a request's time is the drive's, also where its stream was on hold.
        if !live.is_dispatched() {
            live.cleared += now.since(live.since);
        }
        live.since = now;
        live.stage = stage;
        if stage == Stage::Elevator && live.tagged {
            // It kept its scheduler tag, which it is about to get again.
            self.untag(request);
        }
        self.cx.table.requests[request].tagged |= stage == Stage::Elevator;
        let Request { stream, space, .. } = self.cx.table.requests[request].request;
        match stage {
            Stage::Controller(number) => {
                if number < self.chain.gate() {
                    self.cx.table.streams[stream.index].throttled += 1;
                }
                self.holds_changed(stream.index, number);
            }
            Stage::Elevator if self.limits_tags => self.try_tag(request),
            Stage::Elevator => self.tag_in_batch(request),
            Stage::Front => self.wait_for_tag(request),
            Stage::Flush => {
                let queue = self.cx.table.queue_of(request);
                self.flushes.insert(space, queue, request);
            }
            Stage::Drive => self.finish_if_over(now, request),
            Stage::OnHold if self.stalls.is_on(space) => self.wait_for_space(now, request),
            Stage::OnHold | Stage::Plug | Stage::Merged | Stage::Flushing | Stage::Finished => {}
        }
    }

    fn wait_for_tag(&mut self, request: u32) {
        if self.merging {
            // Its process sleeps, and what it had plugged goes on.
            self.unplug();
            self.plug.waits(request);
        }
        let lane = self.lane(&self.cx.table.requests[request].request);
        self.front
            .push(self.cx.table.queue_of(request), lane, request);
    }

    /// A scheduler tag of a queue is free: gives it to a request that waits. A stream that the elevator refused one because of what it has in
    /// another queue may have one now, too.
    pub(super) fn fill_front(&mut self, queue: QueueId) {
        if self.front.is_empty() {
            return;
        }
        if self.limits_tags {
            self.fill_fronts();
        } else {
            self.fill_front_of(queue, u32::MAX);
        }
    }

    /// A request is over and its scheduler tag is free: gives it to a request that waits. Where answers come first, the stream that is
    /// answered may take it before, unless it waits for a tag itself or has passed those that wait too often.
    pub(super) fn fill_front_after(&mut self, request: u32) {
        if self.front.is_empty() {
            return;
        }
        let lane = self.lane(&self.cx.table.requests[request].request);
        let queue = self.cx.table.queue_of(request);
        if !self.config.merge.ahead {
            self.fill_front(queue);
        } else if !self.front.is_free(lane) || !self.front.pass() {
            // Others may be free for streams that are answered.
            self.fill_front_of(queue, 1);
        }
    }

    /// Gives free scheduler tags of all queues to requests that wait for one.
    pub(super) fn fill_fronts(&mut self) {
        for queue in 0..self.config.drive.queues {
            if self.front.is_empty() {
                return;
            }
            self.fill_front_of(QueueId(queue), u32::MAX);
        }
    }

    /// Gives free scheduler tags of a queue, `most` at most, to requests that wait for one.
    fn fill_front_of(&mut self, queue: QueueId, most: u32) {
        let (mut given, mut refusals) = (0, 0);
        while given < most && self.tags.has(queue) && refusals < REFUSALS_MAX {
            let Some(request) = self.front.first(queue) else {
                return;
            };
            if self.limits_tags && !self.may_tag(request) {
                self.front.skip(queue);
                refusals += 1;
                continue;
            }
            self.front.pop(queue);
            let live = &mut self.cx.table.requests[request];
            live.tagged = true;
            live.stage = Stage::Elevator;
            let waited = self.cx.now.since(live.since);
            self.chain.tagged(&mut self.cx, request, waited);
            self.tags.take(queue);
            given += 1;
            if self.merging {
                self.insert(request);
            } else {
                self.elevator.insert(&mut self.cx, request);
                self.tell_tagged(request, true);
            }
        }
    }

    /// A scheduler tag is free again.
    #[inline]
    pub(super) fn untag(&mut self, request: u32) {
        self.tags.release(self.cx.table.queue_of(request));
        self.tell_tagged(request, false);
    }

    /// Whether the elevator lets a request have a scheduler tag.
    fn may_tag(&self, request: u32) -> bool {
        let elevator = self.elevator.other();
        elevator.is_none_or(|e| e.may_tag(&self.cx, request))
    }

    /// Tells the elevator, where that limits tags, that a request has one, or has it no longer.
    pub(super) fn tell_tagged(&mut self, request: u32, tagged: bool) {
        if !self.limits_tags {
            return;
        }
        match self.elevator.other_mut() {
            Some(elevator) if tagged => elevator.tagged(&mut self.cx, request),
            Some(elevator) => elevator.untagged(&mut self.cx, request),
            None => {}
        }
    }

    /// Where a request waits for a scheduler tag: with its kind of its stream, or with all of its hardware queue. As in Linux, where a
    /// process waits with one request at a time, streams take turns.
    pub(super) fn lane(&self, request: &Request) -> u32 {
        if self.limits_tags || self.config.merge.ahead {
            2 * request.stream.index + u32::from(!request.is_sync())
        } else {
            self.cx.table.pieces.queue_of(request.stream.index).0.into()
        }
    }

    /// Gives a request a scheduler tag, of which there is one; it may come with others.
    fn tag_in_batch(&mut self, request: u32) {
        self.tags.take(self.cx.table.queue_of(request));
        if self.merging {
            self.plug_or_insert(request);
        } else {
            self.elevator.insert(&mut self.cx, request);
            self.tell_tagged(request, true);
        }
    }

    /// Gives a request a scheduler tag, of which there is one, if it may have it; otherwise it waits.
    #[cold]
    fn try_tag(&mut self, request: u32) {
        let live = &self.cx.table.requests[request];
        let lane = self.lane(&live.request);
        // What is in the drive in part goes on.
        let may = live.pieces > 0 || self.front.is_free(lane) && self.may_tag(request);
        if may {
            self.tag_in_batch(request);
        } else {
            let live = &mut self.cx.table.requests[request];
            (live.stage, live.tagged) = (Stage::Front, false);
            self.wait_for_tag(request);
        }
    }

    /// Accepts a request. Of most there is nothing to say: they go straight to the elevator.
    #[inline]
    fn accept(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let StreamId { index, generation } = request.stream;
        // What stood in a free slot was closed, and nothing goes straight from there.
        if self.tags.any()
            && let Some(stream) = self.cx.table.streams.get_of(index, generation)
            && stream.fast_path
            && let Some(shared) = self.room_for(request, stream)
        {
            let slot = self.take_slot(now, request, shared);
            self.tags.take_only();
            self.elevator.insert(&mut self.cx, slot);
            return Ok(());
        }
        match (self.merging, self.limits_tags) {
            (false, _) if !self.chain_for_all => self.accept_plain(now, request),
            (true, false) => self.accept_to_merge(now, request),
            _ => self.accept_slow(now, request),
        }
    }

    /// What is taken of the shared room then, if there is room for one more request of a stream and it lies in its space; none is left for
    /// those of which there is something to say.
    #[inline]
    fn room_for(&self, request: &Request, stream: &Stream) -> Option<u32> {
        let sizes = &self.config.sizes;
        if !self.cx.table.spaces.fits(request) || stream.live >= self.unpaused_max {
            return None;
        }
        let shared = self.shared + u32::from(stream.live >= sizes.reserved);
        (shared <= self.shared_max).then_some(shared)
    }

    /// As [`Self::room_for`], if the stream is open and no controller or listener must see its requests.
    #[inline]
    fn room_for_plain(&self, request: &Request) -> Option<u32> {
        let StreamId { index, generation } = request.stream;
        let stream = self.cx.table.streams.get_of(index, generation)?;
        let is_plain = stream.state == State::Open && !stream.through_chain;
        let stream = is_plain.then_some(stream)?;
        self.room_for(request, stream)
    }

    /// Accepts a request that is not merged where elevators limit tags or there are several hardware queues: while nobody waits for a tag,
    /// most get one at once.
    #[inline(never)]
    fn accept_plain(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let queue = self.cx.table.pieces.queue_of(request.stream.index);
        let Some(shared) = self.room_for_plain(request) else {
            return self.accept_slow(now, request);
        };
        if !self.front.is_empty() || !self.tags.has(queue) {
            return self.accept_slow(now, request);
        }
        let slot = self.take_slot(now, request, shared);
        self.cx.table.requests[slot].since = now;
        if !self.limits_tags || self.may_tag(slot) {
            self.tag_in_batch(slot);
        } else {
            let live = &mut self.cx.table.requests[slot];
            (live.stage, live.tagged) = (Stage::Front, false);
            self.wait_for_tag(slot);
        }
        Ok(())
    }

    /// Accepts a request where requests are merged: most join the plug.
    #[inline(never)]
    fn accept_to_merge(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let index = request.stream.index;
        let Some(shared) = self.room_for_plain(request) else {
            return self.accept_slow(now, request);
        };
        let slot = self.take_slot(now, request, shared);
        let live = &mut self.cx.table.requests[slot];
        (live.since, live.tagged) = (now, false);
        self.cx.table.merges.begin(slot, request);
        if self.plug.turn_to(index) {
            self.unplug();
        }
        if self.merge_arrived(slot) {
            return Ok(());
        }
        let queue = self.cx.table.pieces.queue_of(index);
        let has_tag = self.tags.has(queue) && !self.is_submitter_asleep(slot);
        let live = &mut self.cx.table.requests[slot];
        live.tagged = has_tag;
        if has_tag {
            self.tags.take(queue);
            self.plug_or_insert(slot);
        } else {
            live.stage = Stage::Front;
            self.wait_for_tag(slot);
        }
        Ok(())
    }

    /// Accepts a request of which there is something to say, or refuses it.
    #[inline(never)]
    fn accept_slow(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let StreamId { index, generation } = request.stream;
        let (streams, sizes) = (&self.cx.table.streams, &self.config.sizes);
        let live = match streams.get_named(index, generation) {
            Some(stream) if stream.state != State::Closing => stream.live,
            _ => return Err(Reject::UnknownStream),
        };
        self.cx.table.spaces.check(request)?;
        let shared = self.shared + u32::from(live >= sizes.reserved);
        if live >= sizes.per_stream || shared > self.shared_max {
            return Err(self.refuse(index, live));
        }
        let slot = self.take_slot(now, request, shared);
        let accepted = &mut self.cx.table.requests[slot];
        (accepted.since, accepted.tagged, accepted.admitted) = (now, false, false);
        if self.merging {
            self.cx.table.merges.begin(slot, request);
            if self.plug.turn_to(index) {
                self.unplug();
            }
        }
        self.climb(now, slot, 0);
        if live + 1 >= self.config.sizes.per_stream {
            self.reconsider_pause(index);
        }
        Ok(())
    }

    /// A slot for a request for which there is room, and what is taken of the shared room with it.
    #[inline]
    fn take_slot(&mut self, now: Instant, request: &Request, shared: u32) -> u32 {
        let stream = &mut self.cx.table.streams[request.stream.index];
        let requests = &mut self.cx.table.requests;
        let (slot, live) = requests.take().expect("there is room");
        live.accept(request, self.counters.accepted, stream.spec.group, now);
        self.shared = shared;
        stream.live += 1;
        self.counters.accepted += 1;
        slot
    }

    /// There is no room for one more request of the stream: it has as many as it may, or what is common to all is used up.
    #[cold]
    fn refuse(&mut self, index: u32, live: u32) -> Reject {
        if live >= self.config.sizes.per_stream {
            // Should the pause be over before the driver has heard of it, the resume it waits for must come all the same.
            self.cx.table.streams[index].owed_resume = true;
            return Reject::StreamFull;
        }
        self.add_starved(index);
        Reject::Full
    }
}
