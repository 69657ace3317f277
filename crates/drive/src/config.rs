//! Which drive, with its parameters.

use crate::{Drive, null};
use alloc::boxed::Box;
use core::fmt;
use weir_core::{Capacity, DriveShape};

/// The closed set of drive models.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Config {
    /// A fixed service time and a link.
    Null(null::Config),
}

impl Config {
    /// The model's name in results.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Null(_) => "null",
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first one outside its permitted range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Null(config) => config.validate(),
        }
    }

    /// The drive, empty.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Box<dyn Drive>, ConfigError> {
        match self {
            Self::Null(config) => Ok(Box::new(config.build()?)),
        }
    }

    /// Its queues and what it can do, for the layer in front of it.
    pub fn shape(&self) -> DriveShape {
        match self {
            Self::Null(config) => config.shape(),
        }
    }

    /// What it can do at the least; `None` where the model has no bound.
    pub fn capacity(&self) -> Option<Capacity> {
        match self {
            Self::Null(config) => config.capacity(),
        }
    }
}

/// A parameter outside its permitted range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The parameter.
    pub key: &'static str,
    /// What it was set to, in the unit of `allowed`.
    pub value: u64,
    /// What is permitted, with the unit.
    pub allowed: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            allowed,
        } = self;
        write!(f, "{key} = {value}: must be {allowed}")
    }
}

impl core::error::Error for ConfigError {}
