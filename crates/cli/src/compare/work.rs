//! The runs of a comparison, over several threads.

use crate::check;
use crate::failure::Failure;
use crate::modelled::Drive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_core::Span;
use weir_measure::Run as Named;
use weir_measure::{Course, Histogram, Record, State};
use weir_sim::{Alone, Auditors, Results, Run, Scenario};

/// Everything that is going to be played.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) script: Script,
    pub(super) drives: Vec<Drive>,
    /// `None` where there is but one.
    pub(super) cases: Vec<Option<String>>,
    pub(super) policies: Vec<Policy>,
    pub(super) repetitions: u32,
    pub(super) seconds: Option<u32>,
    pub(super) audit: bool,
}

/// What is repeated: a case under a policy on a drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// Its place in the plan.
    pub(super) drive: usize,
    pub(super) case: usize,
    pub(super) policy: usize,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Of each client, and of the total.
    pub(super) records: Vec<Record>,
    /// What was played.
    pub(super) scenario: Scenario,
    /// The target's latencies.
    pub(super) latency: Histogram,
    /// What names the run.
    pub(super) run: Named,
    /// How it went over time; of the first repetition.
    pub(super) over_time: Option<OverTime>,
}

/// How a run went over time.
#[derive(Debug)]
pub(super) struct OverTime {
    /// The target's latencies.
    pub(super) latency: Course,
    /// Mean number of commands in the drive in each window of `step_ns`.
    pub(super) depth: Vec<f64>,
    pub(super) step_ns: u64,
    /// What controllers and the elevator were doing.
    pub(super) states: Vec<State>,
}

/// Windows of a run over time.
const WINDOWS: u64 = 200;

impl Plan {
    /// The cells, in the order of results: by drive, case, policy.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for drive in 0..self.drives.len() {
            for case in 0..self.cases.len() {
                let cell = |policy| Cell {
                    drive,
                    case,
                    policy,
                };
                cells.extend((0..self.policies.len()).map(cell));
            }
        }
        cells
    }

    /// Runs of all cells.
    pub(super) fn runs(&self) -> usize {
        self.cells().len() * self.repetitions as usize
    }

    /// A cell's case, if there are several.
    pub(super) fn case(&self, cell: Cell) -> Option<&str> {
        self.cases[cell.case].as_deref()
    }

    /// A cell's policy, as it was chosen.
    pub(super) fn policy(&self, cell: Cell) -> &Policy {
        &self.policies[cell.policy]
    }

    /// What a cell plays, and under what: the policy with what the scenario states of it.
    fn build(&self, cell: Cell) -> Result<(Scenario, Policy), Failure> {
        let drive = &self.drives[cell.drive];
        let choice = Choice {
            drive: &drive.config,
            capacity: drive.capacity(),
            case: self.case(cell),
            policy: &self.policy(cell).name,
            seconds: self.seconds,
        };
        let refuse = |problems: Vec<_>| check::refuse(&problems);
        let scenario = self.script.scenario(&choice).map_err(refuse)?;
        let mut policy = self.policy(cell).clone();
        let tuned = self.script.tune(&choice, &mut policy);
        tuned.map_err(refuse)?;
        Ok((scenario.under(&policy), policy))
    }

    /// What each cell plays, and under what, as far as it can be built: what is wrong is said where it is played.
    pub(super) fn played(&self) -> impl Iterator<Item = (Scenario, Policy)> {
        self.cells()
            .into_iter()
            .filter_map(|cell| self.build(cell).ok())
    }

    fn play(&self, cell: Cell, repetition: u32) -> Result<Outcome, Failure> {
        let drive = &self.drives[cell.drive];
        let (scenario, policy) = self.build(cell)?;
        let alone = drive.alone(cell.case, &scenario);
        let alone = alone.map_err(|error| self.failed(cell, &error))?;
        let mut auditors = self.audit.then(Auditors::new);
        let observers = match &mut auditors {
            Some(auditors) => vec![auditors as &mut dyn weir_sim::Observer],
            None => Vec::new(),
        };
        let mut run = Run::observed(&scenario, &policy, repetition, observers)
            .map_err(|error| self.failed(cell, &error))?;
        if repetition == 0 {
            run = run.followed(Span::from_nanos(scenario.duration.as_nanos() / WINDOWS));
        }
        let results = run.run(|_| {}).map_err(|error| self.failed(cell, &error))?;
        if let Some(found) = auditors.map(|a| a.end(false)).filter(|f| !f.is_empty()) {
            let first = found.kept().first().map(ToString::to_string);
            let reason = format!(
                "the auditors found {} violations, first: {}",
                found.total(),
                first.unwrap_or_default()
            );
            return Err(self.failed(cell, &reason));
        }
        Ok(self.outcome(drive, &scenario, &alone, results))
    }

    fn outcome(
        &self,
        drive: &Drive,
        scenario: &Scenario,
        alone: &[Option<Alone>],
        mut results: Results,
    ) -> Outcome {
        results.run.drive.clone_from(&drive.name);
        let records = results.records(alone);
        let name = self.script.target();
        let target = results.clients.iter().find(|c| c.name == name);
        let meter = &target.expect("a script checks its target").meter;
        let over_time = results.depth.as_ref().zip(meter.course());
        Outcome {
            records,
            scenario: scenario.clone(),
            latency: meter.latency().clone(),
            run: results.run.clone(),
            over_time: over_time.map(|(depth, latency)| OverTime {
                latency: latency.clone(),
                depth: depth.means(meter.end_ns()),
                step_ns: depth.step_ns(),
                states: results.states.clone(),
            }),
        }
    }

    /// A run failed: which, and why.
    fn failed(&self, cell: Cell, reason: &impl ToString) -> Failure {
        let case = self
            .case(cell)
            .map_or_else(String::new, |c| format!(", {c}"));
        Failure::Run(format!(
            "{} on {}{case}, {}: {}",
            self.script.name(),
            self.drives[cell.drive].name,
            self.policy(cell).name,
            reason.to_string()
        ))
    }
}

/// Plays every repetition of every cell, `jobs` at a time, and tells `done` how many are. The outcomes come in the order of the plan,
/// whatever the number of jobs; of several failures it is the first in that order.
pub(super) fn play(
    plan: &Plan,
    jobs: usize,
    mut done: impl FnMut(usize),
) -> Result<Vec<Outcome>, Failure> {
    let (cells, each) = (plan.cells(), plan.repetitions as usize);
    let total = cells.len() * each;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut outcomes: Vec<Option<Result<Outcome, Failure>>> = (0..total).map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs.min(total) {
            let sender = sender.clone();
            let (cells, next, failed) = (&cells, &next, &failed);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(number / each) else {
                        return;
                    };
                    let outcome = plan.play(*cell, (number % each) as u32);
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    // The receiver is there until all senders are gone.
                    let _ = sender.send((number, outcome));
                }
            });
        }
        drop(sender);
        for (count, (number, outcome)) in (1..).zip(receiver) {
            outcomes[number] = Some(outcome);
            done(count);
        }
    });
    // Runs begin in order: what was not begun comes after the first that failed.
    outcomes.into_iter().flatten().collect()
}
