//! Counts the runs of cells, and describes the cells that have fewer runs than requested and the
//! reason.

use super::on::RunPlace;
use super::work::{Cell, ComparisonPlan, PlayedCells, RunOutcome};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The early end of a comparison, by a run that failed or by an interrupt.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    /// The failure of the command.
    pub(super) reason: Failure,
    /// A note on the missing runs, for tables and pages. `None` if all runs were made.
    pub(super) note: Option<String>,
}

impl EarlyEnd {
    /// Returns the early end of the comparison that has the results `all`. `None` if all runs
    /// succeeded.
    pub(super) fn find(
        plans: &[ComparisonPlan],
        all: &[PlayedCells],
        failed: Option<Failure>,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        let missing = missing(plans, all);
        let how = failed.as_ref().map_or("Interrupted", |_| "A run failed");
        let note = missing.as_ref().map(|missing| format!("{how}: {missing}."));
        let interrupted = interrupt.signal().zip(missing);
        let interrupted =
            interrupted.map(|(signal, missing)| Failure::Interrupted(signal, missing));
        let reason = failed.or(interrupted)?;
        Some(Self { reason, note })
    }
}

/// Returns a description of the runs that a failure or an interrupt has prevented, or `None` if all
/// runs were made.
pub(super) fn missing(plans: &[ComparisonPlan], all: &[PlayedCells]) -> Option<String> {
    let (mut done, mut total) = (0, 0);
    // Each description, with the names of the scenarios that it applies to.
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    for (plan, cells) in plans.iter().zip(all) {
        let mut groups: Vec<((usize, usize), Vec<Cell>)> = Vec::new();
        for cell in plan.cells() {
            let found = cells.iter().find(|(c, _)| *c == cell);
            let outcomes = found.map_or(&[][..], |(_, outcomes)| outcomes);
            let of = planned(plan, cell, outcomes);
            done += outcomes.len();
            total += of;
            let lacks = (of - outcomes.len(), of);
            match groups.iter_mut().find(|(same, _)| *same == lacks) {
                // Complete cells are not mentioned.
                _ if lacks.0 == 0 => {}
                Some((_, cells)) => cells.push(cell),
                None => groups.push((lacks, vec![cell])),
            }
        }
        for ((lacks, of), cells) in groups {
            let place = place(plan, &cells).unwrap_or_else(|| "everywhere".into());
            let text = format!("{lacks} of {of} {place}");
            // Scenarios with the same missing runs share a description.
            match parts.iter_mut().find(|(same, _)| *same == text) {
                Some((_, names)) => names.push(plan.script.name()),
                None => parts.push((text, vec![plan.script.name()])),
            }
        }
    }
    let parts = parts.into_iter().map(|(text, names)| match plans {
        [_] => text,
        _ => format!("{}: {text}", names.join(", ")),
    });
    let parts: Vec<String> = parts.collect();
    let parts = parts.join("; ");
    (done < total).then(|| format!("{done} of {total} runs; missing: {parts}"))
}

/// Returns the changes of contracts that the simulator refused, and their cells, one sentence each.
pub(super) fn refused(plan: &ComparisonPlan, cells: &PlayedCells) -> Vec<String> {
    let mut all: Vec<(&String, Vec<Cell>)> = Vec::new();
    for (cell, outcomes) in cells
        .iter()
        .filter(|(c, _)| matches!(plan.on[c.on], RunPlace::Sim))
    {
        for note in outcomes.first().into_iter().flat_map(|o| &o.notes) {
            match all.iter_mut().find(|(said, _)| *said == note) {
                Some((_, at)) => at.push(*cell),
                None => all.push((note, vec![*cell])),
            }
        }
    }
    let say = |(note, at): (&String, Vec<Cell>)| {
        let place = place(plan, &at).map_or_else(String::new, |place| format!(" {place}"));
        format!("Note{place}: {note}.")
    };
    all.into_iter().map(say).collect()
}

/// Returns a sentence on cells that have one run instead of several, because they do not use random
/// numbers.
pub(super) fn undrawn(plan: &ComparisonPlan, cells: &PlayedCells) -> Option<String> {
    let undrawn = cells.iter().filter(|(_, outcomes)| !is_drawn(outcomes));
    let undrawn: Vec<Cell> = undrawn.map(|(cell, _)| *cell).collect();
    let n = undrawn.iter().map(|cell| plan.repetitions(*cell)).max()?;
    // With one repetition, a single run is the expected number.
    if n == 1 {
        return None;
    }
    let place = place(plan, &undrawn).map_or_else(String::new, |place| format!(" {place}"));
    Some(format!(
        "Nothing is drawn{place}: one run of each, since {n} would all be the same."
    ))
}

/// Returns the number of runs from which the figures are computed, in words.
pub(super) fn count(cells: &PlayedCells) -> String {
    let counts = || cells.iter().map(|(_, outcomes)| outcomes.len());
    let most = counts().max().unwrap_or_default();
    match (most, counts().all(|n| n == most)) {
        (1, _) => "one run".into(),
        (n, true) => format!("{n} runs"),
        (n, false) => format!("up to {n} runs"),
    }
}

/// Returns the number of runs that a cell should have, as far as its runs up to now tell.
pub(super) fn planned(plan: &ComparisonPlan, cell: Cell, outcomes: &[RunOutcome]) -> usize {
    // Before its first run, a cell is assumed to use random numbers.
    if outcomes.is_empty() || is_drawn(outcomes) {
        plan.repetitions(cell) as usize
    } else {
        1
    }
}

/// Returns true if the runs used random numbers, so that others would differ from them.
fn is_drawn(outcomes: &[RunOutcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.drew)
}

/// Describes a set of cells: by drive, and by case and policy if only some cells of a drive belong
/// to the set. Returns `None` if the set contains all cells of the plan.
fn place(plan: &ComparisonPlan, cells: &[Cell]) -> Option<String> {
    if cells.len() == plan.cells().len() {
        return None;
    }
    let mut drives = Vec::new();
    for (number, drive) in plan.drives.iter().enumerate() {
        let here = cells.iter().filter(|c| c.drive == number);
        let here: Vec<Cell> = here.copied().collect();
        if here.is_empty() {
            continue;
        }
        let all = plan.cells();
        let all = all.iter().filter(|c| c.drive == number);
        // All cases have the same number of cells: one for each policy and place.
        let of_case = all.clone().filter(|c| c.case == 0).count();
        if here.len() == all.count() {
            drives.push(format!("on {}", drive.name));
            continue;
        }
        let cases = (0..plan.cases.len()).filter_map(|case| {
            let names = here.iter().filter(|c| c.case == case);
            let names: Vec<String> = names.map(|c| plan.label(*c)).collect();
            let whole = names.len() == of_case;
            let names = (!names.is_empty()).then(|| names.join(", "))?;
            Some(match &plan.cases[case] {
                Some(case) if whole => case.clone(),
                Some(case) => format!("{case}: {names}"),
                None => names,
            })
        });
        let cases: Vec<String> = cases.collect();
        drives.push(format!("on {} ({})", drive.name, cases.join("; ")));
    }
    Some(drives.join(", "))
}
