//! Clients connect, submit, receive replies, and leave.

use super::Run;
use crate::Error;
use crate::flights::Flight;
use crate::host::{Fetch, Files, Then};
use weir_core::{Done, Op, Outcome, Reject, Request, StreamId, StreamSpec, Waits};
use weir_measure::Breakdown;
use weir_model::load::Step;

/// The error for an invalid request.
const EINVAL: u16 = 22;

/// The error for a request that was given up.
const ECANCELED: u16 = 125;

impl Run<'_> {
    pub(super) fn connect(&mut self, client: u32) -> Result<(), Error> {
        let spec = &self.scenario.clients[client as usize];
        let stream = StreamSpec {
            group: spec.group,
            priority: spec.priority,
        };
        let stream = self.layer.open(self.now, stream).map_err(|error| {
            let client = spec.name.clone();
            Error::Open { client, error }
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
            for _ in 0..guest.program.outstanding() {
                guest.meter.failed(self.now.as_nanos(), 0);
            }
            self.timers.clear(client);
            self.layer.close(self.now, stream);
            for request in unread {
                self.given_up(&request);
            }
            self.abandon_fetches(client);
            self.leave_journal(client);
        }
    }

    /// Pages that a client had asked for before it went are missing, and another client that wants them asks.
    fn abandon_fetches(&mut self, client: u32) {
        let first = |files: &mut Files| files.cache(client)?.first_coming(client);
        while let Some(fetch) = first(&mut self.files) {
            self.fetched(fetch, Breakdown::default(), false);
        }
    }

    pub(super) fn wake_guest(&mut self, client: u32) {
        if self.guests[client as usize].is_woken() {
            self.ready.push_back(client);
        }
    }

    /// Runs a client as far as it gets now.
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
        self.sent();
    }

    /// A request leaves its client, in parts if it is too long for what it comes to.
    fn send(&mut self, mut flight: Flight, request: Request) {
        let client = flight.client;
        let plugged = self.is_plugged(client);
        if let Some(rings) = &mut self.rings {
            rings.next_batch(!plugged);
        }
        flight.idle = self.idling.until(self.now);
        let cookie = self.flights.insert(flight);
        let whole = Request { cookie, ..request };
        if whole.length <= self.longest || !matches!(whole.op, Op::Read | Op::Write) {
            return self.pass(client, whole);
        }
        // A server receives what a guest has split as requests of its client.
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
            self.pass(client, part);
        }
    }

    /// A request, or a part of one, goes where its client's go.
    fn pass(&mut self, client: u32, request: Request) {
        if let Some(rings) = &mut self.rings {
            rings.send(client, request);
        } else if self.transit.is_direct() {
            self.receive(client, request);
        } else {
            self.transit.send(self.now, request);
        }
    }

    /// A client has sent what it sends at this time.
    fn sent(&mut self) {
        if let Some(rings) = &mut self.rings {
            rings.next_batch(true);
        }
    }

    /// Runs a process's system calls.
    fn step_process(&mut self, client: u32, stream: StreamId) {
        let guest = &mut self.guests[client as usize];
        let Some(process) = &mut guest.process else {
            return;
        };
        let cache = self.files.cache(client);
        let then = process.run(
            self.now,
            cache.expect("a process has a file open"),
            &mut guest.program,
            &mut guest.meter,
            &mut self.commands,
        );
        self.pass_journal(client);
        self.send_commands(client, stream, then);
    }

    /// Sends the commands of a process, or of the file system, which continues `then`.
    pub(super) fn send_commands(&mut self, client: u32, stream: StreamId, then: Then) {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            let request = self.guests[client as usize].command(stream, &command);
            let bytes = command.op.transfer(command.length.into());
            self.send(
                Flight::new(client, bytes, command.number, self.now),
                request,
            );
        }
        self.commands = commands;
        match then {
            Then::At(at) => self.timers.set(client, at),
            Then::Answer => self.timers.clear(client),
        }
        self.sent();
    }

    /// A request reaches the server: it is submitted, unless the layer has paused its stream.
    pub(super) fn receive(&mut self, client: u32, request: Request) {
        let guest = &mut self.guests[client as usize];
        if guest.stream != Some(request.stream) {
            self.given_up(&request);
        } else if guest.paused {
            guest.unread.push_back(request);
        } else {
            self.requests.push(request);
        }
    }

    /// The layer did not accept a request.
    pub(super) fn refused(&mut self, request: Request, reason: Reject) {
        let client = self.by_slot[request.stream.slot() as usize];
        let guest = &mut self.guests[client as usize];
        match reason {
            Reject::Full | Reject::StreamFull => {
                guest.paused = true;
                guest.unread.push_back(request);
            }
            Reject::UnknownStream => self.given_up(&request),
            _ => self.answered(&self.failed(&request, EINVAL)),
        }
    }

    /// A request does not reach the layer, whose client has left: nobody hears of it, but in a ring it has a slot.
    fn given_up(&mut self, request: &Request) {
        let done = self.failed(request, ECANCELED);
        if self.rings.is_some() {
            self.answered(&done);
        } else {
            self.flights.end(&done);
        }
    }

    fn failed(&self, request: &Request, error: u16) -> Done {
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

    /// The layer, or the server in front of it, replies.
    #[inline]
    pub(super) fn answered(&mut self, done: &Done) {
        if let Some(rings) = &mut self.rings {
            rings.answer(*done);
        } else if self.transit.is_direct() {
            self.deliver(done);
        } else {
            self.transit.answer(*done);
        }
    }

    /// A reply reaches its client.
    #[inline]
    pub(super) fn deliver(&mut self, done: &Done) {
        let Some((flight, done)) = self.flights.end(done) else {
            return;
        };
        let guest = &mut self.guests[flight.client as usize];
        if guest.stream == Some(done.stream) {
            if self.tell_journal(&flight, &done) {
                return;
            }
            let guest = &mut self.guests[flight.client as usize];
            guest.answered(self.now, &flight, &done);
            self.wake_guest(flight.client);
            let fetch = Fetch {
                client: flight.client,
                number: flight.number,
            };
            self.fetched(fetch, flight.parts(&done), done.outcome == Outcome::Ok);
        }
    }

    /// A command of a process is over. If it fetched pages, clients that have waited for them run on.
    fn fetched(&mut self, fetch: Fetch, parts: Breakdown, well: bool) {
        for &client in self.files.arrived(fetch, well) {
            let guest = &mut self.guests[client as usize];
            let process = guest.process.as_mut();
            let waited = process.is_some_and(|p| p.fetched(self.now, fetch, parts, well));
            if waited && guest.is_woken() {
                self.ready.push_back(client);
            }
        }
    }
}
