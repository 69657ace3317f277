//! Random draws for the search.

use std::num::NonZeroU64;
use weir_core::Span;
use weir_model::load::Rng;

/// A generator of random numbers in the forms that cases need.
#[derive(Clone, Debug)]
pub(super) struct Dice(Rng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::new(
            weir_model::load::seed("promises", 0, 0) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// Returns a uniformly distributed number from `low` to `high`, including both.
    pub(super) fn range(&mut self, low: u64, high: u64) -> u64 {
        self.0.range(low, high)
    }

    /// Returns a number from `low` (at least 1) to `high`. Each order of magnitude is about equally
    /// likely.
    pub(super) fn log(&mut self, low: u64, high: u64) -> u64 {
        let octaves = u64::from((high / low).max(1).ilog2());
        let from = low << self.0.range(0, octaves);
        self.0.range(from, (from * 2 - 1).min(high)).min(high)
    }

    pub(super) fn chance(&mut self, of: u64, all: u64) -> bool {
        self.0
            .ratio(of, NonZeroU64::new(all).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns a value that is drawn in `of` of `all` cases, and the default in the others.
    pub(super) fn sometimes<T: Default>(
        &mut self,
        of: u64,
        all: u64,
        draw: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if self.chance(of, all) {
            draw(self)
        } else {
            T::default()
        }
    }

    /// Returns the default in `of` of `all` cases, and a value that is drawn in the others.
    pub(super) fn unless<T: Default>(
        &mut self,
        of: u64,
        all: u64,
        draw: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if self.chance(of, all) {
            T::default()
        } else {
            draw(self)
        }
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.0.range(0, from.len() as u64 - 1) as usize]
    }

    /// Returns one of several values, with a probability in proportion to its weight.
    pub(super) fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let all = from.iter().map(|f| f.0).sum::<u64>();
        let mut left = self.0.range(0, all - 1);
        for (weight, value) in from {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        from[0].1
    }

    pub(super) fn micros(&mut self, low: u64, high: u64) -> Span {
        Span::from_micros(self.log(low, high))
    }
}
