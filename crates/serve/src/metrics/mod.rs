//! What the server counts, and how it is read: `GET /metrics` in the `OpenMetrics` text format.

mod http;
mod snapshot;
mod tally;
mod text;

pub(crate) use http::{Handle, spawn};
pub(crate) use snapshot::{DriveSnapshot, TenantSnapshot, VolumeSnapshot, shares};
pub(crate) use tally::{OPS, Tally};
