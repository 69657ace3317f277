//! JSON Lines: one record per line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::Record;

/// Returns one record as one line of JSON, without the newline. Each fraction has three digits, so
/// that equal results are equal bytes.
pub fn to_line(record: &Record) -> String {
    write(record)
}

/// Returns plain data as one line of JSON, in which each fraction has three digits.
pub(crate) fn write(data: &impl Serialize) -> String {
    let mut line = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut line, FixedDigits);
    data.serialize(&mut serializer)
        .expect("it is plain data and memory takes every byte");
    String::from_utf8(line).expect("JSON is UTF-8")
}

/// Writes records to `out`, one per line, and flushes it.
///
/// # Errors
/// Returns the errors of `out`.
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

/// A formatter with three digits after the point, so that microseconds are exact to the nanosecond.
struct FixedDigits;

impl Formatter for FixedDigits {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // -0.000 must be the same bytes as 0.000.
        let value = if value.abs() < 0.0005 { 0.0 } else { value };
        write!(writer, "{value:.3}")
    }
}
