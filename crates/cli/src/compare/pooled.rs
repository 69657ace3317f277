//! Combines the repetitions of a cell into one set of figures.

use super::spread::RunSpread;
use super::work::RunOutcome;
use crate::judge;
use weir_measure::explain::SentencePlace;
use weir_measure::promise::Fate;
use weir_measure::{Histogram, Record, RingsPerSecond, TOTAL};

/// The figures of a cell over all its repetitions.
#[derive(Debug)]
pub(super) struct PooledRuns {
    /// The target's latencies. Each request of each repetition counts once.
    pub(super) latency: Histogram,
    /// The split of the target's mean latency.
    pub(super) split: MeanSplit,
    /// The split of the mean latency of all other clients.
    pub(super) others: MeanSplit,
    /// The variation of the target's figures between repetitions.
    pub(super) spread: RunSpread,
    /// The mean bandwidth of all clients together, in MB/s.
    pub(super) total_mb_per_s: f64,
    pub(super) target_mb_per_s: f64,
    /// Jain's index of the clients' bandwidths relative to their shares, as the mean of the runs.
    pub(super) fairness: Option<f64>,
    /// The fraction (0 to 1) of the time in which the drive was busy.
    pub(super) busy: Option<f64>,
    /// The mean number of commands in the drive during the first repetition.
    pub(super) depth: Option<f64>,
    /// The rates of notifications between virtual machines and their back end, as means of the
    /// runs. `None` without virtual machines.
    pub(super) rings: Option<RingsPerSecond>,
    /// The promise to the target and its fate, if there is a promise in MB/s.
    pub(super) promise: Option<TargetPromise>,
}

/// The promise to the target, and its fate over all repetitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct TargetPromise {
    pub(super) mb_per_s: f64,
    /// The bandwidth of the target without contention, in MB/s.
    pub(super) alone_mb_per_s: Option<f64>,
    /// The bandwidth in the worst of all seconds that count, in MB/s.
    pub(super) worst_mb_per_s: Option<f64>,
    /// The worst fate of the promise in all runs.
    pub(super) fate: Fate,
}

/// The split of a mean latency, in microseconds. The parts are in the order of [`Self::NAMES`], and
/// their sum is the latency.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MeanSplit(pub(super) [f64; 6]);

impl MeanSplit {
    /// The parts of a split: throttled by a controller, in the elevator while others are served, in
    /// the elevator while it idles, in the drive behind other commands, in service, and outside of
    /// scheduler and drive (page cache and system calls).
    const PLACES: [SentencePlace; 6] = [
        SentencePlace::Held,
        SentencePlace::Elevator,
        SentencePlace::Idling,
        SentencePlace::Queue,
        SentencePlace::Service,
        SentencePlace::Host,
    ];

    pub(super) const NAMES: [&'static str; 6] = {
        let [a, b, c, d, e, f] = Self::PLACES;
        [
            a.words(),
            b.words(),
            c.words(),
            d.words(),
            e.words(),
            f.words(),
        ]
    };

    /// Returns the time that was spent in a place, in microseconds.
    pub(super) fn at(&self, place: SentencePlace) -> f64 {
        let at = Self::PLACES.iter().position(|p| *p == place);
        at.map_or(0.0, |at| self.0[at])
    }

    pub(super) fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Returns `part` as a fraction (0 to 1) of the total.
    pub(super) fn fraction(&self, part: f64) -> f64 {
        let total = self.total();
        if total > 0.0 { part / total } else { 0.0 }
    }

    /// Returns the mean split of all requests in these records. Each request counts once.
    fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        let (mut sum, mut requests) = ([0.0; 6], 0.0);
        for record in records {
            let Some(split) = record.split_us else {
                continue;
            };
            let n = record.requests as f64;
            requests += n;
            let mean = record.latency_us.map_or(0.0, |latency| latency.mean);
            let (idling, queue) = (split.idle.unwrap_or(0.0), split.queue.unwrap_or(0.0));
            // `idle` is a part of `elevator`, and `queue` is a part of `drive`. The remainder of
            // the latency was spent outside of both.
            let parts = [
                split.limit,
                (split.elevator - idling).max(0.0),
                idling,
                queue,
                (split.drive - queue).max(0.0),
                (mean - split.total()).max(0.0),
            ];
            for (sum, part) in sum.iter_mut().zip(parts) {
                *sum += part * n;
            }
        }
        Self(sum.map(|sum| sum / f64::max(requests, 1.0)))
    }
}

impl PooledRuns {
    /// Combines at least one repetition.
    pub(super) fn new(outcomes: &[RunOutcome], target: &str) -> Self {
        let mut latency = Histogram::new();
        for outcome in outcomes {
            latency.merge(&outcome.latency);
        }
        let records = || outcomes.iter().flat_map(|o| &o.records);
        let of_target = || records().filter(|r| r.client == target);
        let others = records().filter(|r| r.client != target && r.client != TOTAL);
        let mean = |values: &mut dyn Iterator<Item = &Record>| {
            values.map(|r| r.bandwidth_mb_per_s).sum::<f64>() / outcomes.len() as f64
        };
        // Only the first repetition has a course over time. A real server does not count commands
        // in the drive.
        let depth = outcomes.iter().find_map(|o| o.over_time.as_ref());
        let depth = depth.filter(|d| !d.depth.is_empty());
        Self {
            latency,
            split: MeanSplit::of(of_target()),
            others: MeanSplit::of(others),
            spread: RunSpread::of(outcomes, target),
            total_mb_per_s: mean(&mut records().filter(|r| r.client == TOTAL)),
            target_mb_per_s: mean(&mut of_target()),
            fairness: fairness(outcomes),
            busy: busy(outcomes),
            depth: depth.map(|d| d.depth.iter().sum::<f64>() / d.depth.len() as f64),
            rings: rings(outcomes),
            promise: TargetPromise::of(&of_target().collect::<Vec<_>>()),
        }
    }

    /// Returns the mean latency that the back end of virtual machines measures, in microseconds.
    /// Returns `None` without virtual machines.
    pub(super) fn backend_us(&self) -> Option<f64> {
        // The part outside of scheduler and drive is spent in the guest and its ring.
        let backend = self.split.total() - self.split.at(SentencePlace::Host);
        (self.rings.is_some() && backend > 0.0).then_some(backend)
    }

    /// Returns the mean latency of the target in microseconds, or `None` if no request completed.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (!self.latency.is_empty()).then(|| self.latency.mean() / 1e3)
    }
}

/// Returns the mean rates of notifications over all repetitions.
fn rings(outcomes: &[RunOutcome]) -> Option<RingsPerSecond> {
    let totals = outcomes.iter().flat_map(|o| &o.records);
    let all: Vec<_> = totals.filter_map(|r| r.rings).collect();
    let mean = |of: fn(&RingsPerSecond) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| RingsPerSecond {
        kicks: mean(|r| r.kicks),
        calls: mean(|r| r.calls),
        calls_per_request: mean(|r| r.calls_per_request),
        wakeups: mean(|r| r.wakeups),
        guest_percent: mean(|r| r.guest_percent),
        backend_percent: mean(|r| r.backend_percent),
    })
}

/// Returns the mean of Jain's index over the runs. `None` if a run has no bandwidth.
fn fairness(outcomes: &[RunOutcome]) -> Option<f64> {
    mean_of_all(outcomes.iter().map(|outcome| {
        let clients = outcome.scenario.clients.iter().enumerate();
        let parts = clients.filter_map(|(at, client)| {
            let record = outcome.records.iter().find(|r| r.client == client.name)?;
            let share = f64::from(outcome.scenario.contract(at).share);
            Some(record.bandwidth_mb_per_s / share)
        });
        jain(&parts.collect::<Vec<f64>>())
    }))
}

/// Returns the fairness index of Jain, Chiu and Hawe (1984): the square of the sum, divided by the
/// number and by the sum of squares. It is 1 for equal parts, and 1 / n if one of n has everything.
fn jain(parts: &[f64]) -> Option<f64> {
    let sum: f64 = parts.iter().sum();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
}

/// Returns the mean fraction of busy time over all repetitions, if each has one.
fn busy(outcomes: &[RunOutcome]) -> Option<f64> {
    mean_of_all(outcomes.iter().map(|o| judge::busy(&o.records)))
}

/// Returns the mean, or `None` if there is no value or if one is unknown.
fn mean_of_all(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.collect::<Option<Vec<f64>>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl TargetPromise {
    /// Returns the promise in these records of the target, or `None` if it has no promise in MB/s.
    fn of(records: &[&Record]) -> Option<Self> {
        let mb_per_s = records.iter().find_map(|r| r.promised_mb_per_s)?;
        let worst = records.iter().filter_map(|r| r.worst_second_mb_per_s);
        Some(Self {
            mb_per_s,
            alone_mb_per_s: records.iter().find_map(|r| r.alone_mb_per_s),
            worst_mb_per_s: worst.reduce(f64::min),
            fate: (records.iter().map(|r| r.fate())).fold(Fate::NotAsked, Fate::worse),
        })
    }
}
