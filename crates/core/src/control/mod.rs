//! Controllers: they hold requests back before the elevator sees them.

mod bucket;
pub(crate) mod chain;
mod config;
pub(crate) mod controller;
pub mod cost;
mod latency;
mod max;

pub use config::Config;
