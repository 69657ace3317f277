//! The reasons for which a command fails, and their exit statuses.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use weir_config::{Problem, os_error};
use weir_manage::api::log;

/// The reason why a command failed. It decides the exit status.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The arguments contradict each other or cannot be fulfilled. The exit status is 2.
    Usage(String),
    /// The command did not succeed. The exit status is 1.
    Run(String),
    /// A file has problems at these places. The exit status is 1.
    Problems(Vec<Problem>),
    /// A signal with this number has ended the command, and the text describes the missing results.
    /// The exit status is 128 plus the number.
    Interrupted(i32, String),
    /// The command did not succeed, and the reason has already been printed. The exit status is 1.
    Said,
    /// A child process ended with this status and has printed the reason. The exit status is the
    /// same.
    Command(i32),
    /// The reader of standard output has closed it. The exit status is 0.
    Unread,
}

impl Failure {
    /// Returns the failure of a command, with the reason as text.
    pub(crate) fn run(reason: impl Display) -> Self {
        Self::Run(os_error::without_numbers(&reason.to_string()))
    }

    /// Returns the failure of an operation on a file. `tried` is the verb of the operation.
    pub(crate) fn file(tried: &str, path: &Path, error: &io::Error) -> Self {
        Self::Run(format!(
            "cannot {tried} {}: {}",
            path.display(),
            os_error::message(error)
        ))
    }

    /// Returns this failure, unless showing the results has failed for another reason than a closed
    /// output. The reasons of two unsuccessful operations are combined.
    pub(crate) fn beside(self, shown: Result<(), Self>) -> Self {
        match (self, shown) {
            (this, Ok(()) | Err(Self::Unread)) => this,
            (Self::Run(this), Err(Self::Run(other))) => Self::Run(format!("{this}\n{other}")),
            (_, Err(other)) => other,
        }
    }

    /// Returns the failures of two operations as one.
    pub(crate) fn both(one: Result<(), Self>, other: Result<(), Self>) -> Result<(), Self> {
        match one {
            Ok(()) => other,
            Err(failure) => Err(failure.beside(other)),
        }
    }

    /// Prints the reason on standard error, and returns the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        let (status, head, reason) = match self {
            Self::Usage(reason) => (2, "error", reason.as_str()),
            Self::Run(reason) => (1, "error", reason.as_str()),
            Self::Interrupted(signal, missing) => {
                // The shell reports a process that was ended by a signal in the same way.
                let status = u8::try_from(128 + signal).unwrap_or(u8::MAX);
                (status, "interrupted", missing.as_str())
            }
            Self::Said | Self::Problems(_) => (1, "", ""),
            Self::Command(status) => (u8::try_from(*status).unwrap_or(u8::MAX), "", ""),
            Self::Unread => (0, "", ""),
        };
        if !reason.is_empty() {
            log::print(&format!("{head}: {reason}\n"));
        }
        if let Self::Problems(problems) = self {
            let said = problems.iter().map(|problem| format!("{problem}\n"));
            let said: String = said.collect();
            log::print(&format!("{said}{}\n", counted(problems.len())));
        }
        ExitCode::from(status)
    }
}

/// Returns the number of problems, in words.
pub(crate) fn counted(problems: usize) -> String {
    match problems {
        1 => "1 problem".to_owned(),
        n => format!("{n} problems"),
    }
}
