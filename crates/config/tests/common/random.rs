//! Random numbers for tests.

use weir_core::random::Rng;

/// Draws indices of texts and tables.
pub(crate) struct RandomSource(Rng);

impl RandomSource {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Returns a random number below `n`, or 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.range(0, n.saturating_sub(1) as u64) as usize
    }
}
