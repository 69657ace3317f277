//! A comparison as values. The command and other programs, such as the Python module, start
//! comparisons with it.

use super::on::{self, RunPlace};
use super::runs::EarlyEnd;
use super::work::{self, ComparisonPlan};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::PlayedDrive;
use crate::progress::WorkProgress;
use crate::{drives, once, policies, scenario};
use std::sync::Arc;
use weir_config::Policy;
use weir_config::profile::DriveProfile;
use weir_config::scenario::Script;
use weir_measure::Record;

/// The parameters of a comparison, as values.
#[derive(Debug)]
pub struct Comparison {
    /// The scenarios that are played.
    pub scripts: Vec<Script>,
    /// The drives. If empty, each scenario uses its own.
    pub drives: Vec<DriveProfile>,
    /// The names of the cases. If empty, all cases are played.
    pub cases: Vec<String>,
    /// The policies. If empty, each scenario uses its own.
    pub policies: Vec<Policy>,
    /// The number of runs of each cell, at least 1. `None` stands for the number in the scenario.
    pub repetitions: Option<u32>,
    /// The measured seconds of each run, at least 1. `None` stands for the length in the scenario.
    pub seconds: Option<u32>,
    /// The number of parallel runs, at least 1. It does not change the results.
    pub jobs: usize,
    /// True if auditors check every decision.
    pub audit: bool,
}

impl Comparison {
    /// Plays all runs in the simulator. Returns the records of every client of each run, in the
    /// order of `weir compare --json`.
    ///
    /// # Errors
    /// Parameters contradict each other, a run failed, or an interrupt ended the comparison.
    pub fn play(&self, interrupt: &Interrupt) -> Result<Vec<Record>, Failure> {
        let plans = self.plans(&Arc::new(vec![RunPlace::Sim]))?;
        let played = work::play(&plans, self.jobs, interrupt, &mut WorkProgress::silent())?;
        if let Some(early) = EarlyEnd::find(&plans, &played.cells, played.failed, interrupt) {
            return Err(early.reason);
        }
        let runs = played
            .cells
            .into_iter()
            .flatten()
            .flat_map(|(_, runs)| runs);
        Ok(runs.flat_map(|run| run.records).collect())
    }

    /// Returns a plan for each scenario, to be played in the given places.
    pub(super) fn plans(&self, on: &Arc<Vec<RunPlace>>) -> Result<Vec<ComparisonPlan>, Failure> {
        let plan = |script: &Script| {
            let own = || once::find_all(script.drives(), drives::find);
            let plan = ComparisonPlan {
                cases: scenario::cases(script, &self.cases)?,
                policies: policies::chosen(&self.policies, script)?,
                drives: match (on::device(on), &self.drives[..]) {
                    (Some(device), some) => on::drives(device, on, some)?,
                    (None, []) => PlayedDrive::of_all(own()?)?,
                    (None, some) => PlayedDrive::of_all(some.to_vec())?,
                },
                script: script.clone(),
                on: on.clone(),
                repetitions: self.repetitions,
                seconds: self.seconds,
                audit: self.audit,
            };
            on::check(&plan)?;
            Ok(plan)
        };
        self.scripts.iter().map(plan).collect()
    }
}
