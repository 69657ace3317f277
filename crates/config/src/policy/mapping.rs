//! The mapping of a contract to the settings of a group under a policy.
//!
//! [`Policy::set_up`] applies a policy's [`ContractMapping`] to all contracts of a drive, and
//! returns the settings for the core as a [`Setup`].

use super::weight::{self, GroupNode};
use super::{Policy, PolicyController};
use crate::words::words;
use weir_core::{Capacity, Contract, Knobs, LowKnobs, Max, Span, control, elevator};

/// The effect of a contract's min.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MinEffect {
    /// The elevator guarantees it.
    Kept,
    /// It becomes a weight, in proportion to the amount that each group is due: its min, and the
    /// part by share of the rest.
    Weight,
    /// It becomes the maximum that the group gets.
    Limit,
    /// It becomes the low limit of `io.low`.
    Low,
    /// It has no effect, except that it counts against the capacity.
    Ignored,
}

/// The effect of a contract's share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareEffect {
    /// It becomes a weight for the elevator or for `io.cost`.
    Weight,
    /// It has no effect: all groups have the same share.
    Ignored,
}

/// The effect of a contract's max.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MaxEffect {
    /// A controller enforces it: `max` exactly, or `io.max` in the same way as Linux.
    Limit,
    /// It has no effect under this policy.
    Ignored,
}

/// The effect of a contract's class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassEffect {
    /// The elevator serves clients by their class.
    Kept,
    /// It has no effect under this policy.
    Ignored,
}

/// The effect of a contract's latency target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyEffect {
    /// It becomes the target of `io.latency`.
    Target,
    /// It has no effect under this policy.
    Ignored,
}

words! {
    MinEffect: "kept" Kept, "weight" Weight, "limit" Limit, "low" Low, "ignored" Ignored;
    ShareEffect: "weight" Weight, "ignored" Ignored;
    MaxEffect: "limit" Limit, "ignored" Ignored;
    ClassEffect: "kept" Kept, "ignored" Ignored;
    LatencyEffect: "target" Target, "ignored" Ignored;
}

/// The effect of each part of a contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContractMapping {
    /// The effect of the min.
    pub min: MinEffect,
    /// The effect of the share.
    pub share: ShareEffect,
    /// The effect of the max.
    pub max: MaxEffect,
    /// The effect of the class.
    pub class: ClassEffect,
    /// The effect of the latency target.
    pub latency: LatencyEffect,
}

impl ContractMapping {
    /// Returns the mapping with every part of a contract that this elevator and these controllers
    /// can keep.
    pub(crate) fn all(elevator: &elevator::ElevatorKind, controllers: &[PolicyController]) -> Self {
        let mut knobs = Self {
            min: if elevator.keeps_min {
                MinEffect::Kept
            } else {
                MinEffect::Ignored
            },
            share: match elevator.share_max {
                Some(_) => ShareEffect::Weight,
                None => ShareEffect::Ignored,
            },
            max: MaxEffect::Ignored,
            class: if elevator.keeps_class {
                ClassEffect::Kept
            } else {
                ClassEffect::Ignored
            },
            latency: LatencyEffect::Ignored,
        };
        // A part of contracts that a controller keeps is left to the controller.
        for controller in controllers {
            knobs.add_controller(*controller);
        }
        knobs
    }

    /// Lets a controller keep its part of contracts.
    pub(crate) fn add_controller(&mut self, controller: PolicyController) {
        match controller {
            PolicyController::Max | PolicyController::Slices => self.max = MaxEffect::Limit,
            PolicyController::Low => self.min = MinEffect::Low,
            PolicyController::Latency => self.latency = LatencyEffect::Target,
            PolicyController::Cost => self.share = ShareEffect::Weight,
        }
    }
}

/// A maximum budget that is derived from the contracts. It is so small that, within a window, no
/// group gets less than its share of the drive by more than this percentage because it waits for a
/// turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The length of the window.
    pub window: Span,
    /// The permitted deviation in hundredths of a share, 1 to 100.
    pub percent: u64,
}

/// A policy with the capacity of a drive and its contracts applied: the settings for the core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The elevator with its tunables, including those that are derived from the contracts.
    pub elevator: elevator::Config,
    /// The controllers with their tunables.
    pub controllers: control::Config,
    mapping: ContractMapping,
    /// The contract of each group for the core.
    told: Vec<Contract>,
}

impl Policy {
    /// Applies the policy to a drive with this capacity and these groups.
    pub fn set_up(
        &self,
        capacity: Option<Capacity>,
        groups: impl IntoIterator<Item = GroupNode>,
    ) -> Setup {
        let has = |controller| self.controllers.contains(&controller);
        let mut elevator = self.elevator.clone();
        let mut groups: Vec<GroupNode> = groups.into_iter().collect();
        for group in &mut groups {
            group.contract = self.effective_contract(group.contract);
        }
        let weights = self.weights(capacity, &groups);
        // Without a known capacity, the tunable stays at zero, and BFQ measures the drive's rate
        // itself.
        if let (Some(budget), Some(capacity)) = (self.budget, capacity)
            && let Some(least) = weight::least(&groups, &weights, capacity.bytes())
        {
            budget.set(&mut elevator, least);
        }
        let told = groups.iter().zip(weights);
        let told = told.map(|(group, share)| {
            self.contract_for_core(Contract {
                share,
                ..group.contract
            })
        });
        Setup {
            elevator,
            controllers: control::Config {
                max: has(PolicyController::Max) || has(PolicyController::Slices),
                slices: has(PolicyController::Slices).then_some(self.slices),
                // If a policy ignores mins, `io.low` has nothing to enforce and is left out.
                low: (self.mapping.min == MinEffect::Low).then_some(self.low),
                latency: has(PolicyController::Latency),
                cost: has(PolicyController::Cost).then_some(self.cost),
            },
            mapping: self.mapping,
            told: told.collect(),
        }
    }

    /// Returns the contract without the parts that the policy ignores.
    fn effective_contract(&self, contract: Contract) -> Contract {
        let mut counted = contract;
        let divides = self.elevator.kind().share_max.is_some()
            || self.controllers.contains(&PolicyController::Cost);
        // If a part of the policy divides by shares, it must see equal shares in order to ignore
        // them.
        if self.mapping.share == ShareEffect::Ignored && divides {
            counted.share = Contract::DEFAULT.share;
        }
        if self.mapping.max == MaxEffect::Ignored {
            counted.max = Max::NONE;
        }
        counted
    }

    /// Returns the weight of each group.
    fn weights(&self, capacity: Option<Capacity>, groups: &[GroupNode]) -> Vec<u16> {
        let most = self.elevator.share_max();
        if self.mapping.min == MinEffect::Weight {
            return weight::weights(capacity, groups, most);
        }
        // The mins have another effect here, so the weights follow from the shares alone.
        let unpromised = groups.iter().map(|group| GroupNode {
            contract: Contract {
                min: 0,
                min_iops: 0,
                ..group.contract
            },
            ..*group
        });
        weight::weights(capacity, &unpromised.collect::<Vec<_>>(), most)
    }

    /// Returns the contract for the core, given the contract with its weight as share.
    fn contract_for_core(&self, contract: Contract) -> Contract {
        let mut told = contract;
        match self.mapping.min {
            MinEffect::Kept | MinEffect::Low | MinEffect::Ignored => {}
            MinEffect::Weight => (told.min, told.min_iops) = (0, 0),
            MinEffect::Limit => {
                lower(&mut told.max.bandwidth, contract.min);
                lower(&mut told.max.iops, contract.min_iops);
                (told.min, told.min_iops) = (0, 0);
            }
        }
        told
    }
}

impl Budget {
    /// The name of the tunable that a budget sets.
    pub(crate) const TUNABLE: &'static str = "max_budget";

    /// Sets the tunable to half of the amount that the smallest share, `least` bytes per second,
    /// may be short in the window. It is half, because a client that arrives just too late waits
    /// for a whole turn of another client.
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
        // The product of a rate and a window in nanoseconds can exceed 64 bits.
        let short = u128::from(least) * window / SECOND * u128::from(self.percent) / 100;
        let unit = u128::from(tunable.unit.bytes().unwrap_or(1));
        let budget = u64::try_from(short / 2 / unit).unwrap_or(u64::MAX);
        // Zero would select the elevator's own estimate, so the minimum is 1.
        tuned.set(place, budget.clamp(1, tunable.bounds.1));
    }
}

impl Setup {
    /// Returns a setup that passes contracts to the core unchanged.
    pub(crate) fn as_written(groups: impl IntoIterator<Item = GroupNode>) -> Self {
        Self {
            elevator: elevator::Config::None,
            controllers: control::Config::default(),
            mapping: ContractMapping {
                min: MinEffect::Kept,
                share: ShareEffect::Weight,
                max: MaxEffect::Limit,
                class: ClassEffect::Kept,
                latency: LatencyEffect::Target,
            },
            told: groups.into_iter().map(|group| group.contract).collect(),
        }
    }

    /// Returns the contract of each group for the core, in the order of the groups.
    pub fn contracts(&self) -> &[Contract] {
        &self.told
    }

    /// Returns the knobs of a group for the core: only those that one of the policy's controllers
    /// uses.
    pub fn knobs(&self, knobs: Knobs) -> Knobs {
        Knobs {
            latency: match self.mapping.latency {
                LatencyEffect::Target => knobs.latency,
                LatencyEffect::Ignored => Span::ZERO,
            },
            low: match self.mapping.min {
                MinEffect::Low => knobs.low,
                _ => LowKnobs::NONE,
            },
        }
    }
}

/// Lowers a limit to `to`. A limit of zero means no limit, and a `to` of zero changes nothing.
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

    /// Returns groups below the root with these contracts.
    fn groups(contracts: &[Contract]) -> impl Iterator<Item = GroupNode> {
        contracts.iter().map(|contract| GroupNode {
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
        // The capacity is not known, so the mins of 12.5 MB/s count as 90 % of it. The rest of 1.39
        // MB/s is divided into three equal parts of 0.463 MB/s. The groups are due 10.463, 2.963
        // and 0.463 MB/s, and the largest gets the elevator's largest weight.
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
            ("io.cost-5.5-s", [10_000, 2_832, 442]),
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
        // BFQ's largest weight is 1,000, while `contract` uses shares as they are.
        assert_eq!(weights("bfq", &[share(5_000)]), [1_000]);
        assert_eq!(weights("contract", &[share(5_000)]), [5_000]);
    }

    #[test]
    fn ignored_shares_are_equal_if_a_scheduler_or_controller_uses_them() {
        let share = |policy: &str| {
            let mut policy = find(policy).unwrap();
            policy.mapping.share = ShareEffect::Ignored;
            told(&policy, share(700)).share
        };
        let equal = Contract::DEFAULT.share;
        assert_eq!(share("bfq"), equal, "an elevator divides");
        assert_eq!(share("io.cost"), equal, "a controller divides");
        assert_eq!(share("none"), 700, "nobody asks");
    }

    #[test]
    fn a_budget_is_5_percent_of_the_smallest_share_of_a_second() {
        let budget = |policy: &str, capacity, contracts: &[Contract]| {
            let setup = find(policy).unwrap().set_up(capacity, groups(contracts));
            match setup.elevator {
                elevator::Config::Bfq(config) => config.max_budget,
                other => panic!("{other:?}"),
            }
        };
        let equal = [min(10_000_000); 16];
        // A share is 250 MB/s / 16, and 5 % of it for one second are 781,250 bytes, or 1,525
        // sectors.
        assert_eq!(budget("bfq-bytes", Some(DRIVE), &equal), 1_525);
        // The smallest share is 100/1500 of 250 MB/s. 5 % of it for one second are 1,627 sectors.
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
    fn a_knob_without_its_controller_is_not_set() {
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
        none.mapping.min = MinEffect::Ignored;
        assert_eq!(none.set_up(None, groups(&contracts)).controllers.low, None);
    }

    #[test]
    fn a_min_can_be_a_limit() {
        let mut policy = find("none").unwrap();
        policy.mapping.min = MinEffect::Limit;
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
        // The smaller of min and max applies.
        assert_eq!((limit(5, 0), limit(5, 9), limit(5, 3)), (5, 5, 3));
        // Without a min, the max is unchanged.
        assert_eq!((limit(0, 0), limit(0, 9)), (0, 9));
    }
}
