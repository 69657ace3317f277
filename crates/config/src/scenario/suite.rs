//! Scenarios that are played one after the other, for one page.

/// Scenarios that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Its scenarios, in order: each comes with Weir.
    pub scenarios: &'static [&'static str],
}

/// All there are.
pub const SUITES: [Suite; 1] = [Suite {
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
}];

/// The suite of a name.
pub fn suite(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn a_suite_is_of_scenarios_and_is_none_itself() {
        for suite in SUITES {
            assert_eq!(scenario::source(suite.name), None);
            for name in suite.scenarios {
                assert!(scenario::source(name).is_some(), "{name}");
            }
        }
        assert!(suite("s-suite").is_some() && suite("latency").is_none());
    }
}
