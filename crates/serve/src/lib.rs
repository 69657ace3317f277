//! The live server: shards, front ends, backends, metrics.
#![forbid(unsafe_code)]

pub mod backend;
