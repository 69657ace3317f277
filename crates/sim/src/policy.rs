//! How a drive is shared.

use crate::Scenario;
use weir_core::elevator::{self, bfq, contract};
use weir_core::{Contract, DriveShape};

/// A policy: an elevator with its parameters, and what it is told of the contracts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Its name in results.
    pub name: String,
    /// The elevator.
    pub elevator: elevator::Config,
    /// For elevators that keep no promises but have weights: each group gets a weight in proportion to its min.
    pub promises_as_weights: bool,
}

/// Largest weight of `bfq`.
const WEIGHT_MAX: u64 = 1_000;

impl Policy {
    /// First come, first served.
    pub fn none() -> Self {
        Self::keeping("none", elevator::Config::None)
    }

    /// Contracts are kept.
    pub fn contract() -> Self {
        let config = contract::Config::default();
        Self::keeping("contract", elevator::Config::Contract(config))
    }

    /// BFQ as Linux ships it, `low_latency` on, promises as weights.
    pub fn bfq_linux() -> Self {
        Self {
            promises_as_weights: true,
            ..Self::keeping("bfq-linux", elevator::Config::Bfq(bfq::Config::default()))
        }
    }

    /// BFQ set up to serve bandwidth: promises as weights, `low_latency` off, service charged, and budgets so small that within a
    /// second nobody is more than a tenth short of a share of the drive for want of a turn: a tenth of what the smallest share gets
    /// in that time, halved.
    pub fn bfq(scenario: &Scenario) -> Self {
        const SECTOR: u64 = 512;
        const TOLERANCE: u64 = 10;
        let linux = bfq::Config::default();
        let weighted = Self::bfq_linux();
        let weights: Vec<u64> = (scenario.groups.iter())
            .map(|g| weighted.translate(scenario, g.contract).share.into())
            .collect();
        let (all, least) = (weights.iter().sum::<u64>(), weights.iter().min());
        let max_budget = match (scenario.capacity, least) {
            (Some(capacity), Some(least)) => {
                let rate = capacity.read.min(capacity.write);
                let share = u128::from(rate) * u128::from(*least) / u128::from(all);
                (share as u64 / TOLERANCE / 2 / SECTOR).clamp(1, 1 << 31) as u32
            }
            _ => linux.max_budget,
        };
        let config = bfq::Config {
            max_budget,
            // What raises a client beside its weight takes from the others what they were promised.
            low_latency: false,
            charge: bfq::Charge::Service,
            ..linux
        };
        Self {
            name: "bfq".into(),
            elevator: elevator::Config::Bfq(config),
            promises_as_weights: true,
        }
    }

    /// What the layer is told of a contract of `scenario`: the contract, or what is left of it for an elevator that keeps no promises.
    pub fn translate(&self, scenario: &Scenario, contract: Contract) -> Contract {
        if !self.promises_as_weights {
            return contract;
        }
        let most = scenario.groups.iter().map(|g| g.contract.min).max();
        let share = match most {
            Some(most) if most > 0 => {
                let weight = u128::from(contract.min) * u128::from(WEIGHT_MAX) / u128::from(most);
                weight.max(1) as u16
            }
            _ => contract.share.min(WEIGHT_MAX as u16),
        };
        Contract {
            min: 0,
            min_iops: 0,
            share,
            ..contract
        }
    }

    /// The drive as the layer is told of it.
    pub(crate) fn shape(scenario: &Scenario) -> DriveShape {
        DriveShape {
            capacity: scenario.capacity,
            ..scenario.drive.shape()
        }
    }

    fn keeping(name: &str, elevator: elevator::Config) -> Self {
        Self {
            name: name.into(),
            elevator,
            promises_as_weights: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use weir_core::Span;

    #[test]
    fn promises_become_weights_in_proportion() {
        let mut s = scenario::demo(Span::from_secs(1));
        s.groups[1].contract.min = 2_500_000;
        s.groups[2].contract.min = 0;
        let policy = Policy::bfq_linux();
        let weights: Vec<u16> = (s.groups.iter().take(3))
            .map(|g| policy.translate(&s, g.contract).share)
            .collect();
        assert_eq!(weights, [1_000, 250, 1]);
        assert_eq!(policy.translate(&s, s.groups[0].contract).min, 0);
        assert_eq!(
            Policy::contract().translate(&s, s.groups[0].contract).min,
            10_000_000
        );
    }

    #[test]
    fn without_promises_shares_are_weights() {
        let s = scenario::shares(Span::from_secs(1));
        let policy = Policy::bfq(&s);
        let weights: Vec<u16> = (s.groups.iter())
            .map(|g| policy.translate(&s, g.contract).share)
            .collect();
        assert_eq!(weights, [100, 200, 400, 800]);
    }

    #[test]
    fn a_budget_is_a_twentieth_of_the_smallest_share_of_a_second() {
        let budget = |scenario: &Scenario| match Policy::bfq(scenario).elevator {
            elevator::Config::Bfq(config) => config.max_budget,
            _ => panic!("another elevator"),
        };
        // 250 MB/s over 16, over 20, in sectors.
        assert_eq!(budget(&scenario::demo(Span::from_secs(1))), 1_525);
        assert_eq!(budget(&scenario::shares(Span::from_secs(1))), 1_627);
        let mut unknown = scenario::shares(Span::from_secs(1));
        unknown.capacity = None;
        assert_eq!(budget(&unknown), 0, "measured by BFQ itself");
    }
}
