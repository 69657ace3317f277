//! What only one of Linux's controllers knows of a group. A contract says what a client gets; a knob says how one controller is set.

use crate::time::Span;
use core::fmt;

/// The knobs of a group, as its files in Linux's cgroup tree. Each is for one controller, which the layer must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Knobs {
    /// `io.latency`: how long the group's requests are to take. Its siblings with a longer target or none are slowed down when they
    /// take longer. Zero: no target.
    pub latency: Span,
}

impl Knobs {
    /// No knob is set.
    pub const NONE: Self = Self {
        latency: Span::ZERO,
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
