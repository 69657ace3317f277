//! The requirements of a scenario (`[[expect]]`) and the published figures (`[[published]]`): their
//! columns and lines in the report, and the verdict of `--check`.

use super::work::{Cell, CellRuns, ComparisonPlan, PlayedCells, RunOutcome};
use crate::failure::Failure;
use crate::judge::{self, JudgedRun, RequirementResult};
use weir_config::scenario::{Bounds, Expect, Figure, FigureOwner, Requirement, Script};
use weir_lab::report::{ComparedDrive, ComparedFigure, named};
use weir_measure::Record;
use weir_measure::promise::Fate;

/// Returns true if the table shows the target's latency. It does not if all requirements are about
/// the division of bandwidth.
pub(super) fn shows_latency(script: &Script) -> bool {
    let divides = |e: &Expect| matches!(e.asked, Requirement::Shares(_) | Requirement::Max(_));
    script.expects().is_empty() || !script.expects().iter().all(divides)
}

/// Returns the smallest bandwidth that is required for the target, in MB/s.
pub(super) fn minimum_mb_per_s(script: &Script) -> Option<f64> {
    script.expects().iter().find_map(|e| match &e.asked {
        Requirement::Figure(b)
            if (b.figure, &b.whose) == (Figure::Bandwidth, &FigureOwner::Target) =>
        {
            let least = b.at_least.filter(|_| !b.is_relative());
            least.map(|v| v.number() / 1e6)
        }
        _ => None,
    })
}

/// Returns the maximum bandwidth of the target's contract, in MB/s, if it has one in all runs.
pub(super) fn maximum_mb_per_s(plan: &ComparisonPlan, cells: &PlayedCells) -> Option<f64> {
    let scenarios = cells
        .iter()
        .flat_map(|(_, outcomes)| outcomes)
        .map(|o| &o.scenario);
    let target = plan.script.target();
    let limits = scenarios.map(|scenario| {
        let at = scenario.clients.iter().position(|c| c.name == target);
        at.map_or(0, |at| scenario.contract(at).max.bandwidth)
    });
    let limit = limits.min().filter(|limit| *limit > 0)?;
    Some(limit as f64 / 1e6)
}

/// Returns the required figures that have plots of their own: run times of programs, and numbers of
/// late requests.
fn figures(plan: &ComparisonPlan, outcomes: &[RunOutcome]) -> Vec<ComparedFigure> {
    let mut all: Vec<ComparedFigure> = Vec::new();
    for expect in plan.script.expects() {
        let Requirement::Figure(bounds) = &expect.asked else {
            continue;
        };
        if !matches!(bounds.figure, Figure::Runtime | Figure::Late) {
            continue;
        }
        let (unit, scale) = unit(bounds.figure);
        let name = name(bounds, plan.script.target());
        if all.iter().all(|f| f.name != name) {
            let value = figure_of_all_runs(plan, outcomes, bounds.figure, &bounds.whose);
            all.push(ComparedFigure {
                name,
                unit: unit.into(),
                value: value.map(|v| v / scale),
            });
        }
    }
    all
}

/// Returns the figure in the headline of a page: that of the first requirement of the scenario.
///
/// Returns `None` if the headline is the target's latency. That is so if the scenario has no
/// requirement, or if its only promise is that to its target and the table shows nothing but the
/// target.
fn headline(
    plan: &ComparisonPlan,
    cells: &[&CellRuns],
    (cell, outcomes): &CellRuns,
) -> Option<ComparedFigure> {
    let figure = |name: String, unit: &str, value| ComparedFigure {
        name,
        unit: unit.into(),
        value,
    };
    let expects = plan.script.expects();
    let first = expects.first()?;
    let off = || Some(judge_repetitions(plan, cells, *cell, outcomes, first).0.off * 100.0);
    let records = || outcomes.iter().flat_map(|outcome| &outcome.records);
    // If there are several promises, the headline is the fraction of all of them.
    let promises = expects.iter();
    let promises = promises.filter(|e| matches!(e.asked, Requirement::Promise(_)));
    let single = promises.count() == 1;
    match &first.asked {
        Requirement::Figure(bounds) => {
            let (unit, scale) = unit(bounds.figure);
            let value = figure_of_all_runs(plan, outcomes, bounds.figure, &bounds.whose);
            let name = name(bounds, plan.script.target());
            Some(figure(name, unit, value.map(|v| v / scale)))
        }
        Requirement::Shares(_) => Some(figure(
            "largest distance from the shares".into(),
            "%",
            off(),
        )),
        Requirement::Max(_) => Some(figure(
            "largest distance from the maximums".into(),
            "%",
            off(),
        )),
        Requirement::Promise(Some(client))
            if !plan.script.shows_clients() && single && client == plan.script.target() =>
        {
            None
        }
        Requirement::Promise(Some(client)) if single => {
            let seconds = records().filter(|r| r.client == *client);
            let seconds = seconds.filter_map(|r| r.promise_seconds.as_ref());
            let (kept, all) = seconds.fold((0, 0), |(kept, all), s| {
                (kept + s.kept, all + s.kept + s.short)
            });
            let name = format!(
                "part of the seconds in which the promise to {} is kept",
                named(client)
            );
            let part = (all > 0).then(|| kept as f64 * 100.0 / all as f64);
            Some(figure(name, "%", part))
        }
        Requirement::Promise(_) => {
            let promised = |r: &&Record| r.fate() != Fate::NotAsked;
            let all = records().filter(promised).count();
            let failed = records().filter(|r| r.fate().is_failure()).count();
            let part = (all > 0).then(|| (all - failed) as f64 * 100.0 / all as f64);
            Some(figure(
                "part of all promises that is kept".into(),
                "%",
                part,
            ))
        }
    }
}

/// Returns the figure of the headline in each repetition, if the first requirement is about a
/// figure.
fn headline_of_runs(plan: &ComparisonPlan, outcomes: &[RunOutcome]) -> Vec<f64> {
    let first = plan.script.expects().first();
    let Some(Requirement::Figure(bounds)) = first.map(|expect| &expect.asked) else {
        return Vec::new();
    };
    let (_, scale) = unit(bounds.figure);
    let runs = outcomes.iter().filter_map(|outcome| {
        let run = std::slice::from_ref(outcome);
        figure_of_all_runs(plan, run, bounds.figure, &bounds.whose)
    });
    runs.map(|value| value / scale).collect()
}

/// Returns the name of a figure on a page, with the clients to which it belongs.
fn name(bounds: &Bounds, target: &str) -> String {
    let whose = match &bounds.whose {
        FigureOwner::Target => named(target),
        FigureOwner::Client(name) => named(name),
        FigureOwner::Others => "all others".to_owned(),
        FigureOwner::Total => "all clients".to_owned(),
    };
    match bounds.figure {
        Figure::Late => format!("number of late requests of {whose}"),
        figure => format!("{} of {whose}", figure.name()),
    }
}

/// Returns the unit of a figure on a page, and the value of the figure that corresponds to one such
/// unit.
fn unit(figure: Figure) -> (&'static str, f64) {
    // Rates are in bytes per second, times in nanoseconds, and parts are 0 to 1.
    match figure {
        Figure::Bandwidth | Figure::WorstSecond => ("MB/s", 1e6),
        Figure::Iops => ("requests/s", 1.0),
        Figure::Mean
        | Figure::Percentile(_)
        | Figure::Longest
        | Figure::Backend
        | Figure::Runtime => ("us", 1e3),
        Figure::Late | Figure::CallsPerRequest => ("", 1.0),
        Figure::Busy | Figure::GuestBusy | Figure::BackendBusy => ("%", 0.01),
        Figure::Kicks | Figure::Calls | Figure::Wakeups => ("a second", 1.0),
    }
}

/// Adds the required and the published figures to the table of a drive and to the lines below it.
pub(super) fn show(plan: &ComparisonPlan, cells: &[&CellRuns], drive: &mut ComparedDrive) {
    for (pair, shown) in cells.iter().zip(&mut drive.cells) {
        shown.figures = figures(plan, &pair.1);
        shown.headline = headline(plan, cells, pair);
        shown.runs = headline_of_runs(plan, &pair.1);
    }
    for expect in plan.script.expects() {
        // Promises have their own line, from [`super::why::verdict`].
        if matches!(expect.asked, Requirement::Promise(_)) {
            continue;
        }
        for ((cell, outcomes), shown) in cells.iter().zip(&mut drive.cells) {
            let (finding, _) = judge_repetitions(plan, cells, *cell, outcomes, expect);
            let line = format!("{}{}", head(plan, *cell), finding.text);
            shown.asked.extend(finding.columns);
            drive.why.push(line);
        }
    }
    let published = published(plan, cells, &drive.name);
    drive.why.extend(published);
}

/// Checks all requirements in all cells.
///
/// # Errors
/// Returns a line for each requirement that is not met, or a usage error if no requirement applies
/// to these policies.
pub(super) fn check(plan: &ComparisonPlan, cells: &PlayedCells) -> Result<(), Failure> {
    let mut failed = Vec::new();
    let mut required = 0;
    for (cell, outcomes) in cells {
        // Results of different drives or places are not compared with each other.
        let here: Vec<&CellRuns> = cells
            .iter()
            .filter(|(c, _)| (c.drive, c.on) == (cell.drive, cell.on))
            .collect();
        let name = &plan.policy(*cell).name;
        // Requirements that compare policies or cases use the runs in the same place.
        for expect in plan.script.expects().iter().filter(|e| e.is_required(name)) {
            required += 1;
            let (finding, of) = if let Requirement::Promise(_) = &expect.asked {
                (judge_promises(plan, outcomes, expect), "worst".to_owned())
            } else {
                let (finding, run) = judge_repetitions(plan, &here, *cell, outcomes, expect);
                (finding, format!("run {}", run + 1))
            };
            // An excused promise did not apply, so it does not fail the check.
            if !matches!(finding.fate, Fate::Kept | Fate::Excused) {
                let drive = &plan.drives[cell.drive].name;
                let of = match outcomes.len() {
                    1 => String::new(),
                    all => format!("{of} of {all} runs: "),
                };
                failed.push(format!(
                    "{drive}, {}{of}{}",
                    head(plan, *cell),
                    finding.text
                ));
            }
        }
    }
    // A successful exit status would suggest that something had been checked.
    if required == 0 {
        return Err(Failure::Usage(
            "--check: the scenario has no requirement for these policies".into(),
        ));
    }
    if failed.is_empty() {
        return Ok(());
    }
    let count = failed.len();
    let lines = failed.join("\n  ");
    Err(Failure::Run(format!(
        "{count} of {required} requirements are not met:\n  {lines}"
    )))
}

/// Judges promises over all repetitions: for each client, in the run with the worst result for it.
fn judge_promises(
    plan: &ComparisonPlan,
    outcomes: &[RunOutcome],
    expect: &Expect,
) -> RequirementResult {
    let runs = |at: usize| outcomes.iter().map(move |outcome| &outcome.records[at]);
    let short = |r: &Record| r.promise_seconds.as_ref().map_or(0, |s| s.short);
    let worst = (0..outcomes[0].records.len()).filter_map(|at| {
        runs(at).reduce(|a, b| {
            // With equal fates, the run with more short seconds is the worse one.
            if is_worse((a.fate(), b.fate()), short(b) > short(a)) {
                b
            } else {
                a
            }
        })
    });
    let run = JudgedRun {
        script: &plan.script,
        scenario: &outcomes[0].scenario,
        records: &worst.cloned().collect::<Vec<_>>(),
        others: &[],
        cases: &[],
    };
    judge::judge_requirement(run, &expect.asked)
}

/// Returns the beginning of a line about a cell: its case, policy and place.
fn head(plan: &ComparisonPlan, cell: Cell) -> String {
    let case = plan.case(cell);
    let case = case.map_or_else(String::new, |c| format!("{c}: "));
    format!("{case}{}: ", plan.label(cell))
}

/// Judges a requirement in each repetition that all compared cells have, and returns the worst
/// result and the number of its repetition.
fn judge_repetitions(
    plan: &ComparisonPlan,
    cells: &[&CellRuns],
    cell: Cell,
    outcomes: &[RunOutcome],
    expect: &Expect,
) -> (RequirementResult, u32) {
    let here: Vec<&CellRuns> = (cells.iter().copied())
        // Requirements can refer to the same case under other policies, and to other cases under
        // the same policy.
        .filter(|(c, _)| c.on == cell.on && (c.case == cell.case || c.policy == cell.policy))
        .collect();
    let last = here.iter().filter_map(|(_, runs)| runs.last());
    let last = last.map(|run| run.run.repeat).max().unwrap_or_default();
    let all = (0..=last).filter_map(|repetition| {
        // After an interrupt, some cells can lack a repetition. Such a repetition is not judged,
        // because its comparison would be incomplete.
        let outcome = outcome_of(outcomes, repetition)?;
        let (mut others, mut cases) = (Vec::new(), Vec::new());
        for (c, runs) in &here {
            let records = &outcome_of(runs, repetition)?.records[..];
            if c.case == cell.case {
                others.push((plan.policy(*c).name.as_str(), records));
            }
            if c.policy == cell.policy {
                cases.extend(plan.case(*c).map(|case| (case, records)));
            }
        }
        let run = JudgedRun {
            script: &plan.script,
            scenario: &outcome.scenario,
            records: &outcome.records,
            others: &others,
            cases: &cases,
        };
        Some((judge::judge_requirement(run, &expect.asked), repetition))
    });
    let worse = |a: (RequirementResult, u32), b: (RequirementResult, u32)| {
        let (one, other) = (&a.0, &b.0);
        if is_worse((one.fate, other.fate), other.off > one.off) {
            b
        } else {
            a
        }
    };
    // The first run of every cell is played before the second run of any cell, so all cells have a
    // repetition in common.
    all.reduce(worse).expect("there is one repetition at least")
}

/// Returns true if the second of two fates is worse than the first. `is_further` decides between
/// equal fates.
fn is_worse((a, b): (Fate, Fate), is_further: bool) -> bool {
    if a == b { is_further } else { a.worse(b) == b }
}

/// Returns the repetition with a number. In a cell without random numbers, that is always its only
/// run. Returns `None` if the run is missing after an interrupt.
pub(super) fn outcome_of(runs: &[RunOutcome], repetition: u32) -> Option<&RunOutcome> {
    let is_it = |run: &&RunOutcome| !run.drew || run.run.repeat == repetition;
    runs.iter().find(is_it)
}

/// Returns a line for each published figure, compared with the mean of all runs.
fn published(plan: &ComparisonPlan, cells: &[&CellRuns], drive: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for published in plan.script.published() {
        // A published figure without a drive applies to all drives.
        if published.drive.as_deref().is_some_and(|d| d != drive) {
            continue;
        }
        let meant = cells.iter().filter(|(cell, _)| {
            let case = published.case.as_deref();
            plan.policy(*cell).name == published.policy
                && case.is_none_or(|c| plan.case(*cell) == Some(c))
        });
        for (cell, outcomes) in meant {
            let ours = figure_of_all_runs(plan, outcomes, published.figure, &published.whose);
            let beside = judge::compare_with_published(published.figure, ours, published.value);
            let whose = match &published.whose {
                FigureOwner::Target => String::new(),
                other => format!(" of {other}"),
            };
            let (figure, value) = (published.figure.name(), published.value);
            let said = judge::figure_text(published.figure, value.number());
            let (head, source) = (head(plan, *cell), &published.source);
            lines.push(format!(
                "{head}{figure}{whose} {said} published ({source}); {beside}."
            ));
        }
    }
    lines
}

/// Returns a figure over all repetitions. The target's mean latency is that of all requests
/// together. All other figures are means of the runs.
fn figure_of_all_runs(
    plan: &ComparisonPlan,
    outcomes: &[RunOutcome],
    figure: Figure,
    whose: &FigureOwner,
) -> Option<f64> {
    if (figure, whose) == (Figure::Mean, &FigureOwner::Target) {
        let mut latency = weir_measure::Histogram::new();
        for outcome in outcomes {
            latency.merge(&outcome.latency);
        }
        return (!latency.is_empty()).then(|| latency.mean());
    }
    let target = plan.script.target();
    let values = outcomes.iter();
    let values = values.map(|o| judge::figure_value(figure, whose, target, &o.records));
    // Without a value in one of the runs, there is no mean.
    let values = values.collect::<Option<Vec<f64>>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
