//! The runs of a comparison, over several threads.

use super::on::On;
use super::on::serve::{self, Measured};
use super::{clients, runs};
use crate::check;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::threads;
use crate::modelled::Drive;
use crate::progress::Progress;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_core::Span;
use weir_measure::Run as Named;
use weir_measure::{Course, Histogram, Meter, Record, State};
use weir_sim::{Alone, Scenario};

/// Everything that is going to be played.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) script: Script,
    pub(super) drives: Vec<Drive>,
    /// `None` where there is but one.
    pub(super) cases: Vec<Option<String>>,
    pub(super) policies: Vec<Policy>,
    /// Where it is played.
    pub(super) on: Arc<Vec<On>>,
    /// What was asked for, for all places.
    pub(super) repetitions: Option<u32>,
    pub(super) seconds: Option<u32>,
    pub(super) audit: bool,
}

/// What is repeated: a case under a policy on a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    /// Its place in the plan.
    pub(super) drive: usize,
    pub(super) case: usize,
    pub(super) policy: usize,
    pub(super) on: usize,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Of each client, and of the total.
    pub(super) records: Vec<Record>,
    /// Something was drawn, so that other repetitions are other runs.
    pub(super) drew: bool,
    /// What was played.
    pub(super) scenario: Scenario,
    /// The target's latencies.
    pub(super) latency: Histogram,
    /// What names the run.
    pub(super) run: Named,
    /// How it went over time; of the first repetition.
    pub(super) over_time: Option<OverTime>,
    /// In what the place is not as the policy, a sentence each; in the simulator the changes of contracts that were refused.
    pub(super) notes: Vec<String>,
    /// What was measured on a real server.
    pub(super) live: Option<Measured>,
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

/// A repetition of a cell, for the place that plays it.
pub(super) struct Repetition<'a> {
    pub(super) run: Named,
    pub(super) scenario: &'a Scenario,
    pub(super) policy: &'a Policy,
    /// What each client gets with the drive to itself, where that is known.
    pub(super) alone: &'a [Option<Alone>],
    /// The target's number among the clients.
    pub(super) target: usize,
    /// Every decision is checked by auditors.
    pub(super) audit: bool,
    pub(super) interrupt: &'a Interrupt,
    /// Receives the part (0 to 1) of the run that is over.
    pub(super) passed: &'a dyn Fn(f64),
}

impl Repetition<'_> {
    /// The length of a window over time, if this is the repetition of which such windows are kept.
    pub(super) fn step(&self) -> Option<Span> {
        let step = Span::from_nanos(self.scenario.duration.as_nanos() / WINDOWS);
        (self.run.repeat == 0).then_some(step)
    }

    /// The outcome, where the place returns these records and has measured this of the target.
    pub(super) fn outcome(self, records: Vec<Record>, target: &Meter) -> Outcome {
        Outcome {
            records,
            drew: true,
            latency: target.latency().clone(),
            over_time: target.course().map(|latency| OverTime {
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

impl Plan {
    /// The cells, in the order of results: by drive, case, policy and place. A place that has nothing for a policy is left out.
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

    /// Runs of all cells.
    pub(super) fn runs(&self) -> usize {
        let each = self.cells().into_iter();
        each.map(|cell| self.repetitions(cell) as usize).sum()
    }

    /// How often a cell is to be played.
    pub(super) fn repetitions(&self, cell: Cell) -> u32 {
        let of_scenario = self.script.repetitions();
        let own = self.on[cell.on].repetitions(of_scenario);
        self.repetitions.unwrap_or(own)
    }

    /// A cell's policy and place, as tables have them.
    pub(super) fn label(&self, cell: Cell) -> String {
        format!("{}{}", self.policy(cell).name, self.on[cell.on].label())
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
        let mut scenario = self.script.scenario(&choice).map_err(refuse)?;
        if let On::Serve(live) = &self.on[cell.on] {
            live.divide(&mut scenario)?;
        }
        let mut policy = self.policy(cell).clone();
        let tuned = self.script.tune(&choice, &mut policy);
        tuned.map_err(refuse)?;
        Ok((scenario.under(&policy), policy))
    }

    /// What each cell plays, and under what, as far as it can be built: what is wrong is said where it is played.
    pub(super) fn built(&self) -> impl Iterator<Item = (Cell, (Scenario, Policy))> {
        let cells = self.cells().into_iter();
        cells.filter_map(|cell| Some((cell, self.build(cell).ok()?)))
    }

    /// The same, without the cells.
    pub(super) fn played(&self) -> impl Iterator<Item = (Scenario, Policy)> {
        self.built().map(|(_, played)| played)
    }

    /// Plays a repetition of a cell. `passed` receives the part (0 to 1) of it that is over.
    /// `None`: it was abandoned for an interrupt.
    fn play(
        &self,
        cell: Cell,
        repetition: u32,
        interrupt: &Interrupt,
        passed: &dyn Fn(f64),
    ) -> Result<Option<Outcome>, Failure> {
        let drive = &self.drives[cell.drive];
        let (scenario, policy) = self.build(cell)?;
        let alone = drive.alone(&scenario);
        let alone = alone.map_err(|error| self.failed(cell, &error.of(&scenario)))?;
        let target = self.script.target();
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

    /// A run failed: which, and why.
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

/// A cell with its repetitions.
pub(super) type Pair = (Cell, Vec<Outcome>);

/// What came of a plan: its cells of which there is a run.
pub(super) type Played = Vec<Pair>;

/// A run: the place of its cell among those of all plans, and the repetition.
type Job = (usize, u32);

/// Plays all plans, `jobs` runs at a time, or one at a time if any is in real time: every cell
/// once, and then those in which something is drawn again and again, all in turn, so that an
/// interrupt finds as many repetitions of one as of another. The outcomes come in the order of the
/// plans, whatever the number of jobs; of several failures it is that of the run that was begun
/// first.
pub(super) fn play(
    plans: &[Plan],
    jobs: usize,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Vec<Played>, Failure> {
    let cells = plans.iter().flat_map(|plan| {
        let cells = plan.cells().into_iter();
        cells.map(move |cell| (plan, cell))
    });
    let cells: Vec<(&Plan, Cell)> = cells.collect();
    let is_live = |on: &On| matches!(on, On::Serve(_));
    let is_live = plans.iter().any(|plan| plan.on.iter().any(is_live));
    let jobs = if is_live { 1 } else { jobs };
    let mut outcomes: Vec<Vec<Outcome>> = cells.iter().map(|_| Vec::new()).collect();
    let first: Vec<Job> = (0..cells.len()).map(|cell| (cell, 0)).collect();
    let played = pass(&cells, &first, jobs, interrupt, |done| {
        progress.set(step(done));
    });
    for ((cell, _), outcome) in played? {
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
    let again: Vec<Job> = again.collect();
    if interrupt.signal().is_none() {
        let total = first.len() + again.len();
        progress.resize(step(total as f64), format!("{total} runs"));
    }
    let played = pass(&cells, &again, jobs, interrupt, |done| {
        progress.set(step(first.len() as f64 + done));
    });
    for ((cell, _), outcome) in played? {
        outcomes[cell].push(outcome);
    }
    let mut outcomes = outcomes.into_iter();
    let all = plans.iter().map(|plan| {
        let cells = plan.cells().into_iter().zip(outcomes.by_ref());
        let mut cells: Played = cells.filter(|(_, runs)| !runs.is_empty()).collect();
        serve::judge(plan, &mut cells)?;
        clients::find_starved(plan, &mut cells);
        Ok(cells)
    });
    all.collect()
}

/// A run's length on the bar.
pub(super) fn step(runs: f64) -> Duration {
    Duration::from_secs_f64(runs)
}

/// Plays these runs, which begin in this order, and tells `done` how many are over, with the part
/// of the one that is running if runs are played one by one. After an interrupt none begins, and
/// those that have begun are abandoned.
fn pass(
    cells: &[(&Plan, Cell)],
    runs: &[Job],
    jobs: usize,
    interrupt: &Interrupt,
    done: impl Fn(f64) + Sync,
) -> Result<Vec<(Job, Outcome)>, Failure> {
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let play = |(number, &(cell, repetition)): (usize, &Job)| {
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
    // In order, one after the other: what is not begun comes after the first that fails.
    let runs = runs.iter().enumerate().par_bridge();
    let mut played: Vec<_> = threads(jobs).install(|| runs.filter_map(play).collect());
    played.sort_unstable_by_key(|(number, _)| *number);
    let played = played.into_iter().map(|(_, outcome)| outcome);
    played.collect()
}
