//! What the server counts, and how it is written down: in the `OpenMetrics` text format. `scrape` gives it to every client that asks.

mod snapshot;
mod tally;
pub(crate) mod text;

pub(crate) use snapshot::{DriveSnapshot, TenantSnapshot, VolumeSnapshot, shares};
pub(crate) use tally::{OPS, Tally};
