//! What is logged, and how much of it.

use crate::failure::Failure;
use clap::ValueEnum;
use std::io::{self, Write};
use tracing_subscriber::filter::LevelFilter;

/// How much is logged: everything at least as grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The environment's word where the command line has none.
const VARIABLE: &str = "WEIR_LOG";

/// Logs from here on to standard error: what was asked for, or what the environment says, or the default.
pub(crate) fn start(asked: Option<Level>, default: Level) -> Result<(), Failure> {
    let level = match (asked, std::env::var_os(VARIABLE)) {
        (Some(level), _) => level,
        (None, Some(text)) if !text.is_empty() => named(&text.to_string_lossy())?,
        _ => default,
    };
    tracing_subscriber::fmt()
        // No colours, which files and journals do not want: another crate of the same build may turn the subscriber's on.
        .with_ansi(false)
        .with_writer(Lines::default)
        .with_max_level(level.filter())
        .with_target(level >= Level::Debug)
        .init();
    Ok(())
}

/// Standard error, to which each record goes as one line, whatever names, paths and errors it has in it.
#[derive(Debug, Default)]
struct Lines;

impl Write for Lines {
    /// Takes a whole record, as the subscriber writes them.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&one_line(record))?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A record with its control characters escaped, but for what colours it and the end of its line.
fn one_line(record: &[u8]) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let text = record.strip_suffix(b"\n").unwrap_or(record);
    let mut line = Vec::with_capacity(record.len());
    for byte in text {
        if byte.is_ascii_control() && *byte != ESCAPE {
            line.extend(byte.escape_ascii());
        } else {
            line.push(*byte);
        }
    }
    line.push(b'\n');
    line
}

fn named(text: &str) -> Result<Level, Failure> {
    Level::from_str(text, true).map_err(|_| {
        let names = Level::value_variants().iter().map(|l| l.name());
        let names: Vec<String> = names.collect();
        Failure::Usage(format!(
            "{VARIABLE} is {text:?}: there are {}",
            names.join(", ")
        ))
    })
}

impl Level {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line() {
        let record = b"\x1b[33m WARN\x1b[0m volume=a\nb: no\tsuch file \xe2\x80\xa6\n";
        let line = b"\x1b[33m WARN\x1b[0m volume=a\\nb: no\\tsuch file \xe2\x80\xa6\n";
        assert_eq!(one_line(record), line);
    }
}
