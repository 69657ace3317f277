//! The module `weir._weir`, which `weir/__init__.py` makes a package of: thin bindings, whose results are lines of JSON for `weir/_tables.py`.

#![forbid(unsafe_code)]
// Arguments come out of Python's objects as values.
#![allow(clippy::needless_pass_by_value)]

mod elevator;
mod error;
mod long;
mod source;
mod table;

use pyo3::prelude::*;

/// What is compiled of the package `weir`.
#[pymodule]
mod _weir {
    #[pymodule_export]
    use crate::elevator::{Dispatch, Done, Elevator, Request, Step};
    #[pymodule_export]
    use crate::error::{ProblemError, RunError, UsageError, WeirError};
    #[pymodule_export]
    use crate::source::{Drive, Policy, Scenario, drives, policies, scenarios};
    #[pymodule_export]
    use crate::table::{compare, needs, plan, records, search};
}
