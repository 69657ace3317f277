//! The events that `GET /v1/events` streams.

use serde::{Deserialize, Serialize};

use crate::api::change::Change;
use crate::api::figures::{DriveFigures, TenantFigures, VolumeFigures};

/// An event. Its name in the stream is the variant in lower case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", tag = "event", content = "data")]
pub enum Event {
    /// The figures of a second that has ended.
    Second(Second),
    /// A second in which a promise was not kept.
    Short(ShortSecond),
    /// A change of the configuration.
    Change(Change),
}

impl Event {
    /// Returns the event's name in the stream.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Second(_) => "second",
            Self::Short(_) => "short",
            Self::Change(_) => "change",
        }
    }
}

/// The figures of every drive, tenant and volume in one second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Second {
    /// The end of the second, in milliseconds since 1970.
    pub at_ms: u64,
    /// The figures of the drives.
    pub drives: Vec<DriveFigures>,
    /// The figures of the tenants.
    pub tenants: Vec<TenantFigures>,
    /// The figures of the volumes.
    pub volumes: Vec<VolumeFigures>,
}

/// A second in which a promise was not kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShortSecond {
    /// The time at which this was found, in milliseconds since 1970. It is at most 1.5 seconds after the second's end.
    pub at_ms: u64,
    /// The volume or tenant, for example `volume.alpha`.
    pub of: String,
    /// The cause, for example `neighbour` or `slow-drive`.
    pub cause: String,
    /// The volume whose requests were served before this volume's, if that is the cause and the volume is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// The shortfall in bytes, or in requests if requests are promised.
    pub lacking: u64,
}
