//! The knobs: the kernel's files for storage, their permitted values, and the values that are read
//! back.

use crate::tunable;
use std::fmt;

/// A knob of the kernel for storage. The order is the order of writes. Another scheduler resets
/// `nr_requests`, the depth for writes and the elevator's tunables. `nr_requests` resets the depth
/// for writes. io.cost switches write-back throttling off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Knob {
    /// `queue/scheduler`: the name of the elevator.
    Scheduler,
    /// `queue/nr_requests`: the requests in the elevator and the drive together, for each hardware
    /// queue.
    NrRequests,
    /// The part of `nr_requests` that writes can use: `queue/async_depth` since 7.x, and
    /// `queue/iosched/async_depth` of mq-deadline before.
    AsyncDepth,
    /// A tunable of the elevator, which is a file below `queue/iosched`.
    Tunable(&'static str),
    /// `queue/read_ahead_kb`: the length of read-ahead in KiB, rounded down to pages.
    ReadAhead,
    /// `queue/nomerges`: 0 merges all, 1 only the simple cases, 2 none.
    NoMerges,
    /// `queue/rotational`: 1 if the device seeks.
    Rotational,
    /// `queue/max_sectors_kb`: the maximum length of a command in KiB.
    MaxSectors,
    /// `io.cost.model` of the root cgroup: the costs of a device's requests.
    CostModel,
    /// `io.cost.qos` of the root cgroup: the switch of io.cost and its latency targets.
    CostQos,
    /// `queue/wbt_lat_usec`: the target of write-back throttling in microseconds. 0 disables it, -1
    /// restores the kernel's default.
    Wbt,
    /// `io.weight`: the weight of a cgroup for io.cost.
    Weight,
    /// `io.bfq.weight`: the weight of a cgroup for bfq.
    BfqWeight,
    /// `io.max`: the limits of a cgroup.
    Max,
    /// `io.low`: the low limits of a cgroup, in kernels from 4.12 to 6.9 that were built with it.
    Low,
    /// `io.latency`: the latency target of a cgroup.
    Latency,
    /// `io.prio.class`: the priority class of a cgroup, for all devices.
    PrioClass,
}

/// The directory in which a knob's file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The directory of a device.
    Device,
    /// The root cgroup, with a line for each device.
    Root,
    /// Any cgroup except the root.
    Group,
}

/// The error of a value that a knob does not accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidKnobValue {
    /// The knob for which the value was meant.
    pub knob: Knob,
    /// The value that was refused.
    pub value: String,
    /// A description of the values that the knob accepts.
    pub allowed: String,
}

impl fmt::Display for InvalidKnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            knob,
            value,
            allowed,
        } = self;
        write!(f, "{knob} cannot be \"{value}\": it must be {allowed}")
    }
}

impl std::error::Error for InvalidKnobValue {}

/// The longest tick of a kernel in milliseconds (`CONFIG_HZ=100`).
const TICK_MS: u64 = 10;

/// All knobs except the tunables of elevators.
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
    /// The value of `io.max` for a device without limits. Writing it removes the limits.
    pub const NO_LIMITS: &str = "rbps=max wbps=max riops=max wiops=max";

    /// Returns all knobs, in the order in which they are written.
    pub fn all() -> Vec<Self> {
        let tunables = tunable::ALL.iter().map(|t| Self::Tunable(t.file));
        let mut all: Vec<Self> = PLAIN.into_iter().chain(tunables).collect();
        // `Ord` of a knob is the order of writes.
        all.sort_unstable();
        all
    }

    /// Returns the knob whose file has this name, in the form of [`fmt::Display`].
    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|k| k.to_string() == name)
    }

    /// Returns the directory in which the knob's file is.
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

    /// Returns true if the knob's file has a line for each device.
    pub fn has_lines(self) -> bool {
        self.scope() != Scope::Device && self != Self::PrioClass
    }

    /// Returns the text to write to the knob's file, so that the device with that number (such as
    /// `8:16`) gets the value.
    pub fn line(self, device: &str, value: &str) -> String {
        if self.has_lines() {
            format!("{device} {value}")
        } else {
            value.to_owned()
        }
    }

    /// Returns the value of a device, given the content of the file. [`Self::line`] with this value
    /// would set it again.
    // The file of the scheduler lists all elevators, with the present one in brackets.
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
            return self.unset_value().to_owned();
        };
        let value = value.trim();
        match self {
            // The numbers of a profile are the kernel's. Writing them back would turn them into the
            // user's (`ioc_qos_write`).
            Self::CostQos if value.contains("ctrl=auto") => {
                let enable = value.split(' ').next().unwrap_or_default();
                format!("{enable} ctrl=auto")
            }
            Self::CostModel if value.contains("ctrl=auto") => self.unset_value().to_owned(),
            _ => value.to_owned(),
        }
    }

    /// Returns the value of a device for which the file has no line.
    pub fn unset_value(self) -> &'static str {
        match self {
            Self::Max => Self::NO_LIMITS,
            Self::Weight | Self::BfqWeight => "default",
            // `tg_set_limit` removes all low limits of a group with this latency.
            Self::Low => "latency=max",
            Self::Latency => "target=max",
            Self::CostQos => "enable=0 ctrl=auto",
            Self::CostModel => "ctrl=auto",
            _ => "",
        }
    }

    /// Returns true if the value that was read is the one that was written, up to the kernel's
    /// rounding to ticks or pages.
    pub fn is_equivalent(self, read: &str, written: &str) -> bool {
        if read == written {
            return true;
        }
        if matches!(self, Self::CostQos | Self::CostModel) {
            // A write changes only the words that it contains. The file shows all.
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
            // The kernel keeps whole pages of 4 KiB.
            Self::ReadAhead => is == asked & !3,
            _ => false,
        }
    }

    /// Checks a value against the rules that the kernel has for all devices.
    ///
    /// # Errors
    /// Returns a description of the accepted values if this is not one of them.
    pub fn check(self, value: &str) -> Result<(), InvalidKnobValue> {
        let number = |least: u64, most: u64| {
            let fits = value
                .parse()
                .is_ok_and(|n: u64| (least..=most).contains(&n));
            (fits, format!("{least} to {most}"))
        };
        let word = |words: &[&str]| (words.contains(&value), words.join(", "));
        let (fits, allowed) = match self {
            // BLKDEV_MIN_RQ: the kernel would raise a smaller value.
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
            // The kernel converts the value to nanoseconds in 64 bits.
            Self::Wbt => number(0, u64::MAX / 1_000),
            Self::Weight | Self::BfqWeight if value == "default" => (true, String::new()),
            // CGROUP_WEIGHT_MIN to CGROUP_WEIGHT_MAX.
            Self::Weight => number(1, 10_000),
            // BFQ_MIN_WEIGHT to BFQ_MAX_WEIGHT.
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
        Err(InvalidKnobValue {
            knob: self,
            value: value.to_owned(),
            allowed,
        })
    }
}

/// Formats the path of the knob's file, relative to the directory of the device or of the cgroup.
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
    fn each_knob_is_found_by_its_name_and_listed_in_the_order_of_writing() {
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
    fn a_value_that_is_read_sets_the_same_state_again() {
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
        // A difference of less than the longest tick, 10 ms, is rounding.
        assert!(
            timeout.is_equivalent("124", "125")
                && timeout.is_equivalent("128", "125")
                && !timeout.is_equivalent("135", "125")
        );
        assert!(
            Knob::ReadAhead.is_equivalent("128", "130")
                && !Knob::ReadAhead.is_equivalent("130", "128")
        );
        assert!(!Knob::NrRequests.is_equivalent("255", "256"));
        let qos = "enable=1 ctrl=user rpct=95.00 rlat=25000";
        assert!(Knob::CostQos.is_equivalent(qos, "enable=1 ctrl=user rpct=95.00"));
        assert!(!Knob::CostQos.is_equivalent(qos, "enable=1 ctrl=user rpct=9.00"));
        let wrong = Knob::BfqWeight.check("1001").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "io.bfq.weight cannot be \"1001\": it must be 1 to 1000"
        );
        assert!(Knob::PrioClass.check("rt").is_err() && Knob::Wbt.check("-2").is_err());
    }
}
