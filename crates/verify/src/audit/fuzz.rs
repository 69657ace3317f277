//! Entry points for fuzzers.

use crate::audit::random::{Bytes, Failure, Plan, Summary, run_plan};

/// As [`crate::audit::random::run`], with the bytes as the source of every decision; ends when they are used up.
///
/// # Panics
/// An auditor found a violation; the message describes it.
pub fn operations(data: &[u8]) {
    if let Err(failure) = perform(data) {
        panic!("{failure}");
    }
}

/// As [`operations`], but returns a summary of the run.
///
/// # Errors
/// An auditor found a violation.
pub fn perform(data: &[u8]) -> Result<Summary, Failure> {
    let mut bytes = Bytes::new(data);
    let plan = Plan::draw(&mut bytes);
    // Every operation takes at least one byte of decisions.
    run_plan(&mut bytes, plan, data.len() as u64)
}
