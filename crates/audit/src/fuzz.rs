//! Entry points for fuzzers.

use crate::random::{Bytes, Failure, Plan, Summary, run_plan};

/// As [`crate::random::run`], with the bytes as the source of every decision; ends when they do.
///
/// # Panics
/// An auditor found something; the message says what.
pub fn operations(data: &[u8]) {
    if let Err(failure) = perform(data) {
        panic!("{failure}");
    }
}

/// As [`operations`], for those who want to know how it went.
///
/// # Errors
/// An auditor found something.
pub fn perform(data: &[u8]) -> Result<Summary, Failure> {
    let mut bytes = Bytes::new(data);
    let plan = Plan::draw(&mut bytes);
    // No operation is decided by less than a byte.
    run_plan(&mut bytes, plan, data.len() as u64)
}
