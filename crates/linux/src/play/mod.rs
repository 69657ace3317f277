//! Scenarios under a real kernel: their clients as jobs of fio, and what fio logged as measurements.
//!
//! [`Jobs`] is what a scenario comes to for fio, or the [reason](Refused) why it cannot be played. A [`Log`] is what fio wrote of one client's
//! requests; [`measure`] feeds it to the meters that the simulator and the server use, so that records, windows, promises and verdicts come
//! out by the same code.

pub mod guest;
mod jobs;
pub mod log;
mod measure;
pub mod plan;
pub mod player;
mod program;
mod refused;

pub use jobs::{Job, Jobs, Surroundings};
pub use log::Log;
pub use measure::{Measured, draws, measure};
pub use plan::Plan;
pub use player::{Host, Played};
pub use refused::Refused;
