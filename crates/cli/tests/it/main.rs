//! The integration tests of this crate, with one module for each subject.

#[path = "../common/mod.rs"]
mod common;

mod agree;
mod apply;
mod circles;
mod coalescing;
mod commands;
mod compare;
mod compatibility;
mod documents;
mod drives;
mod environment;
mod explain;
mod frozen;
mod import;
mod json;
mod messages;
mod plan;
mod published;
mod structure;
mod tidy;
