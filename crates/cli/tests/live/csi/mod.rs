//! The driver for Kubernetes with a server on this machine. It is killed at every moment of every
//! call, and the calls are repeated.

pub(crate) mod bench;
mod clients;
mod controller;
pub(crate) mod grpc;
mod vhost;
