//! The integration tests of this crate, a module for each subject.

#[path = "../tools/mod.rs"]
mod tools;

mod durability;
mod histories;
mod structure;
mod twin_scenario;
