//! What a client was promised, and whether the drive can keep all promises at once.

use crate::Span;
use crate::group::{GroupId, Groups};
use crate::mutant;
use crate::time::mul_div_ceil;
use core::fmt;

/// How a client's requests rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Class {
    /// Answered at once, up to its max (which it must have).
    Realtime,
    /// Its min first, then its share of what is left.
    #[default]
    BestEffort,
    /// Served when nobody else waits, and once in 200 ms so that it does not starve; has no min.
    Idle,
}

/// Upper limits. Zero means no limit. Every limit holds in every window `t`: at most `rate * t + rate * burst` and one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Max {
    /// Bytes a second, reads and writes together.
    pub bandwidth: u64,
    /// Bytes a second read (Linux: `rbps`).
    pub read_bandwidth: u64,
    /// Bytes a second written (Linux: `wbps`).
    pub write_bandwidth: u64,
    /// Requests a second, all together.
    pub iops: u64,
    /// Read requests a second (Linux: `riops`).
    pub read_iops: u64,
    /// Write requests a second (Linux: `wiops`).
    pub write_iops: u64,
    /// How much may pass at once after a pause, as time at the full rate.
    pub burst: Span,
}

impl Max {
    /// No limit at all.
    pub const NONE: Self = Self {
        bandwidth: 0,
        read_bandwidth: 0,
        write_bandwidth: 0,
        iops: 0,
        read_iops: 0,
        write_iops: 0,
        burst: Span::ZERO,
    };

    /// True if some limit is set.
    pub const fn is_limited(&self) -> bool {
        self.bandwidth
            | self.read_bandwidth
            | self.write_bandwidth
            | self.iops
            | self.read_iops
            | self.write_iops
            != 0
    }

    /// The tightest limit on bytes a second that holds for all of the client's requests together, zero for none.
    pub(crate) fn bytes_ceiling(&self) -> u64 {
        match (self.bandwidth, self.read_bandwidth, self.write_bandwidth) {
            (0, 0, _) | (0, _, 0) => 0,
            (0, r, w) => r.saturating_add(w),
            (b, 0, _) | (b, _, 0) => b,
            (b, r, w) => b.min(r.saturating_add(w)),
        }
    }

    /// As [`Self::bytes_ceiling`], for requests a second.
    pub(crate) fn iops_ceiling(&self) -> u64 {
        let requests = Self {
            bandwidth: self.iops,
            read_bandwidth: self.read_iops,
            write_bandwidth: self.write_iops,
            ..Self::NONE
        };
        requests.bytes_ceiling()
    }
}

/// What one client, or a group of them, was sold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Bytes a second it gets in every second in which it had a request waiting throughout. Zero: nothing promised.
    pub min: u64,
    /// Requests a second it gets, likewise. At most one of `min` and `min_iops` is set.
    pub min_iops: u64,
    /// Its part of what the promises leave, relative to its siblings: 1 to 10000 (1 to 1000 under `bfq`, whose weight it is).
    pub share: u16,
    /// What it never exceeds.
    pub max: Max,
    /// How its requests rank.
    pub class: Class,
    /// How long its requests are to take, under whatever elevator (Linux: `io.latency`): its siblings with a longer target or none
    /// are slowed down when they take longer. Zero: no target.
    pub latency: Span,
}

impl Contract {
    /// Nothing promised, an ordinary share, no limit.
    pub const DEFAULT: Self = Self {
        min: 0,
        min_iops: 0,
        share: 100,
        max: Max::NONE,
        class: Class::BestEffort,
        latency: Span::ZERO,
    };

    /// What the drive must set aside for it: bytes and requests a second. For a realtime client that is its max.
    pub(crate) fn reserved(&self) -> Rates {
        match self.class {
            Class::Realtime => Rates {
                bytes: self.max.bytes_ceiling(),
                iops: self.max.iops_ceiling(),
            },
            Class::BestEffort => Rates {
                bytes: self.min,
                iops: self.min_iops,
            },
            Class::Idle => Rates::default(),
        }
    }
}

impl Default for Contract {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a drive can do at the least, whatever the mix: stated by its owner or measured. All in units a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Bytes read a second in the worst case that is to be counted on.
    pub read: u64,
    /// Bytes written a second, likewise.
    pub write: u64,
    /// Requests a second whatever their kind, likewise. Zero: not stated.
    pub iops: u64,
    /// Read requests a second, likewise. Zero: not stated.
    pub read_iops: u64,
    /// Write requests a second, likewise. Zero: not stated.
    pub write_iops: u64,
}

impl Capacity {
    /// A drive that can do nothing.
    pub const NONE: Self = Self {
        read: 0,
        write: 0,
        iops: 0,
        read_iops: 0,
        write_iops: 0,
    };

    /// Bytes a second that promises are held against: a contract does not say which way they go, so those of the slower one.
    pub const fn bytes(&self) -> u64 {
        if self.read < self.write {
            self.read
        } else {
            self.write
        }
    }

    /// Requests a second that promises are held against, likewise: the least that is stated. Zero: requests are never the limit.
    pub fn requests(&self) -> u64 {
        let stated = [self.iops, self.read_iops, self.write_iops];
        stated.into_iter().filter(|n| *n > 0).min().unwrap_or(0)
    }
}

/// Bytes and requests a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) bytes: u64,
    pub(crate) iops: u64,
}

/// Promises may take this many millionths of the capacity.
pub(crate) const PROMISABLE: u64 = 900_000;

/// The sums behind an accepted change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Promised {
    /// Bytes a second promised: min of all, max of realtime clients.
    pub bytes: u64,
    /// Requests a second promised, likewise.
    pub iops: u64,
    /// Millionths of the drive's capacity that this takes; zero on a drive of unknown capacity.
    pub millionths: u64,
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
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverCapacity { promised, capacity } => over_capacity(f, promised, capacity),
            Self::CapacityUnknown(g) => {
                write!(
                    f,
                    "group {}: a min or a realtime class needs the drive's capacity, which is unknown",
                    g.0
                )
            }
            Self::RealtimeWithoutMax(g) => write!(f, "group {}: class realtime needs a max", g.0),
            Self::IdleWithMin(g) => write!(f, "group {}: class idle can have no min", g.0),
            Self::MinAboveMax(g) => write!(f, "group {}: its min is above its max", g.0),
            Self::TwoMins(g) => write!(f, "group {}: a min in bytes or in requests, not both", g.0),
            Self::ChildrenAboveParent { group, bytes, iops } => write!(
                f,
                "group {}: its members were promised {bytes} bytes/s and {iops} requests/s, more than its own min",
                group.0
            ),
            Self::ShareOutOfRange(g, most) => write!(f, "group {}: a share is 1 to {most}", g.0),
            Self::NoSuchGroup(g) => write!(f, "group {} does not exist", g.0),
            Self::GroupExists(g) => write!(f, "group {} exists already", g.0),
            Self::SlotOutOfRange(n) => write!(f, "slot {n} is beyond the configured number"),
            Self::GroupInUse(g) => write!(f, "group {} has members", g.0),
            Self::BadParent(g) => write!(
                f,
                "group {} cannot have a child: it has streams or is 8 levels deep",
                g.0
            ),
            Self::Root => f.write_str("the root group takes no contract and stays"),
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
        "promises add up to {}.{} % of the drive ({} bytes/s and {} requests/s of read {} bytes/s, write {} bytes/s",
        tenths / 10,
        tenths % 10,
        promised.bytes,
        promised.iops,
        capacity.read,
        capacity.write
    )?;
    let requests = [
        (capacity.iops, "requests/s"),
        (capacity.read_iops, "read requests/s"),
        (capacity.write_iops, "write requests/s"),
    ];
    for (stated, what) in requests.into_iter().filter(|r| r.0 > 0) {
        write!(f, ", {stated} {what}")?;
    }
    f.write_str("); at most 90 % can be promised")
}

/// Checks every contract of the tree by itself and against its parent, adds the promises up and holds them against the drive
/// (max of the realtime clients plus min of the others at most 0.9 of the capacity). What is promised in bytes and what is promised in
/// requests take the drive's time one beside the other, so their parts of it are added.
pub(crate) fn admit(groups: &Groups, capacity: Option<Capacity>) -> Result<Promised, Refusal> {
    for (id, group) in groups.iter() {
        check_alone(id, &group.contract)?;
    }
    let mut sums = groups.table(Rates::default());
    // Children before parents: a group's number says nothing about its depth, so go by depth.
    for depth in (1..=crate::group::DEPTH_MAX).rev() {
        for (id, group) in groups.iter().filter(|(_, g)| g.depth == depth) {
            let (own, below) = (group.contract.reserved(), sums[id.0 as usize]);
            let promises = own != Rates::default();
            if promises && (below.bytes > own.bytes || below.iops > own.iops) {
                return Err(Refusal::ChildrenAboveParent {
                    group: id,
                    bytes: below.bytes,
                    iops: below.iops,
                });
            }
            let counted = if promises { own } else { below };
            if counted != Rates::default() && capacity.is_none() {
                return Err(Refusal::CapacityUnknown(id));
            }
            let parent = &mut sums[group.parent.0 as usize];
            parent.bytes = parent.bytes.saturating_add(counted.bytes);
            parent.iops = parent.iops.saturating_add(counted.iops);
        }
    }
    let total = sums[crate::ROOT.0 as usize];
    let millionths = capacity.map_or(0, |c| millionths(total, c));
    let promised = Promised {
        bytes: total.bytes,
        iops: total.iops,
        millionths,
    };
    match capacity {
        Some(capacity) if millionths > PROMISABLE && !mutant::is(mutant::ADMISSION_SKIPPED) => {
            Err(Refusal::OverCapacity { promised, capacity })
        }
        _ => Ok(promised),
    }
}

fn check_alone(id: GroupId, contract: &Contract) -> Result<(), Refusal> {
    let max = &contract.max;
    if contract.min > 0 && contract.min_iops > 0 {
        return Err(Refusal::TwoMins(id));
    }
    let above = |min: u64, ceiling: u64| ceiling > 0 && min > ceiling;
    if above(contract.min, max.bytes_ceiling()) || above(contract.min_iops, max.iops_ceiling()) {
        return Err(Refusal::MinAboveMax(id));
    }
    match contract.class {
        Class::Realtime if contract.reserved() == Rates::default() => {
            Err(Refusal::RealtimeWithoutMax(id))
        }
        Class::Idle if contract.min > 0 || contract.min_iops > 0 => Err(Refusal::IdleWithMin(id)),
        _ => Ok(()),
    }
}

/// The part of a drive that `rates` takes, in millionths, rounded up.
fn millionths(rates: Rates, capacity: Capacity) -> u64 {
    let part = |amount: u64, of: u64| match (amount, of) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        (amount, of) => mul_div_ceil(amount, 1_000_000, of),
    };
    let iops = match capacity.requests() {
        0 => 0,
        requests => part(rates.iops, requests),
    };
    part(rates.bytes, capacity.bytes()).saturating_add(iops)
}
