//! Problems of a file: their place, the message, and the help.

use std::fmt;

/// A problem of a file.
///
/// It is displayed as one line, or as two with help:
///
/// ```text
/// weir.toml:12:7: volume.alpha.min: "10MB" is a size, not a rate
///   help: write "10MB/s"
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The name of the file as the user stated it. Empty for text without a name.
    pub file: String,
    /// The line, counted from 1. 0 if the problem has no place in the file.
    pub line: u32,
    /// The character in the line, counted from 1. 0 if the problem has no place in the file.
    pub column: u32,
    /// The path of the key, such as `volume.alpha.min`. Empty if the problem concerns the whole
    /// file.
    pub key: String,
    /// The message, which contains the value and the permitted values.
    pub message: String,
    /// The advice, if there is any.
    pub help: Option<String>,
    /// True if the user requires more than is available, either of promises that a drive or tenant
    /// can give or of space for data. A smaller amount, or another drive, would be accepted.
    pub exceeds: bool,
}

impl Problem {
    /// Creates a problem at a line and column of a file. Empty `help` means no help.
    pub(crate) fn new(
        file: &str,
        (line, column): (u32, u32),
        key: &str,
        message: String,
        help: &str,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line,
            column,
            key: key.to_owned(),
            message,
            help: (!help.is_empty()).then(|| help.to_owned()),
            exceeds: false,
        }
    }

    /// Marks the problem as a requirement of more than is available.
    pub(crate) fn exceeding(self) -> Self {
        Self {
            exceeds: true,
            ..self
        }
    }

    /// Returns the place and the message without the help, to quote the problem in another file's
    /// problem.
    pub(crate) fn located(&self) -> String {
        let alone = Self {
            help: None,
            ..self.clone()
        };
        alone.to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if !self.file.is_empty() || self.line > 0 {
            f.write_str(" ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_printed_with_the_known_part_of_its_position() {
        let mut problem = Problem::new("", (0, 0), "", "too much".to_owned(), "");
        assert_eq!(problem.to_string(), "too much");
        problem.file = "a.toml".to_owned();
        assert_eq!(problem.to_string(), "a.toml: too much");
        problem.line = 1;
        problem.column = 2;
        assert_eq!(problem.to_string(), "a.toml:1:2: too much");
    }
}
