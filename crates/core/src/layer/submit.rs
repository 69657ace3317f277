//! Submission: checks a request, counts it against its stream, charges it to the limits, and puts
//! it into the elevator.
//!
//! `accept` chooses one of four paths. Most requests take the first and shortest one, and
//! `accept_slow` handles all cases.

use super::{Layer, Rejection};
use crate::stream::{State, Stream};
use crate::table::Stage;
use crate::{Instant, Op, QueueId, Reject, Request, StreamId};

/// The number of refusals by the elevator after which one call tries no more lanes. It bounds the
/// work, and loses nothing: a stream that is refused holds a tag, so the lanes are tried again when
/// that tag is freed.
const REFUSALS_MAX: u32 = 8;

impl Layer {
    /// Submits a batch of requests. Every accepted request ends in exactly one
    /// [`Output::Done`](crate::Output::Done).
    ///
    /// # Errors
    /// Returns the first request that was refused. The requests before it were accepted, and those
    /// after it were not examined.
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejection> {
        let now = self.advance(now);
        self.run_timers(now);
        // The batch is the plug: its neighbours are merged before the elevator sees them.
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
    fn accept_all(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejection> {
        let before = self.counters.accepted;
        for request in batch {
            if let Err(reason) = self.accept(now, request) {
                self.counters.rejected += 1;
                let accepted = (self.counters.accepted - before) as usize;
                return Err(Rejection { accepted, reason });
            }
        }
        Ok(())
    }

    /// Runs the timers of controllers that are due. This comes before anything else that happens at
    /// `now`.
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
        // In the order of the chain, so that a request released by one controller can be released
        // by the next one in the same call.
        for number in 0..self.chain.len() {
            self.chain.run(&mut self.cx, number);
            self.release(now);
        }
        if self.merging {
            self.close_plug();
        }
    }

    /// Moves on the requests that controllers no longer throttle.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some((request, holder)) = self.chain.next_passed(&mut self.cx) {
            self.leave_controller(request, holder);
            self.climb(now, request, holder + 1);
        }
    }

    /// Accounts for a request that a controller no longer throttles.
    pub(super) fn leave_controller(&mut self, request: u32, holder: u8) {
        let stream = self.cx.table.requests[request].request.stream.index;
        if holder < self.chain.gate() {
            debug_assert!(self.cx.table.streams[stream].throttled > 0);
            self.cx.table.streams[stream].throttled -= 1;
        }
        self.holds_changed(stream, holder);
    }

    /// Checks whether a stream must pause or resume after a controller throttled one more of its
    /// requests, or one fewer. Requests that are throttled after the gate are no backlog of the
    /// stream by themselves.
    #[inline]
    fn holds_changed(&mut self, stream: u32, holder: u8) {
        if holder < self.chain.gate() || self.cx.table.streams[stream].is_throttled() {
            self.reconsider_pause(stream);
        }
    }

    /// Takes a request through the chain from controller `from` on, until a controller throttles it
    /// or it has passed all of them and enters the next stage. If its stream is on hold, it does
    /// not pass the gate.
    pub(super) fn climb(&mut self, now: Instant, request: u32, from: u8) {
        let (gate, len) = (self.chain.gate(), self.chain.len());
        let live = &self.cx.table.requests[request];
        let (tagged, Request { stream, op, .. }) = (live.tagged, live.request);
        let stream = &self.cx.table.streams[stream.index];
        let (through_chain, mut on_hold) = (stream.through_chain, stream.state == State::Held);
        let mut holder = None;
        // A stalled space stops a request as a stream on hold does.
        on_hold |= self.must_wait_for_space(request);
        // A request with a scheduler tag has pieces in the drive and passed the chain before.
        let is_stopped = on_hold || tagged || self.merging;
        // With merging, the gate is where Linux tries to merge a bio (`blk_mq_submit_bio`), before
        // `rq_qos_throttle`.
        let stop = if is_stopped { gate } else { len };
        if through_chain {
            holder = self.chain.climb(&mut self.cx, request, from, stop);
        }
        if holder.is_none() && on_hold {
            // A request that waits for its client or its space must not occupy places in
            // controllers.
            self.chain.ended(&mut self.cx, request, None);
        } else if holder.is_none() && !tagged {
            if self.merging && from <= gate && self.merge_arrived(request) {
                return;
            }
            if through_chain && is_stopped {
                holder = self.chain.climb(&mut self.cx, request, from.max(gate), len);
            }
            if self.merging && holder.is_some() {
                // As in Linux, where the process sleeps now and its plug is flushed
                // (`io_schedule_prepare`).
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

    /// Returns the stage that a request enters after the chain.
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

    /// Returns true if the process that issued a request still waits for a tag for another request,
    /// so that it would not have submitted this one yet in Linux.
    #[inline]
    fn is_submitter_asleep(&self, request: u32) -> bool {
        self.config.merge.ahead
            && !self.front.is_empty()
            && !(self.front).is_free(self.lane(&self.cx.table.requests[request].request))
    }

    /// Puts a request into its next stage. The time since it entered its previous stage counts as
    /// throttled.
    fn enter_stage(&mut self, now: Instant, request: u32, stage: Stage) {
        let live = &mut self.cx.table.requests[request];
        debug_assert!(live.since <= now && live.stage != Stage::Finished);
        // From its first piece to its last, the time of a request is the drive's, even if its
        // stream was on hold.
        if !live.is_dispatched() {
            live.cleared += now.since(live.since);
        }
        live.since = now;
        live.stage = stage;
        if stage == Stage::Elevator && live.tagged {
            // It kept its scheduler tag, and the code below takes one again.
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
            // Requests of a stalled space wait in its list. Those of a stream on hold are found by
            // a scan when the hold ends.
            Stage::OnHold if self.stalls.is_on(space) => self.wait_for_space(now, request),
            Stage::OnHold | Stage::Plug | Stage::Merged | Stage::Flushing | Stage::Finished => {}
        }
    }

    /// Puts a request in front of the elevator until a scheduler tag is free.
    fn wait_for_tag(&mut self, request: u32) {
        if self.merging {
            // As in Linux, where the process sleeps now and its plug is flushed.
            self.unplug();
            self.plug.waits(request);
        }
        let lane = self.lane(&self.cx.table.requests[request].request);
        self.front
            .push(self.cx.table.queue_of(request), lane, request);
    }

    /// Gives the free scheduler tags of a queue to waiting requests. If the elevator limits tags, a
    /// stream that was refused because of its requests in another queue may have one now as well,
    /// so all queues are tried.
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

    /// Gives the scheduler tag of a request that ended to a waiting request. With `ahead`, the
    /// stream of the ended request may take it first, unless it waits for a tag itself or has
    /// passed waiting streams too often.
    pub(super) fn fill_front_after(&mut self, request: u32) {
        if self.front.is_empty() {
            return;
        }
        let lane = self.lane(&self.cx.table.requests[request].request);
        let queue = self.cx.table.queue_of(request);
        if !self.config.merge.ahead {
            self.fill_front(queue);
        } else if !self.front.is_free(lane) || !self.front.pass() {
            // One tag at most, because other free tags are for streams whose completions are
            // reported first.
            self.fill_front_of(queue, 1);
        }
    }

    /// Gives free scheduler tags of all queues to waiting requests.
    pub(super) fn fill_fronts(&mut self) {
        for queue in 0..self.config.drive.queues {
            if self.front.is_empty() {
                return;
            }
            self.fill_front_of(QueueId(queue), u32::MAX);
        }
    }

    /// Gives up to `most` free scheduler tags of a queue to waiting requests.
    fn fill_front_of(&mut self, queue: QueueId, most: u32) {
        let (mut given, mut refusals) = (0, 0);
        while given < most && self.tags.has(queue) && refusals < REFUSALS_MAX {
            let Some(request) = self.front.first(queue) else {
                return;
            };
            if self.limits_tags && !self.may_tag(request) {
                // The elevator may refuse one stream and allow the next one, so the lane is put
                // last.
                self.front.skip(queue);
                refusals += 1;
                continue;
            }
            self.front.pop(queue);
            let live = &mut self.cx.table.requests[request];
            live.tagged = true;
            live.stage = Stage::Elevator;
            let waited = self.cx.now.since(live.since);
            // `io.cost` accounts for the time that the request waited for its tag.
            self.chain.tagged(&mut self.cx, request, waited);
            self.tags.take(queue);
            given += 1;
            if self.merging {
                self.insert(request);
            } else {
                self.elevator.insert(&mut self.cx, request);
                self.notify_tagged(request, true);
            }
        }
    }

    /// Frees the scheduler tag of a request.
    #[inline]
    pub(super) fn untag(&mut self, request: u32) {
        self.tags.release(self.cx.table.queue_of(request));
        self.notify_tagged(request, false);
    }

    /// Returns true if the elevator allows a request to have a scheduler tag.
    fn may_tag(&self, request: u32) -> bool {
        let elevator = self.elevator.other();
        elevator.is_none_or(|e| e.may_tag(&self.cx, request))
    }

    /// Notifies an elevator that limits tags that a request got a tag or lost it.
    pub(super) fn notify_tagged(&mut self, request: u32, tagged: bool) {
        if !self.limits_tags {
            return;
        }
        match self.elevator.other_mut() {
            Some(elevator) if tagged => elevator.on_tag_taken(&mut self.cx, request),
            Some(elevator) => elevator.on_tag_returned(&mut self.cx, request),
            None => {}
        }
    }

    /// Returns the lane in which a request waits for a scheduler tag: that of its kind in its
    /// stream, or that of its hardware queue. Lanes take turns, as processes do in Linux, where
    /// each waits with one request at a time.
    pub(super) fn lane(&self, request: &Request) -> u32 {
        if self.limits_tags || self.config.merge.ahead {
            2 * request.stream.index + u32::from(!request.is_sync())
        } else {
            self.cx.table.pieces.queue_of(request.stream.index).0.into()
        }
    }

    /// Takes a scheduler tag, of which there must be a free one, and puts a request into the plug
    /// or the elevator.
    fn tag_in_batch(&mut self, request: u32) {
        self.tags.take(self.cx.table.queue_of(request));
        if self.merging {
            self.plug_or_insert(request);
        } else {
            self.elevator.insert(&mut self.cx, request);
            self.notify_tagged(request, true);
        }
    }

    /// Takes a scheduler tag, of which there must be a free one, if the elevator allows the request
    /// to have it. Otherwise the request waits.
    #[cold]
    fn try_tag(&mut self, request: u32) {
        let live = &self.cx.table.requests[request];
        let lane = self.lane(&live.request);
        // A request with pieces in the drive must continue.
        let may = live.pieces > 0 || self.front.is_free(lane) && self.may_tag(request);
        if may {
            self.tag_in_batch(request);
        } else {
            let live = &mut self.cx.table.requests[request];
            (live.stage, live.tagged) = (Stage::Front, false);
            self.wait_for_tag(request);
        }
    }

    /// Accepts a request. Most requests need no special treatment and go directly to the elevator.
    #[inline]
    fn accept(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let StreamId { index, generation } = request.stream;
        // A free slot can have the same generation, but its stream was closed and has no fast path.
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
        // The longer paths, each for one combination of features, so that each has few branches.
        match (self.merging, self.limits_tags) {
            (false, _) if !self.chain_for_all => self.accept_plain(now, request),
            (true, false) => self.accept_to_merge(now, request),
            _ => self.accept_slow(now, request),
        }
    }

    /// Returns the new value of `shared` if a stream can have one more request and the request is
    /// inside its space. Returns `None` if there is no room or the request needs special
    /// treatment.
    #[inline]
    fn room_for(&self, request: &Request, stream: &Stream) -> Option<u32> {
        let sizes = &self.config.sizes;
        if !self.cx.table.spaces.fits(request) || stream.live >= self.unpaused_max {
            return None;
        }
        let shared = self.shared + u32::from(stream.live >= sizes.reserved);
        (shared <= self.shared_max).then_some(shared)
    }

    /// Like [`Self::room_for`], but returns `None` also if the stream is not open or a controller
    /// or listener must see its requests.
    #[inline]
    fn room_for_plain(&self, request: &Request) -> Option<u32> {
        let StreamId { index, generation } = request.stream;
        let stream = self.cx.table.streams.get_of(index, generation)?;
        let is_plain = stream.state == State::Open && !stream.through_chain;
        let stream = is_plain.then_some(stream)?;
        self.room_for(request, stream)
    }

    /// Accepts a request without merging, if the elevator limits tags or there are several hardware
    /// queues. While no request waits for a tag, most requests get one at once.
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

    /// Accepts a request with merging. Most requests enter the plug.
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
        if self.plug.switch_stream(index) {
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

    /// Accepts or refuses a request, with all checks.
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
        // Nothing has been changed up to here, so a refused request leaves no trace.
        if live >= sizes.per_stream || shared > self.shared_max {
            return Err(self.refuse(index, live));
        }
        let slot = self.take_slot(now, request, shared);
        let accepted = &mut self.cx.table.requests[slot];
        (accepted.since, accepted.tagged, accepted.admitted) = (now, false, false);
        if self.merging {
            self.cx.table.merges.begin(slot, request);
            if self.plug.switch_stream(index) {
                self.unplug();
            }
        }
        self.climb(now, slot, 0);
        // The stream is full with this request, so it must pause before its next one is refused.
        if live + 1 >= self.config.sizes.per_stream {
            self.reconsider_pause(index);
        }
        Ok(())
    }

    /// Takes a slot for a request for which there is room, and sets `shared`.
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

    /// Refuses a request because its stream has the maximum number of requests or because the
    /// shared places are used up.
    #[cold]
    fn refuse(&mut self, index: u32, live: u32) -> Reject {
        if live >= self.config.sizes.per_stream {
            // If the pause ends before the driver was told about it, the driver still waits for a
            // resume, so it must be sent.
            self.cx.table.streams[index].owed_resume = true;
            return Reject::StreamFull;
        }
        self.add_starved(index);
        Reject::Full
    }
}
