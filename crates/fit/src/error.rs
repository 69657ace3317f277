//! Why something cannot be fitted.

/// Why something cannot be fitted.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An experiment cannot be played on such a drive.
    #[error(transparent)]
    Sim(#[from] weir_sim::Error),
    /// A sheet speaks of a figure for which there is no experiment.
    #[error("there is no figure {0:?}; `weir drives figures` lists them")]
    Figure(String),
    /// A parameter is tied to a figure that the sheet does not have.
    #[error("a parameter is tied to {0:?}, but no [[figure]] of the sheet says what was published")]
    Unpublished(String),
    /// A parameter is tied to a figure that need not come out.
    #[error(
        "a parameter is tied to {0:?}, but its [[figure]] does not say within how many per cent it is to come out"
    )]
    Tolerance(String),
    /// A rate was published of a figure that is a time, or the other way round.
    #[error(
        "the value of figure {0:?} is a rate where it should be a time, or the other way round"
    )]
    Measure(String),
}
