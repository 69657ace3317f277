//! What can be compared: scenarios, their cases, the policies that make sense there.

use super::drive::Drive;
use crate::demo;
use crate::failure::Failure;
use clap::ValueEnum;
use weir_core::Span;
use weir_sim::scenario::{self, Control, FILE, Interferers, Reads};

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Latency,
    LatencySporadic,
    Contract,
    EqualReaders,
    Shares,
    Max,
}

/// What the others do, in the scenarios that have cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    Readers,
    Writers,
}

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

/// One case to play; `None` where the scenario has but one.
pub(super) type Which = Option<Case>;

/// What the clients of `latency` do.
const LATENCY: &str = "The target reads 4 KiB at random places of its file, one read after the other. Fifteen others read or write \
    theirs from beginning to end, 4 KiB a call; writers call fdatasync after each write. All go through the page cache.";

/// Likewise, of `latency-sporadic`.
const SPORADIC: &str = "The target reads 4 KiB at a random place of its file every 100 ms. Fifteen others read or write theirs from \
    beginning to end, 4 KiB a call; writers call fdatasync after each write. All go through the page cache.";

/// Seconds measured in the scenarios of the demo.
const DEMO_SECONDS: u32 = 8;

impl Scenario {
    /// Those of its own, which the demo does not play.
    pub(crate) const OWN: [Self; 2] = [Self::Latency, Self::LatencySporadic];

    /// Its name on the command line and in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::LatencySporadic => "latency-sporadic",
            Self::Contract => demo::Scenario::Contract.name(),
            Self::EqualReaders => demo::Scenario::EqualReaders.name(),
            Self::Shares => demo::Scenario::Shares.name(),
            Self::Max => demo::Scenario::Max.name(),
        }
    }

    /// What it shows, in a line.
    pub(crate) const fn about(self) -> &'static str {
        match self.demo() {
            Some(demo) => demo.about(),
            None if matches!(self, Self::Latency) => {
                "how long a random reader waits while fifteen others stream, under Linux's controllers"
            }
            None => "the same, with a read now and then only",
        }
    }

    /// What the clients do, in sentences.
    pub(super) const fn load(self) -> &'static str {
        match self.demo() {
            Some(demo) => demo.load(),
            None if matches!(self, Self::Latency) => LATENCY,
            None => SPORADIC,
        }
    }

    /// The client that the comparison is about.
    pub(super) const fn target(self) -> &'static str {
        match self.demo() {
            Some(demo) => demo.target(),
            None => "target",
        }
    }

    const fn demo(self) -> Option<demo::Scenario> {
        match self {
            Self::Latency | Self::LatencySporadic => None,
            Self::Contract => Some(demo::Scenario::Contract),
            Self::EqualReaders => Some(demo::Scenario::EqualReaders),
            Self::Shares => Some(demo::Scenario::Shares),
            Self::Max => Some(demo::Scenario::Max),
        }
    }

    /// The drives it is played on unless others are asked for.
    pub(super) fn drives(self) -> &'static [&'static str] {
        match self.demo() {
            Some(_) => &["demo"],
            None => &["samsung-970-pro", "plextor-px-256m5s", "hitachi-hts72755"],
        }
    }

    /// The cases to play if these are asked for.
    pub(super) fn cases(self, asked: &[Case]) -> Result<Vec<Which>, Failure> {
        match (self.demo(), asked) {
            (None, []) => Ok(vec![Some(Case::Readers), Some(Case::Writers)]),
            (None, some) => Ok(some.iter().copied().map(Some).collect()),
            (Some(_), []) => Ok(vec![None]),
            (Some(_), _) => Err(Failure::Usage(format!(
                "--case: {} has no cases; latency and latency-sporadic have",
                self.name()
            ))),
        }
    }

    /// The policies to play if these are asked for.
    pub(super) fn policies(self, asked: &[Policy]) -> Result<Vec<Policy>, Failure> {
        let (usual, all): (Vec<Policy>, Vec<Policy>) = match self.demo() {
            None => {
                let [none, io_latency, _, bfq, contract] = Policy::ALL;
                (
                    vec![none, io_latency, bfq],
                    vec![none, io_latency, bfq, contract],
                )
            }
            Some(demo) => (
                demo.policies().iter().copied().map(Policy::from).collect(),
                demo::Policy::ALL.map(Policy::from).to_vec(),
            ),
        };
        if let Some(policy) = asked.iter().find(|p| !all.contains(p)) {
            let names: Vec<&str> = all.iter().map(|p| p.name()).collect();
            return Err(Failure::Usage(format!(
                "--policy {}: {} is compared under {}",
                policy.name(),
                self.name(),
                names.join(", ")
            )));
        }
        Ok(match asked {
            [] => usual,
            some => some.to_vec(),
        })
    }

    /// What a run is made from.
    pub(super) fn build(
        self,
        drive: &Drive,
        case: Which,
        policy: Policy,
        seconds: Option<u32>,
    ) -> Result<(weir_sim::Scenario, weir_sim::Policy), Failure> {
        match self.demo() {
            Some(demo) => demo_scenario(demo, drive, policy, seconds),
            None => self.latency(drive, case, policy, seconds),
        }
    }

    fn latency(
        self,
        drive: &Drive,
        case: Which,
        policy: Policy,
        seconds: Option<u32>,
    ) -> Result<(weir_sim::Scenario, weir_sim::Policy), Failure> {
        let control = policy.control();
        let mut built = self.reads(drive, case, control);
        if let Some(seconds) = seconds {
            let duration = Span::from_secs(seconds.into());
            built.duration = duration;
            built.clients[0].program.stop = Some(built.warm_up + duration);
        }
        if policy == Policy::Contract {
            built.capacity = Some(drive.capacity()?);
        }
        Ok((built, control.policy()))
    }

    /// The scenario `latency`, or its sporadic form.
    fn reads(self, drive: &Drive, case: Which, control: Control) -> weir_sim::Scenario {
        let reads = match self {
            Self::LatencySporadic => Reads::Sporadic,
            _ => Reads::Continuous,
        };
        let interferers = match case {
            Some(Case::Writers) => Interferers::Writers,
            _ => Interferers::Readers,
        };
        scenario::latency(drive.config.clone(), interferers, control, reads, FILE)
    }
}

fn demo_scenario(
    demo: demo::Scenario,
    drive: &Drive,
    policy: Policy,
    seconds: Option<u32>,
) -> Result<(weir_sim::Scenario, weir_sim::Policy), Failure> {
    let seconds = seconds.unwrap_or(DEMO_SECONDS);
    let mut scenario = demo.build(seconds, None);
    if drive.config != scenario.drive {
        scenario = demo.build(seconds, Some(drive.capacity()?));
        scenario.drive = drive.config.clone();
    }
    let built = match policy {
        Policy::None | Policy::IoLatency => demo::Policy::None,
        Policy::BfqLinux => demo::Policy::BfqLinux,
        Policy::Bfq => demo::Policy::Bfq,
        Policy::Contract => demo::Policy::Contract,
    };
    let policy = built.build(&scenario);
    Ok((scenario, policy))
}

impl Case {
    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Readers => Interferers::Readers.name(),
            Self::Writers => Interferers::Writers.name(),
        }
    }
}

impl Policy {
    const ALL: [Self; 5] = [
        Self::None,
        Self::IoLatency,
        Self::BfqLinux,
        Self::Bfq,
        Self::Contract,
    ];

    /// Its name on the command line and in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::IoLatency => "io.latency",
            Self::BfqLinux => "bfq-linux",
            Self::Bfq => "bfq",
            Self::Contract => "contract",
        }
    }

    /// As the scenario `latency` has it.
    const fn control(self) -> Control {
        match self {
            Self::None => Control::None,
            Self::IoLatency => Control::IoLatency,
            Self::BfqLinux | Self::Bfq => Control::Bfq,
            Self::Contract => Control::Contract,
        }
    }
}

impl From<demo::Policy> for Policy {
    fn from(policy: demo::Policy) -> Self {
        match policy {
            demo::Policy::None => Self::None,
            demo::Policy::BfqLinux => Self::BfqLinux,
            demo::Policy::Bfq => Self::Bfq,
            demo::Policy::Contract => Self::Contract,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is added gets a colour of its own, too.
    #[test]
    fn every_policy_has_its_colour() {
        let ink = weir_report::policy::ink;
        let mut known = vec![ink("a policy without a colour")];
        for policy in Policy::ALL {
            assert!(!known.contains(&ink(policy.name())), "{}", policy.name());
            known.push(ink(policy.name()));
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        fn check<T: ValueEnum>(name: impl Fn(&T) -> &'static str) {
            for value in T::value_variants() {
                let possible = value.to_possible_value();
                let word = possible
                    .as_ref()
                    .map(clap::builder::PossibleValue::get_name);
                assert_eq!(word, Some(name(value)));
            }
        }
        check(|s: &Scenario| s.name());
        check(|c: &Case| c.name());
        check(|p: &Policy| p.name());
    }

    #[test]
    fn every_scenario_can_be_built_on_its_drives() {
        for scenario in Scenario::value_variants() {
            let drive = Drive::find(scenario.drives()[0]).unwrap();
            for case in scenario.cases(&[]).unwrap() {
                for policy in scenario.policies(&[]).unwrap() {
                    let (built, with) = scenario.build(&drive, case, policy, Some(3)).unwrap();
                    assert_eq!(built.name, scenario.name());
                    assert_eq!(built.duration, Span::from_secs(3));
                    assert_eq!(with.name, policy.name());
                    assert!(built.clients.iter().any(|c| c.name == scenario.target()));
                }
            }
        }
    }
}
