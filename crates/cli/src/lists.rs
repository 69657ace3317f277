//! Lists of built-in policies, drives and scenarios, and the distinction between their names and
//! the names of files.

use crate::failure::Failure;
use crate::output;
use std::fmt::Display;
use std::path::Path;

/// Prints names and their descriptions, one per line, with the descriptions in one column.
pub(crate) fn list<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Failure> {
    let lines: Vec<_> = lines.into_iter().collect();
    // Descriptions begin in one column, after the longest name.
    let wide = lines.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(name, about)| format!("{name:wide$}  {about}\n"));
    output::print(&lines.collect::<String>())
}

/// Returns true if a word names a file and not a built-in item: it contains a slash, or ends in one
/// of `endings`.
pub(crate) fn is_file(word: &str, endings: &[&str]) -> bool {
    let ending = Path::new(word).extension().and_then(|e| e.to_str());
    word.contains('/') || ending.is_some_and(|ending| endings.contains(&ending))
}

/// Returns the error for a name that is unknown.
///
/// `list` is the command that prints the known names, `endings` are those of files, and `nearest`
/// is a known name that is similar to the unknown one.
pub(crate) fn unknown(
    unknown: &impl Display,
    nearest: Option<&str>,
    list: &str,
    endings: &[&str],
) -> Failure {
    // `unknown` ends with a full stop if it suggests a name, and without one otherwise.
    let run = if nearest.is_some() { " Run" } else { "; run" };
    let endings = endings.join(" or .");
    Failure::Usage(format!(
        "{unknown}{run} `weir {list}` for a list; the name of a file must contain a slash or end in .{endings}"
    ))
}
