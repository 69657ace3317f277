//! Verifies the block layer: auditors watch each rule, and a search draws scenarios and judges promises.
#![forbid(unsafe_code)]

pub mod audit;
pub mod search;
