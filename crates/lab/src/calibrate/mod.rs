//! Calibration: the capacity of a drive, found by measuring it.
//!
//! A [`Plan`] selects the next [`Step`] and the time that it may take. A [`Measurement`] performs
//! the step. It is a [`Source`](weir_model::load::Source) of requests without a clock and without
//! I/O, which detects when the drive is steady and returns the result as a [`Found`]. The results
//! are collected in a [`Calibration`], from which a [`Capacity`] and the lines of [`cost`] are
//! derived. Before any write, a [`Survey`] checks whether the data on the drive may be overwritten.
//! Blocks that measurements write have a stamp, by which they are recognised later.
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

pub use calibration::{Calibration, Target};
pub use capacity::{Capacity, Figure, floor_to_three};
pub use found::{Found, Latency};
pub use load::{Area, Load, Pattern};
pub use measurement::Measurement;
pub use plan::{Plan, Step, step};
pub use stamp::BLOCK;
pub use steady::{Tail, Window, tail};
pub use survey::{Survey, Verdict};
