//! The log: what is logged, how much of it, and standard error, which a thread of its own writes
//! (`writer`).
//!
//! A thread that logs a line hands it over and never waits. So a log that is not read, a full disk
//! or a closed pipe stops no client, and ends nothing.

mod repeats;
mod writer;

use clap::ValueEnum;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;
use writer::Queue;

/// How much is logged: everything at least as grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[allow(missing_docs, reason = "the names of levels are well known")]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The environment's word where the command line has none.
const VARIABLE: &str = "WEIR_LOG";

/// How long a command that serves waits at its end for its log to be written, and as long again for
/// the reason of its end.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of a line of the log. The rest of a longer line is cut.
const LINE: usize = 8 << 10;

/// The log of the process, once it is started.
static LOG: OnceLock<Log> = OnceLock::new();

/// The way to the thread that writes, and how long the end of the process waits for it.
#[derive(Debug)]
struct Log {
    queue: Queue,
    patience: Duration,
}

/// The reason why a log was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The environment names a level that does not exist.
    #[error("{VARIABLE} has the unknown level {0:?}; use one of {names}", names = Level::names())]
    Level(String),
    /// Standard error has no descriptor, or there is no thread for the log.
    #[error("cannot write a log: {0}")]
    Writer(io::Error),
}

/// Starts the log of the process on standard error. Its level is `asked`, or else the value of
/// `WEIR_LOG`, or else `default`. `patience` bounds the time that the end of the process waits for
/// standard error.
///
/// # Errors
/// See [`StartError`].
pub fn start(asked: Option<Level>, default: Level, patience: Duration) -> Result<(), StartError> {
    let level = match (asked, std::env::var_os(VARIABLE)) {
        (Some(level), _) => level,
        (None, Some(text)) if !text.is_empty() => named(&text.to_string_lossy())?,
        _ => default,
    };
    // Not by the standard library's handle: its lock would be held while a write waits.
    let out = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let queue = out.and_then(Queue::start);
    let queue = queue.map_err(StartError::Writer)?;
    let _ = LOG.set(Log { queue, patience });
    std::panic::set_hook(Box::new(log_panic));
    tracing_subscriber::fmt()
        // The subscriber would write of these to standard error itself.
        .log_internal_errors(false)
        // No colours, which files and journals do not want: another crate of the same build may
        // turn the subscriber's on.
        .with_ansi(false)
        .with_writer(Lines::default)
        .with_max_level(level.filter())
        .with_target(level >= Level::Debug)
        .init();
    Ok(())
}

/// Writes text to standard error after all that was logged, within the time that the end of the
/// process waits.
pub fn print(text: &str) {
    match LOG.get() {
        Some(log) => log.queue.print(text.into(), log.patience),
        // There is nobody to tell if this fails.
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Waits until all that was logged is written, for as long as the end of the process may wait for
/// it.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.queue.flush(log.patience);
    }
}

/// Flushes the log when it is dropped.
#[derive(Debug)]
pub struct Flushed;

impl Drop for Flushed {
    fn drop(&mut self) {
        flush();
    }
}

/// The number of lines that could not be written, as it grows.
pub fn dropped() -> Arc<AtomicU64> {
    LOG.get().map(|log| log.queue.dropped()).unwrap_or_default()
}

/// Logs a panic: the default hook would wait for standard error.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    tracing::error!(thread = name, "{}", panic.to_string().replace('\n', " "));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured
        && let Some(log) = LOG.get()
    {
        log.queue.push_text(backtrace.to_string().into());
    }
}

/// The log, to which each record goes as one line, whatever names, paths and errors it has in it.
#[derive(Debug, Default)]
struct Lines;

impl Write for Lines {
    /// Takes a whole record, as the subscriber writes them.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        if let Some(log) = LOG.get() {
            log.queue.push(one_line(record));
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A record with its control characters escaped, but for what colours it and the end of its line;
/// cut where it is too long.
fn one_line(record: &[u8]) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let text = record.strip_suffix(b"\n").unwrap_or(record);
    let mut line = Vec::with_capacity(record.len());
    for byte in text {
        // Not within a character.
        if line.len() >= LINE && byte & 0xc0 != 0x80 {
            line.extend("…".as_bytes());
            break;
        }
        if byte.is_ascii_control() && *byte != ESCAPE {
            line.extend(byte.escape_ascii());
        } else {
            line.push(*byte);
        }
    }
    line.push(b'\n');
    line
}

fn named(text: &str) -> Result<Level, StartError> {
    Level::from_str(text, true).map_err(|_| StartError::Level(text.to_owned()))
}

impl Level {
    fn names() -> String {
        let names = Self::value_variants().iter().map(|level| level.name());
        names.collect::<Vec<_>>().join(", ")
    }

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

    #[test]
    fn a_long_record_is_cut() {
        let record = "é".repeat(LINE);
        let line = String::from_utf8(one_line(record.as_bytes())).unwrap();
        assert!(line.len() < LINE + 8 && line.ends_with("é…\n"), "{line}");
    }
}
