//! The module `weir._weir`, around which `weir/__init__.py` makes a package. The bindings are thin:
//! their results are lines of JSON, which `weir/_tables.py` converts to tables.

#![forbid(unsafe_code)]
// PyO3 extracts arguments from Python's objects as owned values.
#![allow(clippy::needless_pass_by_value)]

mod elevator;
mod error;
mod long;
mod source;
mod table;

use pyo3::prelude::*;

/// The compiled part of the package `weir`.
#[pymodule]
mod _weir {
    #[pymodule_export]
    use crate::elevator::{PyCompletion, PyDispatch, PyElevator, PyRequest, PyStep};
    #[pymodule_export]
    use crate::error::{ProblemError, RunError, UsageError, WeirError};
    #[pymodule_export]
    use crate::source::{PyDrive, PyPolicy, PyScenario, drives, policies, scenarios};
    #[pymodule_export]
    use crate::table::{compare, needs, plan, records, search};
}
