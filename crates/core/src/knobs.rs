//! What only one of Linux's controllers knows of a group. A contract says what a client gets; a knob says how one controller is set.

use crate::time::Span;
use core::fmt;

/// The knobs of a group, as its files in Linux's cgroup tree. Each is for one controller, which the layer must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Knobs {
    /// `io.latency`: how long the group's requests are to take. Its siblings with a longer target or none are slowed down when they
    /// take longer. Zero: no target.
    pub latency: Span,
    /// `io.low`: the group's low limits, and when it is idle.
    pub low: LowKnobs,
}

/// `io.low` of a group, as its file in Linux's cgroup tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LowKnobs {
    /// Bytes a second that it is to be able to read (`rbps`). Zero: no limit, as for all four.
    pub read_bandwidth: u64,
    /// Bytes a second that it is to be able to write (`wbps`).
    pub write_bandwidth: u64,
    /// Reads a second (`riops`).
    pub read_iops: u64,
    /// Writes a second (`wiops`).
    pub write_iops: u64,
    /// A group that thinks longer than this is idle (`idle`). Zero: the tunable of this name.
    pub idle: Span,
    /// By how much its requests may take longer than others of their size (`latency`). Zero: the tunable of this name.
    pub latency: Span,
}

impl LowKnobs {
    /// Nothing is set.
    pub const NONE: Self = Self {
        read_bandwidth: 0,
        write_bandwidth: 0,
        read_iops: 0,
        write_iops: 0,
        idle: Span::ZERO,
        latency: Span::ZERO,
    };

    /// There is a limit, so that the min of the group's contract is none.
    pub const fn is_limited(&self) -> bool {
        self.read_bandwidth > 0
            || self.write_bandwidth > 0
            || self.read_iops > 0
            || self.write_iops > 0
    }
}

impl Knobs {
    /// No knob is set.
    pub const NONE: Self = Self {
        latency: Span::ZERO,
        low: LowKnobs::NONE,
    };
}

/// A controller, by its name in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `io.max`.
    Max,
    /// `io.low`.
    Low,
    /// `io.latency`.
    Latency,
    /// `io.cost`.
    Cost,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Max => "io.max",
            Self::Low => "io.low",
            Self::Latency => "io.latency",
            Self::Cost => "io.cost",
        })
    }
}
