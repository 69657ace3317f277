//! The errors of a fit.

/// The reason why a drive cannot be fitted.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// An experiment cannot be run on this drive.
    #[error(transparent)]
    Sim(#[from] weir_sim::SimError),
    /// A sheet names a figure for which there is no experiment.
    #[error("unknown figure {0:?}; run `weir drives figures` for a list")]
    Figure(String),
    /// A parameter is tied to a figure that the sheet does not contain.
    #[error(
        "a parameter is fitted to {0:?}, but the sheet has no [[figure]] with its published value"
    )]
    Unpublished(String),
    /// A parameter is tied to a figure without a tolerance.
    #[error("a parameter is fitted to {0:?}, but within is missing in its [[figure]]")]
    Tolerance(String),
    /// The published value is a rate and the figure a time, or the other way round.
    #[error(
        "the value of figure {0:?} has the wrong kind: a rate instead of a time, or a time instead of a rate"
    )]
    Measure(String),
}
