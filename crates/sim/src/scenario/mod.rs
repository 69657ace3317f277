//! Scenarios that come with the simulator.

mod latency;
mod library;

pub use latency::{COMPARED, FILE, Interferers, PROMISE, TargetReads, compared, latency};
pub use library::{demo, equal_random_readers, shares};
