//! Elevators: which request goes to the drive next.

pub mod bfq;
pub mod contract;
mod none;

use crate::event::Events;
use crate::flush::Flushes;
use crate::group::{Edit, GroupId};
use crate::layer::{Piece, Table, Wake};
use crate::{ConfigError, Instant, StreamId};
use alloc::boxed::Box;
use none::Fifo;

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

/// What an elevator wants done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the next `bytes` of this request (all that is left of it if `bytes` says so). The elevator has accounted for them
    /// and, if that was all, has forgotten the request.
    Take { request: u32, bytes: u32 },
    /// Nothing now on purpose; ask again then, or after the next call.
    Wait(Wake),
    /// Nothing to send.
    Nothing,
}

/// An elevator as the layer sees it. Numbers are slots: of live requests and of streams in the [`Table`].
pub(crate) trait Schedule: core::fmt::Debug {
    /// A stream came.
    fn open(&mut self, _stream: u32, _table: &Table) {}
    /// A stream without requests goes.
    fn close(&mut self, _now: Instant, _stream: u32, _table: &Table) {}
    /// A group came or its contract changed.
    fn set_group(&mut self, _now: Instant, _id: GroupId, _table: &Table) {}
    /// A group without members goes.
    fn remove_group(&mut self, _now: Instant, _id: GroupId, _table: &Table) {}
    /// The drive's capacity changed.
    fn set_capacity(&mut self, _now: Instant, _table: &Table) {}
    /// All edits of a change have been made.
    fn settle(&mut self, _now: Instant, _table: &Table) {}
    /// A request (or what is left of one that was taken out) enters.
    fn insert(&mut self, now: Instant, request: u32, table: &Table);
    /// A request that is inside leaves undispatched: given up, or its stream is on hold.
    fn remove(&mut self, now: Instant, request: u32, table: &Table);
    /// Chooses. There is a free tag.
    fn next(&mut self, now: Instant, table: &Table, events: &mut Events) -> Next;
    /// A flush could begin, the first of those that are ready; there is a free tag. `None` begins it, else it is asked again then,
    /// or after the next call. As in Linux, where flushes bypass the elevator, none is held back unless an elevator says so.
    fn hold_flush(&mut self, _now: Instant, _flushes: &Flushes, _table: &Table) -> Option<Wake> {
        None
    }
    /// True if not everyone may take any scheduler tag. It stays so.
    fn limits_tags(&self) -> bool {
        false
    }
    /// A request that is outside may take a scheduler tag and enter.
    fn may_tag(&self, _request: u32, _table: &Table) -> bool {
        true
    }
    /// A request that has entered took a scheduler tag for it. This and the next are only told where tags are limited.
    fn tagged(&mut self, _request: u32, _table: &Table) {}
    /// A request that has entered has its scheduler tag no longer.
    fn untagged(&mut self, _request: u32, _table: &Table) {}
    /// A piece came back from the drive (flushes among them, which no elevator chose); its tag is free.
    fn complete(&mut self, _now: Instant, _piece: &Piece, _table: &Table) {}
    /// The stream for whose next request the drive is kept, if it is.
    fn idles_for(&self) -> Option<StreamId> {
        None
    }
}

/// The closed set of elevators. First come, first served is so little that a call through a table would double it.
#[derive(Debug)]
pub(crate) enum Elevator {
    None(Fifo),
    Other(Box<dyn Schedule>),
}

impl Elevator {
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
    pub(crate) fn change(&mut self, now: Instant, edits: &[Edit], table: &Table) {
        let Some(elevator) = self.other_mut() else {
            return;
        };
        for edit in edits {
            match *edit {
                Edit::AddGroup { id, .. } | Edit::SetContract { id, .. } => {
                    if table.groups.get(id).is_some() {
                        elevator.set_group(now, id, table);
                    }
                }
                Edit::RemoveGroup(id) => elevator.remove_group(now, id, table),
                Edit::SetCapacity(_) => elevator.set_capacity(now, table),
                Edit::SetSpace { .. } => {}
            }
        }
        elevator.settle(now, table);
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
    pub(crate) fn insert(&mut self, now: Instant, request: u32, table: &Table) {
        match self {
            Self::None(fifo) => fifo.insert(request),
            Self::Other(elevator) => elevator.insert(now, request, table),
        }
    }

    /// See [`Schedule::remove`].
    pub(crate) fn remove(&mut self, now: Instant, request: u32, table: &Table) {
        match self {
            Self::None(fifo) => fifo.remove(request),
            Self::Other(elevator) => elevator.remove(now, request, table),
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
