//! Integration tests of this crate, with one module for each subject.

#[path = "../fuzz/mod.rs"]
mod fuzz;

mod corpus;
mod model;
mod notify;
mod oracle;
mod rings;
mod threads;
mod virtio_blk;
