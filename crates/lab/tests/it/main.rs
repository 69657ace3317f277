//! The integration tests of this crate, a module for each subject.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod measurement;
mod models;
mod page;
mod plan;
mod profiles;
mod report_page;
mod svg;
mod table;
#[path = "../tools/mod.rs"]
mod tools;
mod validation;
