//! Scenarios that come with the simulator.

mod latency;
mod library;

pub use latency::{Control, FILE, Interferers, PROMISE, Reads, latency};
pub use library::{demo, equal_random_readers, shares};
