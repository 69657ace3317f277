//! How much a page of metrics says.

/// How much a page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// At most 2 kB a volume, in short names: operations, stages and reasons that there have been, one histogram.
    #[default]
    Usual,
    /// Those that there have not been, too, a histogram for each stage, and what follows from other metrics.
    Full,
}

impl Detail {
    /// Whether a count is worth a line.
    pub(super) fn says(self, count: u64) -> bool {
        count > 0 || self == Self::Full
    }
}
