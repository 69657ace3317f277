//! Front ends: one module for each protocol that clients speak.
//!
//! The interface between a front end and its shard is in `shard/front.rs`. The handshakes are
//! driven by `acceptor/`. No other module depends on a protocol, which `tests/it/structure.rs`
//! checks.

pub(crate) mod nbd;
pub(crate) mod ublk;
pub(crate) mod vhost;
