//! Sources of the decisions in a random run: random numbers or bytes.

use weir_core::random::SplitMix;

/// A source of the decisions of a run.
pub trait DecisionSource {
    /// Returns a number below `n`, which must be at least 1.
    fn below(&mut self, n: u64) -> u64;

    /// Returns true if the source is used up and only returns zeroes.
    fn is_empty(&self) -> bool;

    /// Returns true in one of `n` cases.
    #[inline]
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a value that is drawn in one of `n` cases, and the default in the others.
    fn sometimes<T: Default>(&mut self, n: u64, draw: impl FnOnce(&mut Self) -> T) -> T {
        if self.once_in(n) {
            draw(self)
        } else {
            T::default()
        }
    }

    /// Returns the default in one of `n` cases, and a value that is drawn in the others.
    fn unless<T: Default>(&mut self, n: u64, draw: impl FnOnce(&mut Self) -> T) -> T {
        if self.once_in(n) {
            T::default()
        } else {
            draw(self)
        }
    }

    /// Returns a number from 1 to `most`. Each order of magnitude is about equally likely.
    fn magnitude(&mut self, most: u64) -> u64 {
        let bits = u64::from(64 - most.leading_zeros());
        let top = 1u64 << self.below(bits);
        // A power of two and a number below it: each octave has the same probability.
        (top + self.below(top)).min(most)
    }

    /// Returns one of the elements, each with the same probability.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Random numbers of a seed, as a source of decisions.
#[derive(Clone, Debug)]
pub struct RandomDecisions(SplitMix);

impl RandomDecisions {
    /// Creates the source of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl DecisionSource for RandomDecisions {
    #[inline]
    fn below(&mut self, n: u64) -> u64 {
        // Multiplication instead of a remainder, which is faster and nearly unbiased (Lemire,
        // 2019).
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// Bytes as a source of decisions. Each decision uses as few bytes as possible, so that small
/// changes of the bytes are small changes of the run.
#[derive(Clone, Debug)]
pub struct ByteDecisions<'a> {
    left: &'a [u8],
}

impl<'a> ByteDecisions<'a> {
    /// Creates a source of the decisions in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }
}

impl DecisionSource for ByteDecisions<'_> {
    fn below(&mut self, n: u64) -> u64 {
        // As many bytes are taken as the bound needs.
        let (mut value, mut most) = (0u64, n - 1);
        while most > 0 {
            let Some((&first, rest)) = self.left.split_first() else {
                break;
            };
            self.left = rest;
            value = value << 8 | u64::from(first);
            most >>= 8;
        }
        // Used-up bytes leave the value at zero, so that the run ends with the first choices.
        value % n
    }

    fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        let mut random = RandomDecisions::new(1);
        assert_eq!(random.bits(), 0x910A_2DEC_8902_5CC1);
        let below: Vec<u64> = (0..8).map(|_| random.below(100)).collect();
        assert_eq!(below, [74, 97, 44, 44, 76, 87, 52, 28]);
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        let (mut random, mut bytes) = (RandomDecisions::new(5), ByteDecisions::new(&bytes));
        for n in (1..300).chain([1 << 16, (1 << 40) + 1, u64::MAX]) {
            assert!(random.below(n) < n && bytes.below(n) < n);
            assert!(
                (1..=n).contains(&random.magnitude(n)) && (1..=n).contains(&bytes.magnitude(n))
            );
        }
    }
}
