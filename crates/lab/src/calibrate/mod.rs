//! What a drive does, found by measuring it.
//!
//! A [`Plan`] says which [`Step`] comes next and how long it may take. A [`Measurement`] carries one step out: it is a
//! [`Source`](weir_model::load::Source) of requests without a clock and without I/O, which decides when the drive is steady, and ends in a
//! [`Found`]. What was found makes a [`Calibration`], from which follow a [`Capacity`] and the lines of [`cost`]. A [`Survey`] finds
//! out whether anything on the drive may be overwritten; what measurements write has a stamp, so that it is known again.
//!
//! `docs/calibrate.md` says which figure determines which parameter.

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
