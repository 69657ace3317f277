//! Targets for fuzzers. Each target takes arbitrary bytes, drives a parser or a ring with them, and
//! asserts its invariants.

pub(crate) mod nbd;
pub(crate) mod ring;
pub(crate) mod vhost;
