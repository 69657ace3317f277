//! The figures of a second, and the counts since the start of the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The mean latency of the requests that completed in a second, by the place where they spent it, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Latency {
    /// The time for which requests were throttled by a limit: the volume's own max, or its tenant's.
    pub limit_us: f64,
    /// The time in the elevator while others were served.
    pub elevator_us: f64,
    /// The time in the drive.
    pub drive_us: f64,
}

impl Latency {
    /// Returns the total latency in microseconds.
    pub fn total_us(&self) -> f64 {
        self.limit_us + self.elevator_us + self.drive_us
    }
}

/// The number of seconds of a promise by verdict, since the start of the server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecondCounts {
    /// Whole seconds in which the promise applied.
    pub promised: u64,
    /// Promised seconds in which the promise was kept.
    pub kept: u64,
    /// Kept seconds in which the client got less than its min, because it had no request outstanding for more than half of the second.
    #[serde(default)]
    pub unasked: u64,
    /// Promised seconds in which the promise was missed, by cause: `own-max`, `held`, `neighbour`, `own-requests`, `idling`, `slow-drive`,
    /// `own-depth`, `host-busy`, `errors` and `server-busy`.
    pub short: BTreeMap<String, u64>,
    /// Promised seconds in which the client was owed nothing, by reason: `client-idle`, `not-reading`, `own-max`, `own-depth`,
    /// `remote-storage`.
    pub excused: BTreeMap<String, u64>,
}

impl SecondCounts {
    /// Returns the number of short seconds of all causes.
    pub fn all_short(&self) -> u64 {
        self.short.values().sum()
    }
}

/// The requests of a volume since the start of the server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// The number of requests that completed, by operation. Operations without any are left out.
    pub requests: BTreeMap<String, u64>,
    /// The bytes of these requests, by operation.
    pub bytes: BTreeMap<String, u64>,
    /// The number of requests that the storage failed, by operation.
    pub errors: BTreeMap<String, u64>,
}

/// The figures of a volume in the last full second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VolumeFigures {
    /// The name of the volume.
    pub name: String,
    /// The throughput in bytes per second.
    pub bytes_per_second: u64,
    /// The throughput in requests per second.
    pub requests_per_second: u64,
    /// The mean latency of these requests. It is missing if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The number of requests that are not completed.
    pub queue: u32,
    /// The number of requests that are throttled by a limit.
    pub limited: u32,
    /// The age of the oldest request that is not completed, in milliseconds.
    pub oldest_ms: u64,
    /// The number of connections of clients.
    pub connections: u32,
    /// The fraction of the drive that the volume's share amounts to among the volumes with requests, 0 to 1.
    pub share: f64,
    /// The fraction of the drive's bytes that the volume got, 0 to 1.
    pub got: f64,
    /// The cause that kept the throughput from being higher, with the names of [`SecondCounts::short`], or `client-idle` or `not-reading`.
    /// It is missing if the volume had no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// The volume whose requests were served before this volume's, if that is the cause and the volume is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// The fraction of the second in which the volume had no request outstanding, 0 to 1.
    #[serde(default)]
    pub idle: f64,
    /// The cause for which the second was short of the volume's promise, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// Whether a flush has failed. If so, every later flush fails until the server is restarted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sync_failed: bool,
    /// The fraction of a min shared by several servers that this server promises, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
}

/// The figures of a tenant, which are those of its volumes together, in the last full second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TenantFigures {
    /// The name of the tenant.
    pub name: String,
    /// The throughput in bytes per second.
    pub bytes_per_second: u64,
    /// The throughput in requests per second.
    pub requests_per_second: u64,
    /// The number of requests that are not completed.
    pub queue: u32,
    /// The cause for which the second was short of the tenant's promise, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
}

/// The figures of a drive in the last full second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DriveFigures {
    /// The name of the drive.
    pub name: String,
    /// The throughput in bytes per second.
    pub bytes_per_second: u64,
    /// The throughput in requests per second.
    pub requests_per_second: u64,
    /// The fraction of the second in which the drive was busy, 0 to 1.
    pub busy: f64,
    /// The number of requests that are not completed.
    pub queue: u32,
    /// The number of commands in the drive.
    pub in_flight: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
