//! The integration tests of this crate, a module for each subject.

#[path = "../common/mod.rs"]
mod common;

mod corpus;
mod edges;
mod golden;
mod import;
mod jobs;
mod listed;
mod manual;
mod plays;
mod policies;
mod profiles;
mod reload;
mod scenarios;
mod server;
mod sheets;
