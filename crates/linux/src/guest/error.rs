//! Errors of finding a kernel or running a guest.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reason why a guest could not be run.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
    /// A program of this machine is not installed.
    #[error("{program} cannot be started ({source}); install package {package}")]
    Program {
        /// The name of the program.
        program: &'static str,
        /// The error that the system returned.
        source: io::Error,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    /// A program of this machine failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// The name of the program.
        program: &'static str,
        /// The end of its standard error.
        said: String,
    },
    /// The name of a kernel is unknown.
    #[error(
        "unknown kernel {0}: use 6.1, 6.12 or 7, a directory with vmlinuz and modules/*.ko, or a kernel built as a program"
    )]
    NoKernel(String),
    /// Two files for the guest have the same name.
    #[error("two files have the name {0} in the guest")]
    Twice(String),
    /// The guest stopped before it reached its end. Has the end of the console.
    #[error("the guest stopped before its end; its last lines:\n{0}")]
    Died(String),
    /// The guest took too long in real time.
    #[error("the guest was still running after {} s of real time; its last lines:\n{said}", limit.as_secs())]
    Late {
        /// The maximum duration of the run.
        limit: Duration,
        /// The end of the console.
        said: String,
    },
    /// The caller ended the guest.
    #[error("interrupted")]
    Interrupted,
}

impl GuestError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
