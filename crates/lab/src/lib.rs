//! The laboratory: measures and fits drives, compares policies, reports results, and holds the simulator against Linux.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod conformance;
pub mod fit;
pub mod report;
