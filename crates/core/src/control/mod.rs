//! Controllers: they hold requests back before the elevator sees them.

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
