//! What was served in a second, and since the start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The mean latency of the requests that ended in a second, by where they spent it. Microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Latency {
    /// Held by a limit: the volume's own max, or its tenant's.
    pub limit_us: f64,
    /// In the elevator, while others were served.
    pub elevator_us: f64,
    /// In the drive.
    pub drive_us: f64,
}

impl Latency {
    /// All of it, microseconds.
    pub fn total_us(&self) -> f64 {
        self.limit_us + self.elevator_us + self.drive_us
    }
}

/// The seconds of a promise by their verdicts, since the server's start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecondCounts {
    /// Whole seconds in which the promise was in force.
    pub promised: u64,
    /// Those in which it was kept.
    pub kept: u64,
    /// Of these, those in which the client got less, because it had nothing outstanding for more than half of them.
    #[serde(default)]
    pub unasked: u64,
    /// Those in which it was not, by cause: `own-max`, `held`, `neighbour`, `own-requests`, `idling`, `slow-drive`, `own-depth`, `host-busy`,
    /// `errors` and `server-busy`.
    pub short: BTreeMap<String, u64>,
    /// Those in which nothing was owed, by reason: `client-idle`, `not-reading`, `own-max`, `own-depth`, `remote-storage`.
    pub excused: BTreeMap<String, u64>,
}

impl SecondCounts {
    /// All short seconds.
    pub fn all_short(&self) -> u64 {
        self.short.values().sum()
    }
}

/// What a volume was served since the server's start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Requests that were answered, by operation; operations without any are left out.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of these, by operation.
    pub bytes: BTreeMap<String, u64>,
    /// Requests that the storage failed, by operation.
    pub errors: BTreeMap<String, u64>,
}

/// A volume in the last full second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VolumeFigures {
    /// Its name.
    pub name: String,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Requests a second.
    pub requests_per_second: u64,
    /// The mean latency of these requests; nothing if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Requests that are not answered.
    pub queue: u32,
    /// Of these, those held by a limit.
    pub limited: u32,
    /// The age of the oldest of these, milliseconds.
    pub oldest_ms: u64,
    /// Connections of clients.
    pub connections: u32,
    /// The part of the drive that is its own by share among the volumes that have requests, 0 to 1.
    pub share: f64,
    /// The part of the drive's bytes that it got, 0 to 1.
    pub got: f64,
    /// What kept it from more, by the names of [`SecondCounts::short`], or `client-idle` or `not-reading`; nothing if it had no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// The volume whose requests stood before its own, if that is the cause and it is known which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// The part of the second in which it had nothing outstanding, 0 to 1.
    #[serde(default)]
    pub idle: f64,
    /// Why the second was short of the volume's promise, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// A flush has failed: every later one fails until the server is restarted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sync_failed: bool,
    /// Of a min that several servers keep, the part that this one promises, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
}

/// A tenant in the last full second: its volumes together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantFigures {
    /// Its name.
    pub name: String,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Requests a second.
    pub requests_per_second: u64,
    /// Requests that are not answered.
    pub queue: u32,
    /// Why the second was short of the tenant's promise, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
}

/// A drive in the last full second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DriveFigures {
    /// Its name.
    pub name: String,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Requests a second.
    pub requests_per_second: u64,
    /// The part of the second in which it had something to do, 0 to 1.
    pub busy: f64,
    /// Requests that are not answered.
    pub queue: u32,
    /// Commands in the drive.
    pub in_flight: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
