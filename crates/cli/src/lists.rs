//! What there is, one line each.

use crate::compare;
use crate::demo::{Policy, Scenario};
use crate::failure::Failure;
use crate::output;

/// `weir policies`.
pub(crate) fn policies() -> Result<(), Failure> {
    list(Policy::ALL.map(|p| (p.name(), p.about())))
}

/// `weir scenarios`.
pub(crate) fn scenarios() -> Result<(), Failure> {
    let demo = Scenario::ALL.map(|s| (s.name(), s.about()));
    let own = compare::Scenario::OWN.map(|s| (s.name(), s.about()));
    list(demo.into_iter().chain(own))
}

fn list<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Failure> {
    let lines: Vec<_> = lines.into_iter().collect();
    let wide = lines.iter().map(|l| l.0.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(name, about)| format!("{name:wide$}  {about}\n"));
    output::print(&lines.collect::<String>())
}
