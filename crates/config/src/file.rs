//! Reading of files: the text of a file, its outermost table, and errors of TOML syntax.

use crate::document::{Document, ShapedTable, TomlTable, TomlValue};
use crate::key::UNDECLARED;
use crate::os_error;
use crate::problem::Problem;
use crate::text::{is_name, quoted};
use crate::trusted::file_kind_noun;
use crate::units::ByteSize;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The maximum size of a file in bytes. It suffices for a server with the maximum number of
/// volumes.
const FILE_MAX: usize = 16 << 20;

/// Reads a file and returns its name and text. It must be a regular file of at most 16 MiB, because
/// reading another kind of file might never end.
///
/// # Errors
/// Returns a problem if the file cannot be read, is not a regular file, is too long, or is not
/// UTF-8.
pub fn text(path: &Path) -> Result<(String, String), Vec<Problem>> {
    let file = path.display().to_string();
    let problem = |message, help: &str| vec![Problem::new(&file, (0, 0), "", message, help)];
    let opened = open(path)?;
    // One byte beyond the limit suffices to recognise a file that is too long.
    let mut text = Vec::new();
    let read = opened.take(FILE_MAX as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| vec![unreadable(&file, &error)])?;
    if text.len() > FILE_MAX {
        return Err(problem(too_long(), "name another file"));
    }
    let text = String::from_utf8(text).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        // TOML files must be UTF-8 (TOML 1.0, Spec).
        let help = "save it as UTF-8, or name another file";
        problem(format!("is not UTF-8 from byte {at} on"), help)
    })?;
    Ok((file, text))
}

/// Opens a regular file for reading.
///
/// # Errors
/// Returns a problem if the file cannot be opened or is not a regular file.
pub(crate) fn open(path: &Path) -> Result<File, Vec<Problem>> {
    let file = path.display().to_string();
    let refused = |error: io::Error| vec![unreadable(&file, &error)];
    let regular = |kind: std::fs::FileType| {
        let what = format!("is {}, not a regular file", file_kind_noun(kind));
        let other = || vec![Problem::new(&file, (0, 0), "", what, "name a regular file")];
        kind.is_file().then_some(()).ok_or_else(other)
    };
    // This check comes before the file is opened, because opening a device can have effects.
    regular(std::fs::metadata(path).map_err(refused)?.file_type())?;
    // The file could have been replaced by a pipe since the check. `NONBLOCK` keeps the open from
    // waiting for the other end of that pipe, and the second check refuses it.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty());
    let opened = File::from(opened.map_err(|errno| refused(errno.into()))?);
    regular(opened.metadata().map_err(refused)?.file_type())?;
    Ok(opened)
}

fn unreadable(file: &str, error: &io::Error) -> Problem {
    let what = format!("cannot read the file: {}", os_error::message(error));
    Problem::new(file, (0, 0), "", what, "")
}

/// Returns the path of a file that another file names. It is relative to the working directory, or
/// else to the directory of the file `from`.
pub(crate) fn beside(name: &str, from: &Path, is_there: impl Fn(&Path) -> bool) -> PathBuf {
    let here = PathBuf::from(name);
    match from.parent() {
        Some(folder) if !is_there(&here) => folder.join(name),
        _ => here,
    }
}

fn too_long() -> String {
    format!("is longer than {}, the maximum", ByteSize(FILE_MAX as u64))
}

/// Parses a text and returns the result of `read` for its outermost table, or all problems if there
/// is at least one. `file` is the name of the text in problems.
pub(crate) fn parse_whole<T>(
    text: &str,
    file: &str,
    read: impl for<'a> FnOnce(&mut Document<'a>, &ShapedTable<'a>) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    let table = tables(&mut doc, text);
    let table = table.as_ref().map(|t| ShapedTable::root(t, &UNDECLARED));
    match table.and_then(|t| read(&mut doc, &t)) {
        Some(value) if doc.problem_count() == 0 => Ok(value),
        _ => Err(doc.into_problems()),
    }
}

/// Reads the keys `name` and `about` of a file. `called` is the kind of object that the
/// file describes, and `about` an example of its description. An invalid name is reported but still
/// returned, so that reading continues.
pub(crate) fn read_name_and_about<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    called: &str,
    about: &str,
) -> (Option<&'a str>, Option<&'a str>) {
    let mut text = |key, example: String| {
        let entry = doc.required(table, key, &format!("write {key} = {example}"))?;
        let text = entry.text(doc, "a text", &example)?;
        Some((entry, text))
    };
    let name = text("name", format!("\"my-{called}\""));
    let about = text("about", format!("\"{about}\""));
    if let Some((entry, name)) = &name
        && !is_name(name)
    {
        let what = format!("{} is not a valid name", quoted(name));
        let help = format!(
            "use 1 to 64 letters, digits, dots, dashes and underscores for a {called}'s name, beginning with a letter or digit"
        );
        doc.report(entry, what, &help);
    }
    if let Some((entry, about)) = &about
        // Lists show the first line as a summary.
        && about.lines().next().is_none_or(str::is_empty)
    {
        doc.report(entry, "must not have an empty first line", "");
    }
    (name.map(|n| n.1), about.map(|a| a.1))
}

#[cfg(test)]
thread_local! {
    /// The number of documents that this thread has parsed.
    pub(crate) static PARSED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Parses the tables of a file. Returns `None` after reporting a problem if the text is too long or
/// is not TOML.
pub(crate) fn tables(doc: &mut Document<'_>, text: &str) -> Option<TomlTable> {
    if text.len() > FILE_MAX {
        doc.report_span(&(0..0), "", too_long(), "");
        return None;
    }
    #[cfg(test)]
    PARSED.with(|count| count.set(count.get() + 1));
    let (table, errors) = DeTable::parse_recoverable(text);
    syntax(doc, text, &errors);
    // The parser recovers from errors, but the values of a broken file are guesses. They would only
    // produce further problems.
    match TomlValue::from(DeValue::Table(table.into_inner())) {
        TomlValue::Table(map) if doc.problem_count() == 0 => Some(map),
        _ => None,
    }
}

/// Returns true if the line up to a position contains a number with a comma. That cannot be an
/// array of numbers, because no key of these files has one.
fn in_number(text: &str, at: usize) -> bool {
    let text = text.as_bytes();
    // The parser stops at the comma, so the digit after it is included.
    let end = text.len().min(at + 2);
    let mut before = text[..at.min(end)].iter();
    let begin = before.rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut parts = text[begin..end].rsplit(|b| matches!(b, b'"' | b'\'' | b'#' | b'='));
    let mut values = parts.next().into_iter().flat_map(|value| value.windows(3));
    values.any(|w| w[0].is_ascii_digit() && w[1] == b',' && w[2].is_ascii_digit())
}

/// Returns true if a position is in the header of a table.
fn is_header(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.trim_start().starts_with('[')
}

/// Reports syntax errors: at most one for each line, and at most three in total, because most of
/// the others follow from the first.
fn syntax(doc: &mut Document<'_>, text: &str, errors: &[toml::de::Error]) {
    const SHOWN: usize = 3;
    let mut lines = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = doc.place(span.start).0;
        if lines.contains(&line) || lines.len() == SHOWN {
            continue;
        }
        lines.push(line);
        // This end of some of the parser's messages has no meaning for users.
        let message = error.message().trim_end_matches(", expected nothing");
        let (what, help) = match text.get(span.clone()) {
            Some(key) if message == "duplicate key" => {
                (format!("duplicate key {key}"), "remove one of the two")
            }
            _ if message.starts_with("invalid basic string") => (
                "the string is not closed on its line".to_owned(),
                "close it with a quotation mark",
            ),
            _ if in_number(text, span.start) => (
                "a number contains a comma".to_owned(),
                "write it without the comma; digits cannot be grouped, and a fraction is written with a point",
            ),
            _ if message.starts_with("invalid literal string") => (
                "the string is not closed by the quotation mark that opens it".to_owned(),
                "use the same quotation mark, \" or ', at both ends",
            ),
            _ if message.starts_with("string values must be quoted") => (
                "text is not in quotation marks".to_owned(),
                "write it as \"word\": plain quotation marks, in pairs",
            ),
            _ if message.starts_with("key with no value") => (
                message.to_owned(),
                "write KEY = VALUE; a comment begins with #",
            ),
            _ if message.starts_with("invalid key-value pair") => (
                message.to_owned(),
                "write KEY = VALUE, a line for each; this is TOML, not JSON or YAML",
            ),
            _ if message.starts_with("unclosed ") => (
                message.to_owned(),
                "close the header with as many brackets as it begins with",
            ),
            _ => (message.to_owned(), ""),
        };
        doc.report_span(&span, "", what, help);
        // The keys of a duplicate table are reported as duplicates too, but only because of its
        // header.
        if message == "duplicate key" && is_header(text, span.start) {
            return;
        }
    }
}
