//! The explanation of a volume's latency, as a value that can be serialized.

use crate::promise::Cause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestStage {
    /// Throttled by a limit or another controller.
    Limit,
    /// In the elevator, or waiting for a tag.
    Elevator,
    /// In the drive, including its queue.
    Drive,
}

/// One part of the mean request's latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPart {
    /// The cause of this part.
    pub cause: Cause,
    /// The stage of the request. `None` for the lateness of the process, which is subtracted from
    /// every stage.
    pub stage: Option<RequestStage>,
    /// The neighbour, if a neighbour is the cause. `None` for the sum of the neighbours that are
    /// not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// The length of this part of the mean request, in microseconds.
    pub us: f64,
    /// The fraction (0 to 1) of the mean request's latency.
    pub fraction: f64,
}

/// A neighbour whose requests were served before those of the volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The name of the neighbour.
    pub name: String,
    /// The time that the mean request waits in the elevator behind requests of this neighbour, in
    /// microseconds. Time that is added by a drive slower than its stated capacity is not included.
    pub elevator_us: f64,
    /// The time that the mean request waits in the drive behind requests of this neighbour, in
    /// microseconds.
    pub drive_us: f64,
    /// The neighbour's fraction (0 to 1) of the drive's busy time.
    pub drive_part: f64,
}

/// A short second of a promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedShortSecond {
    /// The time from the end of this second to the end of the explained time, in seconds.
    pub ago_s: f64,
    /// The amount owed in this second, in the units of the promise.
    pub owed: u64,
    /// The missing part of the owed amount, in the units of the promise.
    pub by: u64,
    /// The cause of the shortfall, as metrics report it.
    pub cause: Cause,
    /// The neighbour that caused most of the wait, if a neighbour is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// For a slow drive: its performance in that second, relative to its stated capacity (0 to 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_did: Option<f64>,
}

/// The number of seconds with the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseSeconds {
    /// The cause of these seconds.
    pub cause: Cause,
    /// The neighbour, if a neighbour is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// The number of seconds.
    pub seconds: u64,
}

/// The verdicts on the promise in the explained time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromiseSummary {
    /// The amount promised per second, in `units`, at the end of the explained time.
    pub a_second: u64,
    /// The units of the promise: `bytes` or `requests`.
    pub units: String,
    /// The number of seconds in which the promise was in force. Each is kept, excused or short.
    pub promised: u64,
    /// The number of promised seconds that were kept.
    pub kept: u64,
    /// The number of kept seconds in which the volume got less than its min, because it had nothing
    /// outstanding for more than half of the second.
    #[serde(default)]
    pub unasked: u64,
    /// The fraction (0 to 1) of the promised seconds in which the volume had nothing outstanding.
    #[serde(default)]
    pub idle: f64,
    /// The number of excused seconds for each reason, by the name that metrics use.
    pub excused: BTreeMap<String, u64>,
    /// The short seconds by cause, the most frequent first.
    pub short: Vec<CauseSeconds>,
    /// The last short seconds, the oldest first.
    pub last_short: Vec<ExplainedShortSecond>,
}

impl PromiseSummary {
    /// Returns the number of short seconds.
    pub fn all_short(&self) -> u64 {
        self.short.iter().map(|s| s.seconds).sum()
    }
}

/// The state of the drive in the explained time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveSummary {
    /// The fraction (0 to 1) of the time in which a piece was in the drive.
    pub busy: f64,
    /// The bandwidth of all clients, in 10^6 bytes per second.
    pub bandwidth_mb_per_s: f64,
    /// The number of pieces of all clients that the drive completed per second.
    pub iops: f64,
    /// The performance of the drive relative to its stated capacity (0 to 1), while requests waited
    /// for it. `None` if no capacity is stated, or nothing waited.
    pub did: Option<f64>,
    /// The fraction (0 to 1) of the time in which this process was late.
    pub late: f64,
}

/// The slowest request of which a trace is left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowestRequest {
    /// The time from the end of this request to the end of the explained time, in seconds.
    pub ago_s: f64,
    /// The latency of the request in microseconds, which is the sum of the times at its stages.
    pub us: f64,
    /// The time throttled, in microseconds.
    pub limit_us: f64,
    /// The time in the elevator, in microseconds.
    pub elevator_us: f64,
    /// The time in the drive, in microseconds.
    pub drive_us: f64,
    /// The length of the request, in bytes.
    pub bytes: u64,
}

/// The requests that are not completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutstandingRequests {
    /// The number of outstanding requests.
    pub requests: u64,
    /// The number of these requests that are throttled.
    pub held: u64,
    /// The age of the oldest of these requests, in microseconds.
    pub oldest_us: f64,
}

/// The reasons for the latency of a volume's requests, over some seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The name of the volume.
    pub volume: String,
    /// The length of the explained time in seconds, including the current second.
    pub seconds: f64,
    /// The length of the last part of this time for which single requests are known, in seconds.
    /// Before that, the times behind neighbours are computed from the groups' shares of the drive
    /// in each second.
    pub exact_s: f64,
    /// The number of requests that completed without an error.
    pub requests: u64,
    /// The number of requests that failed.
    pub errors: u64,
    /// The bandwidth of the volume, in 10^6 bytes per second.
    pub bandwidth_mb_per_s: f64,
    /// The latency of the mean request, in microseconds. It is the sum of [`parts`](Self::parts).
    pub latency_us: f64,
    /// The parts of the latency, the largest first.
    pub parts: Vec<LatencyPart>,
    /// The neighbours whose requests were served before those of the volume, ordered by the wait
    /// that they caused.
    pub neighbours: Vec<Neighbour>,
    /// The verdicts on the promise, if the volume has one.
    pub promise: Option<PromiseSummary>,
    /// The state of the drive.
    pub drive: DriveSummary,
    /// The slowest request of which a trace is left.
    pub slowest: Option<SlowestRequest>,
    /// The requests that are not completed.
    pub waiting: Option<OutstandingRequests>,
    /// The cause of most of the short seconds. Without short seconds, see `docs/explain.md`. `None`
    /// if nothing completed.
    pub cause: Option<Cause>,
    /// The explanation in sentences.
    pub said: Vec<String>,
}

impl Explanation {
    /// Returns the part of the mean request's latency that has this cause, in microseconds.
    pub fn caused_by(&self, cause: Cause) -> f64 {
        let parts = self.parts.iter().filter(|part| part.cause == cause);
        parts.map(|part| part.us).sum()
    }
}
