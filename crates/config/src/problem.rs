//! What is wrong with a file: where, what, and what to do.

use std::fmt;

/// One thing that is wrong.
///
/// Printed as one line, or two where there is help:
///
/// ```text
/// weir.toml:12:7: volume.alpha.min: "10MB" is a size, not a rate
///   help: write "10MB/s"
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file's name as it was given; empty for text without a name.
    pub file: String,
    /// Its line, from 1; 0 if the problem has no place in the file.
    pub line: u32,
    /// The character in that line, from 1; 0 if the problem has no place in the file.
    pub column: u32,
    /// The key's path, as `volume.alpha.min`; empty if it is about the file as a whole.
    pub key: String,
    /// What is wrong, with the value and what is permitted.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<String>,
    /// It asks for more than there is, of what a drive or a tenant can promise or of room for data: less of it could be had, or the same of
    /// another drive.
    pub exceeds: bool,
}

impl Problem {
    /// A problem at a line and a column of a file; empty help is none.
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

    /// The same, of something that asks for more than there is.
    pub(crate) fn exceeding(self) -> Self {
        Self {
            exceeds: true,
            ..self
        }
    }

    /// Where it is and what is wrong, without the help: for another file that names this one.
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
    fn what_has_no_place_is_told_without_one() {
        let mut problem = Problem::new("", (0, 0), "", "too much".to_owned(), "");
        assert_eq!(problem.to_string(), "too much");
        problem.file = "a.toml".to_owned();
        assert_eq!(problem.to_string(), "a.toml: too much");
        problem.line = 1;
        problem.column = 2;
        assert_eq!(problem.to_string(), "a.toml:1:2: too much");
    }
}
