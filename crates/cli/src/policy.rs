//! The policies that demo and comparisons play.

use clap::ValueEnum;
use weir_sim::scenario::Control;

/// A way of sharing the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    None,
    #[value(name = "io.latency")]
    IoLatency,
    BfqLinux,
    Bfq,
    Contract,
}

impl Policy {
    pub(crate) const ALL: [Self; 5] = [
        Self::None,
        Self::IoLatency,
        Self::BfqLinux,
        Self::Bfq,
        Self::Contract,
    ];

    /// The policy of a name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Its name on the command line and in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::IoLatency => "io.latency",
            Self::BfqLinux => "bfq-linux",
            Self::Bfq => "bfq",
            Self::Contract => "contract",
        }
    }

    /// What it does, in a line.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::None => "first come, first served; of the contracts only max is kept",
            Self::IoLatency => {
                "the same, and Linux's io.latency: others are held back while a latency target is missed"
            }
            Self::BfqLinux => {
                "Linux's Budget Fair Queueing as Linux sets it up; promises are weights"
            }
            Self::Bfq => {
                "the same, with budgets cut to the promises and bytes charged; promises are weights"
            }
            Self::Contract => {
                "keeps min, share, max and class of every contract; the default of the server"
            }
        }
    }

    /// What the core is told.
    pub(crate) fn build(self, scenario: &weir_sim::Scenario) -> weir_sim::Policy {
        match self {
            Self::None => weir_sim::Policy::none(),
            Self::IoLatency => Control::IoLatency.policy(),
            Self::BfqLinux => weir_sim::Policy::bfq_linux(),
            Self::Bfq => weir_sim::Policy::bfq(scenario),
            Self::Contract => weir_sim::Policy::contract(),
        }
    }
}
