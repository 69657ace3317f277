//! The error of a step of `apply` or `restore`, with advice on its cause.

use crate::device::error_text;
use crate::journal::JournalError;
use crate::knob::Knob;
use rustix::io::Errno;
use std::fmt;
use std::io;
use weir_config::one_line;

/// The reason why a step could not be done.
#[derive(Debug)]
pub enum StepError {
    /// An operation on a file or a directory failed.
    Step {
        /// The path of the file or directory.
        path: String,
        /// The operation that failed, as an infinitive.
        tried: String,
        /// The error that the system returned.
        error: io::Error,
        /// The remedy. Can be empty.
        help: &'static str,
    },
    /// The journal cannot be read or written.
    Journal(JournalError),
}

impl From<JournalError> for StepError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step {
                path,
                tried,
                error,
                help,
            } => {
                let path = one_line(path);
                write!(
                    f,
                    "{path}: cannot {tried}: {}",
                    one_line(&error_text(error))
                )?;
                if help.is_empty() {
                    return Ok(());
                }
                write!(f, "; {help}")
            }
            Self::Journal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StepError {}

impl StepError {
    /// An error of any step except the writing of a knob.
    pub(crate) fn step(path: &str, tried: &str, error: io::Error) -> Self {
        // cgroups(7), "no internal processes": the error of `+io` in a cgroup with processes.
        let help = match Errno::from_io_error(&error) {
            Some(Errno::BUSY) if tried.contains("io") => {
                "the cgroup contains processes, so that the controller cannot be enabled for the cgroups below; move the processes into one of those"
            }
            _ => rights(&error),
        };
        Self::Step {
            path: path.to_owned(),
            tried: tried.to_owned(),
            error,
            help,
        }
    }

    /// An error of writing a value to a knob. The errno has a different cause for each knob, as in
    /// the kernel's handlers of the files.
    pub(crate) fn knob(knob: Knob, file: &str, value: &str, error: io::Error) -> Self {
        let help = match (knob, Errno::from_io_error(&error)) {
            (Knob::Scheduler, Some(Errno::INVAL)) => {
                "the kernel does not have this elevator, or cannot load its module"
            }
            (Knob::NrRequests, Some(Errno::INVAL)) => {
                "without an elevator, a queue cannot have more requests than the drive has tags"
            }
            (Knob::MaxSectors, Some(Errno::INVAL)) => {
                "it must be between one page and max_hw_sectors_kb"
            }
            (Knob::Latency, Some(Errno::NOENT)) => {
                "the kernel was built without io.latency (CONFIG_BLK_CGROUP_IOLATENCY)"
            }
            (Knob::PrioClass, Some(Errno::NOENT)) => {
                "the kernel was built without io.prio.class (CONFIG_BLK_CGROUP_IOPRIO)"
            }
            (Knob::CostQos | Knob::CostModel | Knob::Weight, Some(Errno::NOENT)) => {
                "the kernel was built without io.cost (CONFIG_BLK_CGROUP_IOCOST)"
            }
            (Knob::BfqWeight, Some(Errno::NOENT)) => "bfq is not loaded",
            (Knob::BfqWeight, Some(Errno::OPNOTSUPP)) => "the device does not use the elevator bfq",
            (Knob::Wbt, Some(Errno::NOENT)) => {
                "the kernel was built without write-back throttling (CONFIG_BLK_WBT)"
            }
            (_, Some(Errno::NODEV)) => "the device was removed, or is a partition",
            (_, Some(Errno::NOENT)) => "this kernel does not have this file",
            (_, Some(Errno::INVAL | Errno::RANGE)) => "the kernel does not accept this value",
            _ => rights(&error),
        };
        Self::Step {
            path: file.to_owned(),
            tried: format!("write {value:?}"),
            error,
            help,
        }
    }
}

/// Returns the remedy for an error of permissions, or an empty string.
fn rights(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => "run the command as root",
        Some(Errno::ROFS) => "it is mounted read-only, for example in a container",
        _ => "",
    }
}
