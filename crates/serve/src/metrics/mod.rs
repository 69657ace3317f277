//! What the server counts, and how it is written down: in the `OpenMetrics` text format. [`Watch`](crate::Watch) gives it to those that ask.

mod snapshot;
mod tally;
pub(crate) mod text;

pub(crate) use snapshot::{Detail, DriveSnapshot, TenantSnapshot, VolumeSnapshot, shares};
pub(crate) use tally::{OPS, Tally};
pub(crate) use text::OP_NAMES;
