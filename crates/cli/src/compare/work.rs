//! Plays the runs of a comparison in parallel threads.
//!
//! A [`ComparisonPlan`] consists of [`Cell`]s: one for each drive, case, policy and place. [`play`]
//! plays the repetitions of all cells and returns an [`RunOutcome`] for each run.

use super::on::RunPlace;
use super::on::serve::{self, LiveMeasurements};
use super::{clients, runs};
use crate::check;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::threads;
use crate::modelled::PlayedDrive;
use crate::progress::WorkProgress;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_core::Span;
use weir_measure::RunId as Named;
use weir_measure::{Course, Histogram, Meter, Record, TracedState};
use weir_sim::{PerformanceAlone, Scenario};

/// All runs of one scenario.
#[derive(Debug)]
pub(super) struct ComparisonPlan {
    pub(super) script: Script,
    pub(super) drives: Vec<PlayedDrive>,
    /// The names of the cases to play, or a single `None` if the scenario has no cases.
    pub(super) cases: Vec<Option<String>>,
    pub(super) policies: Vec<Policy>,
    /// The places in which the scenario is played.
    pub(super) on: Arc<Vec<RunPlace>>,
    /// The number of repetitions for all places, if the user has chosen one.
    pub(super) repetitions: Option<u32>,
    pub(super) seconds: Option<u32>,
    pub(super) audit: bool,
}

/// The unit of repetition: a case under a policy, on a drive and in a place. All of them are
/// indices into the lists of the [`ComparisonPlan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) drive: usize,
    pub(super) case: usize,
    pub(super) policy: usize,
    pub(super) on: usize,
}

/// The result of one run.
#[derive(Debug)]
pub(super) struct RunOutcome {
    /// The records of each client and of the total.
    pub(super) records: Vec<Record>,
    /// True if the run used random numbers, so that another repetition gives different results.
    pub(super) drew: bool,
    /// The scenario that was played.
    pub(super) scenario: Scenario,
    /// The latencies of the target.
    pub(super) latency: Histogram,
    /// The identity of the run: scenario, drive, case, policy and repetition.
    pub(super) run: Named,
    /// The course of the run over time. Only the first repetition of a cell has one.
    pub(super) over_time: Option<RunCourse>,
    /// The differences between the place and the policy, one sentence each. In the simulator, these
    /// are the changes of contracts that were refused.
    pub(super) notes: Vec<String>,
    /// The measurements on a real server, from which the records are made after all runs.
    pub(super) live: Option<LiveMeasurements>,
}

/// The course of one run, in windows of equal length.
#[derive(Debug)]
pub(super) struct RunCourse {
    /// The latencies of the target.
    pub(super) latency: Course,
    /// The mean number of commands in the drive in each window of `step_ns`.
    pub(super) depth: Vec<f64>,
    /// The length of a window in nanoseconds.
    pub(super) step_ns: u64,
    /// The states of controllers and the elevator.
    pub(super) states: Vec<TracedState>,
}

/// The number of windows into which a run is divided for plots over time.
const WINDOWS: u64 = 200;

/// The parameters of one repetition of a cell, for the place that plays it.
pub(super) struct Repetition<'a> {
    pub(super) run: Named,
    pub(super) scenario: &'a Scenario,
    pub(super) policy: &'a Policy,
    /// The bandwidth and latency of each client without contention, where they are known.
    pub(super) alone: &'a [Option<PerformanceAlone>],
    /// The index of the target among the clients.
    pub(super) target: usize,
    /// True if auditors check every decision.
    pub(super) audit: bool,
    pub(super) interrupt: &'a Interrupt,
    /// Receives the completed fraction (0 to 1) of the run.
    pub(super) passed: &'a dyn Fn(f64),
}

impl Repetition<'_> {
    /// Returns the length of a window over time, or `None` if this is not the repetition for which
    /// windows are recorded.
    pub(super) fn step(&self) -> Option<Span> {
        let step = Span::from_nanos(self.scenario.duration.as_nanos() / WINDOWS);
        (self.run.repeat == 0).then_some(step)
    }

    /// Returns the outcome of this repetition, from the records and the target's measurements that
    /// a place returns.
    pub(super) fn outcome(self, records: Vec<Record>, target: &Meter) -> RunOutcome {
        RunOutcome {
            records,
            // A place that knows better sets `drew` to false afterwards. True is the safe value,
            // because the cell is then repeated as often as requested.
            drew: true,
            latency: target.latency().clone(),
            over_time: target.course().map(|latency| RunCourse {
                latency: latency.clone(),
                depth: Vec::new(),
                step_ns: self.scenario.duration.as_nanos() / WINDOWS,
                states: Vec::new(),
            }),
            scenario: self.scenario.clone(),
            run: self.run,
            notes: Vec::new(),
            live: None,
        }
    }
}

impl ComparisonPlan {
    /// Returns the cells in the order of results: by drive, case, policy and place. Combinations of
    /// a place and a policy that the place cannot play are left out.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for drive in 0..self.drives.len() {
            for case in 0..self.cases.len() {
                for (policy, of) in self.policies.iter().enumerate() {
                    let on = self.on.iter().enumerate();
                    let on = on.filter(|(_, on)| on.refuses(of).is_none());
                    cells.extend(on.map(|(on, _)| Cell {
                        drive,
                        case,
                        policy,
                        on,
                    }));
                }
            }
        }
        cells
    }

    /// Returns the number of runs of all cells, if each of them uses random numbers.
    pub(super) fn runs(&self) -> usize {
        let each = self.cells().into_iter();
        each.map(|cell| self.repetitions(cell) as usize).sum()
    }

    /// Returns the number of repetitions of a cell.
    pub(super) fn repetitions(&self, cell: Cell) -> u32 {
        let of_scenario = self.script.repetitions();
        let own = self.on[cell.on].repetitions(of_scenario);
        self.repetitions.unwrap_or(own)
    }

    /// Returns the name of a cell's policy and place in tables.
    pub(super) fn label(&self, cell: Cell) -> String {
        format!("{}{}", self.policy(cell).name, self.on[cell.on].label())
    }

    /// Returns the name of a cell's case, if the scenario has cases.
    pub(super) fn case(&self, cell: Cell) -> Option<&str> {
        self.cases[cell.case].as_deref()
    }

    /// Returns the policy of a cell as the user has chosen it, without the settings of the
    /// scenario.
    pub(super) fn policy(&self, cell: Cell) -> &Policy {
        &self.policies[cell.policy]
    }

    /// Returns the scenario of a cell, and its policy with the settings that the scenario makes for
    /// it.
    pub(super) fn build(&self, cell: Cell) -> Result<(Scenario, Policy), Failure> {
        let drive = &self.drives[cell.drive];
        let choice = Choice {
            drive: &drive.config,
            capacity: drive.capacity(),
            case: self.case(cell),
            policy: &self.policy(cell).name,
            seconds: self.seconds,
        };
        let refuse = |problems: Vec<_>| check::refuse(&problems);
        let mut scenario = self.script.scenario(&choice).map_err(refuse)?;
        // On a real image or device, each client reads a part of its own.
        if let RunPlace::Serve(live) = &self.on[cell.on] {
            // The scenario's own regions refer to the modelled drive, and the image can be smaller.
            live.divide(&mut scenario)?;
        }
        let mut policy = self.policy(cell).clone();
        let tuned = self.script.tune(&choice, &mut policy);
        tuned.map_err(refuse)?;
        Ok((scenario.under(&policy), policy))
    }

    /// Returns the scenario and policy of each cell that can be built. Errors of the other cells
    /// are reported by [`Self::play`].
    pub(super) fn built(&self) -> impl Iterator<Item = (Cell, (Scenario, Policy))> {
        let cells = self.cells().into_iter();
        cells.filter_map(|cell| Some((cell, self.build(cell).ok()?)))
    }

    /// Returns the scenario and policy of each cell that can be built.
    pub(super) fn played(&self) -> impl Iterator<Item = (Scenario, Policy)> {
        self.built().map(|(_, played)| played)
    }

    /// Plays a repetition of a cell. `passed` receives its completed fraction (0 to 1). Returns
    /// `None` if an interrupt has ended the run early.
    fn play(
        &self,
        cell: Cell,
        repetition: u32,
        interrupt: &Interrupt,
        passed: &dyn Fn(f64),
    ) -> Result<Option<RunOutcome>, Failure> {
        let drive = &self.drives[cell.drive];
        let (scenario, policy) = self.build(cell)?;
        let alone = drive.alone(&scenario);
        let alone = alone.map_err(|error| self.failed(cell, &error.message_for(&scenario)))?;
        let target = self.script.target();
        // Records and meters have the order of the clients, so places use the target's index.
        let target = scenario.clients.iter().position(|c| c.name == target);
        let ran = self.on[cell.on].play(Repetition {
            run: Named {
                scenario: scenario.name.clone(),
                drive: drive.name.clone(),
                case: scenario.case.clone(),
                policy: policy.name.clone(),
                repeat: repetition,
                place: None,
                seed: Some(weir_model::load::seed(&scenario.name, repetition, 0)),
            },
            scenario: &scenario,
            policy: &policy,
            alone: &alone,
            target: target.expect("a script checks its target"),
            audit: self.audit,
            interrupt,
            passed,
        });
        ran.map_err(|error| self.failed(cell, &error))
    }

    /// Returns the error of a run, with the cell in which it occurred.
    fn failed(&self, cell: Cell, reason: &impl ToString) -> Failure {
        let case = self
            .case(cell)
            .map_or_else(String::new, |c| format!(", {c}"));
        Failure::Run(format!(
            "{} on {}{case}, {}: {}",
            self.script.name(),
            self.drives[cell.drive].name,
            self.label(cell),
            reason.to_string()
        ))
    }
}

/// A cell with the outcomes of its repetitions.
pub(super) type CellRuns = (Cell, Vec<RunOutcome>);

/// The results of a plan: each cell that has at least one run.
pub(super) type PlayedCells = Vec<CellRuns>;

/// The results of all plans.
#[derive(Debug)]
pub(super) struct PlayedPlans {
    /// The results of each plan, in the order of the plans.
    pub(super) cells: Vec<PlayedCells>,
    /// The failure of the earliest run that failed, in the order in which the runs were started.
    /// The results are those of the runs before it.
    pub(super) failed: Option<Failure>,
}

/// A run: the index of its cell among the cells of all plans, and the number of the repetition.
type PlannedRun = (usize, u32);

/// Plays all plans, with `jobs` runs in parallel, or one at a time if any place is a real server.
///
/// Every cell is played once first. After that, the cells that use random numbers are repeated in
/// turn, so that an interrupt leaves the same number of repetitions of each cell, give or take one.
/// The outcomes are in the order of the plans and do not depend on `jobs`. A run that fails ends
/// the comparison, because the next ones would probably fail as well.
///
/// # Errors
/// The records of runs on real servers cannot be made.
pub(super) fn play(
    plans: &[ComparisonPlan],
    jobs: usize,
    interrupt: &Interrupt,
    progress: &mut WorkProgress,
) -> Result<PlayedPlans, Failure> {
    let cells = plans.iter().flat_map(|plan| {
        let cells = plan.cells().into_iter();
        cells.map(move |cell| (plan, cell))
    });
    let cells: Vec<(&ComparisonPlan, Cell)> = cells.collect();
    let is_live = |on: &RunPlace| matches!(on, RunPlace::Serve(_));
    let is_live = plans.iter().any(|plan| plan.on.iter().any(is_live));
    // Parallel servers in real time would compete for the processors and the drive, and disturb
    // each other's measurements.
    let jobs = if is_live { 1 } else { jobs };
    let mut outcomes: Vec<Vec<RunOutcome>> = cells.iter().map(|_| Vec::new()).collect();
    let first: Vec<PlannedRun> = (0..cells.len()).map(|cell| (cell, 0)).collect();
    let (played, mut failed) = pass(&cells, &first, jobs, interrupt, |done| {
        progress.set(step(done));
    });
    // The first repetition shows which cells use random numbers. The others need no further run.
    for ((cell, _), outcome) in played {
        outcomes[cell].push(outcome);
    }
    let most = cells
        .iter()
        .map(|(plan, cell)| plan.repetitions(*cell))
        .max();
    let again = (1..most.unwrap_or_default()).flat_map(|repetition| {
        let planned =
            |cell: &usize| runs::planned(cells[*cell].0, cells[*cell].1, &outcomes[*cell]);
        let cells = (0..cells.len()).filter(move |cell| (repetition as usize) < planned(cell));
        cells.map(move |cell| (cell, repetition))
    });
    let again: Vec<PlannedRun> = again.filter(|_| failed.is_none()).collect();
    if failed.is_none() && interrupt.signal().is_none() {
        let total = first.len() + again.len();
        progress.resize(step(total as f64), format!("{total} runs"));
    }
    let (played, later) = pass(&cells, &again, jobs, interrupt, |done| {
        progress.set(step(first.len() as f64 + done));
    });
    failed = failed.or(later);
    for ((cell, _), outcome) in played {
        outcomes[cell].push(outcome);
    }
    let mut outcomes = outcomes.into_iter();
    let all = plans.iter().map(|plan| {
        let cells = plan.cells().into_iter().zip(outcomes.by_ref());
        let mut cells: PlayedCells = cells.filter(|(_, runs)| !runs.is_empty()).collect();
        // The verdicts of real runs need the fastest request of all runs, and starving is relative
        // to the runs under `none`. Both are known only now.
        serve::judge(plan, &mut cells)?;
        clients::find_starved(plan, &mut cells);
        Ok(cells)
    });
    let cells = all.collect::<Result<_, Failure>>()?;
    Ok(PlayedPlans { cells, failed })
}

/// Returns the length of `runs` runs on the progress bar, on which a run counts as one second.
pub(super) fn step(runs: f64) -> Duration {
    Duration::from_secs_f64(runs)
}

/// Plays runs, which are started in the given order. `done` receives the number of completed runs.
/// If runs are played one at a time, the number includes the completed fraction of the present one.
///
/// After an interrupt, no further run is started, and the runs in progress are abandoned. After a
/// failure, no further run is started. The outcomes are then those of the runs before the first one
/// that failed, so that they do not depend on `jobs`.
fn pass(
    cells: &[(&ComparisonPlan, Cell)],
    runs: &[PlannedRun],
    jobs: usize,
    interrupt: &Interrupt,
    done: impl Fn(f64) + Sync,
) -> (Vec<(PlannedRun, RunOutcome)>, Option<Failure>) {
    // The counters order nothing: they only say whether to go on, and how far the bar is. So
    // relaxed accesses suffice.
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let play = |(number, &(cell, repetition)): (usize, &PlannedRun)| {
        if failed.load(Ordering::Relaxed) || interrupt.signal().is_some() {
            return None;
        }
        let (plan, at) = cells[cell];
        let passed = |part| {
            if jobs == 1 {
                done(count.load(Ordering::Relaxed) as f64 + part);
            }
        };
        let outcome = plan.play(at, repetition, interrupt, &passed).transpose()?;
        failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
        done((count.fetch_add(1, Ordering::Relaxed) + 1) as f64);
        Some((number, outcome.map(|outcome| ((cell, repetition), outcome))))
    };
    // The bridge hands out runs in order, one by one. So a run that is not started because of a
    // failure always comes after the failed run, and the first error in the order of runs is always
    // found.
    let runs = runs.iter().enumerate().par_bridge();
    let mut played: Vec<_> = threads(jobs).install(|| runs.filter_map(play).collect());
    // Parallel runs end in any order.
    played.sort_unstable_by_key(|(number, _)| *number);
    let (mut done, mut failure) = (Vec::new(), None);
    for (_, outcome) in played {
        match outcome {
            Ok(outcome) => done.push(outcome),
            Err(failed) => {
                failure = Some(failed);
                break;
            }
        }
    }
    (done, failure)
}
