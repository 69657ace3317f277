//! The knobs: the kernel's files, what each takes, and what it says when it is read.

use crate::tunable;
use std::fmt;

/// A knob. In the order in which they are written: a scheduler resets what stands behind it, `nr_requests` the depth for writes, and io.cost
/// switches write-back throttling off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Knob {
    /// `queue/scheduler`: the elevator.
    Scheduler,
    /// `queue/nr_requests`: requests in the elevator and the drive together, for each hardware queue.
    NrRequests,
    /// `queue/async_depth` (since 7.x), `queue/iosched/async_depth` of mq-deadline before: requests of them for writes.
    AsyncDepth,
    /// A file below `queue/iosched`.
    Tunable(&'static str),
    /// `queue/read_ahead_kb`: KiB; whole pages count.
    ReadAhead,
    /// `queue/nomerges`: 0 merges, 1 only what is simple, 2 nothing.
    NoMerges,
    /// `queue/rotational`: whether it seeks.
    Rotational,
    /// `queue/max_sectors_kb`: KiB of one command.
    MaxSectors,
    /// `io.cost.model` of the root.
    CostModel,
    /// `io.cost.qos` of the root.
    CostQos,
    /// `queue/wbt_lat_usec`: the target of write-back throttling, microseconds; 0 is off, -1 the kernel's own.
    Wbt,
    /// `io.weight`: io.cost's.
    Weight,
    /// `io.bfq.weight`.
    BfqWeight,
    /// `io.max`.
    Max,
    /// `io.low`, which was there from 4.12 to 6.10: of a kernel that was built with it.
    Low,
    /// `io.latency`.
    Latency,
    /// `io.prio.class`: for all devices.
    PrioClass,
}

/// Where a knob is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In the directory of a device.
    Device,
    /// In the root cgroup.
    Root,
    /// In any other cgroup.
    Group,
}

/// A value that a knob does not take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The knob.
    pub knob: Knob,
    /// The value.
    pub value: String,
    /// What it takes.
    pub allowed: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            knob,
            value,
            allowed,
        } = self;
        write!(f, "{knob} cannot be \"{value}\": it must be {allowed}")
    }
}

impl std::error::Error for Wrong {}

/// The longest tick of a kernel (`CONFIG_HZ=100`), milliseconds.
const TICK_MS: u64 = 10;

/// The knobs that are no tunables of elevators.
const PLAIN: [Knob; 16] = [
    Knob::Scheduler,
    Knob::NrRequests,
    Knob::AsyncDepth,
    Knob::ReadAhead,
    Knob::NoMerges,
    Knob::Rotational,
    Knob::MaxSectors,
    Knob::CostModel,
    Knob::CostQos,
    Knob::Wbt,
    Knob::Weight,
    Knob::BfqWeight,
    Knob::Max,
    Knob::Low,
    Knob::Latency,
    Knob::PrioClass,
];

impl Knob {
    /// What `io.max` says of a device without limits, and what takes them away.
    pub const NO_LIMITS: &str = "rbps=max wbps=max riops=max wiops=max";

    /// All of them, in the order in which they are written.
    pub fn all() -> Vec<Self> {
        let tunables = tunable::ALL.iter().map(|t| Self::Tunable(t.file));
        let mut all: Vec<Self> = PLAIN.into_iter().chain(tunables).collect();
        all.sort_unstable();
        all
    }

    /// The knob of this name, as [`fmt::Display`] has it.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|k| k.to_string() == name)
    }

    /// Where it is.
    pub fn scope(self) -> Scope {
        match self {
            Self::CostModel | Self::CostQos => Scope::Root,
            Self::Weight
            | Self::BfqWeight
            | Self::Max
            | Self::Low
            | Self::Latency
            | Self::PrioClass => Scope::Group,
            _ => Scope::Device,
        }
    }

    /// Whether its file has a line for each device.
    pub fn has_lines(self) -> bool {
        self.scope() != Scope::Device && self != Self::PrioClass
    }

    /// What is written to its file for the device of that number (`8:16`) to have this value.
    pub fn line(self, device: &str, value: &str) -> String {
        if self.has_lines() {
            format!("{device} {value}")
        } else {
            value.to_owned()
        }
    }

    /// The value that a device has by the text of the file: what [`Self::line`] would set it to again.
    pub fn value(self, text: &str, device: &str) -> String {
        if self == Self::Scheduler {
            let chosen = text
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'));
            return chosen
                .map_or_else(|| text.trim(), |(chosen, _)| chosen)
                .to_owned();
        }
        if !self.has_lines() {
            return text.trim().to_owned();
        }
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let mut own = lines.filter(|(number, _)| *number == device);
        let Some((_, value)) = own.next() else {
            return self.unset().to_owned();
        };
        let value = value.trim();
        match self {
            // The numbers of a profile are not the user's, and writing them would make them so (`ioc_qos_write`).
            Self::CostQos if value.contains("ctrl=auto") => {
                let enable = value.split(' ').next().unwrap_or_default();
                format!("{enable} ctrl=auto")
            }
            Self::CostModel if value.contains("ctrl=auto") => self.unset().to_owned(),
            _ => value.to_owned(),
        }
    }

    /// The value of a device that a file says nothing of.
    pub fn unset(self) -> &'static str {
        match self {
            Self::Max => Self::NO_LIMITS,
            Self::Weight | Self::BfqWeight => "default",
            // A group without a latency of its own has no low limit.
            Self::Low => "latency=max",
            Self::Latency => "target=max",
            Self::CostQos => "enable=0 ctrl=auto",
            Self::CostModel => "ctrl=auto",
            _ => "",
        }
    }

    /// Whether the value that is read is the one that was written: the same, but for what the kernel counts in ticks or pages.
    pub fn is(self, read: &str, written: &str) -> bool {
        if read == written {
            return true;
        }
        if matches!(self, Self::CostQos | Self::CostModel) {
            // Words that a line leaves out keep their values.
            return written
                .split(' ')
                .all(|word| read.split(' ').any(|is| is == word));
        }
        let (Ok(is), Ok(asked)) = (read.parse::<u64>(), written.parse::<u64>()) else {
            return false;
        };
        match self {
            Self::Tunable(name) if tunable::find(name).is_some_and(|t| t.ticks) => {
                is.abs_diff(asked) < TICK_MS
            }
            Self::ReadAhead => is == asked & !3,
            _ => false,
        }
    }

    /// Whether it takes this value, by what the kernel checks of it for any device.
    ///
    /// # Errors
    /// It does not, and what it takes.
    pub fn check(self, value: &str) -> Result<(), Wrong> {
        let number = |least: u64, most: u64| {
            let fits = value
                .parse()
                .is_ok_and(|n: u64| (least..=most).contains(&n));
            (fits, format!("{least} to {most}"))
        };
        let word = |words: &[&str]| (words.contains(&value), words.join(", "));
        let (fits, allowed) = match self {
            Self::NrRequests => number(4, u64::from(u32::MAX)),
            Self::AsyncDepth => number(1, u64::from(u32::MAX)),
            Self::ReadAhead | Self::MaxSectors => number(0, u64::from(u32::MAX)),
            Self::NoMerges => number(0, 2),
            Self::Rotational => number(0, 1),
            Self::Tunable(name) => {
                let (least, most) = tunable::find(name).map_or((0, u64::MAX), |t| t.bounds);
                number(least, most)
            }
            Self::Wbt if value == "-1" => (true, String::new()),
            Self::Wbt => number(0, u64::MAX / 1_000),
            Self::Weight | Self::BfqWeight if value == "default" => (true, String::new()),
            Self::Weight => number(1, 10_000),
            Self::BfqWeight => number(1, 1_000),
            Self::PrioClass => word(&["no-change", "promote-to-rt", "restrict-to-be", "idle"]),
            Self::Scheduler => (!value.is_empty(), "the name of an elevator".to_owned()),
            Self::Max | Self::Low | Self::Latency | Self::CostQos | Self::CostModel => {
                let pairs = value.split(' ').all(|word| word.contains('='));
                (pairs, "settings as name=value".to_owned())
            }
        };
        if fits {
            return Ok(());
        }
        Err(Wrong {
            knob: self,
            value: value.to_owned(),
            allowed,
        })
    }
}

/// The name of its file: from the directory of the device on, or from that of the cgroup.
impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduler => "queue/scheduler",
            Self::NrRequests => "queue/nr_requests",
            Self::AsyncDepth => "queue/async_depth",
            Self::Tunable(name) => return write!(f, "queue/iosched/{name}"),
            Self::ReadAhead => "queue/read_ahead_kb",
            Self::NoMerges => "queue/nomerges",
            Self::Rotational => "queue/rotational",
            Self::MaxSectors => "queue/max_sectors_kb",
            Self::CostModel => "io.cost.model",
            Self::CostQos => "io.cost.qos",
            Self::Wbt => "queue/wbt_lat_usec",
            Self::Weight => "io.weight",
            Self::BfqWeight => "io.bfq.weight",
            Self::Max => "io.max",
            Self::Low => "io.low",
            Self::Latency => "io.latency",
            Self::PrioClass => "io.prio.class",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knob_is_found_by_its_name_and_stands_where_it_may_be_written() {
        let all = Knob::all();
        for knob in &all {
            assert_eq!(Knob::find(&knob.to_string()), Some(*knob));
        }
        let place = |knob: Knob| all.iter().position(|k| *k == knob).unwrap();
        assert!(place(Knob::Scheduler) < place(Knob::NrRequests));
        assert!(place(Knob::NrRequests) < place(Knob::AsyncDepth));
        assert!(place(Knob::Scheduler) < place(Knob::Tunable("low_latency")));
        assert!(place(Knob::CostQos) < place(Knob::Wbt));
        assert!(place(Knob::Scheduler) < place(Knob::BfqWeight));
    }

    #[test]
    fn what_is_read_is_what_would_set_it_again() {
        for (knob, text, value) in [
            (
                Knob::Scheduler,
                "none [mq-deadline] kyber bfq\n",
                "mq-deadline",
            ),
            (Knob::Scheduler, "none\n", "none"),
            (Knob::NrRequests, "256\n", "256"),
            (
                Knob::Max,
                "8:0 rbps=1 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=2 riops=max wiops=max\n",
                "rbps=max wbps=2 riops=max wiops=max",
            ),
            (
                Knob::Max,
                "8:0 rbps=1 wbps=max riops=max wiops=max\n",
                Knob::NO_LIMITS,
            ),
            (Knob::Weight, "default 100\n8:16 300\n", "300"),
            (Knob::BfqWeight, "default 100\n", "default"),
            (Knob::Latency, "", "target=max"),
            (Knob::PrioClass, "no-change\n", "no-change"),
            (
                Knob::CostQos,
                "8:16 enable=1 ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00\n",
                "enable=1 ctrl=auto",
            ),
            (
                Knob::CostQos,
                "8:16 enable=0 ctrl=user rpct=95.00\n",
                "enable=0 ctrl=user rpct=95.00",
            ),
            (Knob::CostQos, "", "enable=0 ctrl=auto"),
            (
                Knob::CostModel,
                "8:16 ctrl=auto model=linear rbps=1\n",
                "ctrl=auto",
            ),
            (
                Knob::CostModel,
                "8:16 ctrl=user model=linear rbps=1\n",
                "ctrl=user model=linear rbps=1",
            ),
        ] {
            assert_eq!(knob.value(text, "8:16"), value, "{knob}");
            assert_eq!(knob.check(value), Ok(()), "{knob}");
        }
        assert_eq!(Knob::Max.line("8:16", "rbps=5"), "8:16 rbps=5");
        assert_eq!(Knob::PrioClass.line("8:16", "idle"), "idle");
    }

    #[test]
    fn ticks_and_pages_are_rounded_and_bounds_are_said() {
        let timeout = Knob::Tunable("timeout_sync");
        assert!(timeout.is("124", "125") && timeout.is("128", "125") && !timeout.is("135", "125"));
        assert!(Knob::ReadAhead.is("128", "130") && !Knob::ReadAhead.is("130", "128"));
        assert!(!Knob::NrRequests.is("255", "256"));
        let qos = "enable=1 ctrl=user rpct=95.00 rlat=25000";
        assert!(Knob::CostQos.is(qos, "enable=1 ctrl=user rpct=95.00"));
        assert!(!Knob::CostQos.is(qos, "enable=1 ctrl=user rpct=9.00"));
        let wrong = Knob::BfqWeight.check("1001").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "io.bfq.weight cannot be \"1001\": it must be 1 to 1000"
        );
        assert!(Knob::PrioClass.check("rt").is_err() && Knob::Wbt.check("-2").is_err());
    }
}
