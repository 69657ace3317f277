//! The xorshift generator of Marsaglia.

/// The 64-bit xorshift generator with the shifts 13, 7, 17 (Marsaglia 2003). It has one word of
/// state and needs a few instructions for each number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Xorshift {
    state: u64,
}

impl Xorshift {
    /// Creates the sequence of `seed`, which must not be zero because the state would stay zero.
    ///
    /// # Panics
    /// Panics if `seed` is zero.
    pub const fn new(seed: u64) -> Self {
        assert!(
            seed != 0,
            "a xorshift generator needs a seed other than zero"
        );
        Self { state: seed }
    }

    /// Returns 64 random bits, of which at least one is set.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        let mut random = Xorshift::new(1);
        // Worked out by hand for the first: 1 becomes 0x2001, then 0x2041, then 0x40822041.
        assert_eq!(random.next_u64(), 0x4082_2041);
        assert_eq!(random.next_u64(), 0x1000_4106_0c01_1441);
    }

    #[test]
    #[should_panic(expected = "other than zero")]
    fn zero_is_refused() {
        Xorshift::new(0);
    }
}
