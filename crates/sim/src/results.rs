//! What came of a run.

use crate::alone::Alone;
use std::collections::BTreeMap;
use weir_core::{Contract, Counters, GroupId, Instant, Promised, Refusal, Span};
use weir_measure::promise::{Beside, Judged, Rate, Standing, Terms};
use weir_measure::{Level, Meter, Place, Record, State, TOTAL};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// What names the run in its records.
    pub run: weir_measure::Run,
    /// Each client, in the order of the scenario.
    pub clients: Vec<ClientResult>,
    /// All clients together.
    pub total: Meter,
    /// What the requests of groups waited for, by the second of the run's clock, where somebody has watched that.
    pub standings: BTreeMap<GroupId, BTreeMap<u64, Standing>>,
    /// Whether any client has drawn a random number. Otherwise every repetition of the run is the same run.
    pub drew: bool,
    /// What the contracts add up to at the beginning.
    pub promised: Promised,
    /// Changes in the course of the run that were refused, and when in the scenario's time.
    pub refusals: Vec<(Instant, Refusal)>,
    /// The layer's totals, those of the run-in among them.
    pub counters: Counters,
    /// Requests that clients still waited for at the end.
    pub unanswered: u64,
    /// Commands in the drive (and its adapter) over time, if the run was [followed](crate::Run::followed).
    pub depth: Option<Level>,
    /// What controllers and the elevator were doing over time, if the run was [followed](crate::Run::followed); else empty.
    pub states: Vec<State>,
    /// Nanoseconds of the measurement in which at least one command was in the drive.
    pub busy_ns: u64,
    /// How long the measurement lasted, in nanoseconds.
    pub measured_ns: u64,
    /// Notifications between virtual machines and their back end, and their processors' time, if there are any.
    pub rings: Option<weir_measure::Rings>,
    /// Turns of the loop: instants, counted as often as something followed at the same instant from what was done there.
    pub turns: u64,
}

/// What one client got.
#[derive(Clone, Debug)]
pub struct ClientResult {
    /// Its name.
    pub name: String,
    /// What its group was promised all the time.
    pub contract: Contract,
    /// Its group.
    pub group: GroupId,
    /// Whether it is the only client of its group, so that the promise is its own.
    pub alone: bool,
    /// Requests it has at a time.
    pub depth: u32,
    /// Requests it issued, flushes among them, whether they were measured or not.
    pub issued: u64,
    /// How long it took for all of a program that ends, from its start to the last answer; if it came to its end.
    pub took: Option<Span>,
    /// What was measured.
    pub meter: Meter,
}

impl Results {
    /// How a promise of `rate` to a client, by its place in the scenario, fares in this run, whether it was made or not.
    pub fn judge(&self, client: usize, rate: Rate) -> Judged {
        let terms = Terms { rate, alone: None };
        let meter = &self.clients[client].meter;
        meter.judge(&terms, &Beside::new(self.total.seconds()))
    }

    /// What groups are called, by their numbers: as their clients, or the first of several.
    fn names(&self) -> Vec<String> {
        let groups = self.clients.iter().map(|client| client.group.0 as usize);
        let mut names = vec![String::new(); groups.max().map_or(0, |last| last + 1)];
        for client in self.clients.iter().rev() {
            names[client.group.0 as usize].clone_from(&client.name);
        }
        names
    }

    /// The result records: one for each client, with its promise, its bandwidth over time and what limited it, and one of the
    /// total, with how long the drive was busy. `alone` says what clients get with the drive to themselves, by their place in the
    /// scenario, where that is known.
    pub fn records(&self, alone: &[Option<Alone>]) -> Vec<Record> {
        let meter = &self.total;
        let clients = self.clients.iter().enumerate();
        let names = self.names();
        let nothing = BTreeMap::new();
        let clients = clients.map(|(at, client)| {
            let alone = alone.get(at).copied().flatten();
            let beside = Beside {
                standings: self.standings.get(&client.group).unwrap_or(&nothing),
                names: &names,
                ..Beside::new(meter.seconds())
            };
            client.record(&self.run, alone, &beside)
        });
        let total = self.run.record(TOTAL, meter);
        let mut total = total.with_series(meter.plot(), meter.end_ns());
        let length = self.measured_ns;
        let busy = (length > 0).then(|| self.busy_ns as f64 / length as f64);
        total.drive_busy_percent = busy.map(|busy| (busy.min(1.0) * 100.0).round() as u64);
        total.rings = self.rings.map(|rings| rings.per_second(meter.requests()));
        clients.chain([total]).collect()
    }
}

impl ClientResult {
    /// Its result record, as [`Results::records`].
    pub fn record(
        &self,
        run: &weir_measure::Run,
        alone: Option<Alone>,
        beside: &Beside<'_>,
    ) -> Record {
        let meter = &self.meter;
        let mut record = run
            .record(&self.name, meter)
            .with_series(meter.plot(), meter.end_ns());
        record.runtime_s = self.took.map(|took| took.as_nanos() as f64 / 1e9);
        let rate = Rate::of(&self.contract);
        if let Some(rate) = rate.filter(|_| self.alone) {
            let (mb_per_s, alone) = (alone.map(|a| a.mb_per_s), alone.map(|a| a.request));
            record = record.with_promise(&Terms { rate, alone }, mb_per_s, meter, beside);
        }
        record.with_limit(meter.think_us(self.depth))
    }
}

/// What names a run in its records.
pub(crate) fn name(
    scenario: &crate::Scenario,
    policy: &crate::Policy,
    repetition: u32,
) -> weir_measure::Run {
    weir_measure::Run {
        scenario: scenario.name.clone(),
        drive: scenario.drive.name().into(),
        case: scenario.case.clone(),
        policy: policy.name.clone(),
        repeat: repetition,
        place: Some(Place::Sim),
        seed: Some(weir_model::load::seed(&scenario.name, repetition, 0)),
    }
}
