//! A run: a scenario that is played under a policy in virtual time.
//!
//! `turn` has the loop over the events of one instant, `clients` the life of a request, and
//! `run_in` the time before the scenario begins.

mod clients;
mod filesystem;
mod rings;
mod run_in;
mod turn;
mod write_back;

use crate::agenda::Agenda;
use crate::flights::Flights;
use crate::guest::{SimClient, measured};
use crate::host::{Ata, Files, FilesystemJournal, ProcessCommand, WriteBack};
use crate::idling::Idling;
use crate::path::Transit;
use crate::results::{ClientResult, Results, name};
use crate::ring::{RingOutput, Rings};
use crate::states::States;
use crate::timers::Timers;
use crate::{ClientSpec, Policy, Scenario, SimError};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use weir_core::elevator;
use weir_core::record::{ObservedLayer, Observer};
use weir_core::{
    Completion, Config, Cookie, DriveShape, Edit, GroupId, Instant, Knobs, Layer, Output,
    PromiseSums, Refusal, Request, SpaceId, Span,
};
use weir_measure::{LevelSeries, Meter, Occupancy};
use weir_model::drive::{DriveModel, Freezing, Scattered};

/// A scenario run under a policy, in virtual time.
pub struct SimRun<'a> {
    /// The scenario as it is played, after the run-in.
    scenario: Cow<'a, Scenario>,
    name: weir_measure::RunId,
    layer: ObservedLayer<Vec<&'a mut dyn Observer>>,
    drive: Box<dyn DriveModel>,
    /// The offset of each space on the drive. Empty if the drive is position-independent.
    bases: Vec<u64>,
    guests: Vec<SimClient>,
    /// The files that clients with buffered I/O have open.
    files: Files,
    /// The dirty pages of these files, and the flushers that write them.
    write_back: WriteBack,
    /// The journal of the clients' file system. Its stream is that of the client after those of the
    /// scenario.
    journal: Option<Box<FilesystemJournal>>,
    /// The client of each stream slot of the layer.
    by_slot: Vec<u32>,
    /// The cookie of the last dispatch, by tag.
    by_tag: Vec<Cookie>,
    /// The time for which the elevator has idled.
    idling: Idling,
    /// The number of commands in flight over time, if it is recorded.
    depth: Option<LevelSeries>,
    /// The states of controllers and the elevator over time, if they are recorded.
    states: Option<States>,
    /// The time in which at least one command was in flight.
    busy: Occupancy,
    is_busy: bool,
    flights: Flights,
    /// The maximum length of a request in bytes. Longer requests are split before they leave their
    /// clients.
    longest: u32,
    transit: Transit,
    /// The rings between clients in virtual machines and their back end.
    rings: Option<Rings>,
    /// The effects of the rings in the present turn.
    out: Vec<RingOutput>,
    timers: Timers,
    agenda: Agenda,
    /// The time at which the layer must be polled again.
    wake: Option<Instant>,
    /// True if a planned event is due that the server must process at once. Only set with a path.
    changed: bool,
    /// Clients that are ready to run.
    ready: VecDeque<u32>,
    completions: Vec<Completion>,
    /// The number of completions that the layer received in this turn.
    completions_received: usize,
    requests: Vec<Request>,
    /// The commands of a process in the present step.
    commands: Vec<ProcessCommand>,
    /// True if the layer merges requests.
    merging: bool,
    /// True if queued reads of one instant are sent together (see [`is_late`]).
    sends_late: bool,
    outputs: Vec<Output>,
    /// The time of the present or last turn.
    now: Instant,
    /// The time up to which the run has advanced.
    reached: Instant,
    end: Instant,
    turns: u64,
    /// The number of turns at this instant so far.
    turns_at_instant: u32,
    promised: PromiseSums,
    refusals: Vec<(Instant, Refusal)>,
}

impl fmt::Debug for SimRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("name", &self.name)
            .field("now", &self.now)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The virtual time of the run.
    pub now: Instant,
    /// The virtual time at which it ends.
    pub end: Instant,
    /// Requests completed so far.
    pub requests: u64,
}

/// The virtual time between two reports of progress.
const PROGRESS: Span = Span::from_millis(100);

impl<'a> SimRun<'a> {
    /// Creates a run at its start.
    ///
    /// The clients' seeds depend on the scenario's name, the repetition and the client's sequence,
    /// so that every policy and every drive serves the same requests.
    ///
    /// # Errors
    /// Something in the scenario is out of range, or the contracts are refused.
    pub fn new(scenario: &'a Scenario, policy: &Policy, repetition: u32) -> Result<Self, SimError> {
        Self::observed(scenario, policy, repetition, Vec::new())
    }

    /// Creates a run as [`Self::new`] does, with observers of every call into the layer from the
    /// first one on.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn observed(
        scenario: &'a Scenario,
        policy: &Policy,
        repetition: u32,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Result<Self, SimError> {
        // The order matters: the layer is configured for the scenario with its run-in, but without
        // the file system's own client, for which `sizes` already has space.
        let scenario = run_in::shifted_scenario(scenario);
        let config = Self::config(&scenario, policy);
        let streams = config.sizes.streams;
        let (merging, sends_late) = (config.merge.is_on(), is_late(&config.elevator));
        let scenario = filesystem::with_filesystem_client(scenario);
        let mut layer = ObservedLayer::new(Layer::new(config).map_err(SimError::Layer)?, observers);
        let promised = layer
            .change(Instant::ZERO, &Self::edits(&scenario, policy))
            .map_err(SimError::Refused)?;
        let (mut drive, bases) = (drive(&scenario, repetition)?, bases(&scenario)?);
        // The run-in needs the layer with all groups, and leaves the drive empty.
        let wake = run_in::play(&scenario, &mut layer, &mut *drive, &bases)?;
        let files = Files::new(&scenario.clients);
        let guests = clients(&scenario, &files, repetition)?;
        let clients = scenario.clients.iter();
        let outstanding = clients.map(|c| scenario.outstanding(c, policy));
        let outstanding = outstanding.fold(0, u32::saturating_add);
        // A request that is split is followed as a whole and in its parts.
        let longest = scenario.longest(policy);
        let followed = match longest {
            u32::MAX => outstanding,
            _ => 2 * outstanding,
        };
        let rings = scenario.guest.as_ref();
        let rings = rings.map(|guest| Rings::new(&scenario, guest, followed));
        Ok(Self {
            name: name(&scenario, policy, repetition),
            layer,
            drive,
            bases,
            by_slot: vec![0; streams as usize],
            by_tag: Vec::new(),
            idling: Idling::default(),
            depth: None,
            states: None,
            busy: Occupancy::new((Instant::ZERO + scenario.warm_up).as_nanos()),
            is_busy: false,
            flights: Flights::new(followed),
            longest,
            transit: Transit::new(scenario.path, &scenario.machine, outstanding),
            rings,
            out: Vec::new(),
            timers: Timers::new(guests.len()),
            agenda: Agenda::new(&scenario, policy)?,
            wake,
            changed: false,
            ready: VecDeque::with_capacity(guests.len()),
            guests,
            files,
            write_back: WriteBack::new(&scenario.clients),
            journal: scenario
                .filesystem
                .map(|f| Box::new(FilesystemJournal::new(f))),
            completions: Vec::new(),
            completions_received: 0,
            requests: Vec::with_capacity(outstanding as usize),
            commands: Vec::new(),
            merging,
            sends_late,
            outputs: Vec::with_capacity(outstanding as usize),
            now: Instant::ZERO,
            reached: Instant::ZERO,
            end: scenario.ends().0,
            turns: 0,
            turns_at_instant: 0,
            promised,
            refusals: Vec::new(),
            scenario,
        })
    }

    /// Records each client's latency, the commands in flight, and the states of controllers and the
    /// elevator over time.
    ///
    /// Latency and commands are recorded in windows of `step`. States are sampled at the first turn
    /// of each window.
    #[must_use]
    pub fn followed(mut self, step: Span) -> Self {
        let start = Instant::ZERO + self.scenario.warm_up;
        let length = self.end.since(start).as_nanos();
        self.states = Some(States::new(start, step));
        let step = step.as_nanos();
        self.depth = Some(LevelSeries::covering(start.as_nanos(), step, length));
        for guest in &mut self.guests {
            guest.meter.record_course(step);
        }
        self
    }

    /// The configuration of a run's layer, which is also the header of a
    /// [`Recorder`](weir_core::record::Recorder) that observes it.
    pub fn config(scenario: &Scenario, policy: &Policy) -> Config {
        // The scenario states the capacity for admission, which can differ from that of the drive
        // model.
        let drive = DriveShape {
            capacity: scenario.capacity,
            ..scenario.drive.shape()
        };
        let setup = scenario.set_up(policy);
        let mut sizes = scenario.sizes(policy);
        if let Some(tags) = (scenario.adapter.nr_requests).tags(&drive, &setup.elevator) {
            sizes.scheduler_tags = tags;
        }
        Config {
            sizes,
            drive,
            controllers: setup.controllers,
            merge: scenario.merging.config(&setup.elevator),
            elevator: setup.elevator,
        }
    }

    /// The first change of a run's layer: its spaces, its groups and their contracts.
    pub fn edits(scenario: &Scenario, policy: &Policy) -> Vec<Edit> {
        let setup = scenario.set_up(policy);
        let spaces = (0..)
            .zip(&scenario.spaces)
            .map(|(id, &size)| Edit::SetSpace {
                id: SpaceId(id),
                size: Some(size),
            });
        let ids = (1..).map(GroupId);
        let groups = ids.clone().zip(&scenario.groups).zip(setup.contracts());
        let groups = groups.map(|((id, group), told)| Edit::AddGroup {
            id,
            parent: group.parent,
            contract: *told,
        });
        let knobs = ids.zip(&scenario.groups);
        let knobs = knobs.map(|(id, group)| (id, setup.knobs(group.knobs)));
        let knobs = knobs
            // Knobs at their defaults need no edit.
            .filter(|(_, knobs)| *knobs != Knobs::NONE)
            .map(|(id, knobs)| Edit::SetKnobs { id, knobs });
        spaces.chain(groups).chain(knobs).collect()
    }

    /// Runs to the end and reports the progress.
    ///
    /// # Errors
    /// [`SimError::Stuck`] if virtual time does not advance, or [`SimError::Open`] for a client
    /// that cannot connect.
    pub fn run(mut self, mut progress: impl FnMut(Progress)) -> Result<Results, SimError> {
        self.play(|at| {
            progress(at);
            true
        })?;
        Ok(self.finish())
    }

    /// Runs as [`Self::run`] does until `progress` returns false. In that case, the result is
    /// `None`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_while(
        mut self,
        progress: impl FnMut(Progress) -> bool,
    ) -> Result<Option<Results>, SimError> {
        Ok(self.play(progress)?.then(|| self.finish()))
    }

    /// Plays to the end, or until `progress` returns false. Returns true if the run reached its
    /// end.
    fn play(&mut self, mut progress: impl FnMut(Progress) -> bool) -> Result<bool, SimError> {
        let (_, over) = self.scenario.ends();
        let mut until = Instant::ZERO;
        while until < over && !self.is_over() {
            // Progress is reported at multiples of virtual time, so that its number does not depend
            // on the machine.
            until = (until + PROGRESS).min(over);
            self.advance(until)?;
            let goes_on = progress(Progress {
                now: until,
                end: over,
                requests: self.layer.layer().counters().done,
            });
            if !goes_on {
                return Ok(false);
            }
        }
        // After the scheduled end, the run continues until the awaited client has its answer, at
        // most until `end`.
        while let Some(now) = self
            .next_event()
            .filter(|&at| at < self.end && self.is_awaiting())
        {
            self.turn(now)?;
            self.reached = now;
        }
        Ok(true)
    }

    /// Runs all events before `until`, or before the end if that is earlier.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn advance(&mut self, until: Instant) -> Result<(), SimError> {
        let until = until.min(self.end);
        while let Some(now) = self.next_event().filter(|&at| at < until) {
            self.turn(now)?;
            // The client has completed, and the measurement ends at this instant.
            if self.is_over() {
                self.end = now;
                self.reached = now;
                return Ok(());
            }
        }
        // Nothing happens between the last event and `until`, so the run has reached that time.
        self.reached = self.reached.max(until);
        Ok(())
    }

    /// Returns true if the client with which the run ends has finished its program.
    fn is_over(&self) -> bool {
        let last = self.scenario.exits.and_then(|at| self.guests.get(at));
        last.is_some_and(|guest| guest.program.runtime().is_some())
    }

    /// Returns true if the awaited client has a request outstanding.
    fn is_awaiting(&self) -> bool {
        let client = self.scenario.awaits.and_then(|at| self.guests.get(at));
        client.is_some_and(|guest| guest.stream.is_some() && guest.program.outstanding() > 0)
    }

    /// The layer of the run, for inspection.
    pub fn layer(&self) -> &Layer {
        self.layer.layer()
    }

    /// The results so far. A run without any further event is measured up to its last event.
    pub fn finish(self) -> Results {
        // Without any further event, the time after the last one is idle and must not lower the
        // rates.
        let until = match self.next_event() {
            Some(_) => self.reached,
            None => self.now,
        };
        let scenario = &*self.scenario;
        let (start, length) = measured(scenario);
        // Requests of the file system itself are not those of a client.
        let count = scenario.clients.len() - usize::from(self.journal.is_some());
        let specs = &scenario.clients[..count];
        let members = |group| specs.iter().filter(|c| c.group == group).count();
        let drew = self.guests.iter().any(SimClient::has_drawn) || drive_is_random(scenario);
        let (mut clients, mut unanswered) = (Vec::new(), 0);
        let guests = self.guests.into_iter().zip(specs);
        for (i, (mut guest, spec)) in guests.enumerate() {
            guest.end_measurement(until, spec.deadline);
            // No client waits for pages that are read ahead.
            let waits = match &guest.process {
                Some(process) => process.due().into_iter().min(),
                None => self.flights.due_times(i as u32).min(),
            };
            if let Some(due) = waits {
                guest.meter.unanswered(due.as_nanos());
            }
            guest.restrict_measurement(spec, until);
            if guest.stream.is_some() {
                // A client that has left waits for nothing.
                unanswered += u64::from(guest.program.outstanding());
            }
            clients.push(ClientResult {
                name: spec.name.clone(),
                contract: scenario.promised_to(i),
                group: spec.group,
                alone: members(spec.group) == 1,
                depth: spec.program.depth,
                issued: guest.program.issued(),
                runtime: guest.program.runtime(),
                meter: guest.meter,
            });
        }
        let total = Meter::total(start, length, clients.iter().map(|client| &client.meter));
        Results {
            run: self.name,
            clients,
            standings: BTreeMap::new(),
            total,
            used_random_numbers: drew,
            promised: self.promised,
            refusals: self.refusals,
            counters: self.layer.layer().counters(),
            unanswered,
            depth: self.depth,
            states: self.states.map(States::into_all).unwrap_or_default(),
            busy_ns: self.busy.area(until.as_nanos()) as u64,
            // An awaited client can continue after the scheduled end, which the measurement does
            // not include.
            measured_ns: until.as_nanos().saturating_sub(start).min(length),
            rings: self.rings.as_ref().map(|rings| rings.counted(until)),
            turns: self.turns,
        }
    }

    /// The time of the next event of any kind.
    #[inline]
    fn next_event(&self) -> Option<Instant> {
        // Clients that are ready run at the present instant, before time advances.
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::MAX);
        let next = or_never(self.next_of_layer())
            .min(or_never(self.agenda.next()))
            .min(or_never(self.transit.next_answer()))
            .min(or_never(self.timers.first()))
            .min(or_never(self.next_of_rings()));
        (next < Instant::MAX).then_some(next)
    }

    /// The time of the next call into the layer that is not caused by the agenda or a client.
    #[inline]
    fn next_of_layer(&self) -> Option<Instant> {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::MAX);
        let waits = !(self.completions.is_empty() && self.requests.is_empty());
        let due = or_never(self.drive.next_completion()).min(or_never(self.wake));
        if self.transit.is_direct() {
            return Some(if waits { self.now } else { due });
        }
        let at_once = (waits || self.changed).then_some(self.now);
        let turn = self
            .transit
            .next_turn((due < Instant::MAX).then_some(due), at_once)?;
        Some(turn.max(self.now))
    }
}

/// Creates the scenario's clients.
fn clients(
    scenario: &Scenario,
    files: &Files,
    repetition: u32,
) -> Result<Vec<SimClient>, SimError> {
    let clients = (0..).zip(&scenario.clients).map(|(client, spec)| {
        // Neither policy nor drive is part of the seed, so that all of them are compared on the
        // same requests.
        let seed = weir_model::load::seed(&scenario.name, repetition, spec.sequence);
        SimClient::new(scenario, client, files, seed)
    });
    clients.collect()
}

/// Returns true if the worker that sends reads runs only when a client waits, that is, after all
/// reads that the client submits at one instant. Otherwise it runs before the next of them.
///
/// In Linux, the order is a race. Under `bfq`, where reads wait for their turn and are merged by
/// then, measurements always showed merged reads. Under the other elevators, they did not
/// (`docs/evidence/deviations.md`).
fn is_late(elevator: &elevator::Config) -> bool {
    elevator.kind().name == "bfq"
}

/// Returns true if the drive or the places of files on it depend on random numbers.
fn drive_is_random(scenario: &Scenario) -> bool {
    scenario.drive.is_random() || scenario.spread.is_some() && scenario.drive.size().is_some()
}

/// The number that takes the place of a client's in the seed of the drive.
const DRIVE: u32 = u32::MAX;

/// Builds the drive with its files, its freezes and its adapter.
fn drive(scenario: &Scenario, repetition: u32) -> Result<Box<dyn DriveModel>, SimError> {
    // The name of the policy is not part of the seed, so that all policies have the same drive.
    let seed = weir_model::load::seed(&scenario.name, repetition, DRIVE);
    let drive = scenario.drive.build_seeded(seed);
    let mut drive = drive.map_err(SimError::Drive)?;
    if let (Some(spread), Some(size)) = (scenario.spread, scenario.drive.size()) {
        let used = scenario.spaces.first().copied().unwrap_or(0);
        if !Scattered::is_valid(used, spread, size) {
            return Err(SimError::Spread);
        }
        drive = Box::new(Scattered::new(drive, used, spread, seed));
    }
    if let Some(freeze) = scenario.freeze {
        if !freeze.is_valid() {
            return Err(SimError::Freeze);
        }
        // The drive freezes, not its adapter, which still accepts commands.
        drive = Box::new(Freezing::new(drive, freeze));
    }
    Ok(if scenario.adapter.ata {
        Box::new(Ata::new(drive))
    } else {
        drive
    })
}

/// The offset of each space, if the drive has positions. Returns an error if a space does not fit
/// on the drive.
fn bases(scenario: &Scenario) -> Result<Vec<u64>, SimError> {
    let Some(drive) = scenario.drive.size() else {
        return Ok(Vec::new());
    };
    let bases = scenario.bases();
    for ((space, &size), &base) in (0..).zip(&scenario.spaces).zip(&bases) {
        // An end beyond 64 bits is beyond any drive, too.
        let end = base.saturating_add(size);
        if end > drive {
            let clients = clients_beyond_drive(scenario, SpaceId(space), base, drive);
            return Err(SimError::Beyond {
                clients,
                end,
                drive,
            });
        }
    }
    Ok(bases)
}

/// Names the clients whose regions of a space end after the end of the drive, or all clients of the
/// space if no region does.
fn clients_beyond_drive(scenario: &Scenario, space: SpaceId, base: u64, drive: u64) -> String {
    const FEW: usize = 3;
    let all = scenario.clients.iter().filter(|c| c.space == space);
    let ends = |c: &&ClientSpec| {
        let end = c.region.start.saturating_add(c.region.length);
        base.saturating_add(end) > drive
    };
    let mut names: Vec<&str> = all.clone().filter(ends).map(|c| &c.name[..]).collect();
    if names.is_empty() {
        names = all.map(|c| &c.name[..]).collect();
    }
    let others = names.len().saturating_sub(FEW);
    names.truncate(FEW);
    match (names.len(), others) {
        (0, _) => format!("space {}, which no client uses", space.0),
        (1, _) => format!("client {}", names[0]),
        (_, 0) => format!("clients {}", names.join(", ")),
        (_, others) => format!("clients {} and {others} more", names.join(", ")),
    }
}
