//! The integration tests of this crate, a module for each subject.

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod page;
mod plan;
mod svg;
mod table;
