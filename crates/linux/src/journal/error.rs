//! The errors of opening, reading and writing a journal.

use super::VERSION;
use crate::device::error_text;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a journal cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// The file cannot be read or written. Has the operation that failed.
    File(PathBuf, &'static str, io::Error),
    /// Another process holds the lock.
    Busy(PathBuf),
    /// A complete line cannot be parsed. Has the line's number, from 1.
    Damaged(PathBuf, usize),
    /// A later version of Weir wrote the journal.
    Version(PathBuf, u32),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, tried, error) => {
                write!(
                    f,
                    "cannot {tried} {}: {}",
                    path.display(),
                    error_text(error)
                )?;
                match Errno::from_io_error(error) {
                    Some(Errno::NOSPC | Errno::DQUOT) => f.write_str(
                        "; nothing was changed whose old value is not on disk. Free some space, or use another journal with --journal",
                    ),
                    Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => {
                        f.write_str("; run the command as root, or use another journal with --journal")
                    }
                    _ => Ok(()),
                }
            }
            Self::Busy(path) => write!(
                f,
                "another weir apply uses {}; end it first (one with --watch ends on SIGTERM)",
                path.display()
            ),
            Self::Damaged(path, line) => write!(
                f,
                "{}:{line}: is not a valid line of a journal; weir apply --restore restores the other lines and keeps the file",
                path.display()
            ),
            Self::Version(path, version) => write!(
                f,
                "{} has version {version}, but this program supports version {VERSION}; use the release of Weir that wrote it",
                path.display()
            ),
        }
    }
}

impl std::error::Error for JournalError {}
