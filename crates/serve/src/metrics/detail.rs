//! The level of detail of a page of metrics.

/// The amount of detail on a page of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// At most 2 kB per volume: one histogram, and counts of only those operations, stages and
    /// reasons that have occurred.
    #[default]
    Usual,
    /// All counts, even if they are zero, a histogram for each stage, and values that can be
    /// derived from other metrics.
    Full,
}

impl Detail {
    /// Returns true if a count is printed at this level.
    pub(super) fn includes(self, count: u64) -> bool {
        count > 0 || self == Self::Full
    }
}
