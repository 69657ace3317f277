//! What controllers and the elevator were doing over a run.

use super::{CompareReport, ComparedCell, ComparedState};
use crate::html::Block;
use crate::number::figure;
use crate::policy;
use crate::svg::{Line, LineChart, Scale};
use crate::table::named;

/// Number of the others that are drawn: more would hide each other, and make pages large.
const OTHERS: usize = 5;

/// The plots of one cell, shown on demand: one for each number that changes. Those that never do are said in a sentence.
pub(super) fn block(report: &CompareReport, cell: &ComparedCell) -> Option<Block> {
    let over = cell.over_time.as_ref()?;
    let (mut changing, mut still) = (Vec::new(), Vec::new());
    for name in names(&over.states) {
        let states: Vec<&ComparedState> = over.states.iter().filter(|s| s.name == name).collect();
        match constant(&states) {
            Some(value) => {
                let said = format!("{name} {} {}", figure(value), states[0].unit);
                still.push(said.trim_end().to_owned());
            }
            None => changing.push((name, states)),
        }
    }
    let over = Over {
        policy: &cell.policy,
        x_range: over.depth.last().map(|p| (0.0, p.0)),
        // As many as the page puts in a row.
        size: match changing.len() {
            1 | 2 | 4 => (520.0, 230.0),
            _ => (340.0, 240.0),
        },
    };
    let plots: Vec<String> = (changing.iter())
        .map(|(name, states)| over.chart(name, states))
        .collect();
    if plots.is_empty() {
        return None;
    }
    let still = match &still[..] {
        [] => String::new(),
        all => format!(" Throughout the same: {}.", all.join(", ")),
    };
    let caption = format!(
        "The first repetition, looked at two hundred times. In the foreground {} and the drive, thin lines are up to {OTHERS} others.{still}",
        named(&report.target)
    );
    let line = format!("What {} was doing over time", cell.policy);
    Some(Block::Details(line, vec![Block::Plots(plots, caption)]))
}

/// The names, in order of first occurrence.
fn names(states: &[ComparedState]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for state in states {
        if !names.contains(&state.name.as_str()) {
            names.push(&state.name);
        }
    }
    names
}

/// The value, if there is but one.
fn constant(states: &[&ComparedState]) -> Option<f64> {
    let mut values = states.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let first = values.next()?;
    values
        .all(|value| (value - first).abs() < 1e-9)
        .then_some(first)
}

/// What the plots of a cell have in common.
struct Over<'a> {
    policy: &'a str,
    x_range: Option<(f64, f64)>,
    size: (f64, f64),
}

impl Over<'_> {
    fn chart(&self, name: &str, states: &[&ComparedState]) -> String {
        // Thin lines first, so that the others lie above them.
        let (quiet, loud): (Vec<&ComparedState>, Vec<_>) = states.iter().partition(|s| s.quiet);
        let lines = quiet
            .into_iter()
            .take(OTHERS)
            .chain(loud)
            .map(|state| Line {
                name: state.of.clone(),
                ink: policy::ink(self.policy),
                quiet: state.quiet,
                dash: 0,
                points: gaps(&state.points, self.x_range),
            });
        let chart = LineChart {
            title: format!("{}: {name}", self.policy),
            description: format!("{name} of {} over time.", states[0].of),
            x_name: "seconds".into(),
            y_unit: states[0].unit.clone(),
            scale: Scale::Linear,
            x_range: self.x_range,
            size: self.size,
            lines: lines.collect(),
            ..LineChart::default()
        };
        chart.html()
    }
}

/// The points with a gap wherever there was nothing to say for a while.
fn gaps(points: &[(f64, f64)], x_range: Option<(f64, f64)>) -> Vec<(f64, f64)> {
    let long = x_range.map_or(f64::INFINITY, |(_, end)| end / 50.0);
    let mut all: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    for &(at, value) in points {
        if let Some(&(last, _)) = all.last()
            && at - last > long
        {
            all.push((at, f64::NAN));
        }
        all.push((at, value));
    }
    all
}
