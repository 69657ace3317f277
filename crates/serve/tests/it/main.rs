//! The integration tests of this crate that need no real time, one module for each subject.

#[path = "../tools/mod.rs"]
mod tools;

mod durability;
mod histories;
mod structure;
mod twin_scenario;
