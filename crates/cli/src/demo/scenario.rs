//! The scenarios that the demo plays.

use super::Policy;
use clap::ValueEnum;
use weir_core::{Capacity, Contract, Max, Span};
use weir_load::Program;
use weir_sim::scenario;

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Contract,
    EqualReaders,
    Shares,
    Max,
}

/// Nobody is measured while others still begin.
pub(crate) const WARM_UP: Span = Span::from_millis(500);

/// What the scenarios' bandwidths are meant for.
const DRIVE: u64 = 250_000_000;

/// Size of a client's space where the scenario is made here.
const SPACE: u64 = 64 << 20;

/// Limits of the clients of `max`, in MB/s, and the sizes of their requests.
const LIMITS: [(u64, u32); 4] = [(5, 4096), (10, 16_384), (20, 65_536), (40, 131_072)];

impl Scenario {
    pub(crate) const ALL: [Self; 4] = [Self::Contract, Self::EqualReaders, Self::Shares, Self::Max];

    /// Its name on the command line and in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::EqualReaders => "equal-readers",
            Self::Shares => "shares",
            Self::Max => "max",
        }
    }

    /// What it shows, in a line.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Contract => {
                "one small reader beside fifteen that stream, all promised the same: the default"
            }
            Self::EqualReaders => {
                "sixteen random readers that are promised the same: nothing is wasted among equals"
            }
            Self::Shares => {
                "four clients with shares 1 : 2 : 4 : 8, each asking for all it can get"
            }
            Self::Max => {
                "four clients that may not have more than 5, 10, 20 and 40 MB/s, and one that may"
            }
        }
    }

    /// What the clients do, in sentences.
    pub(crate) const fn load(self) -> &'static str {
        match self {
            Self::Contract => {
                "The target reads 4 KiB at random places, one request at a time. Fifteen readers read from beginning to end, \
                 128 KiB at a time, two requests each."
            }
            Self::EqualReaders => {
                "Sixteen clients read 4 KiB at random places, eight requests at a time each."
            }
            Self::Shares => {
                "Four clients read 16 KiB at random places, sixteen requests at a time each; their shares are 1 : 2 : 4 : 8."
            }
            Self::Max => {
                "Four clients read at random places, 4 to 128 KiB at a time, sixteen requests each, and have a maximum; a fifth \
                 streams and has none."
            }
        }
    }

    /// The client that the report is about.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Contract => "target",
            Self::EqualReaders => "reader-00",
            Self::Shares => "share-1",
            Self::Max => "limit-5",
        }
    }

    /// The policies that are compared unless others are asked for.
    pub(crate) const fn policies(self) -> &'static [Policy] {
        match self {
            Self::Contract => &Policy::ALL,
            Self::EqualReaders | Self::Shares => &[Policy::None, Policy::Bfq, Policy::Contract],
            // Limits are the layer's, whatever elevator comes behind them.
            Self::Max => &[Policy::None, Policy::Contract],
        }
    }

    /// The scenario, measured for so many seconds. On a drive slower than the demo's, promises are the same part of it.
    pub(crate) fn build(self, seconds: u32, capacity: Option<Capacity>) -> weir_sim::Scenario {
        let duration = Span::from_secs(seconds.into());
        let mut built = match self {
            Self::Contract => scenario::demo(duration),
            Self::EqualReaders => scenario::equal_random_readers(duration),
            Self::Shares => scenario::shares(duration),
            Self::Max => max(duration),
        };
        built.name = self.name().into();
        built.warm_up = WARM_UP;
        if let Some(capacity) = capacity {
            for group in &mut built.groups {
                group.contract.min = scaled(group.contract.min, capacity);
            }
            built.capacity = Some(capacity);
        }
        built
    }
}

/// On a slower drive the same part of it as `min` is of the demo's, in whole 100 kB/s; on a faster one `min` itself, for a client
/// with one request at a time gets no faster with the drive.
fn scaled(min: u64, capacity: Capacity) -> u64 {
    const STEP: u64 = 100_000;
    let rate = capacity.read.min(capacity.write);
    let part = u128::from(min) * u128::from(rate) / u128::from(DRIVE);
    min.min(u64::try_from(part).unwrap_or(u64::MAX) / STEP * STEP)
}

fn max(duration: Span) -> weir_sim::Scenario {
    let drive = weir_drive::Config::Null(weir_drive::null::Config::demo());
    let mut built = weir_sim::Scenario::new("max", drive, duration);
    for (limit, size) in LIMITS {
        let max = Max {
            bandwidth: limit * 1_000_000,
            ..Max::NONE
        };
        let contract = Contract {
            max,
            ..Contract::DEFAULT
        };
        let program = Program::random_reads(size, 16);
        built.tenant(format!("limit-{limit}"), contract, SPACE, program);
    }
    let program = Program::sequential_reads(128 * 1024, 4);
    built.tenant("unlimited", Contract::DEFAULT, SPACE, program);
    built
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_its_target_and_a_name_of_the_command_line() {
        for scenario in Scenario::ALL {
            let built = scenario.build(1, None);
            assert!(built.clients.iter().any(|c| c.name == scenario.target()));
            let value = scenario.to_possible_value();
            assert_eq!(
                value.as_ref().map(clap::builder::PossibleValue::get_name),
                Some(scenario.name())
            );
        }
    }

    #[test]
    fn promises_are_the_same_part_of_a_slower_drive() {
        let capacity = |rate| Capacity {
            read: rate,
            write: rate,
            iops: 0,
            ..Capacity::NONE
        };
        let min = |rate| {
            Scenario::Contract.build(1, Some(capacity(rate))).groups[0]
                .contract
                .min
        };
        assert_eq!(min(250_000_000), 10_000_000);
        assert_eq!(min(500_000_000), 10_000_000);
        assert_eq!(min(131_000_000), 5_200_000);
        assert_eq!(min(1_000), 0);
    }
}
