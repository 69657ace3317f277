//! The runs of a comparison, over several threads.

use super::on::{On, Ran};
use super::runs;
use crate::check;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::threads;
use crate::modelled::Drive;
use crate::progress::Progress;
use crate::standings::standings;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir_config::Policy;
use weir_config::scenario::{Choice, Script};
use weir_config::units::Time;
use weir_core::Span;
use weir_explain::Standings;
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
            capacity: drive.capacity().filter(|_| !drive.is_real),
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
    pub(super) fn built(&self) -> impl Iterator<Item = (Cell, (Scenario, Policy))> {
        let cells = self.cells().into_iter();
        cells.filter_map(|cell| Some((cell, self.build(cell).ok()?)))
    }

    /// The same, without the cells.
    pub(super) fn played(&self) -> impl Iterator<Item = (Scenario, Policy)> {
        self.built().map(|(_, played)| played)
    }

    /// Plays a repetition of a cell. `None`: it was abandoned for an interrupt.
    fn play(
        &self,
        cell: Cell,
        repetition: u32,
        interrupt: &Interrupt,
    ) -> Result<Option<Outcome>, Failure> {
        let drive = &self.drives[cell.drive];
        let (scenario, policy) = self.build(cell)?;
        let alone = drive.alone(&scenario);
        let alone = alone.map_err(|error| self.failed(cell, &error.of(&scenario)))?;
        let step = Span::from_nanos(scenario.duration.as_nanos() / WINDOWS);
        let on = &self.on[cell.on];
        if !matches!(on, On::Sim) {
            let step = (repetition == 0).then_some(step);
            let go_on = || interrupt.signal().is_none();
            let what = (&scenario, &policy, repetition);
            let ran = on.play(what, &drive.name, &alone, step, go_on);
            let ran = ran.map_err(|error| self.failed(cell, &error))?;
            return Ok(ran.map(|ran| self.elsewhere(cell, &scenario, ran)));
        }
        let mut auditors = self.audit.then(Auditors::new);
        let mut standings = standings(&scenario);
        let mut observers: Vec<&mut dyn weir_sim::Observer> = Vec::new();
        observers.extend(auditors.as_mut().map(|auditors| auditors as _));
        observers.extend(standings.as_mut().map(|standings| standings as _));
        let mut run = Run::observed(&scenario, &policy, repetition, observers)
            .map_err(|error| self.failed(cell, &error.of(&scenario)))?;
        if repetition == 0 {
            run = run.followed(step);
        }
        let results = run.run_while(|_| interrupt.signal().is_none());
        let Some(mut results) = results.map_err(|error| self.failed(cell, &error.of(&scenario)))?
        else {
            return Ok(None);
        };
        if let Some(found) = auditors.map(|a| a.end(false)).filter(|f| !f.is_empty()) {
            let first = found.kept().first().map(ToString::to_string);
            let reason = format!(
                "the auditors found {} violations, first: {}",
                found.total(),
                first.unwrap_or_default()
            );
            return Err(self.failed(cell, &reason));
        }
        results.standings = standings.map(Standings::into_all).unwrap_or_default();
        Ok(Some(self.outcome(drive, &scenario, &alone, results)))
    }

    /// What came of a run under a kernel.
    fn elsewhere(&self, cell: Cell, scenario: &Scenario, ran: Ran) -> Outcome {
        let name = self.script.target();
        let target = ran.clients.iter().find(|c| c.name == name);
        let meter = &target.expect("a script checks its target").meter;
        let record = &ran.records[0];
        Outcome {
            // Two runs on a real drive are never the same.
            drew: self.on[cell.on].is_real() || weir_play::draws(scenario),
            scenario: scenario.clone(),
            latency: meter.latency().clone(),
            run: Named {
                scenario: record.scenario.clone(),
                drive: record.drive.clone(),
                case: record.case.clone(),
                policy: record.policy.clone(),
                repeat: record.repeat,
                place: record.place,
                seed: record.seed,
            },
            over_time: meter.course().map(|latency| OverTime {
                latency: latency.clone(),
                depth: Vec::new(),
                step_ns: scenario.duration.as_nanos() / WINDOWS,
                states: Vec::new(),
            }),
            notes: ran.notes,
            records: ran.records,
        }
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
            drew: results.drew,
            scenario: scenario.clone(),
            latency: meter.latency().clone(),
            run: results.run.clone(),
            over_time: over_time.map(|(depth, latency)| OverTime {
                latency: latency.clone(),
                depth: depth.means(meter.end_ns()),
                step_ns: depth.step_ns(),
                states: results.states.clone(),
            }),
            notes: refused_changes(scenario, &results),
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
            self.label(cell),
            reason.to_string()
        ))
    }
}

/// The changes of contracts that were refused during a run, a sentence each.
fn refused_changes(scenario: &Scenario, results: &Results) -> Vec<String> {
    let of = |(at, refusal): &(weir_core::Instant, weir_core::Refusal)| {
        let after = Time(at.since(weir_core::Instant::ZERO));
        let why = weir_sim::Error::Refused(*refusal).of(scenario);
        format!(
            "the [[change]] at {after} was refused, and the previous contract stays, because {why}"
        )
    };
    results.refusals.iter().map(of).collect()
}

/// What came of a plan: its cells of which there is a run, each with its repetitions.
pub(super) type Played = Vec<(Cell, Vec<Outcome>)>;

/// A run: the place of its cell among those of all plans, and the repetition.
type Job = (usize, u32);

/// Plays all plans, `jobs` runs at a time: every cell once, and then those in which something is drawn again and again, all in turn, so that
/// an interrupt finds as many repetitions of one as of another. The outcomes come in the order of the plans, whatever the number of jobs;
/// of several failures it is that of the run that was begun first.
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
        progress.resize(step(total), format!("{total} runs"));
    }
    let played = pass(&cells, &again, jobs, interrupt, |done| {
        progress.set(step(first.len() + done));
    });
    for ((cell, _), outcome) in played? {
        outcomes[cell].push(outcome);
    }
    let mut outcomes = outcomes.into_iter();
    let all = plans.iter().map(|plan| {
        let cells = plan.cells().into_iter().zip(outcomes.by_ref());
        cells.filter(|(_, outcomes)| !outcomes.is_empty()).collect()
    });
    Ok(all.collect())
}

/// A run's length on the bar.
pub(super) fn step(runs: usize) -> Duration {
    Duration::from_secs(runs as u64)
}

/// Plays these runs, which begin in this order, and tells `done` how many are over. After an interrupt none begins, and those that have
/// begun are abandoned.
fn pass(
    cells: &[(&Plan, Cell)],
    runs: &[Job],
    jobs: usize,
    interrupt: &Interrupt,
    done: impl Fn(usize) + Sync,
) -> Result<Vec<(Job, Outcome)>, Failure> {
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let play = |(number, &(cell, repetition)): (usize, &Job)| {
        if failed.load(Ordering::Relaxed) || interrupt.signal().is_some() {
            return None;
        }
        let (plan, at) = cells[cell];
        let outcome = plan.play(at, repetition, interrupt).transpose()?;
        failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
        done(count.fetch_add(1, Ordering::Relaxed) + 1);
        Some((number, outcome.map(|outcome| ((cell, repetition), outcome))))
    };
    // In order, one after the other: what is not begun comes after the first that fails.
    let runs = runs.iter().enumerate().par_bridge();
    let mut played: Vec<_> = threads(jobs).install(|| runs.filter_map(play).collect());
    played.sort_unstable_by_key(|(number, _)| *number);
    let played = played.into_iter().map(|(_, outcome)| outcome);
    played.collect()
}
