//! What comes with Weir: lists of names, one line each, and words that are such a name or a file.

use crate::failure::Failure;
use crate::output;
use std::fmt::Display;
use std::path::Path;

/// Names and what is to be said of them, one a line.
pub(crate) fn list<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Failure> {
    let lines: Vec<_> = lines.into_iter().collect();
    let wide = lines.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(name, about)| format!("{name:wide$}  {about}\n"));
    output::print(&lines.collect::<String>())
}

/// Whether a word names a file and not something that comes with Weir: it has a slash, or ends in
/// one of `endings`.
pub(crate) fn is_file(word: &str, endings: &[&str]) -> bool {
    let ending = Path::new(word).extension().and_then(|e| e.to_str());
    word.contains('/') || ending.is_some_and(|ending| endings.contains(&ending))
}

/// Refuses a name that is unknown: `list` prints the known ones, and a file has one of `endings`.
/// `nearest`: one that is near to it.
pub(crate) fn unknown(
    unknown: &impl Display,
    nearest: Option<&str>,
    list: &str,
    endings: &[&str],
) -> Failure {
    let run = if nearest.is_some() { " Run" } else { "; run" };
    let endings = endings.join(" or .");
    Failure::Usage(format!(
        "{unknown}{run} `weir {list}` for a list; the name of a file must contain a slash or end in .{endings}"
    ))
}
