//! Errors of starting a server and of reloading its configuration.

use std::io;
use std::path::PathBuf;

use weir_config::Problem;

use crate::shard::ShardError;
use weir_config::os_error;

/// The reason why a server did not start. No thread is left running, and files and sockets that the
/// start created are removed again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration names a resource that is not available on this machine, such as a volume's
    /// storage, an address or an owner of sockets.
    #[error("{0}")]
    Config(Problem),
    /// A shard cannot run, because its ring, the tables of its drives or their contracts were
    /// refused.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A thread other than a shard's cannot be started.
    #[error("cannot start a thread: {}", os_error::message(.0))]
    Thread(io::Error),
    /// The file of a recording cannot be created.
    #[error("cannot write the recording {}: {}{}", path.display(), os_error::message(error), if_not_there(error))]
    Record {
        /// The path of the recording.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// Returns the end of the message for a file whose directory is missing.
fn if_not_there(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; create the directory first",
        _ => "",
    }
}

/// The reason why a changed configuration was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The change is not possible while the server runs, or a resource that it requires is not
    /// available. The server is unchanged.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Problem>),
    /// The drives cannot keep its promises. The server is unchanged.
    #[error("drive {drive}: {error}")]
    Promises {
        /// The name of the drive.
        drive: String,
        /// The refusal of admission, with the sums.
        error: weir_core::Refusal,
    },
    /// A new volume cannot be opened. The server is unchanged.
    #[error("{0}")]
    Volume(Problem),
    /// A shard refuses the change, or has failed before. The server is unchanged, except that
    /// connections to volumes that were to be removed may have been closed.
    #[error(transparent)]
    Shard(#[from] ShardError),
}
