//! Plots of the states of controllers and the elevator over a run.

use super::plots::looks;
use super::{CompareReport, ComparedCell, ComparedDrive, ComparedOverTime};
use crate::report::html::PageBlock;
use crate::report::svg::{Along, Chart, ChartMark, MarkShape};
use crate::report::table::named;
use weir_measure::TracedState;
use weir_measure::number::figure;

/// The maximum number of other clients that are drawn. More would hide each other, and make pages
/// large.
const OTHERS: usize = 5;

/// The state that only io.cost has.
const VRATE: &str = "vrate";

/// Returns the plots of one cell: one for each value that changes. A sentence lists the values that
/// do not change. The plots are shown on demand, or at first if the comparison is about io.cost and
/// the cell has its states.
pub(super) fn block(
    report: &CompareReport,
    drive: &ComparedDrive,
    cell: &ComparedCell,
) -> Option<PageBlock> {
    let over = cell.over_time.as_ref()?;
    let places: Vec<&ComparedOverTime> = places(drive, cell).collect();
    let ends = places.iter().filter_map(|over| ends(over)).reduce(f64::max);
    let ends = ends.map(|end| (0.0, end));
    let (mut plots, mut still) = (Vec::new(), Vec::new());
    for name in names(&over.states) {
        let states: Vec<&TracedState> = over.states.iter().filter(|s| s.state == name).collect();
        match constant(&states) {
            Some(value) => {
                let said = format!("{name} {} {}", figure(value), states[0].unit);
                still.push(said.trim_end().to_owned());
            }
            None => plots.push(Chart {
                reach: reach(&places, name),
                ..chart(report, &cell.policy, &states, ends)
            }),
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
        "The first repetition, looked at up to two hundred times. In the foreground {} and the drive, thin lines are up to {OTHERS} others.{still}",
        named(&report.target)
    );
    let line = format!("What {} was doing over time", cell.policy);
    let plots = vec![PageBlock::Plots(plots, caption)];
    Some(if has_vrate(cell) && is_about_cost(report) {
        PageBlock::OpenDetails(line, plots)
    } else {
        PageBlock::Details(line, plots)
    })
}

/// Returns the courses of a cell and of the cells with the same policy in other places. Their plots
/// have the same axes, so that a kernel and the simulator can be compared.
fn places<'a>(
    drive: &'a ComparedDrive,
    cell: &'a ComparedCell,
) -> impl Iterator<Item = &'a ComparedOverTime> {
    let same = drive.of(&cell.case);
    let same = same.filter(|other| policy_of(&other.policy) == policy_of(&cell.policy));
    same.filter_map(|other| other.over_time.as_ref())
}

/// Returns the policy of a label, which can end with a place, as in `bfq @6.1`.
fn policy_of(label: &str) -> &str {
    label.split_once(" @").map_or(label, |(policy, _)| policy)
}

/// Returns the least and the greatest value of a state in several courses.
fn reach(places: &[&ComparedOverTime], name: &str) -> Vec<f64> {
    let states = places.iter().flat_map(|over| &over.states);
    let states = states.filter(|state| state.state == name);
    let values = || {
        states
            .clone()
            .flat_map(|state| state.points.iter().map(|p| p.1))
    };
    let ends = [values().reduce(f64::min), values().reduce(f64::max)];
    ends.into_iter().flatten().collect()
}

/// Returns the end of a run in seconds. A kernel does not report the depth of the drive's queue.
fn ends(over: &ComparedOverTime) -> Option<f64> {
    let of_states = over.states.iter().filter_map(|s| s.points.last());
    let last = of_states.map(|point| point.0).reduce(f64::max);
    over.depth.last().map(|point| point.0).or(last)
}

fn has_vrate(cell: &ComparedCell) -> bool {
    let mut states = cell.over_time.iter().flat_map(|over| &over.states);
    states.any(|state| state.state == VRATE)
}

/// Returns true if at least half of the compared policies are variants of io.cost.
fn is_about_cost(report: &CompareReport) -> bool {
    let cells = || report.drives.iter().flat_map(|drive| &drive.cells);
    2 * cells().filter(|cell| has_vrate(cell)).count() >= cells().count()
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

/// Returns the points with a gap wherever a value was absent for more than a fiftieth of the run,
/// or for more than two samples if samples are rarer, as those of a kernel are in short runs.
fn gaps(points: &[(f64, f64)], ends: Option<(f64, f64)>) -> Vec<(f64, f64)> {
    let steps = points.windows(2).map(|two| two[1].0 - two[0].0);
    let step = steps.fold(f64::INFINITY, f64::min);
    // States are sampled two hundred times, so that a gap is four missing samples.
    let long = ends.map_or(f64::INFINITY, |(_, end)| (end / 50.0).max(2.5 * step));
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
