//! A comparison in virtual time as another program asks for it, with records as its result.

use super::on::On;
use super::work::{self, Plan};
use super::{clients, runs, unique};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::Drive;
use crate::progress::Progress;
use crate::{drives, policies, scenario};
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
        let plans = self.scripts.iter().map(|script| self.plan(script));
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        let mut all = work::play(&plans, self.jobs, interrupt, &mut Progress::silent())?;
        if let Some((signal, missing)) = interrupt.signal().zip(runs::missing(&plans, &all)) {
            return Err(Failure::Interrupted(signal, missing));
        }
        for (plan, cells) in plans.iter().zip(&mut all) {
            clients::find_starved(plan, cells);
        }
        let runs = all.into_iter().flatten().flat_map(|(_, runs)| runs);
        Ok(runs.flat_map(|run| run.records).collect())
    }

    fn plan(&self, script: &Script) -> Result<Plan, Failure> {
        let own = script.drives().iter().map(|word| drives::find(word));
        let profiles = match &self.drives[..] {
            [] => own.collect::<Result<Vec<_>, _>>()?,
            some => some.to_vec(),
        };
        Ok(Plan {
            cases: scenario::cases(script, &unique(&self.cases))?,
            drives: Drive::of_all(profiles)?,
            policies: match &self.policies[..] {
                [] => policies::all(script.policies())?,
                some => policies::unique(some.to_vec())?,
            },
            script: script.clone(),
            on: Arc::new(vec![On::Sim]),
            repetitions: self.repetitions,
            seconds: self.seconds,
            audit: self.audit,
        })
    }
}
