//! Iologs of `fio`, versions 2 and 3 (HOWTO, section "Trace file format").
//!
//! Times of version 3 are in microseconds, as fio 3.33 writes and reads them.

use super::builder::TraceBuilder;
use super::failure;
use crate::problem::Problem;
use crate::text::quoted;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use weir_core::{Flags, Op, Span};
use weir_model::load::TracedRequest;

/// The beginning of the first line of every version.
pub(super) const START: &[u8] = b"fio version ";

/// The maximum length of a line in bytes. A name has at most 256 of them in `fio`.
const LINE_MAX: u64 = 4096;

/// The wait in microseconds below which `fio` ignores a `wait`.
const WAIT_MIN: u64 = 100;

/// A problem of a line and its help.
type LineProblem = (String, &'static str);

/// The state of the reading of an iolog.
#[derive(Default)]
struct Iolog {
    /// The version of the format, 2 or 3.
    version: u32,
    /// The number of each file that was added.
    files: BTreeMap<String, u16>,
    /// The time of the present line in microseconds.
    now: u64,
}

/// Reads an iolog from its first line on.
pub(super) fn read(builder: &mut TraceBuilder, input: &mut impl BufRead) -> Result<(), Problem> {
    let mut log = Iolog::default();
    let mut line = Vec::new();
    for number in 1u32.. {
        line.clear();
        let read = input.take(LINE_MAX + 1).read_until(b'\n', &mut line);
        let length = read.map_err(|error| failure(builder, &error))?;
        if length == 0 {
            break;
        }
        let result = whole(&line).and_then(|text| match number {
            1 => log.head(text),
            _ => log.line(builder, text),
        });
        result.map_err(|(what, help)| builder.problem(number, &what, help))?;
    }
    Ok(())
}

/// Returns the text of a line without its end.
fn whole(line: &[u8]) -> Result<&str, LineProblem> {
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err(if line.len() as u64 > LINE_MAX {
            let what = format!("the line is longer than {LINE_MAX} bytes");
            (what, "record the load again; the file is damaged")
        } else {
            let help = "record the load again, or end the line with a line break if it is complete";
            (
                "the last line has no end; the file is truncated".to_owned(),
                help,
            )
        });
    };
    let help = "record the load again; the file is damaged";
    std::str::from_utf8(line).map_err(|_| ("the line is not text".to_owned(), help))
}

impl Iolog {
    /// Reads the first line.
    fn head(&mut self, text: &str) -> Result<(), LineProblem> {
        self.version = match text.trim_end() {
            "fio version 2 iolog" => 2,
            "fio version 3 iolog" => 3,
            other => {
                let help = "record the load with fio 1.17 or later, which writes version 2 or 3";
                return Err((format!("{} is not supported", quoted(other)), help));
            }
        };
        Ok(())
    }

    /// Reads a line after the first.
    fn line(&mut self, builder: &mut TraceBuilder, text: &str) -> Result<(), LineProblem> {
        let mut words = text.split_whitespace();
        if self.version == 3 {
            let Some(time) = words.next() else {
                return Ok(());
            };
            self.advance_to(number(time, "a time in microseconds")?)?;
        }
        let words: Vec<&str> = words.take(5).collect();
        match words[..] {
            [] if self.version == 2 => Ok(()),
            [name, action] => self.file(name, action),
            [name, action, offset, length] => {
                let offset = number(offset, "an offset in bytes")?;
                let length = number(length, "a length in bytes")?;
                self.request(builder, (name, action), (offset, length))
            }
            _ => {
                let help = "write FILE ACTION or FILE ACTION OFFSET LENGTH, in version 3 with the time in front";
                Err((format!("{} is not a line of an iolog", quoted(text)), help))
            }
        }
    }

    /// Sets the time of a line, which must not be before that of an earlier line.
    fn advance_to(&mut self, now: u64) -> Result<(), LineProblem> {
        if now < self.now {
            let what = format!("{now} is before {}, the time of the line before", self.now);
            return Err((what, "sort the lines after the first by their times"));
        }
        self.now = now;
        Ok(())
    }

    /// Reads a line that manages a file.
    fn file(&mut self, name: &str, action: &str) -> Result<(), LineProblem> {
        match action {
            "add" => {
                let next = self.files.len();
                if next == TraceBuilder::FILES && !self.files.contains_key(name) {
                    let what = format!("has more than {} files, the maximum", TraceBuilder::FILES);
                    return Err((what, "record a load with fewer files"));
                }
                self.files.entry(name.to_owned()).or_insert(next as u16);
                Ok(())
            }
            "open" | "close" => self.number(name).map(|_| ()),
            _ => {
                let help =
                    "write add, open or close for a file, and an offset and a length for a request";
                Err((format!("unknown action {}", quoted(action)), help))
            }
        }
    }

    /// Returns the number of a file.
    fn number(&self, name: &str) -> Result<u16, LineProblem> {
        let found = self.files.get(name).copied();
        found.ok_or_else(|| {
            let what = format!("the file {} was not added before", quoted(name));
            (what, "insert a line with its name and the action add")
        })
    }

    /// Reads a line that issues a request or waits.
    fn request(
        &mut self,
        builder: &mut TraceBuilder,
        (name, action): (&str, &str),
        (offset, length): (u64, u64),
    ) -> Result<(), LineProblem> {
        let op = match action {
            "read" => Op::Read,
            "write" => Op::Write,
            "sync" | "datasync" => Op::Flush,
            "trim" => Op::Discard,
            "wait" if self.version == 2 => {
                let later = if offset < WAIT_MIN { 0 } else { offset };
                return self.advance_to(self.now.saturating_add(later));
            }
            "wait" => {
                let what = "wait is not part of version 3, which has times".to_owned();
                return Err((what, "remove the line, or write version 2 without times"));
            }
            _ => {
                let help = "write read, write, sync, datasync, trim or, in version 2, wait";
                return Err((format!("unknown action {}", quoted(action)), help));
            }
        };
        let Some(at) = self.now.checked_mul(1_000) else {
            let what = format!("{} is not a time in microseconds", self.now);
            return Err((what, "record the load again; the file is damaged"));
        };
        let request = TracedRequest {
            at: Span::from_nanos(at),
            offset: if op == Op::Flush { 0 } else { offset },
            length: 0,
            op,
            // A process waits for its writes, as it does for those of other clients.
            flags: if op == Op::Write {
                Flags::SYNC
            } else {
                Flags::NONE
            },
        };
        builder.add(self.number(name)?, length, request)
    }
}

fn number(text: &str, what: &str) -> Result<u64, LineProblem> {
    text.parse().map_err(|_| {
        let help = "write a whole number, or record the load again";
        (format!("{} is not {what}", quoted(text)), help)
    })
}
