//! The result record: one for each client of each run, and one for their total.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::promise::{Beside, Cause, Excuse, Fate, Judged, Rate, ShortSecond, Terms, Units};
use crate::{Apart, Histogram, Kind, Meter, RingsPerSecond, SECOND_NS, Series, mb_per_s};

/// The client name of the record of all clients together.
pub const TOTAL: &str = "total";

/// Where a run took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The simulator, in virtual time.
    Sim,
    /// The live server.
    Serve,
    /// An unmodified Linux in a guest, in virtual time.
    Guest,
    /// This machine's Linux.
    Linux,
}

/// What limited a client's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The client itself: its queue depth, its think time, its path to the server.
    Client,
    /// Its own max, or another controller that throttled it.
    Limit,
    /// Other clients, which were served before it.
    Share,
    /// The drive, which served it at once but slowly.
    Drive,
}

impl LimitedBy {
    /// Its name in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Limit => "limit",
            Self::Share => "share",
            Self::Drive => "drive",
        }
    }

    /// What a cause comes to in a record; `None`: a record has no word for it.
    fn from_cause(cause: Cause) -> Option<Self> {
        match cause {
            Cause::OwnMax | Cause::Held => Some(Self::Limit),
            Cause::Neighbour | Cause::Idling | Cause::ServerBusy => Some(Self::Share),
            Cause::SlowDrive | Cause::Errors | Cause::OwnRequests => Some(Self::Drive),
            Cause::OwnDepth => Some(Self::Client),
            Cause::HostBusy | Cause::ClientIdle | Cause::NotReading => None,
        }
    }

    /// The place with the largest part of the client's time: the part of a mean `latency_us` that `split` does not account for is
    /// the client's own (and its path's), and so is `think_us`, the mean time from a reply to the next request.
    ///
    /// Of equal parts, the one nearer the drive counts.
    pub fn of(split: &SplitUs, latency_us: f64, think_us: f64) -> Self {
        let rest = (latency_us - split.total()).max(0.0) + think_us;
        let parts = [
            (Self::Client, rest),
            (Self::Limit, split.limit),
            (Self::Share, split.elevator),
            (Self::Drive, split.drive),
        ];
        let largest = parts
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are four parts");
        largest.0
    }
}

/// Latency from sending a request to its reply, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean, exact.
    pub mean: f64,
    /// Sample standard deviation, exact.
    pub sd: f64,
    /// Minimum, exact.
    pub min: f64,
    /// Maximum, exact.
    pub max: f64,
    /// Median, at most 0.8 % above the exact one; so are the other percentiles.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

impl Latency {
    /// The latencies of these requests; `None` if there were none.
    pub fn of(h: &Histogram) -> Option<Self> {
        let us = |ns: u64| ns as f64 / 1e3;
        (!h.is_empty()).then(|| Self {
            mean: h.mean() / 1e3,
            sd: h.sd() / 1e3,
            min: us(h.min()),
            max: us(h.max()),
            p50: us(h.quantile(1, 2)),
            p90: us(h.quantile(9, 10)),
            p99: us(h.quantile(99, 100)),
            p999: us(h.quantile(999, 1000)),
        })
    }
}

/// Mean time of a request in each place, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitUs {
    /// Throttled by a limit or another controller.
    pub limit: f64,
    /// Waiting in the elevator.
    pub elevator: f64,
    /// In the drive.
    pub drive: f64,
    /// Of `elevator`: the elevator idled for the next request of another stream. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
    /// Of `drive`: the drive had not begun to serve it. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<f64>,
}

impl SplitUs {
    /// The sum of the three places.
    pub fn total(&self) -> f64 {
        self.limit + self.elevator + self.drive
    }
}

/// Identifies a run; the same in the records of all its clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// Scenario.
    pub scenario: String,
    /// Drive.
    pub drive: String,
    /// Case of the scenario.
    pub case: String,
    /// Policy.
    pub policy: String,
    /// Repetition, from 0.
    pub repeat: u32,
    /// Where the run took place.
    pub place: Option<Place>,
    /// Seed of its random numbers.
    pub seed: Option<u64>,
}

impl Run {
    /// The record of `client` (or [`TOTAL`]) from its meter. What only the caller knows (promise, series, what
    /// limited it) is added with [`Record::with_promise`], [`Record::with_series`] or by hand.
    pub fn record(&self, client: &str, meter: &Meter) -> Record {
        Record {
            scenario: self.scenario.clone(),
            drive: self.drive.clone(),
            case: self.case.clone(),
            policy: self.policy.clone(),
            repeat: self.repeat,
            client: client.to_owned(),
            requests: meter.requests(),
            bytes: meter.bytes(),
            seconds: meter.length_ns() as f64 / SECOND_NS as f64,
            begins_s: Some(meter.begins_ns())
                .filter(|ns| *ns > 0)
                .map(|ns| ns as f64 / SECOND_NS as f64),
            bandwidth_mb_per_s: mb_per_s(meter.bytes(), meter.length_ns()),
            latency_us: Latency::of(meter.latency()),
            place: self.place,
            seed: self.seed,
            errors: Some(meter.failures()).filter(|n| *n > 0),
            worst_second_mb_per_s: meter.worst_second_mb_per_s(),
            unanswered_us: Some(meter.unanswered_ns())
                .filter(|ns| *ns > 0)
                .map(|ns| ns as f64 / 1e3),
            reads: KindRecord::of(meter, Kind::Read),
            writes: KindRecord::of(meter, Kind::Write),
            flushes: KindRecord::of(meter, Kind::Flush),
            split_us: meter.split().mean_us(),
            late: meter.late(),
            ..Record::default()
        }
    }
}

/// The operations of one kind, of a client that does several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct KindRecord {
    /// Operations answered without error.
    pub requests: u64,
    /// Bytes transferred by these.
    pub bytes: u64,
    /// `bytes` over the length of the client's own time, in MB/s.
    pub bandwidth_mb_per_s: f64,
    /// Their latency; `None` if there were none.
    pub latency_us: Option<Latency>,
}

impl KindRecord {
    fn of(meter: &Meter, kind: Kind) -> Option<Self> {
        let apart: &Apart = meter.of(kind)?;
        Some(Self {
            requests: apart.latency().count(),
            bytes: apart.bytes(),
            bandwidth_mb_per_s: mb_per_s(apart.bytes(), meter.length_ns()),
            latency_us: Latency::of(apart.latency()),
        })
    }
}

/// Why a client has no time of its own in the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Its last possible request was before the measurement began.
    Ended,
    /// It had not begun when the measurement ended.
    NotBegun,
}

impl Absence {
    /// A few words for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ended => "ended in the warm-up",
            Self::NotBegun => "did not begin",
        }
    }
}

/// How a client starves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Starved {
    /// It gets less than a hundredth of its bandwidth under no control.
    Bandwidth,
    /// A request of it waited for more than a second, and not for its own max.
    Wait,
}

impl Starved {
    /// The part of the bandwidth under no control below which a client starves.
    pub const PART: f64 = 0.01;
    /// Microseconds that a request may wait.
    pub const WAIT_US: f64 = 1e6;
}

/// The verdicts about a promise in the whole seconds of a run: `promised` = `kept` + `short` + `excused`. See
/// [`promise`](crate::promise).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseSeconds {
    /// Whole seconds.
    pub promised: u64,
    /// Seconds in which the promise was kept.
    pub kept: u64,
    /// Seconds in which less was served.
    pub short: u64,
    /// Seconds in which the promise did not apply.
    pub excused: u64,
    /// Of the kept seconds, those in which the client got less than its whole min, because it had nothing outstanding for more than half of
    /// them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// Milliseconds in which the client had a request outstanding, if there were `unasked` seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_ms: Option<u64>,
    /// Number of short seconds by the name of their [`Cause`]; causes that did not occur are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub short_by: BTreeMap<String, u64>,
    /// Number of excused seconds by the name of their [`Excuse`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub excused_by: BTreeMap<String, u64>,
    /// Number of short seconds by the neighbour that made them short, as far as it is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub neighbours: BTreeMap<String, u64>,
    /// Total shortfall in bytes, for a promise of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_bytes: Option<u64>,
    /// Total shortfall in requests, for a promise of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_requests: Option<u64>,
    /// The short seconds, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_at: Vec<ShortRecord>,
}

/// A second in which a promise was not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortRecord {
    /// Which second of the measurement, from 0.
    pub second: u64,
    /// What the client was owed in it: bytes, for a promise of bytes, else requests.
    pub owed: u64,
    /// What was missing of that.
    pub lacking: u64,
    /// The name of its [`Cause`].
    pub cause: String,
    /// The neighbour, if that is the cause and it is known which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ShortRecord {
    fn new(short: &ShortSecond, beside: &Beside<'_>) -> Self {
        Self {
            second: short.second,
            owed: short.owed,
            lacking: short.by,
            cause: short.why.cause.name().to_owned(),
            neighbour: beside.name(short.why).map(str::to_owned),
        }
    }

    /// The part (0 to 1) of what was owed that the client got.
    pub fn part(&self) -> f64 {
        (self.owed.saturating_sub(self.lacking)) as f64 / self.owed.max(1) as f64
    }
}

impl PromiseSeconds {
    fn new(judged: &Judged, units: Units, beside: &Beside<'_>) -> Self {
        let seconds = &judged.seconds;
        let lacking = (seconds.all_short() > 0).then(|| units.of(seconds.lacking));
        let mut neighbours = BTreeMap::new();
        for name in judged
            .short
            .iter()
            .filter_map(|short| beside.name(short.why))
        {
            *neighbours.entry(name.to_owned()).or_default() += 1;
        }
        Self {
            promised: seconds.promised,
            kept: seconds.kept,
            short: seconds.all_short(),
            excused: seconds.all_excused(),
            unasked: seconds.unasked,
            outstanding_ms: (seconds.unasked > 0).then_some(judged.waited_ns / 1_000_000),
            short_by: seconds.short_by(),
            excused_by: seconds.excused_by(),
            neighbours,
            lacking_bytes: lacking.filter(|_| units == Units::Bytes),
            lacking_requests: lacking.filter(|_| units == Units::Requests),
            short_at: judged
                .short
                .iter()
                .map(|short| ShortRecord::new(short, beside))
                .collect(),
        }
    }

    /// The short second in which the smallest part was served of what was owed.
    pub fn worst(&self) -> Option<&ShortRecord> {
        let all = self.short_at.iter();
        all.min_by(|a, b| a.part().total_cmp(&b.part()))
    }

    /// The part (0 to 1) of the seconds in which the client had nothing outstanding, if it did not ask for its whole min in some.
    pub fn idle(&self) -> Option<f64> {
        let outstanding = self.outstanding_ms? as f64 / 1e3;
        Some((1.0 - outstanding / self.promised.max(1) as f64).max(0.0))
    }

    /// The most frequent cause of short seconds.
    pub fn main_short(&self) -> Option<Cause> {
        let counts = self
            .short_by
            .iter()
            .map(|(name, count)| (*count, Cause::find(name)));
        counts.max_by_key(|(count, _)| *count)?.1
    }

    /// The neighbour that made most of the short seconds short.
    pub fn main_neighbour(&self) -> Option<&str> {
        let most = self.neighbours.iter().max_by_key(|(_, count)| **count);
        most.map(|(name, _)| name.as_str())
    }

    /// What limited the client in most of the short and excused seconds.
    fn limit(&self) -> Option<LimitedBy> {
        let mut causes: BTreeMap<LimitedBy, u64> = BTreeMap::new();
        let short = self.short_by.iter().map(|(name, n)| (Cause::find(name), n));
        let excused = self.excused_by.iter().map(|(name, n)| {
            let mut all = Excuse::ALL.into_iter();
            (all.find(|e| e.name() == name).map(Excuse::cause), n)
        });
        for (cause, n) in short.chain(excused) {
            if let Some(by) = cause.and_then(LimitedBy::from_cause) {
                *causes.entry(by).or_default() += n;
            }
        }
        let most = causes.into_iter().max_by_key(|(_, n)| *n);
        most.filter(|(_, n)| 2 * n > self.promised)
            .map(|(by, _)| by)
    }

    /// Number of excused seconds with this reason.
    pub fn excused_as(&self, reason: Excuse) -> u64 {
        self.excused_by.get(reason.name()).copied().unwrap_or(0)
    }
}

/// The result of one client in one run: one JSON object per line. Fields are written in this order;
/// those that are `None` are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Scenario.
    pub scenario: String,
    /// Drive.
    pub drive: String,
    /// Case of the scenario.
    pub case: String,
    /// Policy.
    pub policy: String,
    /// Repetition, from 0.
    pub repeat: u32,
    /// Client, or [`TOTAL`].
    pub client: String,
    /// Requests answered without error.
    pub requests: u64,
    /// Bytes transferred by these.
    pub bytes: u64,
    /// Length of the client's own time in the measurement, in seconds: see [`Meter::lasted`].
    pub seconds: f64,
    /// `bytes` over `seconds`, in MB/s.
    pub bandwidth_mb_per_s: f64,
    /// Latency of these requests; `None`, and null as JSON, if there were none.
    pub latency_us: Option<Latency>,
    /// Where the run took place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Seed of its random numbers. In JSON it is a string, because many readers of JSON round integers above 2^53.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "digits")]
    pub seed: Option<u64>,
    /// When the client's own time begins, in seconds from the start of the measurement, unless it begins there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_s: Option<f64>,
    /// Requests answered with an error, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// The client's minimum, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_mb_per_s: Option<f64>,
    /// The client's minimum, in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_iops: Option<u64>,
    /// Bandwidth in the worst second, in MB/s: see [`Meter::worst_second_mb_per_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_second_mb_per_s: Option<f64>,
    /// What became of the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Fate>,
    /// Of the seconds in which the promise applied, the fraction (0 to 1) in which it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_met: Option<f64>,
    /// The verdicts about the promise, second by second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_seconds: Option<PromiseSeconds>,
    /// Bandwidth of the client with the drive to itself, in MB/s, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_mb_per_s: Option<f64>,
    /// How it starved, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starved: Option<Starved>,
    /// For how long the oldest request had waited that was not answered at the end, in microseconds, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered_us: Option<f64>,
    /// Its reads, if it does not only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<KindRecord>,
    /// Its writes, if it does not only write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<KindRecord>,
    /// Its flushes, if it does not only flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<KindRecord>,
    /// What limited the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
    /// Where the mean request spent its time; the rest of the mean latency was spent between client and server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_us: Option<SplitUs>,
    /// Length of a window of `series_mb_per_s`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_step_s: Option<f64>,
    /// Bandwidth of each complete window, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_mb_per_s: Option<Vec<f64>>,
    /// Fraction of the time in which the drive had at least one command in flight, in whole per cent; in records of the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_busy_percent: Option<u64>,
    /// Notifications between virtual machines and their back end; in records of the total of runs with virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<RingsPerSecond>,
    /// How long a client whose program ends took for all of it, from its start to the last answer; if it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_s: Option<f64>,
    /// Requests that were not answered by their deadline, if the client has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// The release of the kernel under which the run took place, where a kernel was a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The part of all processors' time in which they were busy, in whole per cent; in records of the total under a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_percent: Option<u64>,
    /// In a guest: what the path between kernel and modelled drive takes, which was taken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_us: Option<f64>,
    /// In a guest: what of the path was left in that boot; below zero where too much was taken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_left_us: Option<f64>,
}

impl Record {
    /// Adds a promise and its verdicts. `alone_mb_per_s`: what the client gets with the drive to itself, if that was measured.
    pub fn with_promise(
        mut self,
        terms: &Terms,
        alone_mb_per_s: Option<f64>,
        meter: &Meter,
        beside: &Beside<'_>,
    ) -> Self {
        let judged = meter.judge(terms, beside);
        let Rate { units, a_second } = terms.rate;
        // In the promise's units.
        let alone = match units {
            Units::Bytes => {
                self.promised_mb_per_s = Some(a_second as f64 / 1e6);
                alone_mb_per_s.map(|mb_per_s| mb_per_s * 1e6)
            }
            Units::Requests => {
                self.promised_iops = Some(a_second);
                let bytes = terms.alone.map(|alone| alone.bytes.max(1) as f64);
                alone_mb_per_s
                    .zip(bytes)
                    .map(|(mb_per_s, each)| mb_per_s * 1e6 / each)
            }
        };
        let is_beyond = alone.is_some_and(|alone| terms.rate.exceeds(alone));
        self.alone_mb_per_s = alone_mb_per_s;
        self.promise = Some(Fate::new(&judged.seconds, is_beyond));
        self.windows_met = judged.fraction();
        self.promise_seconds = Some(PromiseSeconds::new(&judged, units, beside));
        self
    }

    /// Why the client has no time of its own in the measurement, if it has none.
    pub fn absence(&self) -> Option<Absence> {
        let begins = self.begins_s.unwrap_or(0.0);
        let absence = if begins > 0.0 {
            Absence::NotBegun
        } else {
            Absence::Ended
        };
        (self.seconds <= 0.0).then_some(absence)
    }

    /// What became of the promise to the client, if anything was promised.
    pub fn fate(&self) -> Fate {
        self.promise.unwrap_or_default()
    }

    /// The longest that a request waited, in microseconds: of those that were answered, and of those that were not by the end.
    pub fn longest_us(&self) -> Option<f64> {
        let answered = self.latency_us.map(|latency| latency.max);
        answered
            .into_iter()
            .chain(self.unanswered_us)
            .reduce(f64::max)
    }

    /// Whether the client starves, beside what it gets under no control (`None` where that is not known): it gets less than a hundredth
    /// of that, or a request waited for more than a second. A client that its own max throttles does neither.
    pub fn starves(&self, none: Option<&Self>) -> Option<Starved> {
        if self.limited_by == Some(LimitedBy::Limit) {
            return None;
        }
        let before = none.map(|none| none.bandwidth_mb_per_s);
        let is_less = |before: f64| self.bandwidth_mb_per_s < before * Starved::PART;
        let waits = self.longest_us().is_some_and(|us| us > Starved::WAIT_US);
        match before {
            Some(before) if is_less(before) => Some(Starved::Bandwidth),
            _ if waits => Some(Starved::Wait),
            _ => None,
        }
    }

    /// Its kinds of operations, if it does several, and of those it did.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, &KindRecord)> {
        let all = [&self.reads, &self.writes, &self.flushes];
        let all = Kind::ALL.into_iter().zip(all);
        all.filter_map(|(kind, of)| Some((kind, of.as_ref()?)))
    }

    /// Adds what limited the client, as [`LimitedBy::of`] says, unless most seconds of its promise were short or excused for one
    /// reason. That reason is more accurate: a client that waits in the drive's queue behind others is limited by the others.
    pub fn with_limit(mut self, think_us: f64) -> Self {
        let mean = self.latency_us.map_or(0.0, |latency| latency.mean);
        let of = |split| LimitedBy::of(split, mean, think_us);
        let found = self
            .promise_seconds
            .as_ref()
            .and_then(PromiseSeconds::limit);
        self.limited_by = found.or_else(|| self.split_us.as_ref().map(of));
        self
    }

    /// Adds the bandwidth of the windows of `series` that ended by `end_ns`.
    pub fn with_series(mut self, series: &Series, end_ns: u64) -> Self {
        self.series_step_s = Some(series.step_ns() as f64 / SECOND_NS as f64);
        self.series_mb_per_s = Some(series.mb_per_s(end_ns));
        self
    }

    /// Returns the bandwidth over time as points (seconds at the middle of each step, MB/s); none
    /// without a series.
    pub fn series(&self) -> Vec<(f64, f64)> {
        let step_s = self.series_step_s.unwrap_or_default();
        let values = self.series_mb_per_s.iter().flatten();
        let points = values.enumerate();
        points
            .map(|(i, mb_per_s)| ((i as f64 + 0.5) * step_s, *mb_per_s))
            .collect()
    }
}

/// Integers that can be above 2^53 as strings.
mod digits {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        number.map(|number| number.to_string()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_names_the_limit() {
        let split = |limit, elevator, drive| SplitUs {
            limit,
            elevator,
            drive,
            ..SplitUs::default()
        };
        let of = LimitedBy::of;
        assert_eq!(of(&split(1.0, 2.0, 30.0), 40.0, 0.0), LimitedBy::Drive);
        assert_eq!(of(&split(1.0, 50.0, 30.0), 90.0, 0.0), LimitedBy::Share);
        assert_eq!(of(&split(99.0, 50.0, 30.0), 190.0, 0.0), LimitedBy::Limit);
        assert_eq!(of(&split(1.0, 2.0, 30.0), 500.0, 0.0), LimitedBy::Client);
        assert_eq!(of(&split(1.0, 2.0, 30.0), 33.0, 400.0), LimitedBy::Client);
        assert_eq!(of(&split(5.0, 5.0, 5.0), 20.0, 0.0), LimitedBy::Drive);
        // If the split slightly exceeds the latency, that is rounding and not negative time.
        assert_eq!(of(&split(0.0, 0.0, 30.0), 29.0, 0.0), LimitedBy::Drive);
    }

    #[test]
    fn who_gets_a_hundredth_or_waits_a_second_starves_but_for_its_own_max() {
        let record = |mb_per_s: f64, longest: f64| Record {
            bandwidth_mb_per_s: mb_per_s,
            latency_us: Some(Latency {
                max: longest,
                ..Latency::default()
            }),
            ..Record::default()
        };
        let none = record(1000.0, 5e3);
        let starves = |r: &Record| r.starves(Some(&none));
        assert_eq!(starves(&record(10.1, 1e6)), None);
        assert_eq!(starves(&record(9.9, 1e3)), Some(Starved::Bandwidth));
        assert_eq!(starves(&record(500.0, 1.1e6)), Some(Starved::Wait));
        assert_eq!(record(9.9, 1e3).starves(None), None, "beside nothing");
        let waits = Record {
            latency_us: None,
            unanswered_us: Some(2e6),
            ..record(0.0, 0.0)
        };
        assert_eq!(waits.starves(None), Some(Starved::Wait));
        let limited = Record {
            limited_by: Some(LimitedBy::Limit),
            ..record(0.1, 8e6)
        };
        assert_eq!(starves(&limited), None);
    }

    #[test]
    fn a_record_says_what_the_meter_saw() {
        let mut meter = Meter::new(0, 2 * SECOND_NS);
        for ms in 0..1999 {
            meter.sent(ms * 1_000_000);
            meter.done(ms * 1_000_000, ms * 1_000_000 + 400_000, 10_000);
        }
        let run = Run {
            scenario: "s".into(),
            ..Run::default()
        };
        let terms = Terms {
            rate: Rate::new(10_000_000, 0).unwrap(),
            alone: None,
        };
        let r = run
            .record("target", &meter)
            .with_promise(&terms, None, &meter, &Beside::new(meter.seconds()))
            .with_series(meter.plot(), meter.end_ns());
        assert_eq!((r.requests, r.bytes), (1999, 19_990_000));
        assert!((r.bandwidth_mb_per_s - 9.995).abs() < 1e-9);
        let want = Latency {
            mean: 400.0,
            sd: 0.0,
            min: 400.0,
            max: 400.0,
            p50: 400.0,
            p90: 400.0,
            p99: 400.0,
            p999: 400.0,
        };
        assert_eq!(r.latency_us, Some(want));
        assert_eq!(
            (r.promised_mb_per_s, r.worst_second_mb_per_s),
            (Some(10.0), Some(9.99)),
            "the last request is answered after the end"
        );
        assert_eq!(r.promise, Some(Fate::Kept));
        let seconds = r.promise_seconds.as_ref().unwrap();
        assert_eq!((seconds.promised, seconds.kept), (2, 2));
        assert_eq!(r.windows_met, Some(1.0));
        assert_eq!(r.series_mb_per_s.map(|s| s.len()), Some(20));
        assert_eq!((r.split_us, r.errors), (None, None));
    }
}
