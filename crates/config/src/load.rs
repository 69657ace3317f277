//! Loading of the server's file: parsing, reading of tables, and the checks between tables.

use crate::check;
use crate::document::Document;
use crate::file::{tables, text};
use crate::problem::Problem;
use crate::read;
use crate::server::Server;
use std::path::Path;

/// Reads and checks the server's file. It opens no other file except those of policies. The server
/// finds out later whether it can open the volumes' files.
///
/// # Errors
/// Everything that is wrong with the file, in the order of the file. There are at most a hundred
/// problems, followed by the number of the others.
pub fn load(path: &Path) -> Result<Server, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse(&file, &text)
}

/// Reads and checks the server's file before a reload. It does the same as [`load`], except that
/// excessive promises are reported at a promise that `before` did not have.
///
/// # Errors
/// The problems of the file, as [`load`] returns them.
pub fn load_again(path: &Path, before: &Server) -> Result<Server, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse_again(&file, &text, before)
}

/// Reads and checks the text of a server's file. `file` is its name in problems and can be empty.
///
/// # Errors
/// The problems of the text, as [`load`] returns them.
pub fn parse(file: &str, text: &str) -> Result<Server, Vec<Problem>> {
    parsed(file, text, None)
}

/// Reads and checks the text of a server's file before a reload, in the same way as [`load_again`].
///
/// # Errors
/// The problems of the text, as [`load`] returns them.
pub fn parse_again(file: &str, text: &str, before: &Server) -> Result<Server, Vec<Problem>> {
    parsed(file, text, Some(before))
}

fn parsed(file: &str, text: &str, before: Option<&Server>) -> Result<Server, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    let Some(table) = tables(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    // `read` looks at one table at a time, and `check` at the relations between tables.
    let mut draft = read::server(&mut doc, &table);
    check::check(&mut doc, &mut draft, before);
    if doc.problem_count() > 0 {
        return Err(doc.into_problems());
    }
    let mut server = draft.server;
    // The places serve for problems that are found later, for example when a volume's file is
    // opened.
    server.places = std::mem::take(&mut doc.places);
    Ok(server)
}
