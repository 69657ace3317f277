//! A driver of the Container Storage Interface: volumes with contracts for Kubernetes, served by
//! the Weir server of the same node.
//!
//! [`serve`] runs the identity, controller and node services at one Unix socket. The driver calls
//! the management interface of the server next to it and stores nothing itself. A volume is an
//! entry in the server's configuration whose file is in the driver's directory. A driver that is
//! killed at any moment has therefore lost nothing, and a call that is repeated finds the results
//! of the first attempt.
//!
//! `docs/kubernetes.md` describes the installation and use.
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

pub use driver::{DriverOptions, ServeError, serve};

/// The published interface, version 1.12.0 (`proto/`).
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
