//! Fits drive profiles to the published figures of drives, and validates their predictions.
//!
//! A [`DriveFigure`] is an experiment in the simulator: a peak of a data sheet, or a case of the
//! `latency` scenario. A [`Sheet`](weir_config::sheet::Sheet) contains the published values and
//! ties each unknown parameter to the figure that determines it. [`fit`] finds these parameters.
//! [`ensemble`] finds other sets that fit as well, so that a prediction can be given as an
//! interval. Predicted figures are never used for a fit.

mod ensemble;
mod error;
mod figure;
mod fitting;
mod search;
mod validation;

pub use ensemble::ensemble;
pub use error::FitError;
pub use figure::{DriveFigure, Measure};
pub use fitting::{FigureRow, compare, fit};
pub use validation::{FigureInterval, Validation, document, validate};
