//! Records as JSON Lines: one object per line.

use std::io::{self, BufRead, Write};
use std::{error, fmt};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::Record;

/// One record as one line of JSON, without the newline. Every fraction has three digits, so that equal results are
/// equal bytes.
pub fn to_line(record: &Record) -> String {
    write(record)
}

/// Plain data as one line of JSON with such fractions.
pub(crate) fn write(data: &impl Serialize) -> String {
    let mut line = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut line, FixedDigits);
    data.serialize(&mut serializer)
        .expect("it is plain data and memory takes every byte");
    String::from_utf8(line).expect("JSON is UTF-8")
}

/// Writes records to `out`, one per line.
///
/// # Errors
/// Errors of `out`.
pub fn write_records<'a, W: Write>(
    out: &mut W,
    records: impl IntoIterator<Item = &'a Record>,
) -> io::Result<()> {
    for record in records {
        let mut line = to_line(record);
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    out.flush()
}

/// Reads records, one per line; empty lines are skipped, unknown fields ignored.
///
/// Each item is a record or the error of its line; after an I/O error of `input` the iterator ends.
pub fn read_records<R: BufRead>(input: R) -> impl Iterator<Item = Result<Record, ReadError>> {
    let mut failed = false;
    input
        .lines()
        .enumerate()
        .take_while(move |(_, line)| !std::mem::replace(&mut failed, line.is_err()))
        .filter(|(_, line)| line.as_ref().map_or(true, |l| !l.trim().is_empty()))
        .map(|(i, line)| {
            let at = |reason| ReadError {
                line: i + 1,
                reason,
            };
            let line = line.map_err(|e| at(Reason::Io(e)))?;
            serde_json::from_str(&line).map_err(|e| at(Reason::Json(e)))
        })
}

/// A line that is not a record, or could not be read.
#[derive(Debug)]
pub struct ReadError {
    line: usize,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Io(io::Error),
    Json(serde_json::Error),
}

impl ReadError {
    /// The line's number, from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Io(e) => write!(f, "cannot read line {}: {e}", self.line),
            Reason::Json(e) => write!(f, "line {} is not a result record: {e}", self.line),
        }
    }
}

impl error::Error for ReadError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.reason {
            Reason::Io(e) => Some(e),
            Reason::Json(e) => Some(e),
        }
    }
}

/// JSON with three digits after the point, which in microseconds are nanoseconds.
struct FixedDigits;

impl Formatter for FixedDigits {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // -0.000 must be the same bytes as 0.000.
        let value = if value.abs() < 0.0005 { 0.0 } else { value };
        write!(writer, "{value:.3}")
    }
}
