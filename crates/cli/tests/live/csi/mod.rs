//! The driver for Kubernetes against a server on this machine: it is ended at every moment of every call, and the calls are made again.

pub(crate) mod bench;
mod clients;
mod controller;
pub(crate) mod grpc;
mod vhost;
