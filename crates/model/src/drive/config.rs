//! The configuration of a drive: one of the models with its parameters.

use crate::drive::{DriveModel, hdd, null, ssd, volume};
use weir_core::rule::RuleViolation;
use weir_core::{Capacity, DriveShape};

/// The parameters of a drive: one of the closed set of models.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DriveConfig {
    /// A fixed service time and a link.
    Null(null::NullConfig),
    /// A rotating disk with seeks, zones and caches.
    Hdd(hdd::HddConfig),
    /// A flash drive with channels, dies and cleaning.
    Ssd(ssd::SsdConfig),
    /// Several drives that form one.
    Volume(volume::VolumeConfig),
}

impl DriveConfig {
    /// The model's name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Null(_) => "null",
            Self::Hdd(_) => "hdd",
            Self::Ssd(_) => "ssd",
            Self::Volume(config) => match config.layout {
                volume::Layout::Stripe { .. } => "stripe",
                volume::Layout::Linear => "linear",
            },
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter that is outside its permitted range.
    pub fn validate(&self) -> Result<(), RuleViolation> {
        match self {
            Self::Null(config) => config.validate(),
            Self::Hdd(config) => config.validate(),
            Self::Ssd(config) => config.validate(),
            Self::Volume(config) => config.validate(),
        }
    }

    /// Builds the drive, empty and idle, with a seed of zero.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Box<dyn DriveModel>, RuleViolation> {
        self.build_seeded(0)
    }

    /// Builds the drive, empty and idle. If its service is [random](Self::is_random), `seed`
    /// determines it.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build_seeded(&self, seed: u64) -> Result<Box<dyn DriveModel>, RuleViolation> {
        match self {
            Self::Null(config) => Ok(Box::new(config.build()?)),
            Self::Hdd(config) => Ok(Box::new(config.build()?)),
            Self::Ssd(config) => config.build_stalling(seed),
            Self::Volume(config) => Ok(Box::new(config.build_seeded(seed)?)),
        }
    }

    /// Returns true if the drive's service depends on its seed, as the times of stalls do.
    pub fn is_random(&self) -> bool {
        match self {
            Self::Null(_) | Self::Hdd(_) => false,
            Self::Ssd(config) => config.is_random(),
            Self::Volume(config) => config.members.iter().any(Self::is_random),
        }
    }

    /// The drive's queues and limits, for the layer in front of it.
    pub fn shape(&self) -> DriveShape {
        match self {
            Self::Null(config) => config.shape(),
            Self::Hdd(config) => config.shape(),
            Self::Ssd(config) => config.shape(),
            Self::Volume(config) => config.shape(),
        }
    }

    /// The drive's size in bytes, or `None` for a position-independent model, which accepts any
    /// offset.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Null(_) => None,
            Self::Hdd(config) => Some(config.size()),
            Self::Ssd(config) => Some(config.size),
            Self::Volume(config) => config.size(),
        }
    }

    /// The capacity in the worst case, or `None` if the model has no bound.
    pub fn capacity(&self) -> Option<Capacity> {
        match self {
            Self::Null(config) => config.capacity(),
            Self::Hdd(_) | Self::Ssd(_) => None,
            Self::Volume(config) => config.capacity(),
        }
    }
}
