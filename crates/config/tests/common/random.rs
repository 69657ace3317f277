//! Numbers drawn at random.

use weir_core::random::Rng;

/// Draws places in texts and tables.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Any number below `n`; 0 if there is none.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.range(0, n.saturating_sub(1) as u64) as usize
    }
}
