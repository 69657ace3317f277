//! A driver of the Container Storage Interface: volumes of a node's Weir server, with their contracts, for Kubernetes.
//!
//! [`serve`] answers the identity, controller and node services at one Unix socket. The driver asks the management interface of the server beside
//! it and keeps nothing itself: a volume is an entry of the server's configuration whose file lies where the driver puts it, so a driver
//! that is killed at any moment has lost nothing, and a call that is made again finds what the first has done.
//!
//! `docs/kubernetes.md` leads through it.
#![forbid(unsafe_code)]

mod attach;
mod busy;
mod command;
mod controller;
mod create;
mod driver;
mod error;
mod http2;
mod identity;
mod images;
mod mount;
mod node;
mod stats;
mod terms;
mod volumes;

pub use driver::{Options, ServeError, serve};

/// The interface as it is published, version 1.12.0 (`proto/`).
#[expect(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "generated code"
)]
pub mod rpc {
    include!(concat!(env!("OUT_DIR"), "/csi.v1.rs"));
}
