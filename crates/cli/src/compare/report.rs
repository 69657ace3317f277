//! Turns the outcomes of a comparison into the report that the table and the page show.

use super::asked;
use super::clients;
use super::equal;
use super::on::{self, RunPlace};
use super::pooled::{MeanSplit, PooledRuns};
use super::promised;
use super::runs;
use super::why::{self, ReferenceRuns};
use super::work::{Cell, ComparisonPlan, PlayedCells, RunCourse, RunOutcome};
use crate::failure::Failure;
use crate::modelled::PlayedDrive;
use crate::policies::is_none;
use weir_config::scenario::{Expect, Requirement};
use weir_lab::report::{CompareReport, ComparedCell, ComparedDrive, ComparedOverTime};
use weir_measure::number::{deviation, figure};
use weir_measure::{LatencyRecord, TOTAL};

/// A cell with the combined figures of its repetitions.
type PooledCell = (Cell, PooledRuns);

/// Returns the report of a plan. Each of the cells has at least one run.
pub(super) fn report(plan: &ComparisonPlan, cells: &PlayedCells) -> Result<CompareReport, Failure> {
    let target = plan.script.target();
    let pooled = cells.iter();
    let pooled: Vec<PooledCell> = pooled
        .map(|(cell, outcomes)| (*cell, PooledRuns::new(outcomes, target)))
        .collect();
    let mut drives = Vec::new();
    for (number, drive) in plan.drives.iter().enumerate() {
        let here = |cell: &Cell| cell.drive == number;
        let mine: Vec<&PooledCell> = pooled.iter().filter(|(cell, _)| here(cell)).collect();
        if mine.is_empty() {
            continue;
        }
        let first = cells.iter().filter(|(cell, _)| here(cell));
        let over_time = first.map(|(_, outcomes)| over_time(outcomes.first()?, target));
        let mut shown = one(plan, drive, &mine, over_time)?;
        let here: Vec<_> = cells.iter().filter(|(cell, _)| here(cell)).collect();
        for ((cell, outcomes), shown) in here.iter().zip(&mut shown.cells) {
            // The histogram of all runs together would give the p99 of all requests. Tables of
            // clients have the highest p99 of a run, and both must agree.
            if let Some(latency) = &mut shown.latency_us {
                latency.p99 = highest_p99(outcomes).unwrap_or(latency.p99);
            }
            // A client starves relative to its bandwidth under `none`.
            let none = clients::cell_under_none(plan, cells, *cell).map(|none| &cells[none].1[..]);
            (shown.clients, shown.trouble) = clients::clients(outcomes, none);
        }
        // The fraction of the drive's time is a property of the drive and its promises, so it is a
        // part of the drive's description.
        if let Some(line) = promised::line(plan, drive, &here) {
            shown.about = format!("{} {line}", shown.about);
        }
        asked::show(plan, &here, &mut shown);
        shown.why.extend(equal::lines(plan, &here));
        drives.push(shown);
    }
    Ok(CompareReport {
        scenario: plan.script.name().into(),
        about: plan.script.about().into(),
        load: plan.script.load().into(),
        target: target.into(),
        parts: MeanSplit::NAMES.map(str::to_owned).to_vec(),
        drives,
        clients: plan.script.shows_clients(),
        latency: asked::shows_latency(&plan.script),
        minimum_mb_per_s: asked::minimum_mb_per_s(&plan.script),
        maximum_mb_per_s: asked::maximum_mb_per_s(plan, cells),
        notes: notes(plan, cells, pooled.iter().any(|(_, p)| p.rings.is_some())),
    })
}

/// Returns the report of one drive, without the tables of clients.
fn one(
    plan: &ComparisonPlan,
    drive: &PlayedDrive,
    cells: &[&PooledCell],
    over_time: impl Iterator<Item = Option<ComparedOverTime>>,
) -> Result<ComparedDrive, Failure> {
    let about = about(drive)?;
    let shown = cells
        .iter()
        .zip(over_time)
        .map(|((cell, pooled), over_time)| {
            let beside = beside(plan, cells, *cell);
            let none = beside.none.and_then(PooledRuns::mean_us);
            let latency = LatencyRecord::of(&pooled.latency);
            ComparedCell {
                case: plan.case(*cell).unwrap_or_default().to_owned(),
                policy: plan.label(*cell),
                requests: pooled.latency.count(),
                latency_us: latency,
                of_none: pooled.mean_us().zip(none).map(|(mine, none)| mine / none),
                target_mb_per_s: pooled.target_mb_per_s,
                total_mb_per_s: pooled.total_mb_per_s,
                fairness: pooled.fairness,
                busy: pooled.busy,
                parts_us: pooled.split.0.to_vec(),
                why: if plan.on[cell.on].knows_waits() {
                    why::sentence(&plan.script, plan.policy(*cell), pooled, &beside)
                } else {
                    why::of_kernel(pooled)
                },
                rings: pooled.rings,
                backend_us: pooled.backend_us(),
                over_time,
                ..ComparedCell::default()
            }
        });
    let shown = shown.collect();
    let lines = 0..plan.cases.len();
    let lines = lines.flat_map(|case| lines_of(plan, cells, case));
    Ok(ComparedDrive {
        name: drive.name.clone(),
        about,
        cells: shown,
        why: lines.collect(),
    })
}

/// Returns the target's p99 in the run in which it was highest, in microseconds.
fn highest_p99(outcomes: &[RunOutcome]) -> Option<f64> {
    let each = outcomes
        .iter()
        .filter_map(|o| LatencyRecord::of(&o.latency));
    each.map(|latency| latency.p99).reduce(f64::max)
}

fn about(drive: &PlayedDrive) -> Result<String, Failure> {
    // The peak of a real drive is not known.
    if drive.is_real {
        return Ok(drive.about.clone());
    }
    let peak = drive.peak()? as f64 / 1e6;
    Ok(format!(
        "{}. One sequential reader at full depth gets {} MB/s.",
        drive.about.trim_end_matches('.'),
        figure(peak)
    ))
}

/// Returns the results with which a cell is compared: those of the same case and place under
/// `none` and `bfq`.
fn beside<'a>(plan: &'a ComparisonPlan, cells: &[&'a PooledCell], cell: Cell) -> ReferenceRuns<'a> {
    let of = |name: &str| {
        let same = cells.iter();
        let mut same = same.filter(|(c, _)| (c.case, c.on) == (cell.case, cell.on));
        let found = same.find(|(c, _)| plan.policy(*c).name == name);
        found.map(|(_, pooled)| pooled)
    };
    ReferenceRuns {
        none: of("none"),
        bfq: of("bfq"),
        others: plan.case(cell).unwrap_or("others"),
    }
}

/// Returns the explanations for the cells of a case: a line for all of them, a line for the
/// precision of the means, and a line for each promise.
fn lines_of(plan: &ComparisonPlan, cells: &[&PooledCell], case: usize) -> Vec<String> {
    let head = plan.cases[case].as_ref();
    let head = head.map_or_else(String::new, |c| format!("{c}: "));
    let (mut each, mut verdicts) = (Vec::new(), Vec::new());
    for (cell, pooled) in cells.iter().filter(|(cell, _)| cell.case == case) {
        let beside = beside(plan, cells, *cell);
        // A kernel does not report where requests spend their time.
        if plan.on[cell.on].knows_waits() {
            let name = plan.label(*cell);
            each.push(why::short(&name, plan.policy(*cell), pooled, &beside));
        }
        let verdict = why::verdict(&plan.script, plan.policy(*cell), pooled, &beside);
        verdicts.extend(verdict.map(|v| format!("{head}{v}")));
    }
    let whose = plan.script.shows_clients();
    let whose = whose.then(|| format!("{}'s requests: ", plan.script.target()));
    let whose = whose.unwrap_or_default();
    let line = (!each.is_empty()).then(|| format!("{head}{whose}{}.", each.join("; ")));
    // Tables of clients already show the fate of each promise.
    let verdicts = verdicts.into_iter();
    let verdicts = verdicts.filter(|_| !plan.script.shows_clients());
    let between = between_runs(plan, cells, case).map(|line| format!("{head}{line}"));
    line.into_iter().chain(between).chain(verdicts).collect()
}

/// Returns a line with the precision of the target's mean latency under each policy whose runs
/// differ. Tables of clients have the precision of each client's bandwidth instead.
fn between_runs(plan: &ComparisonPlan, cells: &[&PooledCell], case: usize) -> Option<String> {
    let mine = cells.iter().filter(|(cell, _)| cell.case == case);
    let each = mine.clone().filter_map(|(cell, pooled)| {
        let interval = pooled.spread.latency_us.filter(|i| i.half > 0.0)?;
        let part = deviation(interval.half / interval.mean);
        Some(format!("{} +- {part}", plan.label(*cell)))
    });
    let each: Vec<String> = each.collect();
    let shown = !plan.script.shows_clients() && asked::shows_latency(&plan.script);
    let runs = mine.map(|(cell, _)| plan.repetitions(*cell)).max()?;
    (shown && !each.is_empty()).then(|| {
        format!(
            "The mean of {runs} runs is known to (95%): {}.",
            each.join(", ")
        )
    })
}

/// Returns the course of a run over time, for plots.
fn over_time(outcome: &RunOutcome, target: &str) -> Option<ComparedOverTime> {
    let RunCourse {
        latency,
        depth,
        step_ns,
        states,
    } = outcome.over_time.as_ref()?;
    let step = *step_ns as f64 / 1e9;
    // A window is plotted at its middle.
    let middle = |i: usize| (i as f64 + 0.5) * step;
    let windows = latency.windows().iter().enumerate();
    let latency = windows.filter_map(|(i, w)| Some((middle(i), w.mean()? / 1e3)));
    let of = |client: &str| outcome.records.iter().find(|r| r.client == client);
    let (mine, all) = (of(target)?, of(TOTAL)?);
    let (mine, all) = (mine.series(), all.series());
    let others = all
        .iter()
        .zip(&mine)
        // The total contains the target, so the difference is the bandwidth of all other clients.
        .map(|((t, all), (_, mine))| (*t, all - mine));
    Some(ComparedOverTime {
        latency_us: latency.collect(),
        depth: depth
            .iter()
            .enumerate()
            .map(|(i, d)| (middle(i), *d))
            .collect(),
        others_mb_per_s: others.collect(),
        target_mb_per_s: mine,
        states: states.clone(),
    })
}

/// A note that explains the columns for virtual machines.
const RINGS: &str = "Virtual machines: back end is the mean latency of the target's requests as the back end sees it, from when it has one until that is done; what \
                     is said to pass in the host passes in the guest and its ring. kicks: notifications from guests; calls: to guests; wakes: of the back \
                     end's threads. cpu: time of all guests' processors for this, and of the back end's threads, of one processor's time.";

/// A note that explains the tables of clients.
const CLIENTS: &str = "A promise is kept in a second in which its client got 99% of what it was owed for the time in which it had a request waiting, less the \
                       one request under way at the second's end. A client starves if it gets less than 1% of what it gets under none, or waits for more than a \
                       second, unless its own max throttles it. got: mean of {runs}, and the 95% interval of that mean where they differ; worst s: the worst second \
                       of all; mean latency: of all requests; p99: of the run in which it was highest; longest: of all, and of requests that were not answered. A \
                       client is measured over its own time, from its first possible request to its last, or the reply to that. In virtual time; drives \
                       are models.";

/// Returns the notes below the tables, which explain the columns and the exceptions.
fn notes(plan: &ComparisonPlan, cells: &PlayedCells, rings: bool) -> Vec<String> {
    let runs = runs::count(cells);
    let mut notes = vec![if plan.script.shows_clients() {
        CLIENTS.replace("{runs}", &runs)
    } else {
        format!(
            "Latency: mean and standard deviation of all requests of the target in {runs} taken together, so that a run with few of \
             them weighs by their number (n). p99: of the run in which it was highest. In virtual time; drives are models."
        )
    }];
    // The last sentence of the first note holds for virtual time only.
    if !plan.on.iter().all(RunPlace::is_virtual) {
        notes[0] = notes[0].replace(" In virtual time; drives are models.", "");
    }
    let figure = |e: &Expect| matches!(e.asked, Requirement::Figure(_));
    if plan.script.expects().iter().any(figure) {
        notes.push("A figure that is asked for is that of the run in which it is furthest from what is asked.".into());
    }
    notes.extend(runs::undrawn(plan, cells));
    notes.extend(clients::shared_promises(cells));
    notes.extend(clients::absent(cells));
    notes.extend(on::notes(plan, cells));
    notes.extend(runs::refused(plan, cells));
    if plan.policies.iter().any(is_none) {
        let beside = "of none: the mean beside that under none. keep: what the others get of what they get under none.";
        notes.push(beside.into());
    }
    notes.push(
        "waiting while the elevator idles: it keeps the drive for the next request of the stream whose turn it is, though the drive would take \
         more; it need not stand still meanwhile."
            .into(),
    );
    // Only scenarios with virtual machines have these columns.
    notes.extend(rings.then(|| RINGS.to_owned()));
    notes.push(
        "total MB/s: all clients together, mean of the runs; busy: the part of the time in which at least one command was in the drive."
            .into(),
    );
    notes
}
