//! The figures of a drive, tenant or volume over the last hour.

use serde::{Deserialize, Serialize};

use crate::api::event::ShortSecond;

/// The figures of a drive, a tenant or a volume over the last hour: the reply to `GET /v1/history`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Curve {
    /// The object, for example `volume.alpha`.
    pub of: String,
    /// The time that each point covers, in milliseconds.
    pub step_ms: u64,
    /// The points, oldest first. They cover at most one hour, since the start of the server or since the object was added.
    pub points: Vec<CurvePoint>,
}

/// The mean figures of several seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CurvePoint {
    /// The end of these seconds, in milliseconds since 1970.
    pub at_ms: u64,
    /// The throughput in bytes per second.
    pub bytes_per_second: u64,
    /// The throughput in requests per second.
    pub requests_per_second: u64,
    /// The fraction of the time in which the drive was busy, 0 to 1. It is missing for tenants and volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// The number of these seconds that were short of the promise.
    #[serde(default)]
    pub short_seconds: u64,
}

/// The short seconds of the last hour: the reply to `GET /v1/short`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShortSeconds {
    /// The short seconds, newest first, at most 1,000.
    pub short: Vec<ShortSecond>,
}
