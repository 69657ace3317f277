//! Why a command did not do what it was asked to.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why a command did not do what it was asked to, and with which status it ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was asked for what cannot be: status 2.
    Usage(String),
    /// It did not succeed: status 1.
    Run(String),
    /// As [`Failure::Run`], and everything was said already.
    Said,
    /// Whoever read the results has read enough: status 0.
    Unread,
}

impl Failure {
    /// A run that failed for a reason with words of its own.
    pub(crate) fn run(reason: impl Display) -> Self {
        Self::Run(plain(&reason.to_string()))
    }

    /// What was tried with a file, and what the system said.
    pub(crate) fn file(tried: &str, path: &Path, error: &io::Error) -> Self {
        Self::Run(format!(
            "cannot {tried} {}: {}",
            path.display(),
            said(error)
        ))
    }

    /// Says why on standard error, and gives the status to end with.
    pub(crate) fn report(&self) -> ExitCode {
        let (status, reason) = match self {
            Self::Usage(reason) => (2, Some(reason)),
            Self::Run(reason) => (1, Some(reason)),
            Self::Said => (1, None),
            Self::Unread => (0, None),
        };
        if let Some(reason) = reason {
            // There is nobody to tell if this fails.
            let _ = writeln!(io::stderr(), "error: {reason}");
        }
        ExitCode::from(status)
    }
}

/// What the system said, without its number.
pub(crate) fn said(error: &io::Error) -> String {
    plain(&error.to_string())
}

/// A text without the system's error numbers, which say nothing to people that the words before them do not.
fn plain(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        assert_eq!(
            said(&io::Error::from_raw_os_error(2)),
            "No such file or directory"
        );
        let two = "a: no (os error 2), b: yes (os error 13)";
        assert_eq!(plain(two), "a: no, b: yes");
    }
}
