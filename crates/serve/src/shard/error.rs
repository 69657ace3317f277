//! Errors that prevent a shard from running or from accepting a change.

use std::io;

use weir_config::units::ByteSize;

use weir_config::os_error;

/// An error of a shard or of one of its drives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The operating system cannot create a thread.
    #[error("cannot start a thread: {}", os_error::message(.0))]
    Thread(io::Error),
    /// The shard's thread ended before it was ready. The log has the reason.
    #[error("the thread ended immediately; see the log")]
    Ended,
    /// The shard has failed before, or is ending.
    #[error("a shard has ended")]
    Over,
    /// The operating system cannot provide a ring with the configured memory.
    #[error("cannot start a shard: {error} (limits.arena = \"{}\", limits.connections = {connections})", ByteSize(*.arena))]
    Ring {
        /// The reason why opening the ring failed.
        error: weir_uring::RingOpenError,
        /// The size of the shard's memory, in bytes.
        arena: u64,
        /// The largest number of connections.
        connections: u32,
    },
    /// The layer of a drive cannot be created.
    #[error("drive {drive}: {error}")]
    Core {
        /// The name of the drive.
        drive: String,
        /// The reason why the core refuses the configuration.
        error: weir_core::ConfigError,
    },
    /// The promises of a drive exceed its capacity.
    #[error("drive {drive}: {error}")]
    Promises {
        /// The name of the drive.
        drive: String,
        /// The refusal of the core, with the sums.
        error: weir_core::Refusal,
    },
    /// The model of a drive cannot be created.
    #[error("drive {drive}: {error}")]
    Model {
        /// The name of the drive.
        drive: String,
        /// The rule that the configuration of the model violates.
        error: weir_core::rule::RuleViolation,
    },
    /// A reload would remove volumes that have clients.
    #[error("volume {}: cannot be removed while it has clients", volumes.iter().map(|v| &v.0[..]).collect::<Vec<_>>().join(", "))]
    InUse {
        /// The names of these volumes, each with its number of connections.
        volumes: Vec<(String, u32)>,
    },
    /// The storage of a volume cannot be started.
    #[error("volume {volume}: {}", os_error::message(.error))]
    Volume {
        /// The name of the volume.
        volume: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The storage of a volume has shrunk. That is refused because clients would not learn of the
    /// smaller size.
    #[error(
        "volume {volume}: its storage has shrunk to {} from {}, but a volume cannot shrink while the server is running; restore the size of the storage, or restart the server",
        ByteSize(*.now),
        ByteSize(*.was)
    )]
    Shrunk {
        /// The name of the volume.
        volume: String,
        /// The present size of the served volume, in bytes.
        was: u64,
        /// The size of the volume's storage, in bytes.
        now: u64,
    },
    /// The configuration names a drive without a plan.
    #[error("drive {drive} has no plan")]
    NoPlan {
        /// The name of the drive.
        drive: String,
    },
    /// A reload names a drive that the running server does not have.
    #[error("drive {drive} cannot be added while the server is running")]
    NewDrive {
        /// The name of the drive.
        drive: String,
    },
}
