//! The integration tests of this crate, a module for each subject.

#[path = "planted/alike.rs"]
mod alike;
mod figures;
mod hdr;
mod jsonl;
mod planted;
