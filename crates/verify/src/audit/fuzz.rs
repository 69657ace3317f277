//! Entry points for fuzzers, which provide the decisions of a run as bytes.

use crate::audit::random::{ByteDecisions, RandomFailure, RandomPlan, Summary, run_plan};

/// Performs random operations as [`crate::audit::random::run`] does, with the bytes as the source
/// of every decision. Ends when the bytes are used up.
///
/// # Panics
/// Panics if an auditor found a violation. The message describes it.
pub fn operations(data: &[u8]) {
    if let Err(failure) = perform(data) {
        panic!("{failure}");
    }
}

/// Performs the operations of [`operations`], but returns a summary of the run instead of
/// panicking.
///
/// # Errors
/// Returns the failure if an auditor found a violation.
pub fn perform(data: &[u8]) -> Result<Summary, RandomFailure> {
    let mut bytes = ByteDecisions::new(data);
    let plan = RandomPlan::draw(&mut bytes);
    // Every operation takes at least one byte of decisions, so the length bounds the number of
    // operations.
    run_plan(&mut bytes, plan, data.len() as u64)
}
