//! A client as the virtual host sees it: its program, its connection and its measurements.

use crate::flights::Flight;
use crate::host::{Files, Process, ProcessCommand};
use crate::{ClientSpec, Path, Scenario, SimError};
use std::collections::VecDeque;
use weir_core::{Done, Flags, Instant, Op, Outcome, Request, SpaceId, Span, StreamId};
use weir_measure::Meter;
use weir_model::load::{Io, LoadClient};

/// The state of a client in a run.
#[derive(Debug)]
pub(crate) struct SimClient {
    pub(crate) program: LoadClient,
    pub(crate) meter: Meter,
    /// The process with its present system call, if the program does buffered I/O.
    pub(crate) process: Option<Box<Process>>,
    /// The client's stream while it is connected.
    pub(crate) stream: Option<StreamId>,
    /// True if the client is queued to run its program.
    pub(crate) ready: bool,
    /// True if the layer does not accept requests of the client for now.
    pub(crate) paused: bool,
    /// Requests that arrived while the client was paused.
    pub(crate) unread: VecDeque<Request>,
    space: SpaceId,
    flags: Flags,
    /// Additional flags of the program's writes. A process waits for its direct writes (Linux:
    /// `dio_bio_write_op`), and the block layer sees that in the flags. A server cannot see it.
    write_flags: Flags,
    /// The flags of a recorded load that the block layer receives.
    visible: Flags,
}

impl SimClient {
    /// Creates the client with the given number in the scenario.
    pub(crate) fn new(
        scenario: &Scenario,
        client: u32,
        files: &Files,
        seed: u64,
    ) -> Result<Self, SimError> {
        let spec = &scenario.clients[client as usize];
        // Before the program, whose own check knows only the length of the region.
        check_region(scenario, spec)?;
        let program = spec.load(seed).map_err(|error| {
            let client = spec.name.clone();
            SimError::Program { client, error }
        })?;
        let transfer = scenario.drive.shape().max_transfer;
        let process = (spec.buffered.as_ref())
            .zip(files.base(client))
            .map(|(buffered, base)| Process::new(client, seed, spec, buffered, base, transfer))
            .transpose()?
            .map(Box::new);
        Ok(Self {
            program,
            meter: {
                let mut meter = meter(scenario);
                if let Some(deadline) = spec.deadline {
                    meter.deadline(deadline.as_nanos());
                }
                meter.measure_kinds(spec.program.kinds());
                meter
            },
            process,
            stream: None,
            ready: false,
            paused: false,
            // A client has no more requests outstanding than this, so the queue never grows.
            unread: VecDeque::with_capacity(spec.outstanding(transfer) as usize),
            space: spec.space,
            flags: spec.flags,
            // With a path, clients are remote, and the server does not know that they wait. A
            // recorded load states it for each write.
            write_flags: if scenario.path == Path::DIRECT
                && !spec.write_back
                && spec.trace.is_none()
            {
                Flags::SYNC
            } else {
                Flags::NONE
            },
            visible: if scenario.path == Path::DIRECT {
                Flags::SYNC.with(Flags::META).with(Flags::FUA)
            } else {
                Flags::FUA
            },
        })
    }

    /// Marks a connected client as ready. Returns true if it was not ready before, so that the
    /// caller queues it once.
    pub(crate) fn mark_ready(&mut self) -> bool {
        self.stream.is_some() && !std::mem::replace(&mut self.ready, true)
    }

    /// Returns true if the client has used a random number, so that another repetition would
    /// differ.
    pub(crate) fn has_drawn(&self) -> bool {
        let process = self.process.as_ref();
        self.program.has_drawn() || process.is_some_and(|process| process.has_random_delays())
    }

    /// Ends the client's measurement. Requests that were due but not sent by their deadline count
    /// as late.
    pub(crate) fn end_measurement(&mut self, until: Instant, deadline: Option<Span>) {
        self.meter.cut(until.as_nanos());
        let ends = self.meter.end_ns();
        let last = deadline.and_then(|deadline| ends.checked_sub(deadline.as_nanos()));
        if let Some(last) = last {
            self.meter
                .missed(self.program.overdue(Instant::from_nanos(last)));
        }
    }

    /// Restricts the measurement to the time of the client's own program, after the run has ended
    /// at `now`.
    pub(crate) fn restrict_measurement(&mut self, spec: &ClientSpec, now: Instant) {
        let (begins, ends) = spec.time(self.program.time_start(), self.program.time_end(now), now);
        self.meter.set_own_time(begins, ends);
    }

    /// The request that the program issues over `stream`, without a cookie.
    #[inline]
    pub(crate) fn request(&self, stream: StreamId, io: &Io) -> Request {
        let of_op = if io.op == Op::Write {
            self.write_flags
        } else {
            Flags::NONE
        };
        Request {
            stream,
            space: self.space,
            op: io.op,
            flags: Flags::from_bits(io.flags.bits() & self.visible.bits())
                .with(self.flags)
                .with(of_op),
            offset: io.offset,
            length: io.length,
            cookie: 0,
            within: 0,
        }
    }

    /// The request that the process issues over `stream`, without a cookie.
    pub(crate) fn command(&self, stream: StreamId, command: &ProcessCommand) -> Request {
        Request {
            stream,
            space: self.space,
            op: command.op,
            flags: command.flags.with(self.flags),
            offset: command.offset,
            length: command.length,
            cookie: 0,
            within: 0,
        }
    }

    /// Passes an answer to the client's process or program, and records it.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Instant, flight: &Flight, done: &Done) {
        if let Some(process) = &mut self.process {
            let well = done.outcome == Outcome::Ok;
            // A process measures its system calls itself, since one call can wait for several
            // requests.
            return process.on_answer(now, flight.number, flight.breakdown(done), well);
        }
        let (due, now_ns) = (flight.due.as_nanos(), now.as_nanos());
        let ok = done.outcome == Outcome::Ok;
        self.meter.ended(done.op, due, now_ns, flight.bytes, !ok);
        // A failed request counts as a failure, and its waits say nothing about the drive.
        if ok {
            self.meter.waited(now_ns, &flight.breakdown(done));
        }
        self.program.completed(now);
    }
}

/// Creates a meter for the measured part of a scenario.
fn meter(scenario: &Scenario) -> Meter {
    let (start, length) = measured(scenario);
    Meter::new(start, length)
}

/// The start of a scenario's measurement and its maximum length, in nanoseconds.
pub(crate) fn measured(scenario: &Scenario) -> (u64, u64) {
    let start = Instant::ZERO + scenario.warm_up;
    let length = scenario.ends().0.since(start);
    (start.as_nanos(), length.as_nanos())
}

fn check_region(scenario: &Scenario, spec: &ClientSpec) -> Result<(), SimError> {
    let size = scenario.spaces.get(spec.space.0 as usize);
    let end = spec.region.start.checked_add(spec.region.length);
    match (size, end) {
        (Some(size), Some(end)) if end <= *size => Ok(()),
        _ => Err(SimError::Region {
            client: spec.name.clone(),
            space: spec.space.0,
        }),
    }
}
