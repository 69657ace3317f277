//! A comparison as values, as the command and other programs ask for it.

use super::on::{self, On};
use super::runs;
use super::work::{self, Plan};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::Drive;
use crate::progress::Progress;
use crate::{drives, once, policies, scenario};
use std::sync::Arc;
use weir_config::Policy;
use weir_config::profile::Profile;
use weir_config::scenario::Script;
use weir_measure::Record;

/// What `weir compare` is asked for, as values.
#[derive(Debug)]
pub struct Comparison {
    /// What to play.
    pub scripts: Vec<Script>,
    /// On which drives; none: those of each scenario.
    pub drives: Vec<Profile>,
    /// Which cases; none: all.
    pub cases: Vec<String>,
    /// Under which policies; none: those that each scenario is about.
    pub policies: Vec<Policy>,
    /// Runs of each, at least 1; `None`: what the scenario says.
    pub repetitions: Option<u32>,
    /// Seconds measured in each run, at least 1; `None`: those of the scenario.
    pub seconds: Option<u32>,
    /// Runs at a time, at least 1. Does not change the results.
    pub jobs: usize,
    /// Every decision is checked by auditors.
    pub audit: bool,
}

impl Comparison {
    /// Plays everything: the records of every client of each run, in the order of `weir compare --json`.
    ///
    /// # Errors
    /// Something does not go together, a run fails, or it was interrupted.
    pub fn play(&self, interrupt: &Interrupt) -> Result<Vec<Record>, Failure> {
        let plans = self.plans(&Arc::new(vec![On::Sim]))?;
        let all = work::play(&plans, self.jobs, interrupt, &mut Progress::silent())?;
        if let Some((signal, missing)) = interrupt.signal().zip(runs::missing(&plans, &all)) {
            return Err(Failure::Interrupted(signal, missing));
        }
        let runs = all.into_iter().flatten().flat_map(|(_, runs)| runs);
        Ok(runs.flat_map(|run| run.records).collect())
    }

    /// What is going to be played in these places, a plan for each scenario.
    pub(super) fn plans(&self, on: &Arc<Vec<On>>) -> Result<Vec<Plan>, Failure> {
        let plan = |script: &Script| {
            let own = || once::found(script.drives(), drives::find);
            let plan = Plan {
                cases: scenario::cases(script, &self.cases)?,
                policies: policies::chosen(&self.policies, script)?,
                drives: match (on::device(on), &self.drives[..]) {
                    (Some(device), some) => on::drives(device, on, some)?,
                    (None, []) => Drive::of_all(own()?)?,
                    (None, some) => Drive::of_all(some.to_vec())?,
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
