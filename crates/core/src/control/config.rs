//! Which controllers a layer has.

use super::{cost, low, slices};
use crate::ConfigError;
use crate::contract::Contract;
use crate::id::GroupId;
use crate::knobs::{Kind, Knobs, LowKnobs};
use crate::refusal::Refusal;
use crate::setters::setters;
use crate::time::Span;

/// The controllers of a layer. Their order is always that of the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Keeps the max of contracts. Without it a contract with a max is refused.
    pub max: bool,
    /// `io.max`: a max is kept as Linux keeps it, in slices; without it exactly. Has no effect without `max`.
    pub slices: Option<slices::Config>,
    /// `io.low`: while a group gets less than the min of its contract, all are held to theirs. Without it a min is for the elevator,
    /// and [`Knobs::low`] is refused.
    pub low: Option<low::Config>,
    /// `io.latency`: slows a group's siblings down while the group misses its target ([`Knobs::latency`]). Without it a target is
    /// refused.
    pub latency: bool,
    /// `io.cost`: divides the drive's time by weights, which are the shares of contracts. Without it no time is counted.
    pub cost: Option<cost::Config>,
}

impl Default for Config {
    /// Those that do nothing and cost nothing where no group has set them.
    fn default() -> Self {
        Self {
            max: true,
            slices: None,
            low: None,
            latency: true,
            cost: None,
        }
    }
}

setters! { Config:
    max: bool, slices: Option<slices::Config>, low: Option<low::Config>, latency: bool,
    cost: Option<cost::Config>,
}

impl Config {
    /// No controller.
    pub const NONE: Self = Self {
        max: false,
        slices: None,
        low: None,
        latency: false,
        cost: None,
    };

    /// Checks the tunables of the controllers.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.slices.map_or(Ok(()), |slices| slices.validate())?;
        self.low.map_or(Ok(()), |low| low.validate())?;
        self.cost.map_or(Ok(()), |cost| cost.validate())
    }

    /// Refuses what a group asks of a controller that is not there.
    pub(crate) fn check(
        &self,
        id: GroupId,
        contract: &Contract,
        knobs: &Knobs,
    ) -> Result<(), Refusal> {
        if contract.max.is_limited() && !self.max {
            Err(Refusal::NoController(id, Kind::Max))
        } else if knobs.latency > Span::ZERO && !self.latency {
            Err(Refusal::NoController(id, Kind::Latency))
        } else if knobs.low != LowKnobs::NONE && self.low.is_none() {
            Err(Refusal::NoController(id, Kind::Low))
        } else {
            Ok(())
        }
    }
}
