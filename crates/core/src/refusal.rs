//! Why a change was refused, and the sums behind one that was accepted.

use crate::contract::Capacity;
use crate::id::GroupId;
use crate::knobs::Kind;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// The sums behind an accepted change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Promised {
    /// Bytes a second promised: min of all, max of realtime clients.
    pub bytes: u64,
    /// Requests a second promised: min of all, max of realtime clients.
    pub iops: u64,
    /// Millionths of the drive's capacity that this takes; zero on a drive of unknown capacity.
    pub millionths: u64,
}

impl Promised {
    /// Bytes and requests a second, without the part of a drive that they take.
    pub const fn rates(bytes: u64, iops: u64) -> Self {
        Self {
            bytes,
            iops,
            millionths: 0,
        }
    }
}

/// Why a change was refused. Nothing of it is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The promises add up to more than nine tenths of the drive.
    OverCapacity {
        /// What would be promised.
        promised: Promised,
        /// What the drive can do.
        capacity: Capacity,
    },
    /// A min, or a realtime client, on a drive of unknown capacity.
    CapacityUnknown(GroupId),
    /// A realtime client without a max on its bandwidth or its requests.
    RealtimeWithoutMax(GroupId),
    /// An idle client with a min.
    IdleWithMin(GroupId),
    /// A min above the max of the same contract.
    MinAboveMax(GroupId),
    /// A min in bytes and one in requests.
    TwoMins(GroupId),
    /// The children of a group with a min of its own were promised more than it.
    ChildrenAboveParent {
        /// The parent.
        group: GroupId,
        /// Bytes a second its children were promised.
        bytes: u64,
        /// Requests a second its children were promised.
        iops: u64,
    },
    /// A share outside 1 to the maximum named.
    ShareOutOfRange(GroupId, u16),
    /// The group does not exist.
    NoSuchGroup(GroupId),
    /// The group exists already.
    GroupExists(GroupId),
    /// The slot's number is not below the number of slots.
    SlotOutOfRange(u32),
    /// The group still has children or streams.
    GroupInUse(GroupId),
    /// A child of a group that has streams, or one too deep in the tree (8 levels).
    BadParent(GroupId),
    /// The root takes no contract and cannot be removed.
    Root,
    /// The group's contract or knobs need a controller that the layer does not have.
    NoController(GroupId, Kind),
}

impl Refusal {
    /// The group whose contract or place is refused, if it is one group's.
    pub fn group(&self) -> Option<GroupId> {
        match *self {
            Self::CapacityUnknown(group)
            | Self::RealtimeWithoutMax(group)
            | Self::IdleWithMin(group)
            | Self::MinAboveMax(group)
            | Self::TwoMins(group)
            | Self::ChildrenAboveParent { group, .. }
            | Self::ShareOutOfRange(group, _)
            | Self::NoSuchGroup(group)
            | Self::GroupExists(group)
            | Self::GroupInUse(group)
            | Self::BadParent(group)
            | Self::NoController(group, _) => Some(group),
            Self::OverCapacity { .. } | Self::SlotOutOfRange(_) | Self::Root => None,
        }
    }

    /// The reason, with a name in the place of the group's number.
    pub fn named(&self, name: impl FnOnce(GroupId) -> String) -> String {
        let text = self.to_string();
        match self.group() {
            Some(group) => text.replacen(&format!("group {}", group.0), &name(group), 1),
            None => text,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverCapacity { promised, capacity } => over_capacity(f, promised, capacity),
            Self::CapacityUnknown(g) => write!(
                f,
                "group {}: cannot promise a minimum, because the drive's capacity is unknown",
                g.0
            ),
            Self::RealtimeWithoutMax(g) => {
                write!(f, "group {}: class realtime requires a max", g.0)
            }
            Self::IdleWithMin(g) => write!(f, "group {}: class idle cannot have a min", g.0),
            Self::MinAboveMax(g) => write!(f, "group {}: the min exceeds the max", g.0),
            Self::TwoMins(g) => write!(
                f,
                "group {}: a min in bytes and a min in requests cannot be combined",
                g.0
            ),
            Self::ChildrenAboveParent { group, bytes, iops } => write!(
                f,
                "group {}: the promises of its members add up to {}, which exceeds its own promise",
                group.0,
                Sum(*bytes, *iops)
            ),
            Self::ShareOutOfRange(g, most) => {
                write!(f, "group {}: the share must be between 1 and {most}", g.0)
            }
            Self::NoSuchGroup(g) => write!(f, "group {} does not exist", g.0),
            Self::GroupExists(g) => write!(f, "group {} already exists", g.0),
            Self::SlotOutOfRange(n) => write!(f, "slot {n} exceeds the configured number"),
            Self::GroupInUse(g) => write!(f, "group {} has members and cannot be removed", g.0),
            Self::BadParent(g) => write!(
                f,
                "group {} cannot have a child, because it has streams or is 8 levels deep",
                g.0
            ),
            Self::NoController(g, kind) => {
                write!(f, "group {}: controller {kind} is missing", g.0)
            }
            Self::Root => f.write_str("the root group cannot have a contract or be removed"),
        }
    }
}

impl core::error::Error for Refusal {}

/// The sums: what is promised, and what it is held against.
fn over_capacity(
    f: &mut fmt::Formatter<'_>,
    promised: &Promised,
    capacity: &Capacity,
) -> fmt::Result {
    // Rounded up: what is too much must not look as if it fitted.
    let tenths = promised.millionths.div_ceil(1_000);
    write!(
        f,
        "the promises add up to {} and take {}.{} % of the drive's time, of which at most 90 % can be promised (its capacity is {} for \
         reads, {} for writes",
        Sum(promised.bytes, promised.iops),
        tenths / 10,
        tenths % 10,
        Rate(capacity.read),
        Rate(capacity.write)
    )?;
    let requests = [
        (capacity.iops, "requests/s"),
        (capacity.read_iops, "reads/s"),
        (capacity.write_iops, "writes/s"),
    ];
    for (stated, what) in requests.into_iter().filter(|r| r.0 > 0) {
        write!(f, ", {stated} {what}")?;
    }
    f.write_str(")")
}

/// Bytes and requests a second, without the one that is zero.
struct Sum(u64, u64);

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(bytes, 0) => write!(f, "{}", Rate(bytes)),
            Self(0, iops) => write!(f, "{iops} requests/s"),
            Self(bytes, iops) => write!(f, "{} and {iops} requests/s", Rate(bytes)),
        }
    }
}

/// Bytes a second with a unit that leaves up to three digits behind the point, rounded down.
struct Rate(u64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [
            (1_000_000_000, "GB/s"),
            (1_000_000, "MB/s"),
            (1_000, "kB/s"),
        ];
        let unit = UNITS.iter().find(|unit| self.0 >= unit.0);
        let Some(&(size, name)) = unit else {
            return write!(f, "{}B/s", self.0);
        };
        write!(f, "{}", self.0 / size)?;
        let fraction = self.0 % size / (size / 1_000);
        if fraction > 0 {
            let digits = format!("{fraction:03}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit() {
        for (rate, text) in [
            (0, "0B/s"),
            (999, "999B/s"),
            (1_500, "1.5kB/s"),
            (130_000_000, "130MB/s"),
            (58_912_345, "58.912MB/s"),
            (2_050_000_000, "2.05GB/s"),
        ] {
            assert_eq!(Rate(rate).to_string(), text);
        }
    }
}
