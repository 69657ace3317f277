//! Entry points for fuzzers.

use crate::random::{Bytes, Plan, run_plan};

/// As [`crate::random::run`], with the bytes as the source of every decision.
///
/// # Panics
/// An auditor found something; the message says what.
pub fn operations(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let plan = Plan::draw(&mut bytes);
    if let Err(failure) = run_plan(&mut bytes, plan, data.len() as u64) {
        panic!("{failure}");
    }
}
