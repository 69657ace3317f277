//! A plan as values. The command and other programs, such as the Python module, start searches with
//! it.

use super::fleet::PlanFleet;
use super::report;
use super::search::{self, SearchRequest};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::modelled::PlayedDrive;
use crate::{drives, policies, scenario};
use weir_config::Policy;
use weir_config::profile::DriveProfile;
use weir_config::scenario::Script;
use weir_measure::Need;

/// The parameters of a plan, as values.
#[derive(Debug)]
pub struct Planning {
    /// The clients and their promises.
    pub script: Script,
    /// The kinds of drives. If empty, the first drive of the scenario is used.
    pub drives: Vec<DriveProfile>,
    /// The name of the case. `None` stands for the first case.
    pub case: Option<String>,
    /// The policies. If empty, those of the scenario are used.
    pub policies: Vec<Policy>,
    /// The percentage of seconds in which each promise must be kept, 1 to 100.
    pub keep: u32,
    /// The mean bandwidth of a client while it is active that is required, in bytes per second.
    /// `None` if only the promises count.
    pub average: Option<u64>,
    /// The number of searches for each policy, at least 1. `None` stands for the number in the
    /// scenario.
    pub repetitions: Option<u32>,
    /// The measured seconds of each run, at least 1. `None` stands for the length in the scenario.
    pub seconds: Option<u32>,
    /// The number of parallel searches, at least 1. It does not change the results.
    pub jobs: usize,
}

impl Planning {
    /// Searches with every kind of drive. Returns the need under each policy, in the order of `weir
    /// plan --json`.
    ///
    /// # Errors
    /// Parameters contradict each other, a run failed, or an interrupt ended the searches.
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

    /// Returns the kinds of drives and the policies of the plan.
    pub(super) fn chosen(&self) -> Result<(Vec<PlayedDrive>, Vec<Policy>), Failure> {
        let drives = match (&self.drives[..], self.script.drives()) {
            ([], []) => return Err(Failure::Usage("set --drive: the scenario has none".into())),
            ([], [first, ..]) => vec![drives::find(first)?],
            (some, _) => some.to_vec(),
        };
        let policies = policies::chosen(&self.policies, &self.script)?;
        Ok((PlayedDrive::of_all(drives)?, policies))
    }

    /// Returns the searches, one entry for each kind of drive.
    pub(super) fn asked<'a>(
        &'a self,
        drives: &'a [PlayedDrive],
        policies: &'a [Policy],
        interrupt: &'a Interrupt,
    ) -> Result<Vec<SearchRequest<'a>>, Failure> {
        let script = &self.script;
        let asked: Vec<String> = self.case.iter().cloned().collect();
        let case = scenario::cases(script, &asked)?.swap_remove(0);
        let asked = drives.iter().map(|drive| {
            Ok(SearchRequest {
                fleet: PlanFleet::new(script, drive, case.clone(), self.seconds, interrupt)?,
                policies,
                repetitions: self.repetitions.unwrap_or_else(|| script.repetitions()),
                keep: self.keep,
                average: self.average.map(|average| average as f64 / 1e6),
                interrupt,
            })
        });
        asked.collect()
    }
}
