//! `weir compare` plays scenarios under several policies and shows the results next to each other.
//!
//! A run takes place in the simulator in virtual time, on a real server, or under Linux.
//! [`Comparison`] has the parameters as values, [`work`] plays the runs, [`report`] turns their
//! outcomes into tables and pages, and [`demo`] is the same for `weir demo`.

mod asked;
mod called;
mod clients;
pub(crate) mod demo;
mod equal;
mod on;
mod pooled;
mod promised;
mod report;
mod runs;
mod spread;
mod why;
mod work;

pub use called::Comparison;

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
use runs::EarlyEnd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use weir_config::Setting;
use weir_config::scenario::{Suite, suite};
use weir_lab::report::{
    CompareReport, SuiteReport, compare_page, compare_table, suite_page, suite_scores,
};
use weir_measure::to_line;
use work::{Cell, ComparisonPlan, PlayedCells, PlayedPlans, RunOutcome};

/// The arguments of `weir compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareOptions {
    /// The load: the name of a scenario (see `weir scenarios`), a scenario file, or a job file of
    /// fio (.fio). A suite (s-suite, scores) plays several scenarios for one page
    scenario: String,
    /// A drive: a name (see `weir drives`) or a profile file. Can be repeated [default: the drives
    /// of the scenario]
    #[arg(long = "drive", value_name = "DRIVE")]
    drives: Vec<String>,
    /// A case of the scenario. Can be repeated [default: all]
    #[arg(long = "case", value_name = "CASE")]
    cases: Vec<String>,
    /// A policy: a name that `weir policies` lists, a combination such as "bfq + io.latency", or a
    /// file. Can be repeated [default: the policies of the scenario]
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// The place of the run. Can be repeated [default: sim]
    #[arg(long, value_name = "PLACE", value_enum)]
    on: Vec<on::PlaceName>,
    /// The Linux version for `--on guest`: 6.1, 6.12, 7, or a directory with vmlinuz and modules.
    /// Can be repeated [default: 6.1]
    #[arg(long = "kernel", value_name = "VERSION")]
    kernels: Vec<String>,
    /// The device for `--on linux`, which must not be in use, or a file, from which a device is
    /// made
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// The same device again, to confirm that its data can be overwritten
    #[arg(long, value_name = "DEVICE")]
    destroy: Option<PathBuf>,
    /// Number of repetitions, 1 to 10000, each with different random numbers. A scenario without
    /// random numbers needs only one [default: that of the scenario, or else 10; 1 under Linux and
    /// on a real server]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=10_000))]
    repetitions: Option<u32>,
    /// Seconds that are measured in each run, 1 to 3600 [default: those of the scenario]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=3600))]
    seconds: Option<u32>,
    #[command(flatten)]
    jobs: JobsOption,
    /// Change a key of a client's or group's contract, for example alpha.min=20MB/s or
    /// alpha.max.iops=500. Can be repeated
    #[arg(long, value_name = "NAME.KEY=VALUE")]
    set: Vec<Setting>,
    /// Check every decision of every run against independent models of the rules
    #[arg(long)]
    audit: bool,
    /// Exit with status 1 if the results do not meet the expectations of the scenario
    #[arg(long)]
    check: bool,
    /// Write the results of each client in each run as a line of JSON to this file. With -, write
    /// only this to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the state of controllers and elevator during the first repetition as lines of JSON to
    /// this file. With -, write only this to standard output
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write an HTML page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl CompareOptions {
    /// Returns the requested comparison as values. `suite` replaces the scenario if the name is
    /// that of a suite.
    fn comparison(&self, suite: Option<&Suite>) -> Result<Comparison, Failure> {
        if let (Some(suite), Some(case)) = (suite, self.cases.first()) {
            let name = suite.name;
            let reason = format!(
                "--case {case}: {name} is a suite of several scenarios, which have their own cases"
            );
            return Err(Failure::Usage(reason));
        }
        let names = suite.map_or_else(
            || vec![&self.scenario[..]],
            |suite| suite.scenarios.to_vec(),
        );
        let scripts = names.into_iter().map(|name| {
            let mut script = scenario::find(name)?;
            script.set(&self.set);
            if self.check && script.expects().is_empty() {
                let reason = format!(
                    "--check: {} has no requirement; add an [[expect]]",
                    script.name()
                );
                return Err(Failure::Usage(reason));
            }
            Ok(script)
        });
        // A suite can have drives and policies that replace those of its scenarios.
        let or_suite = |stated: &[String], of: fn(&Suite) -> &'static [&'static str]| {
            let all = suite
                .filter(|_| stated.is_empty())
                .map(of)
                .unwrap_or_default();
            let all = all.iter().map(|name| (*name).to_owned());
            stated.iter().cloned().chain(all).collect::<Vec<String>>()
        };
        Ok(Comparison {
            scripts: scripts.collect::<Result<_, _>>()?,
            drives: once::find_all(&or_suite(&self.drives, |suite| suite.drives), drives::find)?,
            cases: self.cases.clone(),
            policies: once::find_all(
                &or_suite(&self.policies, |suite| suite.policies),
                policies::find,
            )?,
            repetitions: self.repetitions,
            seconds: self.seconds,
            jobs: self.jobs.count(),
            audit: self.audit,
        })
    }
}

pub(crate) fn run(options: &CompareOptions) -> Result<(), Failure> {
    let began = Instant::now();
    output::check_page(options.html.as_deref())?;
    output::check_apart([
        ("--json", options.json.as_deref()),
        ("--trace", options.trace.as_deref()),
        ("--html", options.html.as_deref()),
    ])?;
    let leftovers = Leftovers::watch()?;
    // A suite is a fixed list of scenarios that share a page.
    let suite = suite(&options.scenario);
    let on = Arc::new(on::all(options, &leftovers)?);
    let comparison = options.comparison(suite)?;
    let plans = comparison.plans(&on)?;
    let drive = plans.first().filter(|_| options.drives.is_empty());
    let drive = drive.and_then(|plan| scenario::drive_of_jobs(&plan.script));
    // The notes come before the runs, which can take minutes.
    unkept::print_notes(plans.iter().flat_map(ComparisonPlan::played));
    let lines = [options.json.as_deref(), options.trace.as_deref()];
    let files = OutputFiles::open(lines, options.html.as_deref(), &leftovers)?;
    // Everything that can be refused has been checked, and the files are open. The runs begin.
    files.announce(drive)?;
    let interrupt = leftovers.interrupt();
    let name = suite.map_or_else(|| plans[0].script.name(), |suite| suite.name);
    let PlayedPlans { cells: all, failed } = play(name, &plans, comparison.jobs, interrupt)?;
    // A failure or an interrupt ends the runs early. The results so far are shown, and the missing
    // runs are named.
    let early = EarlyEnd::find(&plans, &all, failed, interrupt);
    let note = early.as_ref().and_then(|early| early.note.clone());
    let count: usize = all.iter().flatten().map(|(_, runs)| runs.len()).sum();
    let shown = match count {
        0 => Ok(()),
        _ => show(files, suite, &plans, &all, note),
    };
    let took = began.elapsed().as_secs_f64();
    let took = format!("{count} runs in {took:.1} s");
    if let Some(EarlyEnd { mut reason, .. }) = early {
        if let Failure::Interrupted(_, missing) = &mut reason
            && options.check
        {
            *missing += "; --check is not judged for an incomplete run";
        }
        output::print_message(&took);
        // Even if the partial results could be written, the exit status must tell that they are
        // incomplete.
        return Err(reason.beside(shown));
    }
    let checked = options.check.then(|| check(&plans, &all));
    output::print_message(&took);
    // The requirements are judged even if a result could not be written.
    Failure::both(checked.unwrap_or(Ok(())), shown)
}

/// Writes all output files, and prints the tables unless a file goes to standard output. `missing`
/// is a note on the runs that an interrupt or a failure has prevented.
fn show(
    files: OutputFiles<2>,
    suite: Option<&Suite>,
    plans: &[ComparisonPlan],
    all: &[PlayedCells],
    missing: Option<String>,
) -> Result<(), Failure> {
    let played = plans.iter().zip(all).filter(|(_, cells)| !cells.is_empty());
    let reports = played.map(|(plan, cells)| report::report(plan, cells));
    let mut reports = reports.collect::<Result<Vec<_>, _>>()?;
    if let (Some(missing), Some(first)) = (missing, reports.first_mut()) {
        first.notes.insert(0, missing);
    }
    let of_suite = |suite: &Suite, parts: &[CompareReport]| SuiteReport {
        name: suite.name.into(),
        about: suite.about.into(),
        parts: parts.to_vec(),
        scored: suite.scored,
    };
    let page = || match suite {
        Some(suite) => suite_page(&of_suite(suite, &reports)),
        None => compare_page(&reports[0]),
    };
    let records = || all.iter().map(|cells| lines(cells)).collect();
    let states = || all.iter().map(|cells| states(cells)).collect();
    let tables = || {
        let tables = reports.iter().map(|report| {
            let head = suite.map(|_| format!("# {}\n\n", report.scenario));
            head.unwrap_or_default() + &compare_table(report, output::width())
        });
        let scores = suite.and_then(|s| suite_scores(&of_suite(s, &reports), output::width()));
        tables.chain(scores).collect::<Vec<_>>().join("\n")
    };
    files.write(page, [&records, &states], tables)
}

/// Checks the requirements of all scenarios. If there are several scenarios, those without any
/// requirement are ignored.
fn check(plans: &[ComparisonPlan], all: &[PlayedCells]) -> Result<(), Failure> {
    let checks = plans.iter().zip(all);
    let mut checks = checks.map(|(plan, cells)| (plan, asked::check(plan, cells)));
    if plans.len() == 1 {
        return checks.next().map_or(Ok(()), |(_, check)| check);
    }
    let mut failed = Vec::new();
    for (plan, check) in checks {
        // `Failure::Usage` means that the scenario has no requirement for these policies, which is
        // only an error if it is the only scenario.
        if let Err(Failure::Run(reason)) = check {
            failed.push(format!("{}: {reason}", plan.script.name()));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(failed.join("\n")))
}

/// Plays all runs of all plans, with a progress bar on a terminal. Returns the outcomes of each
/// plan. After an interrupt or a failure, these are the outcomes of the completed runs.
fn play(
    name: &str,
    plans: &[ComparisonPlan],
    jobs: usize,
    interrupt: &Interrupt,
) -> Result<PlayedPlans, Failure> {
    let total: usize = plans.iter().map(ComparisonPlan::runs).sum();
    let work = format!("{total} runs");
    // A cell without random numbers needs only one run, which is not known until its first run has
    // completed. So the total is an upper bound.
    let mut progress =
        WorkProgress::new(work::step(total as f64), format!("up to {work}")).at_most();
    progress.name(name, &work);
    interrupt.hold();
    let all = work::play(plans, jobs, interrupt, &mut progress);
    interrupt.release();
    progress.clear();
    all
}

/// Returns the records of all runs as lines of JSON.
fn lines(cells: &[(Cell, Vec<RunOutcome>)]) -> String {
    let outcomes = cells.iter().flat_map(|(_, outcomes)| outcomes);
    let records = outcomes.flat_map(|outcome| &outcome.records);
    records.map(|r| to_line(r) + "\n").collect()
}

/// Returns the states of controllers and elevators during the first run of each cell, one line of
/// JSON for each value.
fn states(cells: &[(Cell, Vec<RunOutcome>)]) -> String {
    let outcomes = cells.iter().flat_map(|(_, outcomes)| outcomes);
    let followed = outcomes.filter_map(|o| Some((&o.run, o.over_time.as_ref()?)));
    let states = followed.flat_map(|(run, over)| over.states.iter().map(move |s| (run, s)));
    states.map(|(run, s)| s.to_line(run) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// Plays a short comparison on two drives: three policies, three repetitions.
    fn played(jobs: usize) -> ([ComparisonPlan; 1], Vec<PlayedCells>) {
        let words = "weir compare latency --drive plextor-px-256m5s --drive hitachi-hts72755 --case readers --repetitions 3 --seconds 1 \
                     --policy none --policy io.latency --policy bfq";
        let arguments = crate::Arguments::parse_from(words.split(' '));
        let crate::WeirCommand::Compare(options) = arguments.command else {
            panic!("another command");
        };
        let on = Arc::new(on::all(&options, &Leftovers::default()).unwrap());
        let plans = options.comparison(None).unwrap().plans(&on).unwrap();
        let plans: [ComparisonPlan; 1] = plans.try_into().unwrap();
        let played = play("", &plans, jobs, &Interrupt::default()).unwrap();
        assert_eq!(played.failed, None);
        (plans, played.cells)
    }

    /// Returns the records on standard output, the table and the page of the comparison.
    fn said(jobs: usize) -> [String; 3] {
        let (plans, cells) = played(jobs);
        let report = report::report(&plans[0], &cells[0]).unwrap();
        [
            lines(&cells[0]),
            compare_table(&report, 80),
            compare_page(&report),
        ]
    }

    #[test]
    fn missing_runs_are_named_and_completed_runs_are_shown() {
        let (plans, mut all) = played(2);
        assert_eq!(runs::missing(&plans, &all), None);
        // One run of the cell (hitachi, none) is missing, and two runs of the cell (hitachi, bfq).
        all[0][3].1.pop();
        all[0][5].1.truncate(1);
        let missing = "15 of 18 runs; missing: 1 of 3 on hitachi-hts72755 (readers: none); 2 of 3 on hitachi-hts72755 (readers: bfq)";
        assert_eq!(runs::missing(&plans, &all).as_deref(), Some(missing));
        let shown = |all: &[PlayedCells]| {
            let report = report::report(&plans[0], &all[0]).unwrap();
            let page = compare_page(&report);
            assert!(!page.contains("NaN"));
            (report.notes[0].clone(), compare_table(&report, 100))
        };
        let (note, table) = shown(&all);
        assert!(note.contains("in up to 3 runs"), "{note}");
        assert!(table.contains("hitachi"), "{table}");
        // The state after the first four of the 18 runs: the first repetition of four cells.
        all[0].truncate(4);
        all[0].iter_mut().for_each(|(_, runs)| runs.truncate(1));
        let missing = "4 of 18 runs; missing: 2 of 3 on plextor-px-256m5s, on hitachi-hts72755 (readers: none); 3 of 3 on hitachi-hts72755 \
                       (readers: io.latency, bfq)";
        assert_eq!(runs::missing(&plans, &all).as_deref(), Some(missing));
        assert!(shown(&all).0.contains("in one run"));
        // The state before the first run on the second drive.
        all[0].truncate(3);
        assert!(!shown(&all).1.contains("hitachi"));
        let all = [Vec::new()];
        let missing = "0 of 18 runs; missing: 3 of 3 everywhere";
        assert_eq!(runs::missing(&plans, &all).as_deref(), Some(missing));
    }

    #[test]
    fn results_do_not_depend_on_jobs_or_earlier_runs() {
        let first = said(1);
        // 2 drives, 3 policies, 3 repetitions, and records of 16 clients and the total.
        assert_eq!(first[0].lines().count(), 2 * 3 * 3 * 17);
        assert!(
            first[1].lines().all(|line| line.len() <= 80),
            "{}",
            first[1]
        );
        assert!(first == said(1), "twice");
        assert!(first == said(7), "with seven jobs");
    }
}
