//! A client as the virtual host sees it.

use crate::flights::Flight;
use crate::host::{Command, Files, Process};
use crate::{ClientSpec, Error, Path, Scenario};
use std::collections::VecDeque;
use weir_core::{Done, Flags, Instant, Op, Outcome, Request, SpaceId, Span, StreamId};
use weir_measure::Meter;
use weir_model::load::{Client, Io};

/// A client: its program, its connection, its measurements.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) program: Client,
    pub(crate) meter: Meter,
    /// The page cache and the system call it is in, if its program does buffered I/O.
    pub(crate) process: Option<Box<Process>>,
    /// While connected.
    pub(crate) stream: Option<StreamId>,
    /// It is going to be asked what it does next.
    pub(crate) ready: bool,
    /// The layer does not want to hear more from it for now.
    pub(crate) paused: bool,
    /// What it has sent meanwhile.
    pub(crate) unread: VecDeque<Request>,
    space: SpaceId,
    flags: Flags,
    /// Flags of its program's writes beside those. A process waits for what it writes past the page cache (Linux: `dio_bio_write_op`), and
    /// the block layer sees that; a server cannot.
    write_flags: Flags,
}

impl Guest {
    /// The client with that number in the scenario.
    pub(crate) fn new(
        scenario: &Scenario,
        client: u32,
        files: &Files,
        seed: u64,
    ) -> Result<Self, Error> {
        let spec = &scenario.clients[client as usize];
        check_region(scenario, spec)?;
        let program = Client::new(&spec.program, seed, spec.region).map_err(|error| {
            let client = spec.name.clone();
            Error::Program { client, error }
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
                meter.tell_apart(spec.program.kinds());
                meter
            },
            process,
            stream: None,
            ready: false,
            paused: false,
            unread: VecDeque::with_capacity(spec.outstanding(transfer) as usize),
            space: spec.space,
            flags: spec.flags,
            write_flags: if scenario.path == Path::DIRECT && !spec.write_back {
                Flags::SYNC
            } else {
                Flags::NONE
            },
        })
    }

    /// Whether it is to be asked what it does next, and was not going to be.
    pub(crate) fn is_woken(&mut self) -> bool {
        self.stream.is_some() && !std::mem::replace(&mut self.ready, true)
    }

    /// Something about it was drawn: another repetition would differ.
    pub(crate) fn has_drawn(&self) -> bool {
        let process = self.process.as_ref();
        self.program.has_drawn() || process.is_some_and(|process| process.draws())
    }

    /// Ends its measurement. What was due and not even sent by its deadline is late.
    pub(crate) fn cut(&mut self, until: Instant, deadline: Option<Span>) {
        self.meter.cut(until.as_nanos());
        let ends = self.meter.end_ns();
        let last = deadline.and_then(|deadline| ends.checked_sub(deadline.as_nanos()));
        if let Some(last) = last {
            self.meter
                .missed(self.program.overdue(Instant::from_nanos(last)));
        }
    }

    /// Restricts its measurement to the client's own time, now that the run has ended at `now`.
    pub(crate) fn leave(&mut self, spec: &ClientSpec, now: Instant) {
        let (begins, ends) = spec.time(self.program.begins(), self.program.ends(now), now);
        self.meter.lasted(begins, ends);
    }

    /// The request that its program issues over `stream`, without a cookie yet.
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
            flags: io.flags.with(self.flags).with(of_op),
            offset: io.offset,
            length: io.length,
            cookie: 0,
            within: 0,
        }
    }

    /// The request that its process issues over `stream`, without a cookie yet.
    pub(crate) fn command(&self, stream: StreamId, command: &Command) -> Request {
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

    /// It has its answer.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant, flight: &Flight, done: &Done) {
        if let Some(process) = &mut self.process {
            let well = done.outcome == Outcome::Ok;
            return process.answered(now, flight.number, flight.parts(done), well);
        }
        let (due, now_ns) = (flight.due.as_nanos(), now.as_nanos());
        let ok = done.outcome == Outcome::Ok;
        self.meter.ended(done.op, due, now_ns, flight.bytes, !ok);
        if ok {
            self.meter.waited(now_ns, &flight.parts(done));
        }
        self.program.completed(now);
    }
}

/// For what is measured of a scenario.
fn meter(scenario: &Scenario) -> Meter {
    let (start, length) = measured(scenario);
    Meter::new(start, length)
}

/// When the measurement of a scenario is to start, and how long it lasts at most, in nanoseconds.
pub(crate) fn measured(scenario: &Scenario) -> (u64, u64) {
    let start = Instant::ZERO + scenario.warm_up;
    let length = scenario.ends().0.since(start);
    (start.as_nanos(), length.as_nanos())
}

fn check_region(scenario: &Scenario, spec: &ClientSpec) -> Result<(), Error> {
    let size = scenario.spaces.get(spec.space.0 as usize);
    let end = spec.region.start.checked_add(spec.region.length);
    match (size, end) {
        (Some(size), Some(end)) if end <= *size => Ok(()),
        _ => Err(Error::Region {
            client: spec.name.clone(),
            space: spec.space.0,
        }),
    }
}
