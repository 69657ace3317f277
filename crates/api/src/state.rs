//! How things stand: the server, its drives, tenants and volumes.

use serde::{Deserialize, Serialize};

use crate::figures::{Counts, DriveFigures, SecondCounts, TenantFigures, VolumeFigures};
use crate::{Change, Words};

/// The server as a whole.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Status {
    /// The version of Weir.
    pub version: String,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// Whether every shard answers.
    pub ready: bool,
    /// The file of its configuration, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where clients connect by NBD, as `unix:/run/weir/nbd.sock` or `127.0.0.1:10809`.
    #[serde(default)]
    pub nbd: Vec<String>,
    /// Whether the configuration in force differs from what the file said when it was read or written last: some changes are kept in memory
    /// only.
    pub unsaved: bool,
    /// The last change, if any was made since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<Change>,
    /// Its drives.
    pub drives: Vec<Drive>,
    /// Its tenants.
    pub tenants: Vec<Tenant>,
    /// Its volumes, without what they were served since the start.
    pub volumes: Vec<Volume>,
}

/// What a contract grants, in numbers. Zero is no min, and no max.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Contract {
    /// Bytes a second that are promised.
    pub min_bytes_per_second: u64,
    /// Requests a second that are promised.
    pub min_requests_per_second: u64,
    /// The weight by which the rest is shared.
    pub share: u16,
    /// Most bytes a second.
    pub max_bytes_per_second: u64,
    /// Most requests a second.
    pub max_requests_per_second: u64,
    /// `realtime`, `best-effort` or `idle`.
    pub class: String,
}

impl Contract {
    /// A part of the min, bytes a second and requests a second.
    pub fn promised(&self, part: f64) -> (u64, u64) {
        let of = |min: u64| (min as f64 * part) as u64;
        (
            of(self.min_bytes_per_second),
            of(self.min_requests_per_second),
        )
    }
}

/// What of something is promised, and what is left to be promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budget {
    /// Bytes a second in all.
    pub bytes_per_second: u64,
    /// Requests a second in all; zero where they are not known.
    pub requests_per_second: u64,
    /// Of these, bytes a second that are promised.
    pub promised_bytes_per_second: u64,
    /// Requests a second that are promised.
    pub promised_requests_per_second: u64,
    /// Bytes a second that a further promise may have, if it is one in bytes.
    pub left_bytes_per_second: u64,
    /// Requests a second that a further promise may have, if it is one in requests.
    pub left_requests_per_second: u64,
    /// Of the drive's time, what the promises take: millionths. Zero of a tenant.
    pub promised_millionths: u64,
}

/// A drive.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// The state of what was written of it, for `If-Match`.
    pub etag: String,
    /// What the configuration says of it.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: Words,
    /// Its policy.
    pub policy: String,
    /// What is promised and what is left; nothing if its capacity is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The last full second.
    pub now: DriveFigures,
}

/// A tenant: a group over several volumes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// The state of what was written of it, for `If-Match`.
    pub etag: String,
    /// What the configuration says of it.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: Words,
    /// Its contract in numbers.
    pub contract: Contract,
    /// Its own promise, what of it its volumes were promised, and what is left; nothing if it has no promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The last full second.
    pub now: TenantFigures,
    /// The seconds of its promise.
    pub seconds: SecondCounts,
}

/// A volume.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The state of what was written of it, for `If-Match`.
    pub etag: String,
    /// What the configuration says of it.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: Words,
    /// Its drive.
    pub drive: String,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The block device of the server's machine that it is: `/dev/ublkb7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device: Option<String>,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// Its contract in numbers.
    pub contract: Contract,
    /// The last full second.
    pub now: VolumeFigures,
    /// The seconds of its promise.
    pub seconds: SecondCounts,
    /// What it was served since the start; only where one volume is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

impl Volume {
    /// What this server promises now, bytes a second and requests a second: the min, or its part of one that several servers keep.
    pub fn promised(&self) -> (u64, u64) {
        self.contract.promised(self.now.part.unwrap_or(1.0))
    }
}

/// All drives, tenants or volumes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum List {
    /// Volumes.
    Volumes(Vec<Volume>),
    /// Tenants.
    Tenants(Vec<Tenant>),
    /// Drives.
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
