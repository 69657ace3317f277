//! How many runs there are of each cell: where there are fewer than were planned, and why.

use super::work::{Cell, Outcome, Plan, Played};

/// Which runs are missing, of how many, if any are: after an interrupt.
pub(super) fn missing(plans: &[Plan], all: &[Played]) -> Option<String> {
    let (mut played, mut all_planned, mut parts) = (0, 0, Vec::new());
    for (plan, cells) in plans.iter().zip(all) {
        let mut groups: Vec<(usize, usize, Vec<Cell>)> = Vec::new();
        for cell in plan.cells() {
            let found = cells.iter().find(|(c, _)| *c == cell);
            let outcomes = found.map_or(&[][..], |(_, outcomes)| outcomes);
            let of = planned(plan, outcomes);
            played += outcomes.len();
            all_planned += of;
            let lacks = of - outcomes.len();
            match groups.iter_mut().find(|g| (g.0, g.1) == (lacks, of)) {
                _ if lacks == 0 => {}
                Some(group) => group.2.push(cell),
                None => groups.push((lacks, of, vec![cell])),
            }
        }
        let groups = groups.iter().map(|(lacks, of, cells)| {
            let name = plan.script.name();
            let name = (plans.len() > 1).then(|| format!("{name}: "));
            let name = name.unwrap_or_default();
            let place = place(plan, cells).unwrap_or_else(|| "everywhere".into());
            format!("{name}{lacks} of {of} {place}")
        });
        parts.extend(groups);
    }
    let parts = parts.join("; ");
    (played < all_planned).then(|| format!("{played} of {all_planned} runs; missing: {parts}"))
}

/// Where nothing is drawn, so that there is one run in place of several: a sentence, if there are such cells.
pub(super) fn undrawn(plan: &Plan, cells: &Played) -> Option<String> {
    let undrawn = cells.iter().filter(|(_, outcomes)| !is_drawn(outcomes));
    let undrawn: Vec<Cell> = undrawn.map(|(cell, _)| *cell).collect();
    if undrawn.is_empty() || plan.repetitions == 1 {
        return None;
    }
    let n = plan.repetitions;
    let place = place(plan, &undrawn).map_or_else(String::new, |place| format!(" {place}"));
    Some(format!(
        "Nothing is drawn{place}: one run of each, since {n} would all be the same."
    ))
}

/// How many runs the figures are of.
pub(super) fn count(cells: &Played) -> String {
    let counts = || cells.iter().map(|(_, outcomes)| outcomes.len());
    let most = counts().max().unwrap_or_default();
    match (most, counts().all(|n| n == most)) {
        (1, _) => "one run".into(),
        (n, true) => format!("{n} runs"),
        (n, false) => format!("up to {n} runs"),
    }
}

/// How many runs there are to be of a cell of which there are these so far.
pub(super) fn planned(plan: &Plan, outcomes: &[Outcome]) -> usize {
    if outcomes.is_empty() || is_drawn(outcomes) {
        plan.repetitions as usize
    } else {
        1
    }
}

fn is_drawn(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| outcome.drew)
}

/// Where these cells are: by drive, and on it by case, where not all of a drive are among them. `None`: they are all that there are.
fn place(plan: &Plan, cells: &[Cell]) -> Option<String> {
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
        if here.len() == plan.cases.len() * plan.policies.len() {
            drives.push(format!("on {}", drive.name));
            continue;
        }
        let cases = (0..plan.cases.len()).filter_map(|case| {
            let names = here.iter().filter(|c| c.case == case);
            let names: Vec<&str> = names.map(|c| plan.policy(*c).name.as_str()).collect();
            let head = plan.cases[case].as_ref();
            let head = head.map_or_else(String::new, |c| format!("{c}: "));
            (!names.is_empty()).then(|| format!("{head}{}", names.join(", ")))
        });
        let cases: Vec<String> = cases.collect();
        drives.push(format!("on {} ({})", drive.name, cases.join("; ")));
    }
    Some(drives.join(", "))
}
