//! The result record: one for each client of each run, and one for their total.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::promise::{Excuse, Judged, Rate, Short, Terms, Units};
use crate::{Histogram, Meter, RingsPerSecond, SECOND_NS, Series, mbps};

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
}

/// What limited a client's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

impl From<&Histogram> for Latency {
    fn from(h: &Histogram) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            mean: h.mean() / 1e3,
            sd: h.sd() / 1e3,
            min: us(h.min()),
            max: us(h.max()),
            p50: us(h.quantile(1, 2)),
            p90: us(h.quantile(9, 10)),
            p99: us(h.quantile(99, 100)),
            p999: us(h.quantile(999, 1000)),
        }
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
        let split = meter.split();
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
            throughput_mbps: mbps(meter.bytes(), meter.length_ns()),
            latency_us: meter.latency().into(),
            place: self.place,
            seed: self.seed,
            errors: Some(meter.failures()).filter(|n| *n > 0),
            promised_mbps: None,
            promised_iops: None,
            worst_second_mbps: None,
            windows_met: None,
            promise_seconds: None,
            alone_mbps: None,
            limited_by: None,
            split_us: (!split.drive.is_empty()).then(|| split.mean_us()),
            series_step_s: None,
            series_mbps: None,
            drive_busy_percent: None,
            rings: None,
            runtime_s: None,
            late: meter.late(),
        }
    }
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
    /// Number of short or excused seconds by reason; reasons that did not occur are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub why: BTreeMap<String, u64>,
    /// Total shortfall in bytes, for a promise of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_bytes: Option<u64>,
    /// Total shortfall in requests, for a promise of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_requests: Option<u64>,
}

impl PromiseSeconds {
    fn new(judged: &Judged, units: Units) -> Self {
        let seconds = &judged.seconds;
        let short = Short::ALL.map(Short::name).into_iter().zip(seconds.short);
        let excused = Excuse::ALL.map(Excuse::name).into_iter();
        let all = short.chain(excused.zip(seconds.excused));
        let why = all.filter(|(_, count)| *count > 0);
        let lacking = (seconds.all_short() > 0).then(|| units.of(seconds.lacking));
        Self {
            promised: seconds.promised,
            kept: seconds.kept,
            short: seconds.all_short(),
            excused: seconds.all_excused(),
            why: why.map(|(name, count)| (name.to_owned(), count)).collect(),
            lacking_bytes: lacking.filter(|_| units == Units::Bytes),
            lacking_requests: lacking.filter(|_| units == Units::Requests),
        }
    }

    /// What limited the client in most of the short and excused seconds.
    fn limit(&self) -> Option<LimitedBy> {
        let reasons = [
            (Short::Others.name(), LimitedBy::Share),
            (Short::Elevator.name(), LimitedBy::Share),
            (Short::Drive.name(), LimitedBy::Drive),
            (Short::Error.name(), LimitedBy::Drive),
            (Excuse::Limit.name(), LimitedBy::Limit),
            (Excuse::Depth.name(), LimitedBy::Client),
        ];
        let most = |(reason, _): &(&str, _)| 2 * self.of(reason) > self.promised;
        reasons.into_iter().find(most).map(|(_, by)| by)
    }

    /// Number of seconds with this reason.
    pub fn of(&self, reason: &str) -> u64 {
        self.why.get(reason).copied().unwrap_or(0)
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
    /// Length of the measurement.
    pub seconds: f64,
    /// `bytes` over `seconds`, in MB/s.
    pub throughput_mbps: f64,
    /// Latency of these requests.
    pub latency_us: Latency,
    /// Where the run took place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Seed of its random numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Requests answered with an error, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// The client's minimum, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_mbps: Option<f64>,
    /// The client's minimum, in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_iops: Option<u64>,
    /// Bandwidth in the worst second in which requests waited for at least a tenth of the time, over that time, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_second_mbps: Option<f64>,
    /// Of the seconds in which the promise applied, the fraction (0 to 1) in which it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_met: Option<f64>,
    /// The verdicts about the promise, second by second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_seconds: Option<PromiseSeconds>,
    /// Bandwidth of the client with the drive to itself, in MB/s, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_mbps: Option<f64>,
    /// What limited the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
    /// Where the mean request spent its time; the rest of the mean latency was spent between client and server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_us: Option<SplitUs>,
    /// Length of a window of `series_mbps`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_step_s: Option<f64>,
    /// Bandwidth of each complete window, in MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_mbps: Option<Vec<f64>>,
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
}

impl Record {
    /// Adds a promise and its verdicts. `all` is what all clients of the drive were served in each second.
    pub fn with_promise(mut self, terms: &Terms, meter: &Meter, all: &Series) -> Self {
        let judged = meter.judge(terms, all);
        let Rate { units, a_second } = terms.rate;
        match units {
            Units::Bytes => self.promised_mbps = Some(a_second as f64 / 1e6),
            Units::Requests => self.promised_iops = Some(a_second),
        }
        self.worst_second_mbps = judged.worst_mbps();
        self.windows_met = judged.fraction();
        self.promise_seconds = Some(PromiseSeconds::new(&judged, units));
        self
    }

    /// Adds what limited the client, as [`LimitedBy::of`] says, unless most seconds of its promise were short or excused for one
    /// reason. That reason is more accurate: a client that waits in the drive's queue behind others is limited by the others.
    pub fn with_limit(mut self, think_us: f64) -> Self {
        let of = |split| LimitedBy::of(split, self.latency_us.mean, think_us);
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
        self.series_mbps = Some(series.mbps(end_ns));
        self
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
            .with_promise(&terms, &meter, meter.seconds())
            .with_series(meter.plot(), meter.end_ns());
        assert_eq!((r.requests, r.bytes), (1999, 19_990_000));
        assert!((r.throughput_mbps - 9.995).abs() < 1e-9);
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
        assert_eq!(r.latency_us, want);
        assert_eq!(
            (r.promised_mbps, r.worst_second_mbps),
            (Some(10.0), Some(25.0)),
            "10 MB in 0.4 s of waiting"
        );
        let seconds = r.promise_seconds.as_ref().unwrap();
        assert_eq!((seconds.promised, seconds.kept), (2, 2));
        assert_eq!(r.windows_met, Some(1.0));
        assert_eq!(r.series_mbps.map(|s| s.len()), Some(20));
        assert_eq!((r.split_us, r.errors), (None, None));
    }
}
