//! A plan as another program asks for it, with what is needed as its result.

use super::fleet::Fleet;
use super::{report, search};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::Drive;
use crate::{drives, policies, scenario};
use weir_config::Policy;
use weir_config::profile::Profile;
use weir_config::scenario::Script;
use weir_measure::Need;

/// What `weir plan` is asked for, as values.
#[derive(Debug)]
pub struct Planning {
    /// What the clients do and are promised.
    pub script: Script,
    /// The kinds of drives; none: the scenario's first.
    pub drives: Vec<Profile>,
    /// The case; `None`: the first.
    pub case: Option<String>,
    /// The policies; none: those that the scenario is about.
    pub policies: Vec<Policy>,
    /// How many of a hundred seconds must be kept, 1 to 100.
    pub keep: u32,
    /// Searches of each, at least 1; `None`: what the scenario says.
    pub repetitions: Option<u32>,
    /// Seconds measured in each run, at least 1; `None`: those of the scenario.
    pub seconds: Option<u32>,
    /// Searches at a time, at least 1. Does not change the results.
    pub jobs: usize,
}

impl Planning {
    /// Searches with every kind of drive: what is needed under each policy, in the order of `weir plan --json`.
    ///
    /// # Errors
    /// Something does not go together, a run fails, or it was interrupted.
    pub fn search(&self, interrupt: &Interrupt) -> Result<Vec<Need>, Failure> {
        let script = &self.script;
        let profiles = match (&self.drives[..], script.drives()) {
            ([], []) => return Err(Failure::Usage("set --drive: the scenario has none".into())),
            ([], [first, ..]) => vec![drives::find(first)?],
            (some, _) => some.to_vec(),
        };
        let policies = match &self.policies[..] {
            [] => policies::all(script.policies())?,
            some => policies::unique(some.to_vec())?,
        };
        let asked: Vec<String> = self.case.iter().cloned().collect();
        let case = scenario::cases(script, &asked)?.swap_remove(0);
        let mut needs = Vec::new();
        for drive in Drive::of_all(profiles)? {
            let fleet = Fleet::new(script, &drive, case.clone(), self.seconds, interrupt)?;
            let asked = search::Asked {
                fleet: &fleet,
                policies: &policies,
                repetitions: self.repetitions.unwrap_or_else(|| script.repetitions()),
                keep: self.keep,
                interrupt,
            };
            let found = search::all(&asked, self.jobs, |_, _| {})?;
            let report = report(&asked, script.load(), &drive, &found)?;
            needs.extend(report.rows.into_iter().map(|row| row.need));
        }
        Ok(needs)
    }
}
