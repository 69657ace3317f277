//! Random permutations without a table.

use core::num::NonZeroU64;
use weir_core::random::Rng;

/// The number of rounds of the Feistel network.
const ROUNDS: usize = 4;

/// The numbers below `count` in a random order, each once, then again in another order.
///
/// It is a Feistel network over the next power of four. A result that is not below the count is
/// permuted again until it is (cycle walking), which preserves that each number occurs once.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    count: u64,
    /// The number of bits of each half.
    half: u32,
    keys: [u64; ROUNDS],
    /// The numbers used of the present order.
    drawn: u64,
}

impl Shuffle {
    pub(crate) fn new(count: NonZeroU64) -> Self {
        let bits = u64::BITS - (count.get() - 1).leading_zeros();
        Self {
            count: count.get(),
            half: bits.div_ceil(2).max(1),
            keys: [0; ROUNDS],
            drawn: 0,
        }
    }

    /// Returns the next number of the order.
    #[inline]
    pub(crate) fn next_position(&mut self, rng: &mut Rng) -> u64 {
        if self.drawn == self.count {
            self.drawn = 0;
        }
        if self.drawn == 0 {
            self.keys = core::array::from_fn(|_| rng.next_u64());
        }
        let mut place = self.permuted(self.drawn);
        while place >= self.count {
            place = self.permuted(place);
        }
        self.drawn += 1;
        place
    }

    fn permuted(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for key in self.keys {
            // A shortened form of the finaliser of MurmurHash3 (Appleby), which scatters well
            // enough.
            let mut mixed = (right ^ key).wrapping_mul(0xff51_afd7_ed55_8ccd);
            mixed ^= mixed >> 33;
            (left, right) = (right, left ^ (mixed & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_shuffle_contains_every_number_once() {
        let mut rng = Rng::new(9);
        for count in [1, 2, 3, 4, 5, 63, 64, 65, 1_000] {
            let mut shuffle = Shuffle::new(NonZeroU64::new(count).unwrap());
            for _ in 0..3 {
                let seen: BTreeSet<u64> = (0..count)
                    .map(|_| shuffle.next_position(&mut rng))
                    .collect();
                assert!(seen.into_iter().eq(0..count), "{count}");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let count = 1 << 20;
        let mut shuffle = Shuffle::new(NonZeroU64::new(count).unwrap());
        let mut rng = Rng::new(4);
        let drawn: Vec<u64> = (0..10_000)
            .map(|_| shuffle.next_position(&mut rng))
            .collect();
        let near = drawn
            .windows(2)
            .filter(|w| w[0].abs_diff(w[1]) < count / 100);
        // Distances of up to 1 % of the range, on both sides, are 2 % of all distances: 200 of
        // 10,000.
        let near = near.count();
        assert!((120..=280).contains(&near), "{near}");
        let mean = drawn.iter().sum::<u64>() / 10_000;
        assert!(mean.abs_diff(count / 2) < count / 50, "{mean}");
    }
}
