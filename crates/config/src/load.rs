//! The whole way from a file's text to a checked server.

use crate::check;
use crate::document::Document;
use crate::file::{tables, text};
use crate::problem::Problem;
use crate::read;
use crate::server::Server;
use std::path::Path;

/// Reads and checks the server's file. Nothing but this file is looked at: whether the volumes' files can be opened is for the
/// server to find out.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; at most a hundred problems and a count of the others.
pub fn load(path: &Path) -> Result<Server, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse(&file, &text)
}

/// Reads and checks what the server's file has become. As [`load`], but where too much is promised the problem is at a promise that
/// `before` did not have.
///
/// # Errors
/// As [`load`].
pub fn load_again(path: &Path, before: &Server) -> Result<Server, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse_again(&file, &text, before)
}

/// Reads and checks the text of a server's file. `file` is its name in problems and may be empty.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &str, text: &str) -> Result<Server, Vec<Problem>> {
    parsed(file, text, None)
}

/// Reads and checks what the text of a server's file has become, as [`load_again`] does.
///
/// # Errors
/// As [`load`].
pub fn parse_again(file: &str, text: &str, before: &Server) -> Result<Server, Vec<Problem>> {
    parsed(file, text, Some(before))
}

fn parsed(file: &str, text: &str, before: Option<&Server>) -> Result<Server, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    let Some(table) = tables(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let mut draft = read::server(&mut doc, &table);
    check::check(&mut doc, &mut draft, before);
    if doc.found() > 0 {
        return Err(doc.into_problems());
    }
    let mut server = draft.server;
    server.places = std::mem::take(&mut doc.places);
    Ok(server)
}
