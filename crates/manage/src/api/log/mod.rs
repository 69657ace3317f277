//! The log of the process on standard error: its level, its format, and its thread (`writer`).
//!
//! A thread that logs a line passes it to the writer's thread and never waits. A log that is not
//! read, a full disk or a closed pipe therefore neither delays clients nor ends the process.
//!
//! Call [`start`] once, and keep a [`FlushGuard`] until the end of the process.

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
use writer::LogQueue;

/// The least severe level of messages that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[allow(missing_docs, reason = "the names of levels are well known")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The environment variable that sets the level if the command line does not.
const VARIABLE: &str = "WEIR_LOG";

/// The time for which a serving command waits at its end until the log is written. It waits for the
/// same time again to print the reason of its end.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The maximum length of a line of the log in bytes. A longer line is cut.
const LINE: usize = 8 << 10;

/// The log of the process, after it was started.
static LOG: OnceLock<Log> = OnceLock::new();

/// The queue to the writer's thread, and the time for which the end of the process waits for it.
#[derive(Debug)]
struct Log {
    queue: LogQueue,
    patience: Duration,
}

/// The reason why the log was not started.
#[derive(Debug, thiserror::Error)]
pub enum LogStartError {
    /// The environment variable has a level that does not exist.
    #[error("{VARIABLE} has the unknown level {0:?}; use one of {names}", names = LogLevel::names())]
    Level(String),
    /// Standard error has no descriptor, or the thread cannot be started.
    #[error("cannot write a log: {0}")]
    Writer(io::Error),
}

/// Starts the log of the process on standard error. The level is `asked`, or else the value of
/// `WEIR_LOG`, or else `default`. At its end, the process waits for at most `patience` for standard
/// error.
///
/// # Errors
/// Returns the errors described at [`LogStartError`].
pub fn start(
    asked: Option<LogLevel>,
    default: LogLevel,
    patience: Duration,
) -> Result<(), LogStartError> {
    let level = match (asked, std::env::var_os(VARIABLE)) {
        (Some(level), _) => level,
        (None, Some(text)) if !text.is_empty() => named(&text.to_string_lossy())?,
        _ => default,
    };
    // The handle of the standard library has a lock, which would be held while a write blocks.
    let out = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let queue = out.and_then(LogQueue::start);
    let queue = queue.map_err(LogStartError::Writer)?;
    // A second call keeps the first log. The subscriber's `init` below panics in that case.
    let _ = LOG.set(Log { queue, patience });
    std::panic::set_hook(Box::new(log_panic));
    tracing_subscriber::fmt()
        // The subscriber would print these errors to standard error itself.
        .log_internal_errors(false)
        // Files and journals need no colours. Another crate of the same build can enable the
        // feature, so that it is turned off explicitly.
        .with_ansi(false)
        .with_writer(LogLines::default)
        .with_max_level(level.filter())
        // Targets are names of modules, which help only developers.
        .with_target(level >= LogLevel::Debug)
        .init();
    Ok(())
}

/// Writes text to standard error after all lines that were logged before, within the time for which
/// the end of the process waits.
pub fn print(text: &str) {
    match LOG.get() {
        Some(log) => log.queue.print(text.into(), log.patience),
        // An error cannot be reported, because this is the channel for errors.
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Waits until all logged lines are written, for at most the time that [`start`] was given.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.queue.flush(log.patience);
    }
}

/// A guard that flushes the log when it is dropped.
#[derive(Debug)]
pub struct FlushGuard;

impl Drop for FlushGuard {
    fn drop(&mut self) {
        flush();
    }
}

/// Returns the counter of lines that could not be written.
pub fn dropped() -> Arc<AtomicU64> {
    LOG.get().map(|log| log.queue.dropped()).unwrap_or_default()
}

/// Logs a panic. The default hook would block on standard error.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    tracing::error!(thread = name, "{}", panic.to_string().replace('\n', " "));
    let backtrace = Backtrace::capture();
    // It is captured only if RUST_BACKTRACE is set.
    if backtrace.status() == BacktraceStatus::Captured
        && let Some(log) = LOG.get()
    {
        log.queue.push_text(backtrace.to_string().into());
    }
}

/// The destination of the subscriber. Each record becomes one line, regardless of the names, paths
/// and errors in it.
#[derive(Debug, Default)]
struct LogLines;

impl Write for LogLines {
    /// Takes one record. The subscriber writes each record with one call.
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

/// Escapes the control characters in a record, except those of colours and the final line feed, and
/// cuts it if it is too long.
fn one_line(record: &[u8]) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let text = record.strip_suffix(b"\n").unwrap_or(record);
    let mut line = Vec::with_capacity(record.len());
    for byte in text {
        // A cut must not be within a UTF-8 sequence: continuation bytes begin with the bits 10.
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

fn named(text: &str) -> Result<LogLevel, LogStartError> {
    LogLevel::from_str(text, true).map_err(|_| LogStartError::Level(text.to_owned()))
}

impl LogLevel {
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
