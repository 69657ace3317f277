//! Suites: scenarios that are played one after the other, with results on one page.

/// A list of scenarios that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suite {
    /// The name of the suite.
    pub name: &'static str,
    /// A line about the purpose of the suite.
    pub about: &'static str,
    /// The names of its scenarios, in order. All of them come with Weir.
    pub scenarios: &'static [&'static str],
    /// The drives of all scenarios. Empty for those that each scenario states.
    pub drives: &'static [&'static str],
    /// The policies of all scenarios. Empty for those that each scenario states.
    pub policies: &'static [&'static str],
    /// True if the results are summarised as scores of the policies.
    pub scored: bool,
}

/// All suites of Weir.
pub const SUITES: [Suite; 2] = [
    Suite {
        name: "s-suite",
        about: "the main benchmarks of the S suite, one after the other and on one page",
        scenarios: &[
            "throughput",
            "startup",
            "video",
            "fairness",
            "bandwidth-latency",
            "equal-weights",
            "latency",
        ],
        drives: &[],
        policies: &[],
        scored: false,
    },
    Suite {
        name: "scores",
        about: "four scores of each policy: overhead, fairness, priority against utilisation, and bursts",
        scenarios: &[
            "throughput",
            "fairness",
            "equal-weights",
            "bandwidth-latency",
            "startup",
        ],
        drives: &["plextor-px-256m5s"],
        policies: &["none", "mq-deadline", "io.cost", "bfq", "contract"],
        scored: true,
    },
];

/// Returns the suite with this name.
pub fn suite(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn a_suite_consists_of_scenarios_and_is_not_a_scenario() {
        for suite in SUITES {
            assert_eq!(scenario::source(suite.name), None);
            for name in suite.scenarios {
                assert!(scenario::source(name).is_some(), "{name}");
            }
            for name in suite.policies {
                assert!(crate::policy::find(name).is_ok(), "{name}");
            }
            for name in suite.drives {
                assert!(crate::profile::find(name).is_ok(), "{name}");
            }
        }
        assert!(suite("s-suite").is_some() && suite("latency").is_none());
    }
}
