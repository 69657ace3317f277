//! Clients connect, submit requests, receive answers, and disconnect.

use super::SimRun;
use crate::SimError;
use crate::flights::Flight;
use crate::host::{Continuation, Fetch, Files};
use weir_core::{Done, Op, Outcome, Reject, Request, StreamId, StreamSpec, Waits};
use weir_measure::Breakdown;
use weir_model::load::Step;

/// The error number of an invalid request.
const EINVAL: u16 = 22;

/// The error number of a request that was cancelled because its client left.
const ECANCELED: u16 = 125;

impl SimRun<'_> {
    pub(super) fn connect(&mut self, client: u32) -> Result<(), SimError> {
        let spec = &self.scenario.clients[client as usize];
        let stream = StreamSpec {
            group: spec.group,
            priority: spec.priority,
        };
        let stream = self.layer.open(self.now, stream).map_err(|error| {
            let client = spec.name.clone();
            SimError::Open { client, error }
        })?;
        self.by_slot[stream.slot() as usize] = client;
        self.guests[client as usize].stream = Some(stream);
        self.wake_guest(client);
        Ok(())
    }

    pub(super) fn disconnect(&mut self, client: u32) {
        let guest = &mut self.guests[client as usize];
        if let Some(stream) = guest.stream.take() {
            let unread = std::mem::take(&mut guest.unread);
            // The client does not hear of its outstanding requests any more. They count as failed.
            for _ in 0..guest.program.outstanding() {
                guest.meter.failed(self.now.as_nanos(), 0);
            }
            self.timers.clear(client);
            self.layer.close(self.now, stream);
            for request in unread {
                self.cancel_unsubmitted(&request);
            }
            self.abandon_fetches(client);
            self.abandon_dirty(client);
            self.leave_journal(client);
        }
    }

    /// Cancels the fetches of a client that has left. The pages are missing again, and other
    /// clients that need them fetch them themselves.
    fn abandon_fetches(&mut self, client: u32) {
        let first = |files: &mut Files| files.cache(client)?.first_fetch(client);
        while let Some(fetch) = first(&mut self.files) {
            self.on_fetched(fetch, Breakdown::default(), false);
        }
    }

    pub(super) fn wake_guest(&mut self, client: u32) {
        if self.guests[client as usize].mark_ready() {
            self.ready.push_back(client);
        }
    }

    /// Runs a client until it waits for a time or an answer.
    pub(super) fn step(&mut self, client: u32) {
        let Some(stream) = self.guests[client as usize].stream else {
            return;
        };
        if self.step_journal(client, stream) {
            return;
        }
        let guest = &self.guests[client as usize];
        if guest.process.is_some() {
            return self.step_process(client, stream);
        }
        loop {
            let guest = &mut self.guests[client as usize];
            match guest.program.next(self.now) {
                Step::Issue(io) => {
                    let bytes = io.op.transfer(io.length.into());
                    guest.meter.issued(io.op, io.due.as_nanos(), bytes);
                    let request = guest.request(stream, &io);
                    self.send(Flight::new(client, bytes, io.number, io.due), request);
                }
                Step::WaitUntil(at) => break self.timers.set(client, at),
                Step::WaitForCompletion | Step::Finished => break self.timers.clear(client),
            }
        }
        self.end_batch();
    }

    /// Sends a request of a client, in parts if it is longer than the layer accepts.
    fn send(&mut self, mut flight: Flight, request: Request) {
        let client = flight.client;
        let plugged = self.is_plugged(client);
        if let Some(rings) = &mut self.rings {
            rings.next_batch(!plugged);
        }
        // Until its dispatch, the entry holds the elevator's idle time at submission (see
        // `on_dispatched`).
        flight.idle = self.idling.until(self.now);
        let cookie = self.flights.insert(flight);
        let whole = Request { cookie, ..request };
        if whole.length <= self.longest || !matches!(whole.op, Op::Read | Op::Write) {
            return self.forward_request(client, whole);
        }
        // A server receives the parts that a guest has split as separate requests of its client.
        let is_counted_whole = self.rings.is_none();
        for done in (0..whole.length).step_by(self.longest as usize) {
            let length = self.longest.min(whole.length - done);
            let part = Request {
                cookie: self.flights.insert_part(whole.cookie, length.into()),
                offset: whole.offset + u64::from(done),
                length,
                within: if is_counted_whole { done } else { 0 },
                ..whole
            };
            self.forward_request(client, part);
        }
    }

    /// Passes a request, or a part of one, on the client's path: into a ring, into the layer, or
    /// onto the way to the server.
    fn forward_request(&mut self, client: u32, request: Request) {
        if let Some(rings) = &mut self.rings {
            rings.send(client, request);
        } else if self.transit.is_direct() {
            self.receive(client, request);
        } else {
            self.transit.send(self.now, request);
        }
    }

    /// Ends a client's submissions at this instant, and thereby their batch.
    pub(super) fn end_batch(&mut self) {
        if let Some(rings) = &mut self.rings {
            rings.next_batch(true);
        }
    }

    /// Runs the system calls of a process.
    fn step_process(&mut self, client: u32, stream: StreamId) {
        let guest = &mut self.guests[client as usize];
        let Some(process) = &mut guest.process else {
            return;
        };
        let cache = self.files.cache(client);
        let then = process.run(
            self.now,
            (
                cache.expect("a process has a file open"),
                &mut self.write_back,
            ),
            &mut guest.program,
            &mut guest.meter,
            &mut self.commands,
        );
        let expiry = process.expiry().filter(|&at| at > self.now);
        let then = match (then, expiry) {
            (Continuation::At(at), Some(expiry)) => Continuation::At(at.min(expiry)),
            (Continuation::Answer, Some(expiry)) => Continuation::At(expiry),
            (then, None) => then,
        };
        self.filter_commands(client);
        self.send_commands(client, stream, then);
        self.run_flusher(client);
    }

    /// Sends the commands of a process or of the file system, which continues at `then`.
    pub(super) fn send_commands(&mut self, client: u32, stream: StreamId, then: Continuation) {
        self.send_together(client, stream);
        match then {
            Continuation::At(at) => self.timers.set(client, at),
            Continuation::Answer => self.timers.clear(client),
        }
        self.end_batch();
    }

    /// Sends the commands of a process, of its flusher or of the file system.
    pub(super) fn send_together(&mut self, client: u32, stream: StreamId) {
        let mut commands = std::mem::take(&mut self.commands);
        // The list is taken out of `self`, because `send` needs all of `self`. It is put back so
        // that its allocation is reused.
        for command in commands.drain(..) {
            let request = self.guests[client as usize].command(stream, &command);
            let bytes = command.op.transfer(command.length.into());
            self.send(
                Flight::new(client, bytes, command.number, self.now),
                request,
            );
        }
        self.commands = commands;
    }

    /// Receives a request in the server, and submits it unless the layer has paused its stream.
    pub(super) fn receive(&mut self, client: u32, request: Request) {
        let guest = &mut self.guests[client as usize];
        if guest.stream != Some(request.stream) {
            self.cancel_unsubmitted(&request);
        } else if guest.paused {
            guest.unread.push_back(request);
        } else {
            self.requests.push(request);
        }
    }

    /// Handles a request that the layer did not accept.
    pub(super) fn on_rejection(&mut self, request: Request, reason: Reject) {
        let client = self.by_slot[request.stream.slot() as usize];
        let guest = &mut self.guests[client as usize];
        match reason {
            // The layer resumes the stream when it has space again. The request then is submitted
            // again.
            Reject::Full | Reject::StreamFull => {
                guest.paused = true;
                guest.unread.push_back(request);
            }
            Reject::UnknownStream => self.cancel_unsubmitted(&request),
            _ => self.forward_answer(&self.error_answer(&request, EINVAL)),
        }
    }

    /// Ends a request that does not reach the layer because its client has left. No client receives
    /// the answer, but in a ring the request has a slot that must be freed.
    fn cancel_unsubmitted(&mut self, request: &Request) {
        let done = self.error_answer(request, ECANCELED);
        if self.rings.is_some() {
            self.forward_answer(&done);
        } else {
            self.flights.end(&done);
        }
    }

    fn error_answer(&self, request: &Request, error: u16) -> Done {
        Done {
            stream: request.stream,
            cookie: request.cookie,
            op: request.op,
            length: request.length,
            outcome: Outcome::Error(error),
            submitted: self.now,
            waits: Waits::default(),
        }
    }

    /// Passes an answer of the layer, or of the server, back on the client's path.
    #[inline]
    pub(super) fn forward_answer(&mut self, done: &Done) {
        if let Some(rings) = &mut self.rings {
            rings.answer(*done);
        } else if self.transit.is_direct() {
            self.deliver(done);
        } else {
            self.transit.answer(*done);
        }
    }

    /// Delivers an answer to its client.
    #[inline]
    pub(super) fn deliver(&mut self, done: &Done) {
        let Some((flight, done)) = self.flights.end(done) else {
            return;
        };
        let guest = &mut self.guests[flight.client as usize];
        // A client that has left and connected again has another stream.
        if guest.stream == Some(done.stream) {
            if self.notify_journal(&flight, &done) {
                return;
            }
            self.on_written(flight.client, flight.number);
            let guest = &mut self.guests[flight.client as usize];
            guest.on_answer(self.now, &flight, &done);
            self.wake_guest(flight.client);
            let fetch = Fetch {
                client: flight.client,
                number: flight.number,
            };
            self.on_fetched(fetch, flight.breakdown(&done), done.outcome == Outcome::Ok);
        }
    }

    /// Completes a command of a process. If the command fetched pages, clients that have waited for
    /// them continue.
    fn on_fetched(&mut self, fetch: Fetch, parts: Breakdown, well: bool) {
        for &client in self.files.complete_fetch(fetch, well) {
            let guest = &mut self.guests[client as usize];
            let process = guest.process.as_mut();
            let waited = process.is_some_and(|p| p.on_fetched(self.now, fetch, parts, well));
            if waited && guest.mark_ready() {
                self.ready.push_back(client);
            }
        }
    }
}
