//! Calibration: the capacity of a drive, found by measuring it.
//!
//! A [`CalibrationPlan`] selects the next [`CalibrationStep`] and the time that it may take. A
//! [`StepMeasurement`] performs the step. It is a
//! [`RequestSource`](weir_model::load::RequestSource) of requests without a clock and without I/O,
//! which detects when the drive is steady and returns the result as a [`StepResult`]. The results
//! are collected in a [`Calibration`], from which a [`MeasuredCapacity`] and the lines of [`cost`]
//! are derived. Before any write, a [`Survey`] checks whether the data on the drive may be
//! overwritten. Blocks that measurements write have a stamp, by which they are recognised later.
//!
//! `docs/calibrate.md` describes which measurement determines which parameter.

mod calibration;
mod capacity;
pub mod cost;
mod found;
mod load;
mod measurement;
mod plan;
mod stamp;
mod steady;
mod survey;

pub use calibration::{Calibration, CalibrationTarget};
pub use capacity::{CapacityFigure, MeasuredCapacity, floor_to_three};
pub use found::{StepLatency, StepResult};
pub use load::{Area, LoadPattern, StepLoad};
pub use measurement::StepMeasurement;
pub use plan::{CalibrationPlan, CalibrationStep, step};
pub use stamp::BLOCK;
pub use steady::{RateWindow, Tail, tail};
pub use survey::{Survey, SurveyVerdict};
