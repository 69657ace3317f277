//! The live server: shards, front ends, backends, metrics.
//!
//! [`Server::start`] opens everything that a [`weir_config::Server`] names and serves it: an acceptor thread lets clients in, each shard
//! (a thread with its ring) serves its drives and all their clients, whatever protocol their front ends speak, and what the core
//! decides is carried out by the volumes' [`backend`]s.
//!
//! A client can end nothing but its own connection, and what it can make the server hold is bounded: see
//! [`weir_config::Limits`].
#![forbid(unsafe_code)]

mod acceptor;
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
mod watch;

pub use acceptor::number;
pub use created::Created;
pub use doors::Doors;
pub use error::{ReloadError, StartError};
pub use holder::Holder;
pub use metrics::figures::{DriveFigures, OpCounts, TenantFigures, VolumeFigures, shares};
pub use metrics::{CONTENT_TYPE, Causes, Detail};
pub use parts::{Parts, Unheld};
pub use preflight::{Finding, Preflight, preflight};
pub use server::{ExplainError, Explainer, Options, Server, removed_in_use};
pub use shard::{Held, ShardError, Used};
pub use watch::Watch;
pub use weir_uring::Backend as RingKind;
