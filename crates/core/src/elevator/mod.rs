//! Elevators: the schedulers proper, which choose the request that is dispatched next.
//!
//! A configuration selects one of them, with its tunables, and [`KINDS`] lists them by name. The
//! layer calls an elevator through `AnyElevator` and the trait `Schedule`.

pub mod bfq;
pub mod cfq;
#[cfg(test)]
mod closed_loop;
pub(crate) mod common;
pub mod contract;
pub mod kyber;
pub mod mq_deadline;
mod none;
mod schedule;
#[cfg(test)]
mod scripted;

use crate::cx::Cx;
use crate::group::Edit;
use crate::merge::Join;
use crate::rule::ConfigError;
use crate::table::Table;
use crate::tunable::Tuned;
use alloc::boxed::Box;
use core::ops::Range;
use none::{Fifo, Queues};
pub(crate) use schedule::{DispatchDecision, Schedule};

/// An elevator with its tunables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Config {
    /// First come, first served.
    None,
    /// Linux's Budget Fair Queueing.
    Bfq(bfq::Config),
    /// Keeps contracts: min, share, class, tenants.
    Contract(contract::Config),
    /// Linux's mq-deadline.
    MqDeadline(mq_deadline::Config),
    /// Linux's Completely Fair Queueing.
    Cfq(cfq::Config),
    /// Linux's kyber.
    Kyber(kyber::Config),
}

/// The description of an elevator, for users who select one by name.
#[derive(Debug)]
pub struct ElevatorKind {
    /// Name of the elevator. It is Linux's name if Linux has the elevator. The table of its
    /// tunables in configuration files has the same name.
    pub name: &'static str,
    /// A short description of the elevator.
    pub about: &'static str,
    /// Code of the elevator in records. A code is never given to another elevator.
    pub code: u8,
    /// True if the elevator keeps the min of contracts.
    pub keeps_min: bool,
    /// The largest share of a contract that the elevator supports, or `None` if it does not divide
    /// by share.
    pub share_max: Option<u16>,
    /// True if the elevator observes the class of contracts.
    pub keeps_class: bool,
    /// True if decisions depend on the time that has passed while something is in the drive,
    /// although the elevator does not request a call at that time. The next completion calls it.
    pub by_time: bool,
    /// Returns the configuration of the elevator with the defaults of its tunables.
    pub default: fn() -> Config,
}

/// All elevators, with their names, codes and properties.
pub const KINDS: &[ElevatorKind] = &[
    ElevatorKind {
        name: "none",
        about: "first come, first served",
        // A code is never reused, because old recordings contain it.
        code: 0,
        keeps_min: false,
        share_max: None,
        keeps_class: false,
        by_time: false,
        default: || Config::None,
    },
    ElevatorKind {
        name: "bfq",
        about: "Linux's Budget Fair Queueing",
        code: 1,
        keeps_min: false,
        share_max: Some(1_000),
        keeps_class: false,
        by_time: false,
        default: || Config::Bfq(bfq::Config::default()),
    },
    ElevatorKind {
        name: "contract",
        about: "keeps min, share and class of contracts",
        code: 2,
        keeps_min: true,
        share_max: Some(10_000),
        keeps_class: true,
        by_time: true,
        default: || Config::Contract(contract::Config::default()),
    },
    ElevatorKind {
        name: "mq-deadline",
        about: "Linux's deadlines: in order of position, reads before writes, what is overdue first",
        code: 3,
        keeps_min: false,
        share_max: None,
        keeps_class: false,
        by_time: true,
        default: || Config::MqDeadline(mq_deadline::Config::default()),
    },
    ElevatorKind {
        name: "cfq",
        about: "Linux's Completely Fair Queueing, of the single-queue layer: slices of time",
        code: 5,
        keeps_min: false,
        share_max: Some(1_000),
        keeps_class: false,
        by_time: true,
        default: || Config::Cfq(cfq::Config::default()),
    },
    ElevatorKind {
        name: "kyber",
        about: "Linux's kyber: places in the drive for reads, writes and the rest, as many as targets for latency leave them",
        code: 4,
        keeps_min: false,
        share_max: None,
        keeps_class: false,
        by_time: true,
        default: || Config::Kyber(kyber::Config::default()),
    },
];

/// Returns the elevator with that name.
pub fn find(name: &str) -> Option<&'static ElevatorKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The closed set of elevators. `none` has a variant of its own because it does so little per
/// request that a call through a table would double the cost.
#[derive(Debug)]
pub(crate) enum AnyElevator {
    None(Fifo),
    Other(Box<dyn Schedule>),
}

impl AnyElevator {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        match config {
            // Several hardware queues need a list each, so that a full one does not block the
            // others.
            Config::None if table.shape.queues > 1 => Self::Other(Box::new(Queues::new(table))),
            Config::None => Self::None(Fifo::new(table)),
            Config::Bfq(config) => Self::Other(Box::new(bfq::Bfq::new(config, table))),
            Config::Contract(config) => {
                Self::Other(Box::new(contract::Contracts::new(config, table)))
            }
            Config::MqDeadline(config) => {
                Self::Other(Box::new(mq_deadline::MqDeadline::new(config, table)))
            }
            Config::Cfq(config) => Self::Other(Box::new(cfq::Cfq::new(config, table))),
            Config::Kyber(config) => Self::Other(Box::new(kyber::Kyber::new(config, table))),
        }
    }

    /// Applies edits that have all been made to the tables. Only the promises of groups in `slots`
    /// may have changed.
    pub(crate) fn change(&mut self, cx: &mut Cx, edits: &[Edit], slots: Range<u32>) {
        let Some(elevator) = self.other_mut() else {
            return;
        };
        for edit in edits {
            match *edit {
                Edit::AddGroup { id, .. }
                | Edit::SetContract { id, .. }
                | Edit::SetKnobs { id, .. } => {
                    // A later edit of the same change may have removed the group.
                    if cx.table.groups.get(id).is_some() {
                        elevator.set_group(cx, id);
                    }
                }
                Edit::RemoveGroup(id) => elevator.remove_group(cx, id),
                Edit::SetCapacity(_) => elevator.set_capacity(cx),
                Edit::SetSpace { .. } | Edit::SetDebt { .. } => {}
            }
        }
        elevator.settle(cx, slots);
    }

    /// See [`Schedule::invariants`].
    #[cfg(debug_assertions)]
    pub(crate) fn invariants(&self, cx: &Cx, queued: u32, sums: &mut [u64]) {
        match self {
            Self::None(fifo) => assert_eq!(fifo.len(), queued, "requests in the elevator"),
            Self::Other(elevator) => elevator.invariants(cx, queued, sums),
        }
    }

    /// Returns the elevator if it is more than a queue.
    pub(crate) fn other(&self) -> Option<&dyn Schedule> {
        match self {
            Self::None(_) => None,
            Self::Other(elevator) => Some(&**elevator),
        }
    }

    /// Returns the elevator for calls that change it, if it is more than a queue.
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

impl AnyElevator {
    /// See [`Schedule::find_join`].
    pub(crate) fn find_join(&mut self, cx: &mut Cx, request: u32) -> Option<Join> {
        match self {
            Self::None(_) if cx.table.merges.is_one_hit() => None,
            Self::None(fifo) => fifo.find_join(&cx.table, request),
            Self::Other(elevator) => elevator.find_join(cx, request),
        }
    }
}

/// Lists the elevators that have tunables.
macro_rules! tuned {
    ($($variant:ident $module:ident)*) => {
        $(impl From<$module::Config> for Config {
            fn from(config: $module::Config) -> Self {
                Self::$variant(config)
            }
        })*

        impl Config {
            /// Returns the tunables of the elevator, if it has any.
            pub fn tuned(&self) -> Option<&dyn Tuned> {
                match self {
                    Self::None => None,
                    $(Self::$variant(config) => Some(config),)*
                }
            }

            /// Returns the tunables of the elevator for changes, if it has any.
            pub fn tuned_mut(&mut self) -> Option<&mut dyn Tuned> {
                match self {
                    Self::None => None,
                    $(Self::$variant(config) => Some(config),)*
                }
            }
        }
    };
}

tuned! { Bfq bfq Contract contract MqDeadline mq_deadline Cfq cfq Kyber kyber }

impl Config {
    /// Returns the description of the selected elevator.
    pub fn kind(&self) -> &'static ElevatorKind {
        let code = match self {
            Self::None => 0,
            Self::Bfq(_) => 1,
            Self::Contract(_) => 2,
            Self::MqDeadline(_) => 3,
            Self::Cfq(_) => 5,
            Self::Kyber(_) => 4,
        };
        let kind = KINDS.iter().find(|kind| kind.code == code);
        kind.expect("every elevator is in the list, as a test shows")
    }

    /// Returns true if requests may be merged under this elevator. `contract` does not merge,
    /// because it cuts and orders requests by the promises of their clients.
    pub const fn merges(&self) -> bool {
        !matches!(self, Self::Contract(_))
    }

    /// Checks the values of the tunables.
    ///
    /// # Errors
    /// Returns the first tunable outside its documented bounds, together with the bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.tuned().map_or(Ok(()), <dyn Tuned>::validate)
    }

    /// Returns the largest share that a contract may have under this elevator.
    pub fn share_max(&self) -> u16 {
        self.kind().share_max.unwrap_or(10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Span};
    use alloc::collections::BTreeSet;

    #[test]
    fn every_elevator_is_found_by_its_name_and_its_code() {
        let codes: BTreeSet<u8> = KINDS.iter().map(|kind| kind.code).collect();
        assert_eq!(codes.len(), KINDS.len());
        for kind in KINDS {
            assert_eq!((kind.default)().kind().name, kind.name);
            assert_eq!(find(kind.name).map(|k| k.code), Some(kind.code));
            assert_eq!((kind.default)().validate(), Ok(()));
        }
    }

    /// Each number of a configuration is set by exactly one tunable, and its default is that of the
    /// table.
    #[test]
    fn each_tunable_sets_exactly_one_field() {
        for kind in KINDS {
            let mut default = (kind.default)();
            let Some(tuned) = default.tuned_mut() else {
                continue;
            };
            let table = tuned.tunables();
            let names: BTreeSet<&str> = table.iter().map(|t| t.name).collect();
            assert_eq!(names.len(), table.len());
            for (place, tunable) in table.iter().enumerate() {
                assert_eq!(tuned.find(tunable.name), Some(place));
                assert_eq!(tuned.get(place), tunable.default, "{}", tunable.name);
                assert!(!tunable.about.is_empty() && !tunable.source.is_empty());
                // Any value that differs from the default.
                let value = u64::from(tunable.default == 0);
                tuned.set(place, value);
                for (other, tunable) in table.iter().enumerate() {
                    let wanted = if other == place {
                        value
                    } else {
                        tunable.default
                    };
                    assert_eq!(tuned.get(other), wanted, "{}", tunable.name);
                }
                tuned.set(place, tunable.default);
                let (least, most) = tunable.bounds;
                for (value, moved) in [(most.saturating_add(1), most), (u64::MAX, most)] {
                    tuned.set(place, value);
                    tuned.bound();
                    assert_eq!(tuned.get(place), moved, "{}", tunable.name);
                    tuned.set(place, tunable.default);
                }
                if let Some(less) = least.checked_sub(1) {
                    tuned.set(place, less);
                    assert_eq!(tuned.validate().unwrap_err().field, tunable.name);
                    tuned.set(place, tunable.default);
                }
            }
        }
    }

    #[test]
    fn a_layer_refuses_tunables_out_of_bounds() {
        let refused = |elevator| {
            let config = crate::Config::of(elevator);
            Layer::new(config).err().map(|error| error.field)
        };
        assert_eq!(refused(Config::None), None);
        assert_eq!(refused(Config::Bfq(bfq::Config::default())), None);
        assert_eq!(refused(Config::Contract(contract::Config::default())), None);
        let bfq = bfq::Config::default().timeout_sync(Span::ZERO);
        assert_eq!(refused(Config::Bfq(bfq)), Some("timeout_sync"));
        let long = Span::from_secs(10) + Span::from_nanos(1);
        let contract = contract::Config::default().catch_up(long);
        assert_eq!(refused(Config::Contract(contract)), Some("catch_up"));
        let contract = contract::Config::default().forget(long);
        assert_eq!(refused(Config::Contract(contract)), Some("forget"));
    }
}
