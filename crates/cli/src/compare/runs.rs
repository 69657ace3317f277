//! How many runs there are of each cell: where there are fewer than were planned, and why.

use super::on::On;
use super::work::{Cell, Outcome, Plan, Played};

/// Which runs are missing, of how many, if any are: after an interrupt.
pub(super) fn missing(plans: &[Plan], all: &[Played]) -> Option<String> {
    let (mut done, mut total) = (0, 0);
    // What is missing, and of which scenarios.
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
                _ if lacks.0 == 0 => {}
                Some((_, cells)) => cells.push(cell),
                None => groups.push((lacks, vec![cell])),
            }
        }
        for ((lacks, of), cells) in groups {
            let place = place(plan, &cells).unwrap_or_else(|| "everywhere".into());
            let text = format!("{lacks} of {of} {place}");
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

/// The changes of contracts that the simulator refused, and where: a sentence each.
pub(super) fn refused(plan: &Plan, cells: &Played) -> Vec<String> {
    let mut all: Vec<(&String, Vec<Cell>)> = Vec::new();
    for (cell, outcomes) in cells
        .iter()
        .filter(|(c, _)| matches!(plan.on[c.on], On::Sim))
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

/// Where nothing is drawn, so that there is one run in place of several: a sentence, if there are such cells.
pub(super) fn undrawn(plan: &Plan, cells: &Played) -> Option<String> {
    let undrawn = cells.iter().filter(|(_, outcomes)| !is_drawn(outcomes));
    let undrawn: Vec<Cell> = undrawn.map(|(cell, _)| *cell).collect();
    let n = undrawn.iter().map(|cell| plan.repetitions(*cell)).max()?;
    if n == 1 {
        return None;
    }
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
pub(super) fn planned(plan: &Plan, cell: Cell, outcomes: &[Outcome]) -> usize {
    if outcomes.is_empty() || is_drawn(outcomes) {
        plan.repetitions(cell) as usize
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
        let all = plan.cells();
        let all = all.iter().filter(|c| c.drive == number);
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
