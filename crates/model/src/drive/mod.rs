//! Timing models of drives.
//!
//! A model is a state machine in the manner of the core: it has no clock, does no I/O, uses
//! integers only, and allocates its tables when it is built. It computes *when* a command ends. Its
//! caller holds the data. The same models serve as drives in virtual time (the simulator) and in
//! real time (the server).
//!
//! The trait [`DriveModel`] has the order of calls. [`DriveConfig`] selects a model: [`null`],
//! [`hdd`], [`ssd`] or [`volume`]. [`Freezing`] adds pauses to any of them, and [`Scattered`]
//! places files at random.
//!
//! ```
//! use weir_core::{Dispatch, Instant, Op};
//! use weir_model::drive::{DriveModel, null};
//!
//! let mut drive = null::NullConfig::demo().build()?;
//! drive.submit(Instant::ZERO, &Dispatch::new(Op::Read, 0, 4096)).expect("the queue is empty");
//! // 30 us of service, then 4096 bytes at 250 MB/s.
//! assert_eq!(drive.next_completion(), Some(Instant::from_nanos(46_384)));
//! # Ok::<(), weir_core::rule::RuleViolation>(())
//! ```
//!
//! `docs/glossary.md` and `docs/code-terms.md` define the terms.

mod config;
mod ends;
mod freeze;
pub mod hdd;
mod link;
mod measure;
mod model;
pub mod null;
#[cfg(test)]
mod physics;
mod ring;
mod scatter;
pub mod ssd;
#[cfg(test)]
mod testing;
pub mod volume;

pub use config::DriveConfig;
pub use freeze::{Freeze, Freezing};
pub use model::{DriveModel, QueueFull, TimedCompletion};
pub use scatter::Scattered;
