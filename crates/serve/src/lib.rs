//! The live server: shards, front ends, backends, metrics.
//!
//! [`LiveServer::start`] opens all volumes, addresses and sockets that a [`weir_config::Server`]
//! names, and serves them. An acceptor thread accepts clients and conducts their handshakes. Each
//! shard (a thread with its own ring) serves its drives and all connections to them, through the
//! front ends of all protocols. The core of each drive decides which request is dispatched next,
//! and the [`backend`] of the volume carries it out.
//!
//! A client cannot end any connection except its own, and the resources that a client can occupy
//! are bounded (see [`weir_config::Limits`]).
//!
//! To read on, follow a request through `acceptor`, `front`, `shard` and [`backend`].
//! ARCHITECTURE.md describes this path.
#![forbid(unsafe_code)]

mod acceptor;
mod access;
pub mod backend;
mod clock;
mod created;
mod doors;
mod errno;
mod error;
mod front;
pub mod gateway;
mod holder;
mod log;
mod memory;
mod metrics;
mod parts;
pub mod places;
mod preflight;
mod record;
mod server;
mod setup;
mod shard;
mod slab;
mod tls;
mod upgrade;
mod watch;

pub use acceptor::number;
pub use access::{RefusalReason, Refusals};
pub use created::Created;
pub use doors::Doors;
pub use error::{ReloadError, StartError};
pub use holder::Holder;
pub use log::allowed as warning_allowed;
pub use metrics::figures::{DriveFigures, OpCounts, TenantFigures, VolumeFigures, shares};
pub use metrics::{CONTENT_TYPE, Causes, Detail};
pub use parts::{Parts, ShardTimeout};
pub use preflight::{Finding, Preflight, preflight};
pub use server::{
    ExplainError, Explainer, LiveServer, ServerOptions, UpgradeError, UpgradeReport, removed_in_use,
};
pub use shard::{HeldPart, PartUsage, ShardError};
pub use tls::{ManagementTls, TlsClient, certificate_names};
pub use upgrade::{ConfigSource, Predecessor, Successor, UpgradeInterrupt};
pub use watch::ServerMonitor;
pub use weir_uring::Backend as RingKind;
