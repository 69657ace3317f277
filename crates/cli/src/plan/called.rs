//! A plan as values, as the command and other programs ask for it.

use super::fleet::Fleet;
use super::report;
use super::search::{self, Asked};
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
        let mut needs = Vec::new();
        let (drives, policies) = self.chosen()?;
        for asked in self.asked(&drives, &policies, interrupt)? {
            let found = search::all(&asked, self.jobs, |_, _| {})?;
            let report = report(&asked, &found)?;
            needs.extend(report.rows.into_iter().map(|row| row.need));
        }
        Ok(needs)
    }

    /// The kinds of drives and the policies.
    pub(super) fn chosen(&self) -> Result<(Vec<Drive>, Vec<Policy>), Failure> {
        let drives = match (&self.drives[..], self.script.drives()) {
            ([], []) => return Err(Failure::Usage("set --drive: the scenario has none".into())),
            ([], [first, ..]) => vec![drives::find(first)?],
            (some, _) => some.to_vec(),
        };
        let policies = policies::chosen(&self.policies, &self.script)?;
        Ok((Drive::of_all(drives)?, policies))
    }

    /// The searches, one for each kind of drive.
    pub(super) fn asked<'a>(
        &'a self,
        drives: &'a [Drive],
        policies: &'a [Policy],
        interrupt: &'a Interrupt,
    ) -> Result<Vec<Asked<'a>>, Failure> {
        let script = &self.script;
        let asked: Vec<String> = self.case.iter().cloned().collect();
        let case = scenario::cases(script, &asked)?.swap_remove(0);
        let asked = drives.iter().map(|drive| {
            Ok(Asked {
                fleet: Fleet::new(script, drive, case.clone(), self.seconds, interrupt)?,
                policies,
                repetitions: self.repetitions.unwrap_or_else(|| script.repetitions()),
                keep: self.keep,
                interrupt,
            })
        });
        asked.collect()
    }
}
