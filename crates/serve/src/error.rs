//! Why a server does not start, or does not take a changed configuration.

use std::io;
use std::path::PathBuf;

use weir_config::Problem;

use crate::shard::ShardError;
use weir_config::os_error;

/// Why a server did not start. Nothing of it is left running, and nothing is there that was not there before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// What the configuration says cannot be had on this machine: a volume's storage, an address, a number of something.
    #[error("{0}")]
    Config(Problem),
    /// A shard cannot run: its ring, its drives' tables or contracts.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A thread beside the shards cannot run.
    #[error("cannot start a thread: {}", os_error::message(.0))]
    Thread(io::Error),
    /// The record cannot be written.
    #[error("cannot write the recording {}: {}{}", path.display(), os_error::message(error), if_not_there(error))]
    Record {
        /// Its file.
        path: PathBuf,
        /// What the system answered.
        error: io::Error,
    },
}

/// What to do about a file whose directory is missing.
fn if_not_there(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; create the directory first",
        _ => "",
    }
}

/// Why a changed configuration was not put in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It changes what cannot change while the server runs. Everything is as it was.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Problem>),
    /// The drives cannot keep its promises. Everything is as it was.
    #[error("drive {drive}: {error}")]
    Promises {
        /// The drive.
        drive: String,
        /// Why, with the sums.
        error: weir_core::Refusal,
    },
    /// A volume that comes cannot be opened. Everything is as it was.
    #[error("{0}")]
    Volume(Problem),
    /// A shard refuses, or has failed before. Everything is as it was, but for connections to volumes that were to go.
    #[error(transparent)]
    Shard(#[from] ShardError),
}
