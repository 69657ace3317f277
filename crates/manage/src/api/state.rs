//! The state of the server, its drives, tenants and volumes.

use serde::{Deserialize, Serialize};

use crate::api::figures::{Counts, DriveFigures, SecondCounts, TenantFigures, VolumeFigures};
use crate::api::{Change, JsonTable};

/// The state of the server.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Status {
    /// The version of Weir.
    pub version: String,
    /// The number of seconds since the start of the server.
    pub uptime_seconds: u64,
    /// Whether every shard responds.
    pub ready: bool,
    /// The path of the configuration file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The addresses for NBD clients, for example `unix:/run/weir/nbd.sock` or `127.0.0.1:10809`.
    #[serde(default)]
    pub nbd: Vec<String>,
    /// Whether the running configuration differs from the configuration file when it was last read or written, because some changes are
    /// kept only in memory.
    pub unsaved: bool,
    /// The last change, if any was made since the start of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<Change>,
    /// The drives.
    pub drives: Vec<Drive>,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The volumes, without `counts`.
    pub volumes: Vec<Volume>,
}

/// A contract in numbers. Zero means that there is no min, or no max.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Contract {
    /// The promised bytes per second.
    pub min_bytes_per_second: u64,
    /// The promised requests per second.
    pub min_requests_per_second: u64,
    /// The weight by which the capacity left over by promises is divided.
    pub share: u16,
    /// The maximum bytes per second.
    pub max_bytes_per_second: u64,
    /// The maximum requests per second.
    pub max_requests_per_second: u64,
    /// The class: `realtime`, `best-effort` or `idle`.
    pub class: String,
}

impl Contract {
    /// Returns a part of the min, in bytes per second and requests per second.
    pub fn promised(&self, part: f64) -> (u64, u64) {
        let of = |min: u64| (min as f64 * part) as u64;
        (
            of(self.min_bytes_per_second),
            of(self.min_requests_per_second),
        )
    }
}

/// The amounts of a drive or a tenant that are promised, and that can still be promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budget {
    /// The total bytes per second.
    pub bytes_per_second: u64,
    /// The total requests per second, or zero if they are not known.
    pub requests_per_second: u64,
    /// The bytes per second that are promised.
    pub promised_bytes_per_second: u64,
    /// The requests per second that are promised.
    pub promised_requests_per_second: u64,
    /// The largest further promise in bytes per second that is possible.
    pub left_bytes_per_second: u64,
    /// The largest further promise in requests per second that is possible.
    pub left_requests_per_second: u64,
    /// The part of the drive's time that the promises take, in millionths. It is zero for a tenant.
    pub promised_millionths: u64,
}

/// A drive.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Drive {
    /// The name of the drive.
    pub name: String,
    /// The version of the drive's configuration, for `If-Match`.
    pub etag: String,
    /// The drive's configuration.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: JsonTable,
    /// The policy of the drive.
    pub policy: String,
    /// The amounts that are promised and that can still be promised. It is missing if the capacity is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The figures of the last full second.
    pub now: DriveFigures,
}

/// A tenant, which is a group of several volumes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tenant {
    /// The name of the tenant.
    pub name: String,
    /// The version of the tenant's configuration, for `If-Match`.
    pub etag: String,
    /// The tenant's configuration.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: JsonTable,
    /// The tenant's contract in numbers.
    pub contract: Contract,
    /// The tenant's own promise, the part of it that is promised to its volumes, and the rest. It is missing if the tenant has no promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The figures of the last full second.
    pub now: TenantFigures,
    /// The seconds of the tenant's promise.
    pub seconds: SecondCounts,
}

/// A volume.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Volume {
    /// The name of the volume.
    pub name: String,
    /// The version of the volume's configuration, for `If-Match`.
    pub etag: String,
    /// The volume's configuration.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: JsonTable,
    /// The drive of the volume.
    pub drive: String,
    /// The tenant of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The volume's block device on the server's machine, for example `/dev/ublkb7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device: Option<String>,
    /// The size of the volume in bytes.
    pub size_bytes: u64,
    /// The volume's contract in numbers.
    pub contract: Contract,
    /// The figures of the last full second.
    pub now: VolumeFigures,
    /// The seconds of the volume's promise.
    pub seconds: SecondCounts,
    /// The requests since the start of the server. It is present only if a single volume is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

impl Volume {
    /// Returns the amount that this server promises now, in bytes per second and requests per
    /// second: the min, or its part of a shared minimum.
    pub fn promised(&self) -> (u64, u64) {
        self.contract.promised(self.now.part.unwrap_or(1.0))
    }
}

/// All drives, tenants or volumes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum List {
    /// All volumes.
    Volumes(Vec<Volume>),
    /// All tenants.
    Tenants(Vec<Tenant>),
    /// All drives.
    Drives(Vec<Drive>),
}

/// A drive, a tenant or a volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Found {
    /// A volume.
    Volume(Box<Volume>),
    /// A tenant.
    Tenant(Tenant),
    /// A drive.
    Drive(Drive),
}
