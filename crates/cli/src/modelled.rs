//! A drive on which loads are played, and its capacity.

use crate::drive;
use crate::drives;
use crate::failure::Failure;
use crate::once;
use std::sync::{Mutex, OnceLock, PoisonError};
use weir_config::profile::DriveProfile;
use weir_core::Capacity;
use weir_sim::PerformanceAlone;

/// A drive model with its capacity, or a real drive that is represented by a model of its kind.
#[derive(Debug)]
pub(crate) struct PlayedDrive {
    /// The name of the drive in results.
    pub(crate) name: String,
    /// The description of the drive in one line.
    pub(crate) about: String,
    /// The parameters of the model.
    pub(crate) config: weir_model::drive::DriveConfig,
    /// True if the drive is real, and the model only represents its kind.
    pub(crate) is_real: bool,
    capacity: OnceLock<Option<Capacity>>,
    /// The results without contention of the scenarios that have been played so far.
    alone: Mutex<Vec<(weir_sim::Scenario, Vec<Option<PerformanceAlone>>)>>,
}

impl PlayedDrive {
    fn of(profile: DriveProfile) -> Self {
        Self {
            about: profile.summary().to_owned(),
            name: profile.name,
            config: profile.drive,
            is_real: false,
            capacity: OnceLock::new(),
            alone: Mutex::default(),
        }
    }

    /// Creates a device of this host. `kind` is the name of a model of the same kind.
    pub(crate) fn real(name: String, about: String, kind: &str) -> Result<Self, Failure> {
        Ok(Self {
            name,
            about,
            is_real: true,
            // The capacity of a device is not measured, so nothing can be promised on it.
            capacity: OnceLock::from(None),
            ..Self::of(drives::find(kind)?)
        })
    }

    /// Creates a device or image of this host, of which only the measured capacity is known.
    pub(crate) fn measured(name: String, capacity: Capacity) -> Result<Self, Failure> {
        Ok(Self {
            capacity: OnceLock::from(Some(capacity)),
            // The model is only a place holder, because no load is played on it.
            ..Self::real(name, String::new(), "demo")?
        })
    }

    /// Creates the drives of these profiles, without repetitions and in their order.
    ///
    /// # Errors
    /// Two different profiles have the same name.
    pub(crate) fn of_all(profiles: Vec<DriveProfile>) -> Result<Vec<Self>, Failure> {
        let same = |a: &DriveProfile, b: &DriveProfile| a.drive == b.drive;
        let profiles =
            once::without_repetitions(profiles, "--drive: two drives", |p| &p.name, same)?;
        Ok(profiles.into_iter().map(Self::of).collect())
    }

    /// Returns the bandwidth of one client that reads sequentially, in bytes per second.
    pub(crate) fn peak(&self) -> Result<u64, Failure> {
        drive::peak(&self.config)
    }

    /// Returns the capacity with which contracts are compared. It is measured once.
    ///
    /// Returns `None` if the model has no limit, so that nothing can be promised.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        let measured = || drive::capacity(&self.config).ok();
        *self.capacity.get_or_init(measured)
    }

    /// Returns the results of each client of a scenario without contention, if the scenario has a
    /// promise and the drive is a model. Each scenario is played once. Its cases have different
    /// results, as have policies that change contracts.
    pub(crate) fn alone(
        &self,
        scenario: &weir_sim::Scenario,
    ) -> Result<Vec<Option<PerformanceAlone>>, weir_sim::SimError> {
        let contracts = (0..scenario.clients.len()).map(|at| scenario.contract(at));
        // The model of a real drive only represents its kind, and its results would be made up.
        if self.is_real || contracts.into_iter().all(|c| c.min == 0 && c.min_iops == 0) {
            return Ok(Vec::new());
        }
        // The lock is held while the clients are played, so that other threads that need the same
        // results wait for them.
        let mut known = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(of, _)| of == scenario) {
            return Ok(found.clone());
        }
        let alone = weir_sim::measure_alone(scenario)?;
        known.push((scenario.clone(), alone.clone()));
        Ok(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_alone_gets_no_more_than_its_max_under_each_policy() {
        let drive = PlayedDrive::of(drives::find("demo").unwrap());
        let mut scenario = weir_sim::scenario::demo(weir_core::Span::from_secs(1));
        let free = drive.alone(&scenario).unwrap()[0].unwrap();
        // A policy that sets a limit of its own has this effect.
        scenario.groups[0].contract.max.bandwidth = 10_000_000;
        let limited = drive.alone(&scenario).unwrap()[0].unwrap();
        // The two scenarios differ in a contract only, so they must not share a result.
        assert!(free.mb_per_s > 20.0 && limited.mb_per_s < 11.0);
    }

    #[test]
    fn a_real_drive_does_not_have_the_results_of_the_model_of_its_kind() {
        let drive = PlayedDrive::real("/dev/loop0".to_owned(), String::new(), "demo").unwrap();
        let mut scenario = weir_sim::scenario::demo(weir_core::Span::from_secs(1));
        // On an unknown capacity, nothing can be promised, but a kernel can use the min as a limit.
        scenario.capacity = None;
        assert!(drive.alone(&scenario).unwrap().is_empty());
    }
}
