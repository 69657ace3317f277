//! A modelled drive that something is played on, and what it can do.

use crate::drive;
use crate::drives;
use crate::failure::Failure;
use std::sync::{Mutex, OnceLock, PoisonError};
use weir_config::profile::Profile;
use weir_core::Capacity;
use weir_sim::Alone;

/// A drive.
#[derive(Debug)]
pub(crate) struct Drive {
    /// Its name in results.
    pub(crate) name: String,
    /// What it is, in a line.
    pub(crate) about: String,
    /// The model.
    pub(crate) config: weir_drive::Config,
    /// It is a real drive, and the model only stands for its kind.
    pub(crate) is_real: bool,
    capacity: OnceLock<Option<Capacity>>,
    alone: Mutex<Vec<(weir_sim::Scenario, Vec<Option<Alone>>)>>,
}

impl Drive {
    /// A drive by name or by its profile's file.
    pub(crate) fn find(name: &str) -> Result<Self, Failure> {
        drives::find(name).map(Self::of)
    }

    fn of(profile: Profile) -> Self {
        Self {
            about: profile.summary().to_owned(),
            name: profile.name,
            config: profile.drive,
            is_real: false,
            capacity: OnceLock::new(),
            alone: Mutex::default(),
        }
    }

    /// A device of this host, of the kind of that model.
    pub(crate) fn real(name: String, about: String, kind: &str) -> Result<Self, Failure> {
        Ok(Self {
            name,
            about,
            is_real: true,
            ..Self::find(kind)?
        })
    }

    /// The drives of these words, each once, in the order in which they come first.
    ///
    /// # Errors
    /// As [`Self::find`], or two different ones have one name.
    pub(crate) fn all(words: &[String]) -> Result<Vec<Self>, Failure> {
        let profiles = words.iter().map(|word| drives::find(word));
        Self::of_all(profiles.collect::<Result<_, _>>()?)
    }

    /// The drives of these profiles, each once, in the order in which they come first.
    ///
    /// # Errors
    /// Two different ones have one name.
    pub(crate) fn of_all(profiles: Vec<Profile>) -> Result<Vec<Self>, Failure> {
        let mut drives: Vec<Self> = Vec::new();
        for profile in profiles {
            match drives.iter().find(|d| d.name == profile.name) {
                None => drives.push(Self::of(profile)),
                Some(same) if same.config == profile.drive => {}
                Some(_) => {
                    let reason = format!("--drive: two drives have the name {}", profile.name);
                    return Err(Failure::Usage(reason));
                }
            }
        }
        Ok(drives)
    }

    /// Bytes a second that one client reads in sequence.
    pub(crate) fn peak(&self) -> Result<u64, Failure> {
        drive::peak(&self.config)
    }

    /// What it can do, as far as contracts count with it; measured once.
    ///
    /// `None`: it has no bound, so that nothing can be promised of it.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        let measured = || drive::capacity(&self.config).ok();
        *self.capacity.get_or_init(measured)
    }

    /// What each client of a scenario gets with the drive to itself, where something is promised to it; played once. Cases differ in
    /// it, and so do policies that change contracts.
    pub(crate) fn alone(
        &self,
        scenario: &weir_sim::Scenario,
    ) -> Result<Vec<Option<Alone>>, weir_sim::Error> {
        let contracts = (0..scenario.clients.len()).map(|at| scenario.contract(at));
        if contracts.into_iter().all(|c| c.min == 0 && c.min_iops == 0) {
            return Ok(Vec::new());
        }
        // Others that want it wait meanwhile.
        let mut known = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(of, _)| of == scenario) {
            return Ok(found.clone());
        }
        let alone = weir_sim::alone(scenario)?;
        known.push((scenario.clone(), alone.clone()));
        Ok(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_alone_gets_no_more_than_its_max_under_each_policy() {
        let drive = Drive::find("demo").unwrap();
        let mut scenario = weir_sim::scenario::demo(weir_core::Span::from_secs(1));
        let free = drive.alone(&scenario).unwrap()[0].unwrap();
        // As a policy does that sets a limit of its own.
        scenario.groups[0].contract.max.bandwidth = 10_000_000;
        let limited = drive.alone(&scenario).unwrap()[0].unwrap();
        assert!(free.mb_per_s > 20.0 && limited.mb_per_s < 11.0);
    }
}
