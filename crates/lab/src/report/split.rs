//! The plot of a mean request's time by the places where it was spent.

use crate::report::svg::{Along, Chart, ChartMark, Ink, MarkShape};
use crate::report::table::named;
use weir_measure::number::duration;

/// A row of the plot: its name, the mean latency, and the parts of that latency, all in
/// microseconds.
pub(crate) type SplitRow = (String, f64, Vec<f64>);

/// Returns the plot of the parts in per cent, with a bar for each row, or `None` without rows.
/// Latencies differ by orders of magnitude. On a common scale, only the longest bar would show its
/// parts.
pub(crate) fn chart(target: &str, parts: &[(&str, Ink)], mut rows: Vec<SplitRow>) -> Option<Chart> {
    // A row without times cannot be divided.
    rows.retain(|(.., values)| values.iter().sum::<f64>() > 0.0);
    let ends = rows.iter();
    let ends = ends.map(|(name, mean, _)| (name.clone(), duration(*mean)));
    let ends: Vec<(String, String)> = ends.collect();
    let said: Vec<String> = ends
        .iter()
        .map(|(name, mean)| format!("{name} {mean}"))
        .collect();
    let percent = |(.., values): &SplitRow, part: usize| {
        let value = values.get(part).copied().unwrap_or(0.0);
        value * 100.0 / values.iter().sum::<f64>()
    };
    let marks = parts
        .iter()
        .enumerate()
        .map(|(part, (name, ink))| ChartMark {
            name: (*name).to_owned(),
            ink: *ink,
            shape: MarkShape::Parts(rows.iter().map(|row| percent(row, part)).collect()),
        });
    (!rows.is_empty()).then(|| Chart {
        title: format!("Time of a request of {}", named(target)),
        description: format!("Mean time of a request: {}.", said.join(", ")),
        unit: "%".into(),
        along: Along::Rows(ends),
        marks: marks.collect(),
        ..Chart::default()
    })
}
