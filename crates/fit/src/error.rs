//! Errors of a fit.

/// Why a drive cannot be fitted.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An experiment cannot be run on this drive.
    #[error(transparent)]
    Sim(#[from] weir_sim::Error),
    /// A sheet names a figure for which there is no experiment.
    #[error("there is no figure {0:?}; `weir drives figures` lists them")]
    Figure(String),
    /// A parameter is tied to a figure that the sheet does not contain.
    #[error("a parameter is tied to {0:?}, but no [[figure]] of the sheet says what was published")]
    Unpublished(String),
    /// A parameter is tied to a figure without a tolerance.
    #[error(
        "a parameter is tied to {0:?}, but its [[figure]] does not say within how many per cent it is to come out"
    )]
    Tolerance(String),
    /// The published value is a rate where the figure is a time, or the other way round.
    #[error(
        "the value of figure {0:?} is a rate where it should be a time, or the other way round"
    )]
    Measure(String),
}
