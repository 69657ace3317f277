//! The result record: one for each client of each run, and one for all clients together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::promise::{
    Cause, Excuse, Fate, PromisedRate, RunContext, RunVerdicts, ShortSecond, Terms, Units,
};
use crate::{
    Histogram, KindMeter, MeasuredKind, Meter, RingsPerSecond, SECOND_NS, Series, mb_per_s,
};

/// The client name in the record of all clients together.
pub const TOTAL: &str = "total";

/// The place of a run: simulator, server, guest or this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordPlace {
    /// The simulator, in virtual time.
    Sim,
    /// A live server on this machine.
    Serve,
    /// An unmodified Linux in a guest, in virtual time.
    Guest,
    /// The Linux of this machine.
    Linux,
}

/// The limit of a client's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The client itself: its queue depth, its think time, or its path to the server.
    Client,
    /// The client's own max, or another controller that throttled it.
    Limit,
    /// Other clients, which were served before this one.
    Share,
    /// The drive, which served the client at once but slowly.
    Drive,
}

impl LimitedBy {
    /// Returns the name of the limit in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Limit => "limit",
            Self::Share => "share",
            Self::Drive => "drive",
        }
    }

    /// Returns the limit that corresponds to a cause, or `None` if records have no word for the
    /// cause.
    fn from_cause(cause: Cause) -> Option<Self> {
        match cause {
            Cause::OwnMax | Cause::Held => Some(Self::Limit),
            Cause::Neighbour | Cause::Idling | Cause::ServerBusy => Some(Self::Share),
            Cause::SlowDrive | Cause::Errors | Cause::OwnRequests => Some(Self::Drive),
            Cause::OwnDepth => Some(Self::Client),
            Cause::HostBusy | Cause::ClientIdle | Cause::NotReading => None,
        }
    }

    /// Returns the place in which the client spent most of its time. The part of the mean latency
    /// `latency_us` that `split` does not cover was spent in the client and on its path, and so was
    /// `think_us`, the mean time from a reply to the next request.
    ///
    /// If several places have equal parts, the place nearest to the drive is returned.
    pub fn of(split: &SplitUs, latency_us: f64, think_us: f64) -> Self {
        // Rounding can make the sum of the parts slightly larger than the mean latency.
        let rest = (latency_us - split.total()).max(0.0) + think_us;
        let parts = [
            (Self::Client, rest),
            (Self::Limit, split.limit),
            (Self::Share, split.elevator),
            (Self::Drive, split.drive),
        ];
        // `max_by` returns the last of equal elements, so the order of the parts implements the
        // rule for equal parts.
        let largest = parts
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are four parts");
        largest.0
    }
}

/// Statistics of the latency from sending a request to its reply, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// The mean, which is exact.
    pub mean: f64,
    /// The sample standard deviation, which is exact.
    pub sd: f64,
    /// The minimum, which is exact.
    pub min: f64,
    /// The maximum, which is exact.
    pub max: f64,
    /// The median. All percentiles are at most 0.8 % above the exact values.
    pub p50: f64,
    /// The 90th percentile, in microseconds.
    pub p90: f64,
    /// The 99th percentile, in microseconds.
    pub p99: f64,
    /// The 99.9th percentile, in microseconds.
    pub p999: f64,
}

impl LatencyRecord {
    /// Returns the latency of these requests, or `None` if there are none.
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

/// The mean time of a request in each place, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitUs {
    /// The time throttled by a limit or another controller.
    pub limit: f64,
    /// The time spent waiting in the elevator.
    pub elevator: f64,
    /// The time spent in the drive.
    pub drive: f64,
    /// The part of `elevator` during which the elevator idled for the next request of another
    /// stream. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
    /// The part of `drive` before the drive began to serve the request. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<f64>,
}

impl SplitUs {
    /// Returns the sum of the times in the three places.
    pub fn total(&self) -> f64 {
        self.limit + self.elevator + self.drive
    }
}

/// The identity of a run, which is the same in the records of all its clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunId {
    /// The name of the scenario.
    pub scenario: String,
    /// The name of the drive.
    pub drive: String,
    /// The case of the scenario.
    pub case: String,
    /// The name of the policy.
    pub policy: String,
    /// The number of the repetition, from 0.
    pub repeat: u32,
    /// The place of the run.
    pub place: Option<RecordPlace>,
    /// The seed of the run's random numbers.
    pub seed: Option<u64>,
}

impl RunId {
    /// Returns the record of `client` (or [`TOTAL`]) from its meter. Data that only the caller has
    /// (promise, series, limit) is added with [`Record::with_promise`], [`Record::with_series`] and
    /// [`Record::with_limit`], or by setting fields.
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
            latency_us: LatencyRecord::of(meter.latency()),
            place: self.place,
            seed: self.seed,
            errors: Some(meter.failures()).filter(|n| *n > 0),
            worst_second_mb_per_s: meter.worst_second_mb_per_s(),
            unanswered_us: Some(meter.unanswered_ns())
                .filter(|ns| *ns > 0)
                .map(|ns| ns as f64 / 1e3),
            reads: KindRecord::of(meter, MeasuredKind::Read),
            writes: KindRecord::of(meter, MeasuredKind::Write),
            flushes: KindRecord::of(meter, MeasuredKind::Flush),
            split_us: meter.split().mean_us(),
            late: meter.late(),
            ..Record::default()
        }
    }
}

/// The operations of one kind, of a client that has several kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct KindRecord {
    /// The number of operations that completed without an error.
    pub requests: u64,
    /// The bytes that these operations transferred.
    pub bytes: u64,
    /// `bytes` divided by the length of the client's own time, in MB/s.
    pub bandwidth_mb_per_s: f64,
    /// The latency of these operations, or `None` if there were none.
    pub latency_us: Option<LatencyRecord>,
}

impl KindRecord {
    fn of(meter: &Meter, kind: MeasuredKind) -> Option<Self> {
        let apart: &KindMeter = meter.of(kind)?;
        Some(Self {
            requests: apart.latency().count(),
            bytes: apart.bytes(),
            bandwidth_mb_per_s: mb_per_s(apart.bytes(), meter.length_ns()),
            latency_us: LatencyRecord::of(apart.latency()),
        })
    }
}

/// The reason why a client has no time of its own in the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The client's last possible request was before the measurement began.
    Ended,
    /// The client had not begun when the measurement ended.
    NotBegun,
}

impl Absence {
    /// Returns a few words for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ended => "ended in the warm-up",
            Self::NotBegun => "did not begin",
        }
    }
}

/// The kind of a client's starvation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StarvationKind {
    /// The client gets less than 1 % of its bandwidth without control.
    Bandwidth,
    /// A request of the client waited for more than a second, and not because of its own max.
    Wait,
}

impl StarvationKind {
    /// The fraction of the bandwidth without control below which a client starves.
    pub const PART: f64 = 0.01;
    /// The longest permitted wait of a request, in microseconds.
    pub const WAIT_US: f64 = 1e6;
}

/// The verdicts on a promise in the whole seconds of a run: `promised` = `kept` + `short` +
/// `excused` (see [`promise`](crate::promise)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseSeconds {
    /// The number of whole seconds.
    pub promised: u64,
    /// The number of seconds in which the promise was kept.
    pub kept: u64,
    /// The number of seconds in which the client got less than it was owed.
    pub short: u64,
    /// The number of seconds in which the promise did not apply.
    pub excused: u64,
    /// The number of kept seconds in which the client got less than its min, because it had nothing
    /// outstanding for more than half of the second.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// The milliseconds for which the client had a request outstanding, if there were `unasked`
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_ms: Option<u64>,
    /// The number of short seconds for each [`Cause`], by name. Causes that did not occur are left
    /// out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub short_by: BTreeMap<String, u64>,
    /// The number of excused seconds for each [`Excuse`], by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub excused_by: BTreeMap<String, u64>,
    /// The number of short seconds for each neighbour that caused them, as far as it is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub neighbours: BTreeMap<String, u64>,
    /// The total shortfall in bytes, for a promise in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_bytes: Option<u64>,
    /// The total shortfall in requests, for a promise in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_requests: Option<u64>,
    /// The short seconds, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_at: Vec<ShortRecord>,
}

/// A second in which a promise was not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortRecord {
    /// The number of the second in the measurement, from 0.
    pub second: u64,
    /// The amount owed to the client in this second, in bytes for a promise in bytes and otherwise
    /// in requests.
    pub owed: u64,
    /// The part of the owed amount that is missing.
    pub lacking: u64,
    /// The name of the second's [`Cause`].
    pub cause: String,
    /// The neighbour that caused it, if a neighbour did and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ShortRecord {
    fn new(short: &ShortSecond, beside: &RunContext<'_>) -> Self {
        Self {
            second: short.second,
            owed: short.owed,
            lacking: short.by,
            cause: short.why.cause.name().to_owned(),
            neighbour: beside.name(short.why).map(str::to_owned),
        }
    }

    /// Returns the fraction (0 to 1) of the owed amount that the client got.
    pub fn part(&self) -> f64 {
        (self.owed.saturating_sub(self.lacking)) as f64 / self.owed.max(1) as f64
    }
}

impl PromiseSeconds {
    fn new(judged: &RunVerdicts, units: Units, beside: &RunContext<'_>) -> Self {
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

    /// Returns the short second in which the smallest fraction of the owed amount was served.
    pub fn worst(&self) -> Option<&ShortRecord> {
        let all = self.short_at.iter();
        all.min_by(|a, b| a.part().total_cmp(&b.part()))
    }

    /// Returns the fraction (0 to 1) of the time in which the client had nothing outstanding, if
    /// there were `unasked` seconds.
    pub fn idle(&self) -> Option<f64> {
        let outstanding = self.outstanding_ms? as f64 / 1e3;
        Some((1.0 - outstanding / self.promised.max(1) as f64).max(0.0))
    }

    /// Returns the most frequent cause of short seconds.
    pub fn main_short(&self) -> Option<Cause> {
        let counts = self
            .short_by
            .iter()
            .map(|(name, count)| (*count, Cause::find(name)));
        counts.max_by_key(|(count, _)| *count)?.1
    }

    /// Returns the neighbour that caused most of the short seconds.
    pub fn main_neighbour(&self) -> Option<&str> {
        let most = self.neighbours.iter().max_by_key(|(_, count)| **count);
        most.map(|(name, _)| name.as_str())
    }

    /// Returns the limit of the client in most of its short and excused seconds, if these are more
    /// than half of all.
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

    /// Returns the number of seconds that were excused for this reason.
    pub fn excused_as(&self, reason: Excuse) -> u64 {
        self.excused_by.get(reason.name()).copied().unwrap_or(0)
    }
}

/// The result of one client in one run, which is one JSON object per line. Fields are written in
/// this order, and those that are `None` are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the scenario.
    pub scenario: String,
    /// The name of the drive.
    pub drive: String,
    /// The case of the scenario.
    pub case: String,
    /// The name of the policy.
    pub policy: String,
    /// The number of the repetition, from 0.
    pub repeat: u32,
    /// The name of the client, or [`TOTAL`].
    pub client: String,
    /// The number of requests that completed without an error.
    pub requests: u64,
    /// The bytes that these requests transferred.
    pub bytes: u64,
    /// The length of the client's own time in the measurement, in seconds (see
    /// [`Meter::set_own_time`]).
    pub seconds: f64,
    /// `bytes` divided by `seconds`, in MB/s.
    pub bandwidth_mb_per_s: f64,
    /// The latency of these requests. `None`, and null as JSON, if there were none.
    pub latency_us: Option<LatencyRecord>,
    /// The place of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<RecordPlace>,
    /// The seed of the run's random numbers. In JSON it is a string, because many readers of JSON
    /// round integers above 2^53.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "digits")]
    pub seed: Option<u64>,
    /// The start of the client's own time, in seconds from the start of the measurement. `None` if
    /// it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_s: Option<f64>,
    /// The number of requests that failed, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// The client's minimum, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_mb_per_s: Option<f64>,
    /// The client's minimum, in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_iops: Option<u64>,
    /// The bandwidth in the worst second, in MB/s (see [`Meter::worst_second_mb_per_s`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_second_mb_per_s: Option<f64>,
    /// The fate of the promise over the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Fate>,
    /// The fraction (0 to 1) of seconds in which the promise was kept, among those in which it
    /// applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_met: Option<f64>,
    /// The verdicts on the promise, second by second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_seconds: Option<PromiseSeconds>,
    /// The bandwidth of the client without contention, in MB/s, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_mb_per_s: Option<f64>,
    /// The kind of starvation, if the client starved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starved: Option<StarvationKind>,
    /// The time for which the oldest unanswered request had waited at the end, in microseconds, if
    /// there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered_us: Option<f64>,
    /// The client's reads, if it has operations of several kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<KindRecord>,
    /// The client's writes, if it has operations of several kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<KindRecord>,
    /// The client's flushes, if it has operations of several kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<KindRecord>,
    /// The limit of the client's throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
    /// The mean time of a request in each place. The rest of the mean latency was spent between
    /// client and server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_us: Option<SplitUs>,
    /// The length of the windows of `series_mb_per_s`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_step_s: Option<f64>,
    /// The bandwidth of each complete window, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_mb_per_s: Option<Vec<f64>>,
    /// The percentage of the time in which the drive had at least one command in flight, as a whole
    /// number. Only records of the total have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_busy_percent: Option<u64>,
    /// The notifications between virtual machines and their back end. Only records of the total
    /// have it, in runs with virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<RingsPerSecond>,
    /// The time from the start to the last reply of a client whose program ends, in seconds, if it
    /// completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_s: Option<f64>,
    /// The number of requests that did not complete by their deadline, if the client has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// The release of the kernel, if a kernel was part of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The percentage of the time of all CPUs in which they were busy, as a whole number. Only
    /// records of the total have it, in runs with a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_percent: Option<u64>,
    /// In a guest: the time of the path between the kernel and the modelled drive, which was
    /// subtracted, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_us: Option<f64>,
    /// In a guest: the time of the path that remained in that boot, in microseconds. It is negative
    /// if too much was subtracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_left_us: Option<f64>,
}

impl Record {
    /// Adds a promise and its verdicts. `alone_mb_per_s` is the bandwidth of the client without
    /// contention, if it was measured.
    pub fn with_promise(
        mut self,
        terms: &Terms,
        alone_mb_per_s: Option<f64>,
        meter: &Meter,
        beside: &RunContext<'_>,
    ) -> Self {
        let judged = meter.judge(terms, beside);
        let PromisedRate { units, a_second } = terms.rate;
        // The bandwidth without contention, in the units of the promise.
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

    /// Returns the reason why the client has no time of its own in the measurement, or `None` if it
    /// has some.
    pub fn absence(&self) -> Option<Absence> {
        let begins = self.begins_s.unwrap_or(0.0);
        let absence = if begins > 0.0 {
            Absence::NotBegun
        } else {
            Absence::Ended
        };
        (self.seconds <= 0.0).then_some(absence)
    }

    /// Returns the fate of the promise to the client, or [`Fate::NotAsked`] without a promise.
    pub fn fate(&self) -> Fate {
        self.promise.unwrap_or_default()
    }

    /// Returns the longest wait of a request, in microseconds, including requests that were not
    /// answered by the end.
    pub fn longest_us(&self) -> Option<f64> {
        let answered = self.latency_us.map(|latency| latency.max);
        answered
            .into_iter()
            .chain(self.unanswered_us)
            .reduce(f64::max)
    }

    /// Returns the kind of starvation, or `None` if the client does not starve. It starves if it
    /// gets less than 1 % of the bandwidth in `none`, its record under no control (if known), or if
    /// a request waited for more than a second. A client that its own max throttles never counts as
    /// starving.
    pub fn starves(&self, none: Option<&Self>) -> Option<StarvationKind> {
        if self.limited_by == Some(LimitedBy::Limit) {
            return None;
        }
        let before = none.map(|none| none.bandwidth_mb_per_s);
        let is_less = |before: f64| self.bandwidth_mb_per_s < before * StarvationKind::PART;
        let waits = self
            .longest_us()
            .is_some_and(|us| us > StarvationKind::WAIT_US);
        match before {
            Some(before) if is_less(before) => Some(StarvationKind::Bandwidth),
            _ if waits => Some(StarvationKind::Wait),
            _ => None,
        }
    }

    /// Returns the kinds of the client's operations that were measured separately.
    pub fn kinds(&self) -> impl Iterator<Item = (MeasuredKind, &KindRecord)> {
        let all = [&self.reads, &self.writes, &self.flushes];
        let all = MeasuredKind::ALL.into_iter().zip(all);
        all.filter_map(|(kind, of)| Some((kind, of.as_ref()?)))
    }

    /// Adds the limit of the client. If most seconds of its promise were short or excused for one
    /// reason, that reason determines the limit. Otherwise, [`LimitedBy::of`] does. The promise's
    /// reason is more accurate: a client that waits in the drive's queue behind others is limited
    /// by the others.
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

    /// Returns the bandwidth over time as points (seconds at the middle of each window, MB/s). The
    /// result is empty without a series.
    pub fn series(&self) -> Vec<(f64, f64)> {
        let step_s = self.series_step_s.unwrap_or_default();
        let values = self.series_mb_per_s.iter().flatten();
        let points = values.enumerate();
        points
            .map(|(i, mb_per_s)| ((i as f64 + 0.5) * step_s, *mb_per_s))
            .collect()
    }
}

/// Serializes integers that can be above 2^53 as strings.
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
        // 467 of 500 us are not in the split, and then 400 us of think time.
        assert_eq!(of(&split(1.0, 2.0, 30.0), 500.0, 0.0), LimitedBy::Client);
        assert_eq!(of(&split(1.0, 2.0, 30.0), 33.0, 400.0), LimitedBy::Client);
        assert_eq!(of(&split(5.0, 5.0, 5.0), 20.0, 0.0), LimitedBy::Drive);
        // If the split slightly exceeds the latency, the reason is rounding, and not a negative
        // time.
        assert_eq!(of(&split(0.0, 0.0, 30.0), 29.0, 0.0), LimitedBy::Drive);
    }

    #[test]
    fn a_client_starves_below_1_percent_or_after_1_s_unless_its_max_throttles_it() {
        let record = |mb_per_s: f64, longest: f64| Record {
            bandwidth_mb_per_s: mb_per_s,
            latency_us: Some(LatencyRecord {
                max: longest,
                ..LatencyRecord::default()
            }),
            ..Record::default()
        };
        let none = record(1000.0, 5e3);
        let starves = |r: &Record| r.starves(Some(&none));
        // 1 % of 1000 MB/s is 10 MB/s, and a wait of exactly one second is not more than one.
        assert_eq!(starves(&record(10.1, 1e6)), None);
        assert_eq!(starves(&record(9.9, 1e3)), Some(StarvationKind::Bandwidth));
        assert_eq!(starves(&record(500.0, 1.1e6)), Some(StarvationKind::Wait));
        assert_eq!(record(9.9, 1e3).starves(None), None, "beside nothing");
        let waits = Record {
            latency_us: None,
            unanswered_us: Some(2e6),
            ..record(0.0, 0.0)
        };
        assert_eq!(waits.starves(None), Some(StarvationKind::Wait));
        let limited = Record {
            limited_by: Some(LimitedBy::Limit),
            ..record(0.1, 8e6)
        };
        assert_eq!(starves(&limited), None);
    }

    #[test]
    fn a_record_has_the_figures_of_its_meter() {
        let mut meter = Meter::new(0, 2 * SECOND_NS);
        // One request of 10 kB per millisecond is 10 MB/s. The last one is left out, which is 0.1 %
        // of a second and within the tolerance.
        for ms in 0..1999 {
            meter.sent(ms * 1_000_000);
            meter.done(ms * 1_000_000, ms * 1_000_000 + 400_000, 10_000);
        }
        let run = RunId {
            scenario: "s".into(),
            ..RunId::default()
        };
        let terms = Terms {
            rate: PromisedRate::new(10_000_000, 0).unwrap(),
            alone: None,
        };
        let r = run
            .record("target", &meter)
            .with_promise(&terms, None, &meter, &RunContext::new(meter.seconds()))
            .with_series(meter.plot(), meter.end_ns());
        assert_eq!((r.requests, r.bytes), (1999, 19_990_000));
        assert!((r.bandwidth_mb_per_s - 9.995).abs() < 1e-9);
        let want = LatencyRecord {
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
