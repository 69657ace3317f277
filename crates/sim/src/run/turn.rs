//! The loop of a run: the events of one instant, in order.

use super::{SimRun, run_in};
use crate::SimError;
use crate::agenda::AgendaItem;
use weir_core::{Completion, Cookie, Dispatch, Instant, Op, Output, Sample, SampleMask};

/// The number of turns at one instant after which the run counts as stuck.
const STILL_MAX: u32 = 1_000_000;

impl SimRun<'_> {
    /// Processes the events of one instant. Events that follow from them at the same instant can
    /// need further turns.
    pub(super) fn turn(&mut self, now: Instant) -> Result<(), SimError> {
        // Several turns at one instant are normal, since events follow from events.
        self.turns_at_instant = if now == self.now {
            self.turns_at_instant + 1
        } else {
            0
        };
        if self.turns_at_instant > STILL_MAX {
            return Err(SimError::Stuck { at: now });
        }
        self.now = now;
        self.turns += 1;
        if self.transit.is_direct() {
            self.complete();
            // Drive models can have internal events, after which no other part has to run.
            if self.is_quiet() {
                return Ok(());
            }
            self.run_agenda()?;
            self.rings();
            self.clients();
            self.submit();
            self.poll();
            return Ok(());
        }
        // With a path, the layer is called only in the server's turns. A change of the agenda is
        // work that the server must do at once.
        self.changed |= self.agenda.next().is_some_and(|at| at <= now);
        let served = self.next_of_layer().is_some_and(|at| at <= now);
        if served {
            self.complete();
        }
        self.run_agenda()?;
        if served {
            self.serve();
        }
        self.clients();
        Ok(())
    }

    /// Returns true if events happened only inside the drive, so that no client is notified and the
    /// layer has nothing to do.
    #[inline]
    fn is_quiet(&self) -> bool {
        let later = |at: Option<Instant>| at.is_none_or(|at| at > self.now);
        self.completions_received == 0
            && later(self.wake)
            && self.requests.is_empty()
            && self.ready.is_empty()
            && later(self.timers.first())
            && later(self.next_of_rings())
            && later(self.agenda.next())
    }

    /// Processes the server's part of a turn, after the drive's completions, including everything
    /// that follows at the same instant.
    fn serve(&mut self) {
        while let Some(request) = self.transit.pop_request(self.now) {
            let client = self.by_slot[request.stream.slot() as usize];
            self.receive(client, request);
        }
        loop {
            self.submit();
            self.poll();
            if self.requests.is_empty() {
                break;
            }
        }
        self.changed = false;
        self.transit.end_turn(self.now);
    }

    fn complete(&mut self) {
        while let Some(ended) = self.drive.pop(self.now) {
            let service = Some(ended.at.since(ended.began));
            let cookie = self.by_tag.get(ended.completion.tag.0 as usize);
            if let Some(flight) = cookie.and_then(|&cookie| self.flights.get_mut(cookie)) {
                flight.service = service;
            }
            // Requests that were merged into the command were served together with it.
            if self.merging {
                for part in self.layer.layer().parts(ended.completion.tag) {
                    if let Some(flight) = self.flights.get_mut(part.cookie) {
                        flight.service = service;
                    }
                }
            }
            self.completions.push(ended.completion);
        }
        self.completions_received = self.completions.len();
        if self.completions_received > 0 {
            self.layer.complete(self.now, &self.completions);
            self.completions.clear();
        }
    }

    /// Processes the planned events that are due.
    fn run_agenda(&mut self) -> Result<(), SimError> {
        while let Some(item) = self.agenda.pop(self.now) {
            match item {
                AgendaItem::Change(edits) => {
                    if let Err(refusal) = self.layer.change(self.now, &edits) {
                        // Users know the times of the scenario, which begin after the run-in.
                        let at = Instant::ZERO
                            + self
                                .now
                                .since(Instant::ZERO + run_in::length(&self.scenario));
                        self.refusals.push((at, refusal));
                    }
                }
                AgendaItem::Arrive(client) => self.connect(client)?,
                AgendaItem::Leave(client) => self.disconnect(client),
                AgendaItem::Hold(client, held) => {
                    if let Some(stream) = self.guests[client as usize].stream {
                        self.layer.hold(self.now, stream, held);
                    }
                }
                AgendaItem::Cancel(client) => {
                    if let Some(stream) = self.guests[client as usize].stream {
                        for cookie in self.flights.oldest_cookies(client) {
                            self.layer.cancel(self.now, stream, cookie);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Delivers answers to clients, and runs the clients.
    fn clients(&mut self) {
        while let Some(done) = self.transit.pop_answer(self.now) {
            self.deliver(&done);
        }
        while let Some(client) = self.timers.pop(self.now) {
            self.wake_guest(client);
        }
        while let Some(client) = self.ready.pop_front() {
            self.guests[client as usize].ready = false;
            self.step(client);
        }
    }

    /// Submits the requests that have arrived. Requests that are refused for lack of space wait
    /// until their stream is resumed.
    ///
    /// If requests are merged, those that were already sent to the drive cannot be merged with
    /// requests that arrive later at the same instant. Therefore the layer is polled in between.
    fn submit(&mut self) {
        let mut from = 0;
        while from < self.requests.len() {
            if from > 0 && self.merging && self.transit.is_direct() && self.is_sent_before(from) {
                self.poll();
            }
            let until = self.batch_end(from);
            let Err(rejected) = (self.layer).submit(self.now, &self.requests[from..until]) else {
                from = until;
                continue;
            };
            from += rejected.accepted + 1;
            let request = self.requests[from - 1];
            self.on_rejection(request, rejected.reason);
        }
        self.requests.clear();
    }

    /// Returns true if the earlier requests are sent to the drive before the request `next`
    /// arrives.
    ///
    /// A direct write has a plug of its own, at whose end it is sent (`blkdev_write_iter`,
    /// `blk_finish_plug`). The writes of a write-back share one plug. Without an elevator, a read
    /// is sent at once. With an elevator, a worker sends it (`blk_mq_submit_bio`) at the time that
    /// `sends_late` describes.
    fn is_sent_before(&self, next: usize) -> bool {
        let (last, next) = (&self.requests[next - 1], &self.requests[next]);
        let is_together = !last.is_sync() || last.op.is_read() && self.sends_late;
        last.stream != next.stream || !is_together
    }

    /// The end of the batch that begins at `from`. If requests are merged, a batch consists of the
    /// requests in one process's plug. Otherwise the division into batches makes no difference.
    fn batch_end(&self, from: usize) -> usize {
        let rest = &self.requests[from..];
        if !self.merging {
            return self.requests.len();
        }
        let stream = rest[0].stream;
        let client = self.by_slot[stream.slot() as usize];
        if !self.is_plugged(client) || !self.transit.is_direct() || self.rings.is_some() {
            return from + 1;
        }
        let others = rest.iter().take_while(|r| r.stream == stream);
        from + others.count()
    }

    fn poll(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let wake = self.layer.poll(self.now, &mut outputs);
        self.wake = wake.map(|wake| wake.at);
        for output in &outputs {
            match output {
                Output::Dispatch(command) => self.dispatch(command),
                Output::Done(done) => self.forward_answer(done),
                Output::Pause(stream) => {
                    let client = self.by_slot[stream.slot() as usize];
                    self.guests[client as usize].paused = true;
                }
                Output::Resume(stream) => {
                    let client = self.by_slot[stream.slot() as usize];
                    let guest = &mut self.guests[client as usize];
                    guest.paused = false;
                    self.requests.extend(guest.unread.drain(..));
                }
            }
        }
        outputs.clear();
        self.outputs = outputs;
        // Idling is sampled after each poll, because only a call of the layer changes it.
        let mut idles = false;
        let layer = self.layer.layer();
        layer.sample(SampleMask::SERVICE, &mut |sample| {
            idles |= matches!(sample, Sample::Idling { .. });
        });
        self.idling.set(self.now, idles);
        let busy = self.drive.in_flight() > 0;
        if busy != std::mem::replace(&mut self.is_busy, busy) {
            let now = self.now.as_nanos();
            if busy {
                self.busy.take(now);
            } else {
                self.busy.give(now);
            }
        }
        if let Some(depth) = &mut self.depth {
            depth.set(self.now.as_nanos(), self.drive.in_flight().into());
        }
        if let Some(states) = &mut self.states {
            states.sample_if_due(self.now, layer, &self.scenario, &self.by_slot);
        }
    }

    /// Notes that a request leaves the elevator, which fixes the idle time of its wait.
    #[inline]
    fn on_dispatched(&mut self, cookie: Cookie) {
        let idled = self.idling.until(self.now);
        if let Some(flight) = self.flights.get_mut(cookie) {
            flight.idle = idled.saturating_sub(flight.idle);
        }
    }

    /// Submits a command to the drive at the position of its space.
    #[inline]
    fn dispatch(&mut self, command: &Dispatch) {
        let mut placed = *command;
        let base = self.bases.get(command.space.0 as usize);
        if let (Some(base), false) = (base, command.op == Op::Flush) {
            placed.offset += base;
        }
        // The layer is told in the next turn that the drive was busy, and dispatches the command
        // again.
        if self.drive.submit(self.now, &placed).is_err() {
            self.completions.push(Completion::busy(command.tag));
            return;
        }
        let tag = command.tag.0 as usize;
        if self.by_tag.len() <= tag {
            self.by_tag.resize(tag + 1, 0);
        }
        self.by_tag[tag] = command.cookie;
        // Only the first piece of a request ends its wait in the elevator.
        if command.within > 0 {
            return;
        }
        self.on_dispatched(command.cookie);
        if self.merging {
            let parts: Vec<Cookie> = (self.layer.layer().parts(command.tag))
                .map(|part| part.cookie)
                .filter(|&cookie| cookie != command.cookie)
                .collect();
            for cookie in parts {
                self.on_dispatched(cookie);
            }
        }
    }
}
