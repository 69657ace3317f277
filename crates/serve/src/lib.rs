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
mod errno;
mod error;
mod front;
mod holder;
mod log;
mod memory;
mod metrics;
mod places;
mod preflight;
mod record;
mod scrape;
mod server;
mod setup;
mod shard;
mod slab;

pub use created::Created;
pub use error::{ReloadError, StartError};
pub use holder::Holder;
pub use preflight::{Finding, Preflight, preflight};
pub use server::{ExplainError, Explainer, Options, Server, removed_in_use};
pub use shard::ShardError;
pub use weir_uring::Backend as RingKind;
