//! What there is, one line each.

use crate::failure::Failure;
use crate::output;

/// Names and what is to be said of them, one a line.
pub(crate) fn list<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Failure> {
    let lines: Vec<_> = lines.into_iter().collect();
    let wide = lines.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(name, about)| format!("{name:wide$}  {about}\n"));
    output::print(&lines.collect::<String>())
}
