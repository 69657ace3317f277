//! Knobs: settings of a group that only one controller of Linux has. A contract states the service
//! that a client gets, and a knob configures one controller.

use crate::time::Span;
use core::fmt;

/// The knobs of a group, as its files in the cgroup tree of Linux. Each knob belongs to one
/// controller, which the layer must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Knobs {
    /// The latency target of the group (Linux: `io.latency`). If its requests take longer, siblings
    /// with a longer target or none are slowed down. Zero means no target.
    pub latency: Span,
    /// The low limits of the group, and its idle threshold (Linux: `io.low`).
    pub low: LowKnobs,
}

/// The settings of `io.low` for a group, as its file in the cgroup tree of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LowKnobs {
    /// Bytes per second that the group should be able to read (Linux: `rbps`). Zero means no limit,
    /// as in all four limits.
    pub read_bandwidth: u64,
    /// Bytes per second that the group should be able to write (Linux: `wbps`).
    pub write_bandwidth: u64,
    /// Reads per second that the group should reach (Linux: `riops`).
    pub read_iops: u64,
    /// Writes per second that the group should reach (Linux: `wiops`).
    pub write_iops: u64,
    /// The think time above which the group counts as idle (Linux: `idle`). Zero selects the
    /// tunable of this name.
    pub idle: Span,
    /// The additional time that its requests may take compared with others of their size (Linux:
    /// `latency`). Zero selects the tunable of this name.
    pub latency: Span,
}

impl LowKnobs {
    /// No setting of `io.low`.
    pub const NONE: Self = Self {
        read_bandwidth: 0,
        write_bandwidth: 0,
        read_iops: 0,
        write_iops: 0,
        idle: Span::ZERO,
        latency: Span::ZERO,
    };

    /// Returns true if a low limit is set. `io.low` then uses these limits instead of the min of
    /// the group's contract.
    pub const fn is_limited(&self) -> bool {
        // A latency or an idle time alone is not a limit.
        self.read_bandwidth > 0
            || self.write_bandwidth > 0
            || self.read_iops > 0
            || self.write_iops > 0
    }
}

impl Knobs {
    /// No knob of any controller.
    pub const NONE: Self = Self {
        latency: Span::ZERO,
        low: LowKnobs::NONE,
    };
}

/// A kind of controller, by its name in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ControllerKind {
    /// Limits that are never exceeded (`io.max`).
    Max,
    /// Low limits that other groups respect (`io.low`).
    Low,
    /// Latency targets (`io.latency`).
    Latency,
    /// Division of drive time by a cost model (`io.cost`).
    Cost,
}

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Max => "io.max",
            Self::Low => "io.low",
            Self::Latency => "io.latency",
            Self::Cost => "io.cost",
        })
    }
}
