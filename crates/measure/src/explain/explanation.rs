//! An explanation, as a value.

use crate::promise::Cause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Held by a limit or another controller.
    Limit,
    /// In the elevator, and waiting for a tag.
    Elevator,
    /// In the drive.
    Drive,
}

/// A part of the mean request's latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Why.
    pub cause: Cause,
    /// Where the request was; `None` for lateness, which is taken out of every stage.
    pub stage: Option<Stage>,
    /// The neighbour, if that is the cause; `None` for those together that are not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// Microseconds of the mean request.
    pub us: f64,
    /// The part of its latency, 0 to 1.
    pub fraction: f64,
}

/// A neighbour whose requests stood before the volume's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its name.
    pub name: String,
    /// Microseconds of the mean request in the elevator, and in the drive, behind its requests; what a drive slower than stated adds
    /// is left out.
    pub elevator_us: f64,
    /// As above, in the drive.
    pub drive_us: f64,
    /// Its part of the drive's busy time, 0 to 1.
    pub drive_part: f64,
}

/// A second of a promise that was short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShortSecond {
    /// How many seconds before the end of what is explained it ended.
    pub ago_s: f64,
    /// Owed in it, in the promise's units, and how much of that is missing.
    pub owed: u64,
    /// As above.
    pub by: u64,
    /// What made it short, as metrics have it.
    pub cause: Cause,
    /// The neighbour that most stood before it, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// For a slow drive: what it did in that second of what is stated of it, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_did: Option<f64>,
}

/// Seconds that have one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseSeconds {
    /// Why.
    pub cause: Cause,
    /// The neighbour, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// How many.
    pub seconds: u64,
}

/// What became of the promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promised {
    /// What is promised in a second, in `units`, at last.
    pub a_second: u64,
    /// `bytes` or `requests`.
    pub units: String,
    /// Seconds in which it was in force; each is kept, excused or short.
    pub promised: u64,
    /// Of these, kept.
    pub kept: u64,
    /// Of the kept ones, those in which it got less than is promised, because it had nothing outstanding for more than half of them.
    #[serde(default)]
    pub unasked: u64,
    /// The part of the promised seconds in which it had nothing outstanding, 0 to 1.
    #[serde(default)]
    pub idle: f64,
    /// Excused: by which reason, as metrics have it, and how many.
    pub excused: BTreeMap<String, u64>,
    /// Short ones by cause, the most frequent first.
    pub short: Vec<CauseSeconds>,
    /// The last short ones, oldest first.
    pub last_short: Vec<ShortSecond>,
}

impl Promised {
    /// Number of short seconds.
    pub fn all_short(&self) -> u64 {
        self.short.iter().map(|s| s.seconds).sum()
    }
}

/// How the drive fared meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveSeen {
    /// The part of the time in which something was in it, 0 to 1.
    pub busy: f64,
    /// Megabytes and requests to it a second, over all clients.
    pub bandwidth_mb_per_s: f64,
    /// As above.
    pub iops: f64,
    /// What it did of what is stated of it while requests waited for it, 0 to 1; `None` where nothing is stated, or nothing waited.
    pub did: Option<f64>,
    /// The part of the time in which this process was late, 0 to 1.
    pub late: f64,
}

/// The slowest request of which there is a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// How many seconds before the end of what is explained it ended.
    pub ago_s: f64,
    /// Its latency in microseconds, and the stages that this adds up from.
    pub us: f64,
    /// As above, held.
    pub limit_us: f64,
    /// As above, in the elevator.
    pub elevator_us: f64,
    /// As above, in the drive.
    pub drive_us: f64,
    /// Its bytes.
    pub bytes: u64,
}

/// Requests that are not over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many, and how many of them are held.
    pub requests: u64,
    /// As above.
    pub held: u64,
    /// For how long the oldest has been there, in microseconds.
    pub oldest_us: f64,
}

/// Why a volume's requests took as long as they did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The volume.
    pub volume: String,
    /// Seconds that are explained, the one under way among them.
    pub seconds: f64,
    /// Seconds before the end of these for which single requests are known; before that, neighbours are told by their part of the drive in
    /// each second.
    pub exact_s: f64,
    /// Requests that ended without error, and those that failed.
    pub requests: u64,
    /// As above.
    pub errors: u64,
    /// Megabytes that the drive served it in a second.
    pub bandwidth_mb_per_s: f64,
    /// The mean request's latency in microseconds: what [`parts`](Self::parts) add up to.
    pub latency_us: f64,
    /// Where that went, the largest part first.
    pub parts: Vec<Part>,
    /// Those that stood before it, by how long.
    pub neighbours: Vec<Neighbour>,
    /// What became of its promise, if it has one.
    pub promise: Option<Promised>,
    /// How the drive fared.
    pub drive: DriveSeen,
    /// The slowest request.
    pub slowest: Option<Slowest>,
    /// What is not over.
    pub waiting: Option<Waiting>,
    /// The cause: of the short seconds, if any were short; else of the largest part of the latency. `None`: nothing ended.
    pub cause: Option<Cause>,
    /// The same in sentences.
    pub said: Vec<String>,
}

impl Explanation {
    /// How much of the mean request's latency has this cause, in microseconds.
    pub fn caused_by(&self, cause: Cause) -> f64 {
        let parts = self.parts.iter().filter(|part| part.cause == cause);
        parts.map(|part| part.us).sum()
    }
}
