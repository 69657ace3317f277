//! What `GET /v1/events` streams.

use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::figures::{DriveFigures, TenantFigures, VolumeFigures};

/// One event; its name in the stream is that of the variant in lower case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", tag = "event", content = "data")]
pub enum Event {
    /// A second is over.
    Second(Second),
    /// A promise was not kept in it.
    Short(ShortSecond),
    /// The configuration has changed.
    Change(Change),
}

impl Event {
    /// Its name in the stream.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Second(_) => "second",
            Self::Short(_) => "short",
            Self::Change(_) => "change",
        }
    }
}

/// A second of every drive, tenant and volume.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Second {
    /// When it ended: milliseconds since 1970.
    pub at_ms: u64,
    /// The drives.
    pub drives: Vec<DriveFigures>,
    /// The tenants.
    pub tenants: Vec<TenantFigures>,
    /// The volumes.
    pub volumes: Vec<VolumeFigures>,
}

/// A second in which a promise was not kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShortSecond {
    /// When it was found: milliseconds since 1970, at most a second and a half after the second's end.
    pub at_ms: u64,
    /// The volume or tenant, as `volume.alpha`.
    pub of: String,
    /// What made it short, as `neighbour` or `slow-drive`.
    pub cause: String,
    /// The volume whose requests stood before its own, if that is the cause and it is known which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// What was missing: bytes, or requests where requests are promised.
    pub lacking: u64,
}
