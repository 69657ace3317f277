//! The results of a run.

use crate::alone::PerformanceAlone;
use std::collections::BTreeMap;
use weir_core::{Contract, Counters, GroupId, Instant, PromiseSums, Refusal, Span};
use weir_measure::promise::{PromisedRate, RunContext, RunVerdicts, SecondWaits, Terms};
use weir_measure::{LevelSeries, Meter, Record, RecordPlace, TOTAL, TracedState};

/// The results of a run: those of each client, and those of the drive.
#[derive(Clone, Debug)]
pub struct Results {
    /// The names that identify the run in its records.
    pub run: weir_measure::RunId,
    /// The results of each client, in the order of the scenario.
    pub clients: Vec<ClientResult>,
    /// The measurements of all clients together.
    pub total: Meter,
    /// The reasons why requests of groups waited, by group and second of the run's clock. Empty
    /// unless an observer recorded them.
    pub standings: BTreeMap<GroupId, BTreeMap<u64, SecondWaits>>,
    /// True if any client has used a random number. Otherwise every repetition of the run has the
    /// same results.
    pub used_random_numbers: bool,
    /// The sum of the contracts at the beginning of the run.
    pub promised: PromiseSums,
    /// The changes during the run that were refused, with their times in the scenario.
    pub refusals: Vec<(Instant, Refusal)>,
    /// The layer's totals, including those of the run-in.
    pub counters: Counters,
    /// The number of requests that clients still waited for at the end.
    pub unanswered: u64,
    /// Commands in flight in the drive (and its adapter) over time, if the run was
    /// [followed](crate::SimRun::followed).
    pub depth: Option<LevelSeries>,
    /// The states of controllers and the elevator over time, if the run was
    /// [followed](crate::SimRun::followed). Empty otherwise.
    pub states: Vec<TracedState>,
    /// The time of the measurement in which at least one command was in flight in the drive, in
    /// nanoseconds.
    pub busy_ns: u64,
    /// The length of the measurement in nanoseconds.
    pub measured_ns: u64,
    /// Notifications between virtual machines and their back end, and the time of their processors,
    /// if the scenario has virtual machines.
    pub rings: Option<weir_measure::Rings>,
    /// The number of turns of the loop. An instant at which events follow from other events has
    /// several turns.
    pub turns: u64,
}

/// The results of one client of a run.
#[derive(Clone, Debug)]
pub struct ClientResult {
    /// The client's name in the scenario.
    pub name: String,
    /// The contract of the client's group, with the smallest min that the group had during the run.
    pub contract: Contract,
    /// The group of the client.
    pub group: GroupId,
    /// True if the client is the only one of its group, so that the group's promise is its own.
    pub alone: bool,
    /// The client's queue depth.
    pub depth: u32,
    /// The number of requests that the client issued, including flushes and requests outside the
    /// measurement.
    pub issued: u64,
    /// The time from the start of the program to its last answer, if the program ends and reached
    /// its end.
    pub runtime: Option<Span>,
    /// The measurements of the client.
    pub meter: Meter,
}

impl Results {
    /// Judges a promise of `rate` to a client, given by its position in the scenario, as if the
    /// promise had been made in this run.
    pub fn judge(&self, client: usize, rate: PromisedRate) -> RunVerdicts {
        let terms = Terms { rate, alone: None };
        let meter = &self.clients[client].meter;
        meter.judge(&terms, &RunContext::new(self.total.seconds()))
    }

    /// The names of groups by number. A group has the name of its first client.
    fn group_names(&self) -> Vec<String> {
        let groups = self.clients.iter().map(|client| client.group.0 as usize);
        let mut names = vec![String::new(); groups.max().map_or(0, |last| last + 1)];
        // In reverse order, so that the name of the first client of a group remains.
        for client in self.clients.iter().rev() {
            names[client.group.0 as usize].clone_from(&client.name);
        }
        names
    }

    /// Creates the result records: one for each client, and one for the total.
    ///
    /// A client's record has its promise, its bandwidth over time and the cause that limited it.
    /// The record of the total has the share of the time in which the drive was busy. `alone` has
    /// the performance of clients without contention, by their position in the scenario, where it
    /// is known.
    pub fn records(&self, alone: &[Option<PerformanceAlone>]) -> Vec<Record> {
        let meter = &self.total;
        let clients = self.clients.iter().enumerate();
        let names = self.group_names();
        let nothing = BTreeMap::new();
        let clients = clients.map(|(at, client)| {
            let alone = alone.get(at).copied().flatten();
            let beside = RunContext {
                standings: self.standings.get(&client.group).unwrap_or(&nothing),
                names: &names,
                ..RunContext::new(meter.seconds())
            };
            client.record(&self.run, alone, &beside)
        });
        let total = self.run.record(TOTAL, meter);
        let mut total = total.with_series(meter.plot(), meter.end_ns());
        let length = self.measured_ns;
        let busy = (length > 0).then(|| self.busy_ns as f64 / length as f64);
        // A command can complete after the end of the measurement, so the share is limited to 100
        // %.
        total.drive_busy_percent = busy.map(|busy| (busy.min(1.0) * 100.0).round() as u64);
        total.rings = self.rings.map(|rings| rings.per_second(meter.requests()));
        clients.chain([total]).collect()
    }
}

impl ClientResult {
    /// Creates the client's result record, as in [`Results::records`].
    pub fn record(
        &self,
        run: &weir_measure::RunId,
        alone: Option<PerformanceAlone>,
        beside: &RunContext<'_>,
    ) -> Record {
        let meter = &self.meter;
        let mut record = run
            .record(&self.name, meter)
            .with_series(meter.plot(), meter.end_ns());
        record.runtime_s = self.runtime.map(|took| took.as_nanos() as f64 / 1e9);
        let rate = PromisedRate::of(&self.contract);
        // A promise belongs to a group. It is judged only where the group's only client shows
        // whether it was kept.
        if let Some(rate) = rate.filter(|_| self.alone) {
            let (mb_per_s, alone) = (alone.map(|a| a.mb_per_s), alone.map(|a| a.request));
            record = record.with_promise(&Terms { rate, alone }, mb_per_s, meter, beside);
        }
        record.with_limit(meter.think_us(self.depth))
    }
}

/// The names that identify a run in its records.
pub(crate) fn name(
    scenario: &crate::Scenario,
    policy: &crate::Policy,
    repetition: u32,
) -> weir_measure::RunId {
    weir_measure::RunId {
        scenario: scenario.name.clone(),
        drive: scenario.drive.name().into(),
        case: scenario.case.clone(),
        policy: policy.name.clone(),
        repeat: repetition,
        place: Some(RecordPlace::Sim),
        seed: Some(weir_model::load::seed(&scenario.name, repetition, 0)),
    }
}
