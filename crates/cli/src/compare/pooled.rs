//! The repetitions of a cell taken together.

use super::spread::Spread;
use super::work::Outcome;
use crate::judge;
use weir_measure::explain::Place;
use weir_measure::promise::Fate;
use weir_measure::{Histogram, Record, RingsPerSecond, TOTAL};

/// The repetitions of a cell taken together.
#[derive(Debug)]
pub(super) struct Pooled {
    /// The target's latencies, each request of each repetition counting once.
    pub(super) latency: Histogram,
    /// Where the time of the target's mean request went.
    pub(super) split: Split,
    /// Where the others' time went.
    pub(super) others: Split,
    /// How sure the target's figures are.
    pub(super) spread: Spread,
    /// Mean bandwidth of all clients together, and of the target, in MB/s.
    pub(super) total_mb_per_s: f64,
    pub(super) target_mb_per_s: f64,
    /// The part (0 to 1) of the time in which the drive was busy.
    pub(super) busy: Option<f64>,
    /// Mean number of commands in the drive; of the first repetition.
    pub(super) depth: Option<f64>,
    /// Notifications between virtual machines and their back end, if there are any: means of the runs.
    pub(super) rings: Option<RingsPerSecond>,
    /// What the target was promised, in MB/s, and how that fared.
    pub(super) promise: Option<Promise>,
}

/// What the target was promised, and what came of it over all repetitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    pub(super) mb_per_s: f64,
    /// What it gets with the drive to itself.
    pub(super) alone_mb_per_s: Option<f64>,
    /// The worst second of all, if there was one that counts.
    pub(super) worst_mb_per_s: Option<f64>,
    /// What became of the promise in the worst run.
    pub(super) fate: Fate,
}

/// Where the time of a mean request went, in microseconds: parts that add up to its latency, in the order of [`Self::NAMES`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Split(pub(super) [f64; 6]);

impl Split {
    /// The places: held by a controller; in the elevator while others were served, and while the drive was kept for somebody's next
    /// request; in the drive, which worked on others; being served; outside, in page cache and system calls.
    const PLACES: [Place; 6] = [
        Place::Held,
        Place::Elevator,
        Place::Idling,
        Place::Queue,
        Place::Service,
        Place::Host,
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

    /// The time in a place.
    pub(super) fn at(&self, place: Place) -> f64 {
        let at = Self::PLACES.iter().position(|p| *p == place);
        at.map_or(0.0, |at| self.0[at])
    }

    pub(super) fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// A part of the whole, 0 to 1.
    pub(super) fn fraction(&self, part: f64) -> f64 {
        let total = self.total();
        if total > 0.0 { part / total } else { 0.0 }
    }

    /// Of all requests of these records, each counting once.
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

impl Pooled {
    /// Of these repetitions, of which there is one at least.
    pub(super) fn new(outcomes: &[Outcome], target: &str) -> Self {
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
        let depth = outcomes.iter().find_map(|o| o.over_time.as_ref());
        let depth = depth.filter(|d| !d.depth.is_empty());
        Self {
            latency,
            split: Split::of(of_target()),
            others: Split::of(others),
            spread: Spread::of(outcomes, target),
            total_mb_per_s: mean(&mut records().filter(|r| r.client == TOTAL)),
            target_mb_per_s: mean(&mut of_target()),
            busy: busy(outcomes),
            depth: depth.map(|d| d.depth.iter().sum::<f64>() / d.depth.len() as f64),
            rings: rings(outcomes),
            promise: Promise::of(&of_target().collect::<Vec<_>>()),
        }
    }

    /// Mean latency as the back end of virtual machines sees it, in microseconds, if there were any.
    pub(super) fn backend_us(&self) -> Option<f64> {
        let backend = self.split.total() - self.split.at(Place::Host);
        (self.rings.is_some() && backend > 0.0).then_some(backend)
    }

    /// Mean latency in microseconds; `None` without any.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (!self.latency.is_empty()).then(|| self.latency.mean() / 1e3)
    }
}

/// Means over all repetitions.
fn rings(outcomes: &[Outcome]) -> Option<RingsPerSecond> {
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

/// The mean over all repetitions.
fn busy(outcomes: &[Outcome]) -> Option<f64> {
    let parts = outcomes.iter().map(|o| judge::busy(&o.records));
    let parts = parts.collect::<Option<Vec<f64>>>()?;
    (!parts.is_empty()).then(|| parts.iter().sum::<f64>() / parts.len() as f64)
}

impl Promise {
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
