//! What the server counts, and how it is written down: in Prometheus' text format. `scrape` gives it to every client that asks.

mod detail;
mod latency;
mod page;
mod process;
mod promises;
mod snapshot;
mod tally;
pub(crate) mod text;

pub(crate) use detail::Detail;
pub(crate) use page::CONTENT_TYPE;
pub(crate) use snapshot::{DriveSnapshot, TenantSnapshot, VolumeSnapshot, shares};
pub(crate) use tally::{OPS, Tally};
