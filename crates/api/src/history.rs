//! The last hour of a drive, tenant or volume.

use serde::{Deserialize, Serialize};

use crate::event::ShortSecond;

/// How a drive, a tenant or a volume went in the last hour: the answer to `GET /v1/history`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Curve {
    /// The object, such as `volume.alpha`.
    pub of: String,
    /// The time that each point is the mean of, milliseconds.
    pub step_ms: u64,
    /// The points, oldest first: at most an hour of them, since the server's start or since the object was added.
    pub points: Vec<CurvePoint>,
}

/// The mean of some seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CurvePoint {
    /// The end of these seconds: milliseconds since 1970.
    pub at_ms: u64,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Requests a second.
    pub requests_per_second: u64,
    /// The part of the time in which a drive had something to do, 0 to 1; missing for tenants and volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// The number of these seconds that were short of the promise.
    #[serde(default)]
    pub short_seconds: u64,
}

/// The short seconds of the last hour: the answer to `GET /v1/short`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShortSeconds {
    /// The last 1,000 of them at most, newest first.
    pub short: Vec<ShortSecond>,
}
