//! The policies that the demo compares.

use clap::ValueEnum;

/// A way of sharing the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    None,
    BfqLinux,
    Bfq,
    Contract,
}

impl Policy {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::BfqLinux, Self::Bfq, Self::Contract];

    /// Its name on the command line and in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BfqLinux => "bfq-linux",
            Self::Bfq => "bfq",
            Self::Contract => "contract",
        }
    }

    /// What it does, in a line.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::None => "first come, first served; of the contracts only max is kept",
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
            Self::BfqLinux => weir_sim::Policy::bfq_linux(),
            Self::Bfq => weir_sim::Policy::bfq(scenario),
            Self::Contract => weir_sim::Policy::contract(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line_and_of_the_results() {
        let scenario = weir_sim::scenario::demo(weir_core::Span::from_secs(1));
        for policy in Policy::ALL {
            let value = policy.to_possible_value();
            assert_eq!(
                value.as_ref().map(clap::builder::PossibleValue::get_name),
                Some(policy.name())
            );
            assert_eq!(policy.build(&scenario).name, policy.name());
        }
    }
}
