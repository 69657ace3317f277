//! Front ends: the protocols that clients speak, one room each. What attaches them to a shard is in `shard/front.rs`, what lets their
//! clients in is in `acceptor/`; below this room nothing knows a protocol (`tests/it/structure.rs` keeps it so).

pub(crate) mod nbd;
pub(crate) mod ublk;
pub(crate) mod vhost;
