//! `weir plan` finds the number of drives that clients need under each policy so that their
//! promises are kept.
//!
//! [`Planning`] has the parameters as values, [`fleet`] distributes clients among drives, and
//! [`search`] finds the smallest number.

mod called;
mod fleet;
mod search;

pub use called::Planning;

use crate::calibrate::unit_error_text;
use crate::drives;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::JobsOption;
use crate::leftovers::Leftovers;
use crate::once;
use crate::output::{self, OutputFiles};
use crate::policies;
use crate::progress::WorkProgress;
use crate::scenario;
use crate::unkept;
use crate::whole;
use clap::Args;
use search::{Packed, SearchResult, TooFew};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_config::Policy;
use weir_config::units::BytesPerSecond;
use weir_lab::report::{PlanReport, PlanRow, plan_page, plan_table};
use weir_measure::number::figure;
use weir_measure::{Interval, Need};

/// The arguments of `weir plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanOptions {
    /// The clients and their contracts: the name of a scenario (see `weir scenarios`) or a scenario
    /// file
    #[arg(value_name = "CONTRACTS")]
    scenario: String,
    /// The kind of drives that the clients share: a name (see `weir drives`) or a profile file. Can
    /// be repeated, for a plan with each kind [default: the scenario's first drive]
    #[arg(long = "drive", value_name = "DRIVE")]
    drives: Vec<String>,
    /// The case of the scenario [default: the first]
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// A policy, as for `weir compare`. Can be repeated [default: the policies of the scenario]
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// The percentage of seconds in which each promise must be kept, among those in which it
    /// applies
    #[arg(long, value_name = "N", default_value = "99", value_parser = |n: &str| whole::number(n, 1..=100))]
    keep: u32,
    /// The mean bandwidth that clients must get while they are active, such as 50MB/s, in addition
    /// to the promises [default: only the promises count]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    average: Option<BytesPerSecond>,
    /// Number of searches, 1 to 10000, each with different random numbers and other times of
    /// activity [default: that of the scenario, or else 10]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=10_000))]
    repetitions: Option<u32>,
    /// Seconds that are measured in each run, 1 to 3600 [default: those of the scenario]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=3600))]
    seconds: Option<u32>,
    #[command(flatten)]
    jobs: JobsOption,
    /// Write the result for each policy as a line of JSON to this file. With -, write only this to
    /// standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write an HTML page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn rate(text: &str) -> Result<BytesPerSecond, String> {
    text.parse().map_err(|e| unit_error_text(&e))
}

pub(crate) fn run(options: &PlanOptions) -> Result<(), Failure> {
    let began = Instant::now();
    output::check_page(options.html.as_deref())?;
    output::check_apart([
        ("--json", options.json.as_deref()),
        ("--html", options.html.as_deref()),
    ])?;
    let planning = Planning {
        script: scenario::find(&options.scenario)?,
        drives: once::find_all(&options.drives, drives::find)?,
        case: options.case.clone(),
        policies: once::find_all(&options.policies, policies::find)?,
        keep: options.keep,
        average: options.average.map(|average| average.0),
        repetitions: options.repetitions,
        seconds: options.seconds,
        jobs: options.jobs.count(),
    };
    let interrupt = Interrupt::default();
    let (drives, policies) = planning.chosen()?;
    let asked = planning.asked(&drives, &policies, &interrupt)?;
    let played = asked
        .iter()
        .flat_map(|asked| policies.iter().map(|p| asked.fleet.played(p)));
    unkept::print_notes(played.collect::<Result<Vec<_>, _>>()?);
    let leftovers = Leftovers::watch()?;
    let lines = [options.json.as_deref()];
    let files = OutputFiles::open(lines, options.html.as_deref(), &leftovers)?;
    let drive = scenario::drive_of_jobs(&planning.script);
    files.announce(drive.filter(|_| options.drives.is_empty()))?;
    let all = search_all(&asked, planning.jobs)?;
    let searches: usize = all.iter().map(Vec::len).sum();
    let reports = asked
        .iter()
        .zip(&all)
        .map(|(asked, found)| report(asked, found));
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    let needs = || {
        let rows = reports.iter().flat_map(|report| &report.rows);
        rows.map(|row| row.need.to_line() + "\n").collect()
    };
    let tables = || {
        let tables = reports.iter().map(|r| plan_table(r, output::width()));
        tables.collect::<Vec<_>>().join("\n")
    };
    let shown = files.write(|| plan_page(&reports), [&needs], tables);
    let took = began.elapsed().as_secs_f64();
    output::print_message(&format!("{searches} searches in {took:.1} s"));
    shown
}

/// Searches with each kind of drive, with a progress bar on a terminal.
fn search_all(
    asked: &[search::SearchRequest<'_>],
    jobs: usize,
) -> Result<Vec<Vec<SearchResult>>, Failure> {
    let second = |n: usize| Duration::from_secs(n as u64);
    let searches =
        // One search more than there are policies: the result of a drive for each client.
        |asked: &search::SearchRequest<'_>| (asked.policies.len() + 1) * asked.repetitions as usize;
    let total = asked.iter().map(searches).sum();
    let mut progress = WorkProgress::new(second(total), format!("{total} searches"));
    let mut all = Vec::new();
    for asked in asked {
        progress.name(&asked.fleet.drive.name, &format!("{total} searches"));
        let found = search::all(asked, jobs, |done, at| match at {
            Some(at) => progress.note(format!("{total} searches, {at}")),
            None => progress.set(second(done)),
        });
        let Ok(found) = found else {
            progress.clear();
            return found.map(|_| all);
        };
        progress.next(second(found.len()));
        all.push(found);
    }
    progress.clear();
    Ok(all)
}

/// Returns the results for each row of the table. The first row is a drive for each client, and the
/// others are the policies.
fn rows<'a>(
    asked: &'a search::SearchRequest<'_>,
    found: &'a [SearchResult],
) -> impl Iterator<Item = (String, &'a [SearchResult])> {
    let names = asked.policies.iter().map(|p: &Policy| p.name.clone());
    let names = ["a drive each".to_owned()].into_iter().chain(names);
    names.zip(found.chunks(asked.repetitions as usize))
}

/// Explains the number of drives that a policy needs: the requirement that is not met with one
/// drive less.
fn why(need: &Need, too_few: &TooFew) -> String {
    let (policy, why) = (&need.policy, &too_few.lack.why);
    let why = why.trim_end_matches('.');
    let fewer = match too_few.drives {
        1 => "with one drive".to_owned(),
        drives => format!("with {drives} drives"),
    };
    match need.drives {
        Some(drives) => format!("Why {drives} drives under {policy}: {fewer}, {why}."),
        None => format!("Why no number of drives is enough under {policy}: {fewer}, {why}."),
    }
}

/// Returns the reason for the number of drives that a policy needs, from the first search that
/// needs the largest number. `None` if one drive is enough.
fn too_few(enough: Option<u64>, found: &[SearchResult]) -> Option<&TooFew> {
    let needs = |found: &&SearchResult| found.packed.map(|packed| packed.drives as u64) == enough;
    found.iter().find(needs)?.fewer.as_ref()
}

/// Returns the report of all searches for one kind of drive. The first results are those of a drive
/// for each client.
fn report(
    asked: &search::SearchRequest<'_>,
    found: &[SearchResult],
) -> Result<PlanReport, Failure> {
    let (script, drive) = (asked.fleet.script, asked.fleet.drive);
    let peak = drive.peak()? as f64 / 1e6;
    let promised = asked.fleet.promised();
    let rows = rows(asked, found).map(|(policy, found)| {
        let searches: Vec<Option<u64>> = (found.iter())
            .map(|found| found.packed.map(|packed| packed.drives as u64))
            .collect();
        // If one of the searches found no sufficient number, the policy has none.
        let packed: Option<Vec<&Packed>> = found.iter().map(|f| f.packed.as_ref()).collect();
        let over = |of: &dyn Fn(&Packed) -> f64| {
            let values = packed.iter().flatten().map(|p| of(p));
            Interval::of(&values.collect::<Vec<f64>>())
        };
        let used = over(&|p| p.total_mb_per_s / (peak * p.drives as f64));
        // The plan must be sufficient in every search, so the largest number counts.
        let enough = packed.as_ref().and_then(|_| *searches.iter().max()?);
        let needed_in = searches.iter().filter(|drives| **drives == enough).count();
        let too_few = too_few(enough, found);
        let need = Need {
            scenario: script.name().to_owned(),
            drive: drive.name.clone(),
            case: asked.fleet.case().to_owned(),
            policy,
            clients: asked.fleet.clients(),
            promised_mb_per_s: promised.bytes as f64 / 1e6,
            promised_iops: promised.iops,
            keep: asked.keep,
            searches,
            drives: enough,
            needed_in: enough.map(|_| needed_in),
            used: used.map(|used| used.mean),
            average_mb_per_s: over(&|p| p.average_mb_per_s).map(|average| average.mean),
            average_asked_mb_per_s: asked.average,
            limited_by: too_few.map(|too_few| too_few.lack.limit),
        };
        let why = too_few.map(|too_few| why(&need, too_few));
        PlanRow { need, used, why }
    });
    Ok(PlanReport {
        load: script.load().to_owned(),
        drive: format!("{}: {}", drive.name, drive.about),
        rows: rows.collect(),
        notes: notes(asked),
    })
}

/// Returns the explanations of the figures.
fn notes(asked: &search::SearchRequest<'_>) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Drives: the number on which every client's promise is kept in {} of 100 seconds in which it applies, clients dealt out in turn, \
             so that all kinds are on each drive, in every one of {} searches with other random numbers and other times of activity; each \
             search finds the least by doubling and halving. Needed in: the searches in which fewer were not enough.",
            asked.keep, asked.repetitions
        ),
        "Used: bytes served, of what one sequential reader at full depth gets of that number of drives. Average: what a client gets while it is \
         active, mean of all. Both are means of the searches, each with the drives that it found."
            .into(),
        "A policy without a number does not keep the promises even with a drive for each client. In virtual time; drives are models.".into(),
    ];
    notes.extend(asked.average.map(|average| {
        format!(
            "The average is required to be at least {} MB/s. Limited by: what fewer drives do not reach, a min or only the average.",
            figure(average)
        )
    }));
    notes
}
