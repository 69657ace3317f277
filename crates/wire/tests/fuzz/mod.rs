//! Targets for fuzzers: each takes any bytes, drives a parser or a ring with them, and asserts what must always hold.

pub(crate) mod nbd;
pub(crate) mod ring;
pub(crate) mod vhost;
