//! Requests come in: checked, counted against their stream, charged by the limits, put in the elevator.

use super::{At, Layer, Live, Reject, Rejected};
use crate::event::Event;
use crate::mutant;
use crate::stream::State;
use crate::{Instant, Op, Outcome, Request, Span, StreamId};

impl Layer {
    /// A batch of requests from clients. Every accepted one ends in exactly one [`Output::Done`](crate::Output::Done).
    ///
    /// # Errors
    /// A request was not accepted; those before it were, those after it were not looked at.
    pub fn submit(&mut self, now: Instant, batch: &[Request]) -> Result<(), Rejected> {
        let now = self.advance(now);
        self.run_timers(now);
        for (accepted, request) in batch.iter().enumerate() {
            if let Err(reason) = self.accept(now, request) {
                self.counters.rejected += 1;
                return Err(Rejected { accepted, reason });
            }
        }
        Ok(())
    }

    /// Lets what the limits hold back go on where its time has come: before anything else that happens at `now`.
    #[inline]
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.limits.wake() <= now {
            self.release_held(now);
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
    }

    /// A request has passed its limits, or its stream is no longer on hold: on to its flush queue, or to the elevator if a
    /// scheduler tag is free.
    pub(super) fn after_limits(&mut self, now: Instant, request: u32) {
        let live = &self.table.requests[request];
        let held = self.table.streams[live.request.stream.index].state == State::Held;
        let mut at = self.first_place(live.request.op, true, held);
        if live.tagged && at != At::Held {
            // It kept its scheduler tag: some of it is in the drive.
            at = At::Elevator;
            self.tagged -= 1;
        }
        let live = &mut self.table.requests[request];
        // Between its first piece and its last a request's time is the drive's, also where its stream was on hold.
        if live.dispatched.is_none() {
            live.limited += now.since(live.since);
        }
        live.since = now;
        live.tagged |= at == At::Elevator;
        live.at = at;
        self.put(now, request, at);
    }

    /// Gives free scheduler tags to those who wait for one.
    pub(super) fn fill_front(&mut self, now: Instant) {
        while self.tagged < self.config.limits.scheduler_tags {
            let Some(request) = self.stage.pop_front(&mut self.waiting) else {
                return;
            };
            let live = &mut self.table.requests[request];
            live.tagged = true;
            live.at = At::Elevator;
            self.put(now, request, At::Elevator);
        }
    }

    fn accept(&mut self, now: Instant, request: &Request) -> Result<(), Reject> {
        let StreamId { index, generation } = request.stream;
        let stream = self
            .table
            .streams
            .get_named(index, generation)
            .ok_or(Reject::UnknownStream)?;
        if stream.state == State::Closing {
            return Err(Reject::UnknownStream);
        }
        let (group, held, before) = (
            stream.spec.group,
            stream.state == State::Held,
            stream.requests.len(),
        );
        self.check_range(request)?;
        self.check_room(index, before)?;
        let (read, charge) = (request.op.is_read(), request.charge());
        let passed = self.limits.pass(now, group, read, charge);
        let at = self.first_place(request.op, passed, held);
        let live = Live {
            request: *request,
            group,
            at,
            tagged: at == At::Elevator,
            given_up: false,
            issued: 0,
            pieces: 0,
            outcome: Outcome::Ok,
            submitted: now,
            since: now,
            limited: Span::ZERO,
            queued: Span::ZERO,
            dispatched: None,
        };
        let slot = self.table.requests.insert(live).expect("there is room");
        let stream = &mut self.table.streams[index];
        self.table.by_stream.push_back(&mut stream.requests, slot);
        self.shared += u32::from(before >= self.config.limits.reserved);
        self.counters.accepted += 1;
        if passed {
            if self.events.listening() {
                self.publish_release(now, slot);
            }
        } else {
            self.limits.hold(slot, group, read, charge);
            self.came_to_limits(request);
        }
        self.put(now, slot, at);
        if passed && before + 1 >= self.config.limits.per_stream {
            self.reconsider_pause(index);
        }
        Ok(())
    }

    /// Where a request goes that comes in or has passed its limits.
    #[inline]
    fn first_place(&self, op: Op, passed: bool, held: bool) -> At {
        if !passed {
            At::Limit
        } else if held && !mutant::is(mutant::HELD_STREAM_DISPATCHED) {
            At::Held
        } else if op == Op::Flush {
            if mutant::is(mutant::FLUSH_IGNORED) {
                At::Drive
            } else {
                At::Flush
            }
        } else if self.tagged < self.config.limits.scheduler_tags && self.waiting.is_empty() {
            At::Elevator
        } else {
            At::Front
        }
    }

    /// Puts a request into the stage that its `at` names.
    #[inline]
    fn put(&mut self, now: Instant, slot: u32, at: At) {
        match at {
            At::Elevator => {
                self.tagged += 1;
                self.elevator.insert(now, slot, &self.table);
            }
            At::Front => self.stage.push_back(&mut self.waiting, slot),
            At::Flush => self
                .flushes
                .insert(self.table.requests[slot].request.space, slot),
            At::Drive => self.finish_if_over(now, slot),
            At::Limit | At::Held | At::Finished => {}
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

    fn check_range(&self, request: &Request) -> Result<(), Reject> {
        let size = self
            .table
            .spaces
            .size(request.space)
            .ok_or(Reject::UnknownSpace)?;
        let flush = request.op == Op::Flush;
        if (request.length == 0) != flush || (flush && request.offset != 0) {
            return Err(Reject::BadLength);
        }
        match request.offset.checked_add(u64::from(request.length)) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Reject::OutOfRange),
        }
    }

    /// Room for one more request of the stream: within its own bound, and in what is reserved for it or common to all.
    #[inline]
    fn check_room(&mut self, index: u32, live: u32) -> Result<(), Reject> {
        let limits = &self.config.limits;
        if live >= limits.per_stream {
            // Should the pause be over before the driver has heard of it, the resume it waits for must come all the same.
            self.table.streams[index].owed_resume = true;
            return Err(Reject::StreamFull);
        }
        if live < limits.reserved || self.shared < limits.shared() {
            return Ok(());
        }
        self.starve(index);
        Err(Reject::Full)
    }
}
