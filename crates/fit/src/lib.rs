//! Drive profiles made to fit what was published of a drive, and what they predict.
//!
//! A [`Figure`] is an experiment that the simulator plays: a peak of a data sheet, or a case of the `latency` scenario. A
//! [`Sheet`](weir_config::sheet::Sheet) says what was published and ties each unknown parameter to the figure that shows it; [`fit`]
//! finds these parameters, [`ensemble`] finds others that fit as well, so that what the model predicts can be given as an interval.
//! Nothing is fitted to what is predicted.

#![forbid(unsafe_code)]

mod ensemble;
mod error;
mod figure;
mod fit;
mod parallel;
mod search;
mod validation;

pub use ensemble::ensemble;
pub use error::Error;
pub use figure::{Figure, Measure};
pub use fit::{Row, compare, fit};
use parallel::parallel;
pub use validation::{Interval, Validation, document, validate};
