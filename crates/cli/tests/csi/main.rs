//! The driver for Kubernetes against a server on this machine: it is ended at every moment of every call, and the calls are made again.

#[allow(dead_code, reason = "each test file uses its part")]
mod bench;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod controller;
mod grpc;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../../serve/tests/tools/guest.rs"]
mod guest;
mod vhost;
