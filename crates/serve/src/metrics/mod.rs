//! The server's metrics, and their output in Prometheus' text format.
//! [`ServerMonitor`](crate::ServerMonitor) provides them.

mod causes;
mod detail;
pub(crate) mod figures;
mod latency;
mod page;
mod process;
mod promises;
mod tally;
pub(crate) mod text;

pub use causes::Causes;
pub use detail::Detail;
pub(crate) use latency::LatencyHistogram;
pub use page::CONTENT_TYPE;
pub(crate) use tally::{OP_NAMES, OPS, VolumeTally};
