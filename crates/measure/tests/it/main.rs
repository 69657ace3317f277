//! The integration tests of this crate, with one module for each subject.

#[path = "planted/alike.rs"]
mod alike;
mod figures;
mod hdr;
mod jsonl;
mod planted;
