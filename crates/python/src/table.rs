//! Comparisons, plans and searches. The results are lines of JSON, with the keys from which their
//! columns are made.

use crate::error::{failed, usage};
use crate::long::run_interruptible;
use crate::source::{PyDrive, PyPolicy, PyScenario};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use weir::{Comparison, Interrupt, Planning};
use weir_measure::keys::KEYS;
use weir_measure::{Need, to_line};
use weir_verify::search::batch::{self as cases, DrawOptions, SearchPlan};
use weir_verify::search::case::KINDS;
use weir_verify::search::tally::SearchFailure;
use weir_verify::search::trial::TrialOutcome;

/// The permitted ranges of arguments, as in the command.
const REPETITIONS: RangeInclusive<u32> = 1..=10_000;
const SECONDS: RangeInclusive<u32> = 1..=3600;
const JOBS: RangeInclusive<u32> = 1..=1024;
/// The maximum number of runs: ten million, so that the threads' counter of runs cannot overflow.
const RUNS_MAX: u32 = 10_000_000;
const PERCENT: RangeInclusive<u32> = 1..=100;

/// Returns a number if it is in range, or `None` without a number.
fn bounded(name: &str, number: Option<i64>, range: &RangeInclusive<u32>) -> PyResult<Option<u32>> {
    let Some(number) = number else {
        return Ok(None);
    };
    let fits = u32::try_from(number).ok().filter(|n| range.contains(n));
    let (from, to) = (range.start(), range.end());
    let refuse = || {
        usage(format!(
            "{name}: {number} must be a number from {from} to {to}"
        ))
    };
    fits.map(Some).ok_or_else(refuse)
}

fn jobs(asked: Option<i64>) -> PyResult<usize> {
    let jobs = bounded("jobs", asked, &JOBS)?.map(|jobs| jobs as usize);
    let all = || thread::available_parallelism().map_or(1, NonZero::get);
    Ok(jobs.unwrap_or_else(all))
}

fn policies(given: &[Py<PyPolicy>]) -> Vec<weir_config::Policy> {
    given.iter().map(|p| p.get().policy.clone()).collect()
}

fn bytes(py: Python<'_>, lines: impl Iterator<Item = String>) -> Bound<'_, PyBytes> {
    let lines: String = lines.map(|line| line + "\n").collect();
    PyBytes::new(py, lines.as_bytes())
}

/// Returns the lines of `weir compare --json`.
#[pyfunction]
#[pyo3(signature = (scenario, drives, policies, cases, repetitions, seconds, jobs, audit))]
#[expect(clippy::too_many_arguments, reason = "what the command is asked for")]
pub(crate) fn compare<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    drives: Vec<Py<PyDrive>>,
    policies: Vec<Py<PyPolicy>>,
    cases: Vec<String>,
    repetitions: Option<i64>,
    seconds: Option<i64>,
    jobs: Option<i64>,
    audit: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let comparison = Comparison {
        scripts: scenario.scripts.clone(),
        drives: drives.iter().map(|d| d.get().profile.clone()).collect(),
        cases,
        policies: self::policies(&policies),
        repetitions: bounded("repetitions", repetitions, &REPETITIONS)?,
        seconds: bounded("seconds", seconds, &SECONDS)?,
        jobs: self::jobs(jobs)?,
        audit,
    };
    let records = run_interruptible(py, |interrupt| comparison.play(interrupt))?;
    Ok(bytes(py, records.map_err(failed)?.iter().map(to_line)))
}

/// Returns the lines of `weir plan --json`.
#[pyfunction]
#[pyo3(signature = (scenario, drives, policies, case, keep, average, repetitions, seconds, jobs))]
#[expect(clippy::too_many_arguments, reason = "what the command is asked for")]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    drives: Vec<Py<PyDrive>>,
    policies: Vec<Py<PyPolicy>>,
    case: Option<String>,
    keep: i64,
    average: Option<u64>,
    repetitions: Option<i64>,
    seconds: Option<i64>,
    jobs: Option<i64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let planning = Planning {
        script: scenario.one()?.clone(),
        drives: drives.iter().map(|d| d.get().profile.clone()).collect(),
        case,
        policies: self::policies(&policies),
        keep: bounded("keep", Some(keep), &PERCENT)?.unwrap_or(*PERCENT.end()),
        average,
        repetitions: bounded("repetitions", repetitions, &REPETITIONS)?,
        seconds: bounded("seconds", seconds, &SECONDS)?,
        jobs: self::jobs(jobs)?,
    };
    let needs = run_interruptible(py, |interrupt| planning.search(interrupt))?;
    Ok(bytes(py, needs.map_err(failed)?.iter().map(Need::to_line)))
}

/// The result of a seed of the search, as a line of JSON.
#[derive(Serialize)]
struct SeedRecord {
    seed: u64,
    kind: &'static str,
    title: String,
    promised: bool,
    feasible: bool,
    realtime: bool,
    kept: bool,
    bfq_keeps: bool,
    promised_part: f64,
    worst: f64,
    total: Option<f64>,
    total_bfq: Option<f64>,
    share_off: Option<f64>,
    idle_wait_ms: Option<f64>,
    failures: Vec<&'static str>,
    findings: u64,
    broken: Option<String>,
}

impl SeedRecord {
    fn of(outcome: TrialOutcome) -> Self {
        let failures = SearchFailure::ALL.into_iter();
        let failures = failures.filter(|f| f.badness(&outcome).is_some());
        Self {
            seed: outcome.seed,
            kind: KINDS[outcome.kind],
            promised: outcome.promised,
            feasible: outcome.feasible,
            realtime: outcome.realtime,
            kept: outcome.kept(),
            bfq_keeps: outcome.bfq_keeps,
            promised_part: outcome.part,
            worst: outcome.worst,
            total: outcome.total,
            total_bfq: outcome.total_bfq,
            share_off: outcome.share_off,
            idle_wait_ms: outcome.idle_wait,
            failures: failures.map(SearchFailure::name).collect(),
            findings: outcome.findings.0,
            title: outcome.title,
            broken: outcome.broken,
        }
    }

    fn to_line(&self) -> String {
        serde_json::to_string(self).expect("it has no maps")
    }
}

/// Returns a line for each seed of a search for contracts that are not kept.
#[pyfunction]
#[pyo3(signature = (runs, seed, kind, admitted, jobs))]
pub(crate) fn search(
    py: Python<'_>,
    runs: i64,
    seed: u64,
    kind: Option<String>,
    admitted: bool,
    jobs: Option<i64>,
) -> PyResult<Bound<'_, PyBytes>> {
    let runs = bounded("runs", Some(runs), &(1..=RUNS_MAX))?.unwrap_or_default();
    let known = |kind: String| {
        let found = KINDS.iter().position(|k| *k == kind);
        found.ok_or_else(|| {
            let kinds = KINDS.join(", ");
            usage(format!(
                "kind: unknown kind of drive {kind:?}; use one of {kinds}"
            ))
        })
    };
    let kind = kind.map(known).transpose()?;
    let draw = DrawOptions {
        kind,
        shallow: false,
        admitted,
    };
    let jobs = self::jobs(jobs)?;
    let found = run_interruptible(py, |interrupt| found(runs, seed, draw, jobs, interrupt))?;
    Ok(bytes(
        py,
        found
            .into_iter()
            .map(|outcome| SeedRecord::of(outcome).to_line()),
    ))
}

/// Runs every seed, `jobs` at a time, and returns the outcomes in their order. After an interrupt,
/// only seeds that had begun are returned. Each seed is a search of its own, so that an interrupt
/// waits for one seed on every thread and not for all.
fn found(
    runs: u32,
    seed: u64,
    draw: DrawOptions,
    jobs: usize,
    interrupt: &Interrupt,
) -> Vec<TrialOutcome> {
    let (next, all) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    let search = || {
        while interrupt.signal().is_none() {
            let run = next.fetch_add(1, Ordering::Relaxed);
            // Each thread may take one number beyond the end.
            if run >= runs {
                break;
            }
            let plan = SearchPlan {
                seed: seed.wrapping_add(run.into()),
                runs: 1,
                draw,
                jobs: 1,
            };
            let (outcomes, _) = cases::search(&plan, |_| {});
            // A panic in another thread leaves the list usable.
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(outcomes.into_iter().map(|outcome| (run, outcome)));
        }
    };
    thread::scope(|scope| {
        // More threads than seeds would do nothing.
        for _ in 0..jobs.min(runs as usize) {
            scope.spawn(search);
        }
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Threads finish seeds in any order.
    all.sort_unstable_by_key(|(run, _)| *run);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Returns the keys of a comparison's lines: the path, and the type with its unit.
#[pyfunction]
pub(crate) fn records() -> Vec<(&'static str, &'static str)> {
    KEYS.iter().map(|key| (key.path, key.value)).collect()
}

/// Returns the keys of a plan's lines: the path, and the type with its unit.
#[pyfunction]
pub(crate) fn needs() -> Vec<(&'static str, &'static str)> {
    Need::KEYS
        .iter()
        .map(|(path, value, _)| (*path, *value))
        .collect()
}
