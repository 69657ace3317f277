//! Controllers: limits and cost accounting that can throttle requests in front of the elevator.
//!
//! `chain` has the order in which a request passes them, and `controller` the interface of
//! each. `max` and [`slices`] enforce the max of contracts, [`low`] low limits, `latency` latency
//! targets, and [`cost`] divides the drive's time.

mod bucket;
pub(crate) mod chain;
mod config;
pub(crate) mod controller;
pub mod cost;
mod held;
mod latency;
pub mod low;
mod max;
pub mod slices;

pub use config::Config;
