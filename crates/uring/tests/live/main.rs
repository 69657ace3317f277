//! Integration tests in real time, with one module for each subject.

#[path = "../common/mod.rs"]
#[macro_use]
mod common;

mod allocations;
mod files;
mod guest;
mod life;
mod memlock;
mod model;
mod sockets;
