//! Runs scenarios under a real kernel, with fio as the clients.
//!
//! [`PlayJobs`] is a scenario in the form of fio's jobs, or the [reason](PlayRefusal) why fio
//! cannot play it. A [`FioLog`] has the requests of one client as fio logged them. [`measure`]
//! feeds the logs to the meters of the simulator and the server, so that records, windows, promises
//! and verdicts are computed by the same code.

pub mod guest;
mod jobs;
pub mod log;
mod measure;
mod observe;
pub mod plan;
pub mod player;
mod program;
mod refused;
mod series;

pub use jobs::{JobPaths, PlayJob, PlayJobs};
pub use log::FioLog;
pub use measure::{KernelMeasurements, is_random, measure};
pub use observe::Observations;
pub use plan::PlayPlan;
pub use player::{PlayHost, PlayOutput};
pub use refused::PlayRefusal;
pub use series::KernelSeries;
