//! Why a command did not do what it was asked to.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use weir_config::{Problem, os_error};
use weir_manage::api::log;

/// Why a command did not do what it was asked to, and with which status it ends.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was asked for what cannot be: status 2.
    Usage(String),
    /// It did not succeed: status 1.
    Run(String),
    /// What it was given is wrong in these places: status 1.
    Problems(Vec<Problem>),
    /// It was ended by a signal of that number, and a part of the results is missing: status 128 and the number.
    Interrupted(i32, String),
    /// As [`Failure::Run`], and everything was said already.
    Said,
    /// A command that it ran ended with this status, and has said why: the same status.
    Command(i32),
    /// The reader of the results has read enough: status 0.
    Unread,
}

impl Failure {
    /// A run that failed for a reason with words of its own.
    pub(crate) fn run(reason: impl Display) -> Self {
        Self::Run(os_error::without_numbers(&reason.to_string()))
    }

    /// What was tried with a file, and what the system said.
    pub(crate) fn file(tried: &str, path: &Path, error: &io::Error) -> Self {
        Self::Run(format!(
            "cannot {tried} {}: {}",
            path.display(),
            os_error::message(error)
        ))
    }

    /// What a command ends with that has this to say beside what it has shown: it does not matter then that nobody read that.
    pub(crate) fn beside(self, shown: Result<(), Self>) -> Self {
        match shown {
            Ok(()) | Err(Self::Unread) => self,
            Err(other) => other,
        }
    }

    /// Says why on standard error, and gives the status to end with.
    pub(crate) fn report(&self) -> ExitCode {
        let (status, head, reason) = match self {
            Self::Usage(reason) => (2, "error", reason.as_str()),
            Self::Run(reason) => (1, "error", reason.as_str()),
            Self::Interrupted(signal, missing) => {
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

/// How many problems there are, in words.
pub(crate) fn counted(problems: usize) -> String {
    match problems {
        1 => "1 problem".to_owned(),
        n => format!("{n} problems"),
    }
}
