//! A scenario played under a policy.

use crate::agenda::{Agenda, Item};
use crate::flights::{Flight, Flights};
use crate::guest::{Guest, moved};
use crate::observer::{Observer, Watched};
use crate::path::Transit;
use crate::results::{ClientResult, Results, name};
use crate::timers::Timers;
use crate::{Error, Policy, Scenario};
use std::collections::VecDeque;
use std::fmt;
use weir_core::{
    Completion, Config, Done, Edit, GroupId, Instant, Layer, Outcome, Output, Promised, Refusal,
    Reject, Request, SpaceId, Span, StreamSpec, Waits,
};
use weir_drive::Drive;
use weir_load::Step;

/// A scenario played under a policy, in virtual time.
pub struct Run<'a> {
    scenario: &'a Scenario,
    name: weir_measure::Run,
    layer: Watched<'a>,
    drive: Box<dyn Drive>,
    guests: Vec<Guest>,
    /// The client of each of the layer's stream slots.
    by_slot: Vec<u32>,
    flights: Flights,
    transit: Transit,
    timers: Timers,
    agenda: Agenda,
    /// When the layer wants to be asked again.
    wake: Option<Instant>,
    /// Clients to be asked what they do next.
    ready: VecDeque<u32>,
    completions: Vec<Completion>,
    requests: Vec<Request>,
    outputs: Vec<Output>,
    now: Instant,
    end: Instant,
    turns: u64,
    /// Turns at this instant.
    still: u32,
    promised: Promised,
    refusals: Vec<(Instant, Refusal)>,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("name", &self.name)
            .field("now", &self.now)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Where it is.
    pub now: Instant,
    /// Where it ends.
    pub end: Instant,
    /// Requests answered so far.
    pub requests: u64,
}

/// Virtual time between two reports of progress.
const PROGRESS: Span = Span::from_millis(100);

/// More turns than this at one instant are no progress.
const STILL_MAX: u32 = 1_000_000;

/// What a request that makes no sense is answered with.
const EINVAL: u16 = 22;

impl<'a> Run<'a> {
    /// A run at its beginning. The clients' seeds depend on the scenario's name, the repetition and the client's place, so that
    /// every policy and every drive meets the same work.
    ///
    /// # Errors
    /// Something in the scenario is out of range, or the contracts are refused.
    pub fn new(scenario: &'a Scenario, policy: &Policy, repetition: u32) -> Result<Self, Error> {
        Self::observed(scenario, policy, repetition, Vec::new())
    }

    /// As [`Self::new`], with observers of every call into the layer from the first on.
    ///
    /// # Errors
    /// As there.
    pub fn observed(
        scenario: &'a Scenario,
        policy: &Policy,
        repetition: u32,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Result<Self, Error> {
        let config = Self::config(scenario, policy);
        let streams = config.limits.streams;
        let mut layer = Watched::new(config, observers).map_err(Error::Layer)?;
        let promised = layer
            .change(Instant::ZERO, &edits(scenario, policy))
            .map_err(Error::Refused)?;
        let guests = (0..)
            .zip(&scenario.clients)
            .map(|(i, spec)| {
                let seed = weir_load::seed(&scenario.name, repetition, i);
                Guest::new(scenario, spec, seed)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let outstanding = scenario.clients.iter().map(|c| c.program.depth).sum();
        Ok(Self {
            scenario,
            name: name(scenario, policy, repetition),
            layer,
            drive: scenario.drive.build().map_err(Error::Drive)?,
            by_slot: vec![0; streams as usize],
            flights: Flights::new(outstanding),
            transit: Transit::new(scenario.path, outstanding),
            timers: Timers::new(guests.len()),
            agenda: Agenda::new(scenario)?,
            wake: None,
            ready: VecDeque::with_capacity(guests.len()),
            guests,
            completions: Vec::new(),
            requests: Vec::with_capacity(outstanding as usize),
            outputs: Vec::with_capacity(outstanding as usize),
            now: Instant::ZERO,
            end: Instant::ZERO + scenario.warm_up + scenario.duration,
            turns: 0,
            still: 0,
            promised,
            refusals: Vec::new(),
        })
    }

    /// What the layer of a run is made from: the header of a [`Recorder`](weir_core::record::Recorder) that observes it.
    pub fn config(scenario: &Scenario, policy: &Policy) -> Config {
        Config {
            limits: scenario.limits(),
            drive: Policy::shape(scenario),
            elevator: policy.elevator.clone(),
        }
    }

    /// Plays it to its end, and says now and then how far it has come.
    ///
    /// # Errors
    /// [`Error::Stuck`], or a client that cannot connect.
    pub fn run(mut self, mut progress: impl FnMut(Progress)) -> Result<Results, Error> {
        let mut until = Instant::ZERO;
        while until < self.end {
            until = (until + PROGRESS).min(self.end);
            self.advance(until)?;
            progress(Progress {
                now: until,
                end: self.end,
                requests: self.layer.layer().counters().done,
            });
        }
        Ok(self.finish())
    }

    /// Plays on until just before `until`, at most to the end.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn advance(&mut self, until: Instant) -> Result<(), Error> {
        let until = until.min(self.end);
        while let Some(now) = self.next_event().filter(|&at| at < until) {
            self.turn(now)?;
        }
        Ok(())
    }

    /// The layer, to look at.
    pub fn layer(&self) -> &Layer {
        self.layer.layer()
    }

    /// What came of it so far. A run in which nothing is left to happen is measured up to its last event.
    pub fn finish(mut self) -> Results {
        if self.next_event().is_none() {
            for guest in &mut self.guests {
                guest.meter.cut(self.now.as_nanos());
            }
        }
        let scenario = self.scenario;
        let measured = |meter: &weir_measure::Meter| meter.length_ns();
        let length = self.guests.iter().map(|g| measured(&g.meter)).min();
        let mut total =
            weir_measure::Meter::new(scenario.warm_up.as_nanos(), scenario.duration.as_nanos());
        total.cut(scenario.warm_up.as_nanos() + length.unwrap_or(0));
        let members = |group| scenario.clients.iter().filter(|c| c.group == group).count();
        let unanswered = self
            .guests
            .iter()
            .map(|g| u64::from(g.program.outstanding()));
        let unanswered = unanswered.sum();
        let mut clients = Vec::new();
        for (i, guest) in self.guests.into_iter().enumerate() {
            let spec = &scenario.clients[i];
            total.merge(&guest.meter);
            clients.push(ClientResult {
                name: spec.name.clone(),
                contract: scenario.contract(i),
                alone: members(spec.group) == 1,
                depth: spec.program.depth,
                issued: guest.program.issued(),
                meter: guest.meter,
            });
        }
        Results {
            run: self.name,
            clients,
            total,
            promised: self.promised,
            refusals: self.refusals,
            counters: self.layer.layer().counters(),
            unanswered,
            turns: self.turns,
        }
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Instant> {
        if !(self.completions.is_empty() && self.requests.is_empty() && self.ready.is_empty()) {
            return Some(self.now);
        }
        let sources = [
            self.drive.next_completion(),
            self.wake,
            self.agenda.next(),
            self.transit.next(),
            self.timers.first(),
        ];
        sources.into_iter().flatten().min()
    }

    /// Everything that happens at one instant, up to what follows from it at the same instant.
    fn turn(&mut self, now: Instant) -> Result<(), Error> {
        self.still = if now == self.now { self.still + 1 } else { 0 };
        if self.still > STILL_MAX {
            return Err(Error::Stuck { at: now });
        }
        self.now = now;
        self.turns += 1;
        self.complete();
        self.act()?;
        self.arrive();
        self.submit();
        self.poll();
        Ok(())
    }

    fn complete(&mut self) {
        while let Some(ended) = self.drive.pop(self.now) {
            self.completions.push(ended.completion);
        }
        if !self.completions.is_empty() {
            self.layer.complete(self.now, &self.completions);
            self.completions.clear();
        }
    }

    fn act(&mut self) -> Result<(), Error> {
        while let Some(item) = self.agenda.pop(self.now) {
            match item {
                Item::Change(edits) => {
                    if let Err(refusal) = self.layer.change(self.now, &edits) {
                        self.refusals.push((self.now, refusal));
                    }
                }
                Item::Arrive(client) => self.connect(client)?,
                Item::Leave(client) => self.disconnect(client),
                Item::Hold(client, held) => {
                    if let Some(stream) = self.guests[client as usize].stream {
                        self.layer.hold(self.now, stream, held);
                    }
                }
                Item::Cancel(client) => {
                    let stream = self.guests[client as usize].stream;
                    if let (Some(stream), Some(cookie)) = (stream, self.flights.oldest(client)) {
                        self.layer.cancel(self.now, stream, cookie);
                    }
                }
            }
        }
        Ok(())
    }

    /// Requests reach the layer, answers reach clients, and clients act on them.
    fn arrive(&mut self) {
        while let Some(request) = self.transit.arrived(self.now) {
            let client = self.by_slot[request.stream.slot() as usize];
            self.receive(client, request);
        }
        while let Some(done) = self.transit.answered(self.now) {
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

    /// Submits what has arrived. What is refused for want of room waits for its stream to be resumed.
    fn submit(&mut self) {
        let mut from = 0;
        while from < self.requests.len() {
            let Err(rejected) = self.layer.submit(self.now, &self.requests[from..]) else {
                break;
            };
            from += rejected.accepted + 1;
            let request = self.requests[from - 1];
            self.refused(request, rejected.reason);
        }
        self.requests.clear();
    }

    fn poll(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let wake = self.layer.poll(self.now, &mut outputs);
        self.wake = wake.map(|wake| wake.at);
        for output in outputs.drain(..) {
            match output {
                Output::Dispatch(command) => {
                    if self.drive.submit(self.now, &command).is_err() {
                        self.completions.push(Completion::busy(command.tag));
                    }
                }
                Output::Done(done) => self.answered(done),
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
        self.outputs = outputs;
    }

    fn connect(&mut self, client: u32) -> Result<(), Error> {
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

    fn disconnect(&mut self, client: u32) {
        let guest = &mut self.guests[client as usize];
        if let Some(stream) = guest.stream.take() {
            for request in guest.unread.drain(..) {
                self.flights.remove(request.cookie);
            }
            for _ in 0..guest.program.outstanding() {
                guest.meter.failed(self.now.as_nanos());
            }
            self.timers.clear(client);
            self.layer.close(self.now, stream);
        }
    }

    fn wake_guest(&mut self, client: u32) {
        let guest = &mut self.guests[client as usize];
        if !guest.ready && guest.stream.is_some() {
            guest.ready = true;
            self.ready.push_back(client);
        }
    }

    /// Lets a client do all it does now.
    fn step(&mut self, client: u32) {
        let guest = &mut self.guests[client as usize];
        let Some(stream) = guest.stream else { return };
        loop {
            match guest.program.next(self.now) {
                Step::Issue(io) => {
                    let cookie = self.flights.insert(Flight {
                        client,
                        bytes: moved(io.op, io.length),
                        number: io.number,
                        due: io.due,
                    });
                    guest.meter.sent(io.due.as_nanos());
                    let request = guest.request(stream, &io, cookie);
                    if !self.transit.is_direct() {
                        self.transit.send(self.now, request);
                    } else if guest.paused {
                        guest.unread.push_back(request);
                    } else {
                        self.requests.push(request);
                    }
                }
                Step::WaitUntil(at) => return self.timers.set(client, at),
                Step::WaitForCompletion | Step::Finished => return self.timers.clear(client),
            }
        }
    }

    /// A request reaches the layer: to be submitted, unless the layer does not listen to its client for now.
    fn receive(&mut self, client: u32, request: Request) {
        let guest = &mut self.guests[client as usize];
        if guest.stream != Some(request.stream) {
            self.flights.remove(request.cookie);
        } else if guest.paused {
            guest.unread.push_back(request);
        } else {
            self.requests.push(request);
        }
    }

    /// The layer did not accept a request.
    fn refused(&mut self, request: Request, reason: Reject) {
        let client = self.by_slot[request.stream.slot() as usize];
        let guest = &mut self.guests[client as usize];
        match reason {
            Reject::Full | Reject::StreamFull => {
                guest.paused = true;
                guest.unread.push_back(request);
            }
            Reject::UnknownStream => {
                self.flights.remove(request.cookie);
            }
            _ => self.answered(Done {
                stream: request.stream,
                cookie: request.cookie,
                op: request.op,
                length: request.length,
                outcome: Outcome::Error(EINVAL),
                submitted: self.now,
                waits: Waits::default(),
            }),
        }
    }

    /// The layer, or the server in front of it, answers.
    #[inline]
    fn answered(&mut self, done: Done) {
        if self.transit.is_direct() {
            self.deliver(&done);
        } else {
            self.transit.answer(self.now, done);
        }
    }

    /// An answer reaches its client.
    #[inline]
    fn deliver(&mut self, done: &Done) {
        let flight = self.flights.remove(done.cookie);
        let guest = &mut self.guests[flight.client as usize];
        if guest.stream == Some(done.stream) {
            guest.answered(self.now, &flight, done);
            self.wake_guest(flight.client);
        }
    }
}

/// What the layer is told before anything else: spaces and groups.
fn edits(scenario: &Scenario, policy: &Policy) -> Vec<Edit> {
    let spaces = (0..)
        .zip(&scenario.spaces)
        .map(|(id, &size)| Edit::SetSpace {
            id: SpaceId(id),
            size: Some(size),
        });
    let groups = (1..)
        .zip(&scenario.groups)
        .map(|(id, group)| Edit::AddGroup {
            id: GroupId(id),
            parent: group.parent,
            contract: policy.translate(scenario, group.contract),
        });
    spaces.chain(groups).collect()
}
