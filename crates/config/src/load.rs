//! The whole way from a file's text to a checked server.

use crate::Options;
use crate::check;
use crate::document::{Document, Table};
use crate::problem::Problem;
use crate::read;
use crate::server::Server;
use std::path::Path;
use toml::Spanned;
use toml::de::DeTable;

/// Longest file, bytes.
const FILE_MAX: usize = 16 << 20;

/// Reads and checks the server's file. Nothing but this file is looked at: whether the volumes' files can be opened is for the
/// server to find out.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; at most a hundred problems and a count of the others.
pub fn load(path: &Path, options: &Options) -> Result<Server, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse(&file, &text, options)
}

/// The name and the text of a file.
pub(crate) fn text(path: &Path) -> Result<(String, String), Vec<Problem>> {
    let file = path.display().to_string();
    let unreadable = |message: String| {
        vec![Problem {
            file: file.clone(),
            line: 0,
            column: 0,
            key: String::new(),
            message,
            help: None,
        }]
    };
    let text = std::fs::read(path).map_err(|e| unreadable(format!("cannot be read: {e}")))?;
    let text = String::from_utf8(text).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        unreadable(format!("is not UTF-8 from byte {at} on"))
    })?;
    Ok((file, text))
}

/// Reads and checks the text of a server's file. `file` is its name in problems and may be empty.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &str, text: &str, options: &Options) -> Result<Server, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    let Some(table) = tables(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let mut draft = read::server(&mut doc, table.get_ref(), options);
    check::check(&mut doc, &mut draft);
    if doc.found() > 0 {
        return Err(doc.into_problems());
    }
    let mut server = draft.server;
    server.places = std::mem::take(&mut doc.places);
    Ok(server)
}

/// What `read` makes of a text's outermost table, if nothing is wrong with it. `file` is its name in problems.
pub(crate) fn whole<T>(
    text: &str,
    file: &str,
    read: impl for<'a> FnOnce(&mut Document<'a>, &Table<'a>) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    let table = tables(&mut doc, text);
    let table = table.as_ref().map(|t| Table::root(t.get_ref()));
    match table.and_then(|t| read(&mut doc, &t)) {
        Some(value) if doc.found() == 0 => Ok(value),
        _ => Err(doc.into_problems()),
    }
}

/// The tables of a file; none if it is not TOML, or too long.
pub(crate) fn tables<'a>(doc: &mut Document<'_>, text: &'a str) -> Option<Spanned<DeTable<'a>>> {
    if text.len() > FILE_MAX {
        let what = format!("has {} bytes; at most {FILE_MAX} are read", text.len());
        doc.at(&(0..0), "", what, "");
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    syntax(doc, text, &errors);
    // Values of a broken file are anybody's guess.
    (doc.found() == 0).then_some(table)
}

/// Keeps what is not TOML: one problem a line, and of few lines, since most of the others follow from the first.
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
        let message = error.message().trim_end_matches(", expected nothing");
        let what = match text.get(span.clone()) {
            Some(key) if message == "duplicate key" => format!("the key {key} is there already"),
            _ => message.to_owned(),
        };
        doc.at(&span, "", what, "");
    }
}
