//! What came of a run.

use crate::guest::think_us;
use weir_core::{Contract, Counters, Instant, Promised, Refusal};
use weir_measure::{Level, LimitedBy, Meter, Place, Record, TOTAL};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// What names the run in its records.
    pub run: weir_measure::Run,
    /// Each client, in the order of the scenario.
    pub clients: Vec<ClientResult>,
    /// All clients together.
    pub total: Meter,
    /// What the contracts add up to at the beginning.
    pub promised: Promised,
    /// Changes in the course of the run that were refused, and when.
    pub refusals: Vec<(Instant, Refusal)>,
    /// The layer's totals.
    pub counters: Counters,
    /// Requests that clients still waited for at the end.
    pub unanswered: u64,
    /// Commands in the drive (and its adapter) over time, if the run was [followed](crate::Run::followed).
    pub depth: Option<Level>,
    /// Turns of the loop: instants, counted as often as something followed at the same instant from what was done there.
    pub turns: u64,
}

/// What one client got.
#[derive(Clone, Debug)]
pub struct ClientResult {
    /// Its name.
    pub name: String,
    /// What its group was promised at the beginning.
    pub contract: Contract,
    /// Whether it is the only client of its group, so that the promise is its own.
    pub alone: bool,
    /// Requests it has at a time.
    pub depth: u32,
    /// Requests it issued, flushes among them, whether they were measured or not.
    pub issued: u64,
    /// What was measured.
    pub meter: Meter,
}

impl Results {
    /// The result records: one for each client, with its promise, its bandwidth over time and what limited it, and one of the
    /// total.
    pub fn records(&self) -> Vec<Record> {
        let clients = self.clients.iter().map(|client| client.record(&self.run));
        let meter = &self.total;
        let total = self.run.record(TOTAL, meter);
        let total = total.with_series(meter.plot(), meter.end_ns());
        clients.chain([total]).collect()
    }
}

impl ClientResult {
    /// Its result record, as [`Results::records`].
    pub fn record(&self, run: &weir_measure::Run) -> Record {
        let meter = &self.meter;
        let mut record = run
            .record(&self.name, meter)
            .with_series(meter.plot(), meter.end_ns());
        if self.alone && self.contract.min > 0 {
            record = record.with_promise(self.contract.min, meter);
        }
        record.limited_by = record
            .split_us
            .as_ref()
            .map(|split| LimitedBy::of(split, record.latency_us.mean, think_us(meter, self.depth)));
        record
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
        seed: Some(weir_load::seed(&scenario.name, repetition, 0)),
    }
}
