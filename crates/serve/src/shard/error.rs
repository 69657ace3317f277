//! Why a shard does not run, or does not take a change.

use std::io;

use weir_config::units::Size;

use weir_config::os_error;

/// What is wrong with a shard or one of its drives, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The system gives no thread.
    #[error("cannot start a thread: {}", os_error::message(.0))]
    Thread(io::Error),
    /// Its thread ended before it ran; what it failed with is in the log.
    #[error("the thread ended immediately; see the log")]
    Ended,
    /// It has failed before, or ends.
    #[error("a shard has ended")]
    Over,
    /// The system gives no ring with that much memory.
    #[error("cannot start a shard: {error} (limits.arena = \"{}\", limits.connections = {connections})", Size(*.arena))]
    Ring {
        /// What it says.
        error: weir_uring::OpenError,
        /// Bytes of memory that were asked for.
        arena: u64,
        /// The connections that there may be.
        connections: u32,
    },
    /// A drive's tables cannot be had.
    #[error("drive {drive}: {error}")]
    Core {
        /// Its name.
        drive: String,
        /// Why.
        error: weir_core::ConfigError,
    },
    /// A drive cannot keep what it is to promise.
    #[error("drive {drive}: {error}")]
    Promises {
        /// Its name.
        drive: String,
        /// Why, with the sums.
        error: weir_core::Refusal,
    },
    /// A drive's model cannot be had.
    #[error("drive {drive}: {error}")]
    Model {
        /// Its name.
        drive: String,
        /// Why.
        error: weir_core::rule::Broken,
    },
    /// Volumes that a reload would remove have clients.
    #[error("volume {}: cannot be removed while it has clients", volumes.iter().map(|v| &v.0[..]).collect::<Vec<_>>().join(", "))]
    InUse {
        /// Their names, and how many connections each has.
        volumes: Vec<(String, u32)>,
    },
    /// A volume's storage does not start.
    #[error("volume {volume}: {}", os_error::message(.error))]
    Volume {
        /// Its name.
        volume: String,
        /// What the system answers.
        error: io::Error,
    },
    /// A volume would get smaller, and clients would not know.
    #[error(
        "volume {volume}: its storage has shrunk to {} from {}, but a volume cannot shrink while the server is running; restore the size of the storage, or restart the server",
        Size(*.now),
        Size(*.was)
    )]
    Shrunk {
        /// Its name.
        volume: String,
        /// Bytes that it has while it is served.
        was: u64,
        /// Bytes that its storage has.
        now: u64,
    },
    /// There is no plan for a drive that the configuration names.
    #[error("drive {drive} has no plan")]
    NoPlan {
        /// Its name.
        drive: String,
    },
    /// A reload names a drive that the server does not have.
    #[error("drive {drive} cannot be added while the server is running")]
    NewDrive {
        /// Its name.
        drive: String,
    },
}
