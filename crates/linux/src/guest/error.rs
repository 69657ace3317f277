//! Why there is no kernel, or no guest.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program that is not installed.
    #[error("{program} cannot be started ({source}); install package {package}")]
    Program {
        /// Its name.
        program: &'static str,
        /// What the system said.
        source: io::Error,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// A program that failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// The end of what it said.
        said: String,
    },
    /// A kernel by a name that none has.
    #[error(
        "unknown kernel {0}: use 6.1, 6.12 or 7, a directory with vmlinuz and modules/*.ko, or a kernel built as a program"
    )]
    NoKernel(String),
    /// A file to be put into the guest that another one has the name of.
    #[error("two files have the name {0} in the guest")]
    Twice(String),
    /// The guest did not come to its end.
    #[error("the guest stopped before its end; its last lines:\n{0}")]
    Died(String),
    /// It took too long.
    #[error("the guest was still running after {} s of real time; its last lines:\n{said}", limit.as_secs())]
    Late {
        /// How long it may have taken.
        limit: Duration,
        /// The end of what it said.
        said: String,
    },
    /// It was to be ended.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
