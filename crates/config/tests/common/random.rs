//! Numbers drawn at random.

/// xorshift64*: enough to pick what to change.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Any number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    }
}
