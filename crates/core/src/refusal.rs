//! Reasons for refusing a change, and the sums of an accepted one.

use crate::contract::Capacity;
use crate::id::GroupId;
use crate::knobs::ControllerKind;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// The sums of the promises after an accepted change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PromiseSums {
    /// Promised bytes per second: the min of all clients, or the max if the class is realtime.
    pub bytes: u64,
    /// Promised requests per second: the min of all clients, or the max if the class is realtime.
    pub iops: u64,
    /// The part of the drive's capacity that the promises take, in millionths. It is zero if the
    /// capacity is unknown.
    pub millionths: u64,
}

impl PromiseSums {
    /// Returns promised bytes and requests per second, without the part of the capacity.
    pub const fn rates(bytes: u64, iops: u64) -> Self {
        Self {
            bytes,
            iops,
            millionths: 0,
        }
    }
}

/// The reason why a change was refused. No part of a refused change is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The promises add up to more than 90 % of the drive's time.
    OverCapacity {
        /// The promises with the change.
        promised: PromiseSums,
        /// The capacity of the drive.
        capacity: Capacity,
    },
    /// A group has a min or is realtime, but the capacity of the drive is unknown.
    CapacityUnknown(GroupId),
    /// A realtime group has no max on its bandwidth or requests.
    RealtimeWithoutMax(GroupId),
    /// A group of the class idle has a min.
    IdleWithMin(GroupId),
    /// The min of a contract exceeds its max.
    MinAboveMax(GroupId),
    /// A contract has a min in bytes and a min in requests.
    TwoMins(GroupId),
    /// The children of a group with a promise of its own are promised more than the group.
    ChildrenAboveParent {
        /// The parent group.
        group: GroupId,
        /// Bytes per second that the children are promised.
        bytes: u64,
        /// Requests per second that the children are promised.
        iops: u64,
    },
    /// The share is not between 1 and this maximum.
    ShareOutOfRange(GroupId, u16),
    /// The group does not exist.
    NoSuchGroup(GroupId),
    /// The group exists already.
    GroupExists(GroupId),
    /// The number of the slot is not below the number of slots.
    SlotOutOfRange(u32),
    /// The group still has children or streams.
    GroupInUse(GroupId),
    /// The parent has streams, or is already eight levels deep.
    BadParent(GroupId),
    /// The root takes neither a contract nor knobs, and cannot be removed.
    Root,
    /// The group's contract or knobs need a controller that the layer does not have.
    NoController(GroupId, ControllerKind),
}

impl Refusal {
    /// Returns the group whose contract or position is refused, if the reason concerns one group.
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

    /// Returns the reason, with a name instead of the group's number.
    pub fn named(&self, name: impl FnOnce(GroupId) -> String) -> String {
        let text = self.to_string();
        match self.group() {
            // The messages begin with the group, so only its first occurrence is replaced.
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

/// Writes the sums: the promises, and the capacity against which they are checked.
fn over_capacity(
    f: &mut fmt::Formatter<'_>,
    promised: &PromiseSums,
    capacity: &Capacity,
) -> fmt::Result {
    // Rounded up, so that an amount slightly above the limit does not look as if it fitted.
    let tenths = promised.millionths.div_ceil(1_000);
    write!(
        f,
        "the promises add up to {} and take {}.{} % of the drive's time, of which at most 90 % can be promised (its capacity is {} for \
         reads, {} for writes",
        Sum(promised.bytes, promised.iops),
        tenths / 10,
        tenths % 10,
        ByteRate(capacity.read),
        ByteRate(capacity.write)
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

/// A rate in bytes and requests per second. A part that is zero is not printed.
struct Sum(u64, u64);

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(bytes, 0) => write!(f, "{}", ByteRate(bytes)),
            Self(0, iops) => write!(f, "{iops} requests/s"),
            Self(bytes, iops) => write!(f, "{} and {iops} requests/s", ByteRate(bytes)),
        }
    }
}

/// Bytes per second, in a unit that leaves up to three decimals, rounded down.
struct ByteRate(u64);

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [
            (1_000_000_000, "GB/s"),
            (1_000_000, "MB/s"),
            (1_000, "kB/s"),
        ];
        // Decimal units, as for all bandwidths.
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
            // Rounded down to three decimals.
            (58_912_345, "58.912MB/s"),
            (2_050_000_000, "2.05GB/s"),
        ] {
            assert_eq!(ByteRate(rate).to_string(), text);
        }
    }
}
