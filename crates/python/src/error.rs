//! The exceptions of failed calls, with the messages of the command `weir`.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use weir::Failure;
use weir_config::Problem;

create_exception!(
    weir,
    WeirError,
    PyException,
    "Why a call did not do what it was asked to."
);
create_exception!(
    weir,
    UsageError,
    WeirError,
    "It was asked for what cannot be: an unknown name, things that do not go together."
);
create_exception!(
    weir,
    ProblemError,
    WeirError,
    "A scenario, policy or drive is wrong: a line for each problem, with file, line and column, and what to do."
);
create_exception!(weir, RunError, WeirError, "A run did not succeed.");

/// Converts a failure of the command to an exception.
pub(crate) fn failed(failure: Failure) -> PyErr {
    match failure {
        Failure::Usage(reason) => UsageError::new_err(reason),
        Failure::Problems(problems) => wrong(&problems),
        Failure::Interrupted(_, missing) => PyKeyboardInterrupt::new_err(missing),
        Failure::Run(reason) => RunError::new_err(reason),
        // The failures of the command are not exhaustive.
        other => RunError::new_err(format!("{other:?}")),
    }
}

/// Converts the problems of a text to an exception.
pub(crate) fn wrong(problems: &[Problem]) -> PyErr {
    let lines = problems.iter().map(ToString::to_string);
    ProblemError::new_err(lines.collect::<Vec<_>>().join("\n"))
}

/// Creates the exception for impossible arguments.
pub(crate) fn usage(reason: impl ToString) -> PyErr {
    UsageError::new_err(reason.to_string())
}
