//! The selection of controllers that a layer has.

use super::{cost, low, slices};
use crate::ConfigError;
use crate::contract::Contract;
use crate::id::GroupId;
use crate::knobs::{ControllerKind, Knobs, LowKnobs};
use crate::refusal::Refusal;
use crate::setters::setters;
use crate::time::Span;

/// The controllers of a layer. A request passes them in the order of the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Enforces the max of contracts. If false, a contract with a max is refused.
    pub max: bool,
    /// Enforces a max in slices as in Linux (`io.max`) instead of exactly. It has no effect without
    /// `max`.
    pub slices: Option<slices::Config>,
    /// Holds all groups to their low limits while a group gets less than the min of its contract
    /// (`io.low`). If `None`, a min is left to the elevator, and [`Knobs::low`] is refused.
    pub low: Option<low::Config>,
    /// Throttles the siblings of a group while the group misses its latency target (`io.latency`,
    /// [`Knobs::latency`]). If false, a target is refused.
    pub latency: bool,
    /// Divides the drive's time by weights, which are the shares of contracts (`io.cost`). If
    /// `None`, no time is counted.
    pub cost: Option<cost::Config>,
}

impl Default for Config {
    /// Returns the controllers that cost nothing where no group uses them.
    fn default() -> Self {
        Self {
            // A contract with a max or a latency target works without further configuration.
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
    /// The configuration without any controller.
    pub const NONE: Self = Self {
        max: false,
        slices: None,
        low: None,
        latency: false,
        cost: None,
    };

    /// Checks the tunables of the selected controllers.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.slices.map_or(Ok(()), |slices| slices.validate())?;
        self.low.map_or(Ok(()), |low| low.validate())?;
        self.cost.map_or(Ok(()), |cost| cost.validate())
    }

    /// Refuses settings of a group that need a controller that the layer does not have.
    pub(crate) fn check(
        &self,
        id: GroupId,
        contract: &Contract,
        knobs: &Knobs,
    ) -> Result<(), Refusal> {
        if contract.max.is_limited() && !self.max {
            Err(Refusal::NoController(id, ControllerKind::Max))
        } else if knobs.latency > Span::ZERO && !self.latency {
            Err(Refusal::NoController(id, ControllerKind::Latency))
        } else if knobs.low != LowKnobs::NONE && self.low.is_none() {
            Err(Refusal::NoController(id, ControllerKind::Low))
        } else {
            Ok(())
        }
    }
}
