//! Elevators: which request goes to the drive next.

pub mod bfq;
pub(crate) mod common;
pub mod contract;
mod none;
mod schedule;

use crate::cx::Cx;
use crate::group::Edit;
use crate::shape::ConfigError;
use crate::table::Table;
use alloc::boxed::Box;
use none::Fifo;
pub(crate) use schedule::{Next, Schedule};

/// Which elevator, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Config {
    /// First come, first served.
    None,
    /// Linux's Budget Fair Queueing.
    Bfq(bfq::Config),
    /// Keeps contracts: min, share, class, tenants.
    Contract(contract::Config),
}

/// The closed set of elevators. First come, first served is so little that a call through a table would double it.
#[derive(Debug)]
pub(crate) enum AnyElevator {
    None(Fifo),
    Other(Box<dyn Schedule>),
}

impl AnyElevator {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        match config {
            Config::None => Self::None(Fifo::new(table)),
            Config::Bfq(config) => Self::Other(Box::new(bfq::Bfq::new(config, table))),
            Config::Contract(config) => {
                Self::Other(Box::new(contract::Elevator::new(config, table)))
            }
        }
    }

    /// Edits have been made to the tables, all of them.
    pub(crate) fn change(&mut self, cx: &mut Cx, edits: &[Edit]) {
        let Some(elevator) = self.other_mut() else {
            return;
        };
        for edit in edits {
            match *edit {
                Edit::AddGroup { id, .. }
                | Edit::SetContract { id, .. }
                | Edit::SetKnobs { id, .. } => {
                    if cx.table.groups.get(id).is_some() {
                        elevator.set_group(cx, id);
                    }
                }
                Edit::RemoveGroup(id) => elevator.remove_group(cx, id),
                Edit::SetCapacity(_) => elevator.set_capacity(cx),
                Edit::SetSpace { .. } => {}
            }
        }
        elevator.settle(cx);
    }

    /// The elevator if it is more than a queue.
    pub(crate) fn other(&self) -> Option<&dyn Schedule> {
        match self {
            Self::None(_) => None,
            Self::Other(elevator) => Some(&**elevator),
        }
    }

    /// As [`Self::other`], to be told something.
    pub(crate) fn other_mut(&mut self) -> Option<&mut dyn Schedule> {
        match self {
            Self::None(_) => None,
            Self::Other(elevator) => Some(&mut **elevator),
        }
    }

    /// See [`Schedule::insert`].
    #[inline]
    pub(crate) fn insert(&mut self, cx: &mut Cx, request: u32) {
        match self {
            Self::None(fifo) => fifo.insert(request),
            Self::Other(elevator) => elevator.insert(cx, request),
        }
    }

    /// See [`Schedule::remove`].
    pub(crate) fn remove(&mut self, cx: &mut Cx, request: u32) {
        match self {
            Self::None(fifo) => fifo.remove(request),
            Self::Other(elevator) => elevator.remove(cx, request),
        }
    }
}

impl Config {
    /// Checks the tunables.
    ///
    /// # Errors
    /// The first field outside the bounds that its documentation states, and the bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::None => Ok(()),
            Self::Bfq(config) => config.validate(),
            Self::Contract(config) => config.validate(),
        }
    }

    /// The largest share a contract may have under this elevator.
    pub(crate) fn share_max(&self) -> u16 {
        match self {
            Self::Bfq(_) => 1_000,
            Self::None | Self::Contract(_) => 10_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DriveShape, Layer, Limits, Span};

    #[test]
    fn a_layer_refuses_tunables_out_of_bounds() {
        let refused = |elevator| {
            let config = crate::Config {
                limits: Limits::default(),
                drive: DriveShape::default(),
                controllers: crate::control::Config::default(),
                elevator,
            };
            Layer::new(config).err().map(|error| error.field)
        };
        assert_eq!(refused(Config::None), None);
        assert_eq!(refused(Config::Bfq(bfq::Config::default())), None);
        assert_eq!(refused(Config::Contract(contract::Config::default())), None);
        let bfq = bfq::Config {
            timeout_sync: Span::ZERO,
            ..bfq::Config::default()
        };
        assert_eq!(refused(Config::Bfq(bfq)), Some("timeout_sync"));
        let long = Span::from_secs(10) + Span::from_nanos(1);
        let contract = contract::Config {
            catch_up: long,
            ..contract::Config::default()
        };
        assert_eq!(refused(Config::Contract(contract)), Some("catch_up"));
        let contract = contract::Config {
            forget: long,
            ..contract::Config::default()
        };
        assert_eq!(refused(Config::Contract(contract)), Some("forget"));
    }
}
