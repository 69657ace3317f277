//! How a contract becomes the knobs of a group under a policy.

use super::weight::{self, Node};
use super::{Controller, Policy};
use crate::words::words;
use weir_core::{Capacity, Contract, Knobs, LowKnobs, Max, Span, control, elevator};

/// What becomes of a contract's min.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Min {
    /// The elevator keeps it.
    Kept,
    /// Weights in proportion to what each group is due: its min, and its part by share of what the mins leave.
    Weight,
    /// The most that the group gets.
    Limit,
    /// The low limit of io.low.
    Low,
    /// Nothing, but that it counts against the capacity.
    Ignored,
}

/// What becomes of a contract's share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// The elevator divides by it, or io.cost does.
    Weight,
    /// All have the same.
    Ignored,
}

/// What becomes of a contract's max.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// A controller keeps it: `max` exactly, `io.max` as Linux does.
    Limit,
    /// Nothing.
    Ignored,
}

/// What becomes of a contract's class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassKnob {
    /// The elevator goes by it.
    Kept,
    /// Nothing.
    Ignored,
}

/// What becomes of a contract's latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// It is the target of io.latency.
    Target,
    /// Nothing.
    Ignored,
}

words! {
    Min: "kept" Kept, "weight" Weight, "limit" Limit, "low" Low, "ignored" Ignored;
    Share: "weight" Weight, "ignored" Ignored;
    Limit: "limit" Limit, "ignored" Ignored;
    ClassKnob: "kept" Kept, "ignored" Ignored;
    Target: "target" Target, "ignored" Ignored;
}

/// What becomes of each part of a contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Of its min.
    pub min: Min,
    /// Of its share.
    pub share: Share,
    /// Of its max.
    pub max: Limit,
    /// Of its class.
    pub class: ClassKnob,
    /// Of its latency.
    pub latency: Target,
}

impl Mapping {
    /// Everything that this elevator and these controllers can keep of a contract.
    pub(crate) fn all(elevator: &elevator::Kind, controllers: &[Controller]) -> Self {
        let mut knobs = Self {
            min: if elevator.keeps_min {
                Min::Kept
            } else {
                Min::Ignored
            },
            share: match elevator.share_max {
                Some(_) => Share::Weight,
                None => Share::Ignored,
            },
            max: Limit::Ignored,
            class: if elevator.keeps_class {
                ClassKnob::Kept
            } else {
                ClassKnob::Ignored
            },
            latency: Target::Ignored,
        };
        for controller in controllers {
            knobs.serve(*controller);
        }
        knobs
    }

    /// Gives a controller that part of contracts that it is there for.
    pub(crate) fn serve(&mut self, controller: Controller) {
        match controller {
            Controller::Max | Controller::Slices => self.max = Limit::Limit,
            Controller::Low => self.min = Min::Low,
            Controller::Latency => self.latency = Target::Target,
            Controller::Cost => self.share = Share::Weight,
        }
    }
}

/// A budget that follows from what groups are promised: so small that within a window nobody is more than this part of its share of the
/// drive short for want of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The window.
    pub window: Span,
    /// Hundredths of a share: 1 to 100.
    pub percent: u64,
}

/// A policy set up for a drive and the contracts on it: what the core is made from and told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The elevator, with the tunables that follow from contracts.
    pub elevator: elevator::Config,
    /// The controllers.
    pub controllers: control::Config,
    mapping: Mapping,
    /// What the core is told of each group.
    told: Vec<Contract>,
}

impl Policy {
    /// Sets the policy up for a drive of this capacity and these groups.
    pub fn set_up(
        &self,
        capacity: Option<Capacity>,
        groups: impl IntoIterator<Item = Node>,
    ) -> Setup {
        let has = |controller| self.controllers.contains(&controller);
        let mut elevator = self.elevator.clone();
        let mut groups: Vec<Node> = groups.into_iter().collect();
        for group in &mut groups {
            group.contract = self.counted(group.contract);
        }
        let weights = self.weights(capacity, &groups);
        if let (Some(budget), Some(capacity)) = (self.budget, capacity)
            && let Some(least) = weight::least(&groups, &weights, capacity.bytes())
        {
            budget.set(&mut elevator, least);
        }
        let told = groups.iter().zip(weights);
        let told = told.map(|(group, share)| {
            self.told(Contract {
                share,
                ..group.contract
            })
        });
        Setup {
            elevator,
            controllers: control::Config {
                max: has(Controller::Max) || has(Controller::Slices),
                slices: has(Controller::Slices).then_some(self.slices),
                low: (self.mapping.min == Min::Low).then_some(self.low),
                latency: has(Controller::Latency),
                cost: has(Controller::Cost).then_some(self.cost),
            },
            mapping: self.mapping,
            told: told.collect(),
        }
    }

    /// The parts of a contract that count.
    fn counted(&self, contract: Contract) -> Contract {
        let mut counted = contract;
        let divides = self.elevator.kind().share_max.is_some()
            || self.controllers.contains(&Controller::Cost);
        if self.mapping.share == Share::Ignored && divides {
            counted.share = Contract::DEFAULT.share;
        }
        if self.mapping.max == Limit::Ignored {
            counted.max = Max::NONE;
        }
        counted
    }

    /// The weight of each group.
    fn weights(&self, capacity: Option<Capacity>, groups: &[Node]) -> Vec<u16> {
        let most = self.elevator.share_max();
        if self.mapping.min == Min::Weight {
            return weight::weights(capacity, groups, most);
        }
        let unpromised = groups.iter().map(|group| Node {
            contract: Contract {
                min: 0,
                min_iops: 0,
                ..group.contract
            },
            ..*group
        });
        weight::weights(capacity, &unpromised.collect::<Vec<_>>(), most)
    }

    /// What the core is told of a contract that has its weight as share.
    fn told(&self, contract: Contract) -> Contract {
        let mut told = contract;
        match self.mapping.min {
            Min::Kept | Min::Low | Min::Ignored => {}
            Min::Weight => (told.min, told.min_iops) = (0, 0),
            Min::Limit => {
                lower(&mut told.max.bandwidth, contract.min);
                lower(&mut told.max.iops, contract.min_iops);
                (told.min, told.min_iops) = (0, 0);
            }
        }
        told
    }
}

impl Budget {
    /// The tunable that it sets.
    pub(crate) const TUNABLE: &'static str = "max_budget";

    /// Half of what the smallest share, `least` bytes a second, may be short in the window: a client that comes just too late waits for a
    /// whole turn of another.
    fn set(self, elevator: &mut elevator::Config, least: u64) {
        const SECOND: u128 = 1_000_000_000;
        let Some(tuned) = elevator.tuned_mut() else {
            return;
        };
        let Some(place) = tuned.find(Self::TUNABLE) else {
            return;
        };
        let tunable = &tuned.tunables()[place];
        let window = u128::from(self.window.as_nanos());
        let short = u128::from(least) * window / SECOND * u128::from(self.percent) / 100;
        let unit = u128::from(tunable.unit.bytes().unwrap_or(1));
        let budget = u64::try_from(short / 2 / unit).unwrap_or(u64::MAX);
        // Zero would leave it to the elevator.
        tuned.set(place, budget.clamp(1, tunable.bounds.1));
    }
}

impl Setup {
    /// One that tells contracts as they are written.
    pub(crate) fn written(groups: impl IntoIterator<Item = Node>) -> Self {
        Self {
            elevator: elevator::Config::None,
            controllers: control::Config::default(),
            mapping: Mapping {
                min: Min::Kept,
                share: Share::Weight,
                max: Limit::Limit,
                class: ClassKnob::Kept,
                latency: Target::Target,
            },
            told: groups.into_iter().map(|group| group.contract).collect(),
        }
    }

    /// What the core is told of the contract of each group, in the order in which they came.
    pub fn contracts(&self) -> &[Contract] {
        &self.told
    }

    /// What the core is told of the knobs of a group.
    pub fn knobs(&self, knobs: Knobs) -> Knobs {
        Knobs {
            latency: match self.mapping.latency {
                Target::Target => knobs.latency,
                Target::Ignored => Span::ZERO,
            },
            low: match self.mapping.min {
                Min::Low => knobs.low,
                _ => LowKnobs::NONE,
            },
        }
    }
}

/// Makes `limit` no more than this, if this is more than nothing; a limit of zero is none.
fn lower(limit: &mut u64, to: u64) {
    if to > 0 && (*limit == 0 || *limit > to) {
        *limit = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::find;

    const DRIVE: Capacity = Capacity::rates(250_000_000, 250_000_000);

    fn min(min: u64) -> Contract {
        Contract::DEFAULT.with_min(min)
    }

    fn share(share: u16) -> Contract {
        Contract::DEFAULT.with_share(share)
    }

    /// Groups below the root.
    fn groups(contracts: &[Contract]) -> impl Iterator<Item = Node> {
        contracts.iter().map(|contract| Node {
            parent: None,
            contract: *contract,
        })
    }

    fn told(policy: &Policy, contract: Contract) -> Contract {
        policy.set_up(None, groups(&[contract])).contracts()[0]
    }

    fn weights(policy: &str, contracts: &[Contract]) -> Vec<u16> {
        let setup = find(policy).unwrap().set_up(None, groups(contracts));
        setup.contracts().iter().map(|c| c.share).collect()
    }

    #[test]
    fn promises_become_weights_in_proportion() {
        let contracts = [min(10_000_000), min(2_500_000), min(0)];
        for (policy, all) in [
            ("bfq", [1_000, 283, 44]),
            ("bfq-linux", [1_000, 283, 44]),
            ("bfq-bytes", [1_000, 283, 44]),
            ("bfq-4.18", [1_000, 283, 44]),
            ("bfq-5.3", [1_000, 283, 44]),
            ("cfq", [1_000, 283, 44]),
            ("io.cost", [10_000, 2_832, 442]),
            ("io.cost-5.5", [10_000, 2_832, 442]),
            ("io.cost-s", [10_000, 2_832, 442]),
        ] {
            assert_eq!(weights(policy, &contracts), all, "{policy}");
            let policy = find(policy).unwrap();
            assert_eq!(told(&policy, contracts[0]).min, 0);
        }
        let contract = find("contract").unwrap();
        assert_eq!(told(&contract, contracts[0]), contracts[0]);
    }

    #[test]
    fn without_promises_shares_are_weights() {
        let contracts = [100, 200, 400, 800].map(share);
        assert_eq!(weights("bfq", &contracts), [100, 200, 400, 800]);
        assert_eq!(weights("bfq", &[share(5_000)]), [1_000]);
        assert_eq!(weights("contract", &[share(5_000)]), [5_000]);
    }

    #[test]
    fn shares_that_are_ignored_are_equal_where_something_divides_by_them() {
        let share = |policy: &str| {
            let mut policy = find(policy).unwrap();
            policy.mapping.share = Share::Ignored;
            told(&policy, share(700)).share
        };
        let equal = Contract::DEFAULT.share;
        assert_eq!(share("bfq"), equal, "an elevator divides");
        assert_eq!(share("io.cost"), equal, "a controller divides");
        assert_eq!(share("none"), 700, "nobody asks");
    }

    #[test]
    fn a_budget_is_a_twentieth_of_the_smallest_share_of_a_second() {
        let budget = |policy: &str, capacity, contracts: &[Contract]| {
            let setup = find(policy).unwrap().set_up(capacity, groups(contracts));
            match setup.elevator {
                elevator::Config::Bfq(config) => config.max_budget,
                other => panic!("{other:?}"),
            }
        };
        let equal = [min(10_000_000); 16];
        // 250 MB/s over 16, over 20, in sectors.
        assert_eq!(budget("bfq-bytes", Some(DRIVE), &equal), 1_525);
        let shares = [100, 200, 400, 800].map(share);
        assert_eq!(budget("bfq-bytes", Some(DRIVE), &shares), 1_627);
        assert_eq!(
            budget("bfq-bytes", None, &equal),
            0,
            "measured by BFQ itself"
        );
        assert_eq!(
            budget("bfq-bytes", Some(DRIVE), &[]),
            0,
            "nobody is promised"
        );
        assert_eq!(budget("bfq", Some(DRIVE), &equal), 0);
        let slow = Capacity { read: 1, ..DRIVE };
        assert_eq!(
            budget("bfq-bytes", Some(slow), &equal),
            1,
            "zero means another"
        );
    }

    #[test]
    fn what_no_controller_is_there_for_is_not_told() {
        let contract = Contract {
            max: Max::of_bandwidth(5_000_000),
            ..Contract::DEFAULT
        };
        let told = |policy: &str| {
            let setup = find(policy).unwrap().set_up(None, groups(&[contract]));
            let latency = Span::from_millis(1);
            let knobs = setup.knobs(Knobs {
                latency,
                ..Knobs::NONE
            });
            assert!(setup.controllers.max, "{policy}");
            assert_eq!(setup.controllers.latency, knobs != Knobs::NONE, "{policy}");
            (setup.contracts()[0], knobs.latency)
        };
        for (policy, latency) in [
            ("none", 0),
            ("bfq", 0),
            ("io.latency", 1),
            ("bfq + io.latency", 1),
            ("contract", 1),
        ] {
            let told = told(policy);
            assert_eq!(told, (contract, Span::from_millis(latency)), "{policy}");
        }
    }

    #[test]
    fn a_min_can_be_a_low_limit() {
        let contracts = [min(10_000_000), min(0)];
        for policy in ["io.low", "io.low + io.max", "bfq + io.low"] {
            let policy = find(policy).unwrap();
            assert!(!policy.keeps_min(), "it only tries to");
            let setup = policy.set_up(None, groups(&contracts));
            assert_eq!(setup.controllers.low, Some(policy.low));
            assert_eq!(policy.low.latency, Span::from_micros(100), "the suite's");
            assert_eq!(setup.contracts()[0], contracts[0]);
            let low = LowKnobs {
                read_iops: 1,
                ..LowKnobs::NONE
            };
            let latency = Span::ZERO;
            assert_eq!(setup.knobs(Knobs { latency, low }).low, low);
            let bfq = find("bfq").unwrap().set_up(None, groups(&contracts));
            assert_eq!(bfq.knobs(Knobs { latency, low }), Knobs::NONE);
        }
        let mut none = find("io.low").unwrap();
        none.mapping.min = Min::Ignored;
        assert_eq!(none.set_up(None, groups(&contracts)).controllers.low, None);
    }

    #[test]
    fn a_min_can_be_a_limit() {
        let mut policy = find("none").unwrap();
        policy.mapping.min = Min::Limit;
        let limit = |min, bandwidth| {
            let contract = Contract {
                min,
                max: Max::of_bandwidth(bandwidth),
                ..Contract::DEFAULT
            };
            let told = told(&policy, contract);
            assert_eq!(told.min, 0);
            told.max.bandwidth
        };
        assert_eq!((limit(5, 0), limit(5, 9), limit(5, 3)), (5, 5, 3));
        assert_eq!((limit(0, 0), limit(0, 9)), (0, 9));
    }
}
