//! What the server counts, and how it is written down: in Prometheus' text format. [`Watch`](crate::Watch) gives it to those that ask.

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
pub(crate) use latency::Latency;
pub use page::CONTENT_TYPE;
pub(crate) use tally::{OP_NAMES, OPS, Tally};
