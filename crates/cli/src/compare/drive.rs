//! A drive that is compared on, and what it can do.

use super::kind::Scenario;
use crate::drive;
use crate::drives;
use crate::failure::Failure;
use std::sync::OnceLock;
use weir_core::Capacity;

/// A drive.
#[derive(Debug)]
pub(super) struct Drive {
    /// Its name in results.
    pub(super) name: String,
    /// What it is, in a line.
    pub(super) about: String,
    /// The model.
    pub(super) config: weir_drive::Config,
    capacity: OnceLock<Capacity>,
}

impl Drive {
    /// A drive by name or by its profile's file.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let profile = drives::find(name)?;
        Ok(Self {
            about: profile.summary().to_owned(),
            name: profile.name,
            config: profile.drive,
            capacity: OnceLock::new(),
        })
    }

    /// Bytes a second that one client reads in sequence.
    pub(super) fn peak(&self) -> Result<u64, Failure> {
        drive::peak(&self.config)
    }

    /// What it can do, as far as contracts count with it; measured once.
    pub(super) fn capacity(&self) -> Result<Capacity, Failure> {
        if let Some(capacity) = self.capacity.get() {
            return Ok(*capacity);
        }
        let capacity = drive::capacity(&self.config)?;
        Ok(*self.capacity.get_or_init(|| capacity))
    }

    /// Bytes a second that the target of a scenario gets alone.
    pub(super) fn alone(&self, scenario: Scenario) -> Result<u64, Failure> {
        let (bytes, _) = drive::rates(&scenario.alone(self)?)?;
        Ok(bytes)
    }
}
