//! Plots of the states of controllers and the elevator over a run.

use super::plots::looks;
use super::{CompareReport, ComparedCell};
use crate::report::html::PageBlock;
use crate::report::svg::{Along, Chart, ChartMark, MarkShape};
use crate::report::table::named;
use weir_measure::TracedState;
use weir_measure::number::figure;

/// The maximum number of other clients that are drawn. More would hide each other, and make pages
/// large.
const OTHERS: usize = 5;

/// Returns the plots of one cell, shown on demand: one for each value that changes. A sentence
/// lists the values that do not change.
pub(super) fn block(report: &CompareReport, cell: &ComparedCell) -> Option<PageBlock> {
    let over = cell.over_time.as_ref()?;
    let ends = over.depth.last().map(|p| (0.0, p.0));
    let (mut plots, mut still) = (Vec::new(), Vec::new());
    for name in names(&over.states) {
        let states: Vec<&TracedState> = over.states.iter().filter(|s| s.state == name).collect();
        match constant(&states) {
            Some(value) => {
                let said = format!("{name} {} {}", figure(value), states[0].unit);
                still.push(said.trim_end().to_owned());
            }
            None => plots.push(chart(report, &cell.policy, &states, ends)),
        }
    }
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
    Some(PageBlock::Details(
        line,
        vec![PageBlock::Plots(plots, caption)],
    ))
}

/// Returns the names, in order of first occurrence.
fn names(states: &[TracedState]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for state in states {
        if !names.contains(&state.state.as_str()) {
            names.push(&state.state);
        }
    }
    names
}

/// Returns the value, if there is only one.
fn constant(states: &[&TracedState]) -> Option<f64> {
    let mut values = states.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let first = values.next()?;
    values
        // Values are sums of floating-point numbers, so that equal ones may differ in their last
        // digits.
        .all(|value| (value - first).abs() < 1e-9)
        .then_some(first)
}

/// Returns the plot of one value of a policy over time: that of the target and the drive, and those
/// of some others in the background.
fn chart(
    report: &CompareReport,
    policy: &str,
    states: &[&TracedState],
    ends: Option<(f64, f64)>,
) -> Chart {
    let (target, ink) = (&report.target, looks(report).ink(policy));
    let is_quiet = |state: &&TracedState| state.of != *target && state.of != "drive";
    // Thin lines are drawn first, so that the others are on top of them.
    let (quiet, loud): (Vec<&TracedState>, Vec<_>) = states.iter().copied().partition(is_quiet);
    let lines = quiet.into_iter().take(OTHERS).chain(loud);
    let marks = lines.map(|state| ChartMark {
        name: state.of.clone(),
        ink,
        shape: MarkShape::Line {
            points: gaps(&state.points, ends),
            quiet: is_quiet(&state),
            dash: 0,
        },
    });
    let TracedState {
        state, of, unit, ..
    } = states[0];
    Chart {
        title: format!("{policy}: {state}"),
        description: format!("{state} of {of} over time."),
        unit: unit.clone(),
        along: Along::Quantity("seconds".into(), ends),
        marks: marks.collect(),
        ..Chart::default()
    }
}

/// Returns the points with a gap wherever a value was absent for more than a fiftieth of the run.
fn gaps(points: &[(f64, f64)], ends: Option<(f64, f64)>) -> Vec<(f64, f64)> {
    // States are sampled two hundred times, so that a gap is four missing samples.
    let long = ends.map_or(f64::INFINITY, |(_, end)| end / 50.0);
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
