//! A modelled drive that something is played on, and what it can do.

use crate::drive;
use crate::drives;
use crate::failure::Failure;
use crate::once;
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
    pub(crate) config: weir_model::drive::Config,
    /// It is a real drive, and the model only stands for its kind.
    pub(crate) is_real: bool,
    capacity: OnceLock<Option<Capacity>>,
    alone: Mutex<Vec<(weir_sim::Scenario, Vec<Option<Alone>>)>>,
}

impl Drive {
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
            capacity: OnceLock::from(None),
            ..Self::of(drives::find(kind)?)
        })
    }

    /// A device or image of this host, of which only what it can do is known.
    pub(crate) fn measured(name: String, capacity: Capacity) -> Result<Self, Failure> {
        Ok(Self {
            capacity: OnceLock::from(Some(capacity)),
            ..Self::real(name, String::new(), "demo")?
        })
    }

    /// The drives of these profiles, each once, in the order in which they come first.
    ///
    /// # Errors
    /// Two different ones have one name.
    pub(crate) fn of_all(profiles: Vec<Profile>) -> Result<Vec<Self>, Failure> {
        let same = |a: &Profile, b: &Profile| a.drive == b.drive;
        let profiles = once::each(profiles, "--drive: two drives", |p| &p.name, same)?;
        Ok(profiles.into_iter().map(Self::of).collect())
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
        // Of a drive that was measured it is not known.
        let is_measured = self.is_real && self.capacity().is_some();
        if is_measured || contracts.into_iter().all(|c| c.min == 0 && c.min_iops == 0) {
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
        let drive = Drive::of(drives::find("demo").unwrap());
        let mut scenario = weir_sim::scenario::demo(weir_core::Span::from_secs(1));
        let free = drive.alone(&scenario).unwrap()[0].unwrap();
        // As a policy does that sets a limit of its own.
        scenario.groups[0].contract.max.bandwidth = 10_000_000;
        let limited = drive.alone(&scenario).unwrap()[0].unwrap();
        assert!(free.mb_per_s > 20.0 && limited.mb_per_s < 11.0);
    }
}
