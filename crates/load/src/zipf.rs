//! Zipf's law with exponent 1, in integers and without a table.

use core::num::NonZeroU64;
use weir_random::Rng;

/// Draws from 0 to n-1; the k-th most popular has a probability in proportion to 1/k.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    places: NonZeroU64,
    /// Number of powers of two up to `places`.
    octaves: NonZeroU64,
    /// Coprime to `places`: multiplying a rank by it scatters the ranks one-to-one.
    stride: u64,
}

impl Zipf {
    pub(crate) fn new(places: NonZeroU64) -> Self {
        let n = places.get();
        // Near the golden section, so that adjacent ranks are far apart.
        let golden = (u128::from(n) * 618_033_988_749_894_848 / 1_000_000_000_000_000_000) as u64;
        let stride = (golden.max(1)..=n)
            .find(|&stride| gcd(stride, n) == 1)
            .expect("n - 1 has no common factor with n");
        let octaves = NonZeroU64::MIN.saturating_add(u64::from(n.ilog2()));
        Self {
            places,
            octaves,
            stride,
        }
    }

    /// Draws a place.
    pub(crate) fn place(&self, rng: &mut Rng) -> u64 {
        let rank = u128::from(self.rank(rng) - 1);
        (rank * u128::from(self.stride) % u128::from(self.places.get())) as u64
    }

    /// Draws a rank from 1 to n.
    ///
    /// Rejection sampling: an octave and a number k in it, kept with probability 2^octave / k. Under 1/k every octave has the
    /// same weight, so this is exact; about two in three are kept.
    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let base = 1u64 << rng.below(self.octaves);
            let rank = base + (rng.next_u64() & (base - 1));
            let of = NonZeroU64::new(rank).expect("at least the octave's first");
            if rank <= self.places.get() && rng.ratio(base, of) {
                return rank;
            }
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn zipf(n: u64) -> Zipf {
        Zipf::new(NonZeroU64::new(n).unwrap())
    }

    #[test]
    fn ranks_are_drawn_in_proportion_to_their_inverse() {
        let (zipf, mut rng) = (zipf(100), Rng::new(7));
        let mut seen = [0u64; 101];
        let draws = 400_000;
        for _ in 0..draws {
            seen[zipf.rank(&mut rng) as usize] += 1;
        }
        // The 100th harmonic number is 5.18738.
        for k in [1, 2, 3, 4, 7, 10, 50, 100] {
            let want = draws * 100_000 / (518_738 * k as u64);
            let slack = 5 * want.isqrt();
            assert!(seen[k].abs_diff(want) < slack, "{k}: {} {want}", seen[k]);
        }
    }

    #[test]
    fn every_rank_has_a_place_of_its_own() {
        for n in (1..300).chain([1 << 12, 6_700]) {
            let z = zipf(n);
            let places: BTreeSet<u64> = (0..n)
                .map(|rank| (u128::from(rank) * u128::from(z.stride) % u128::from(n)) as u64)
                .collect();
            assert_eq!(places.len() as u64, n);
        }
    }

    #[test]
    fn the_largest_space_works() {
        let (z, mut rng) = (zipf(u64::MAX), Rng::new(8));
        assert!((0..100).map(|_| z.place(&mut rng)).max() > Some(u64::MAX / 2));
    }
}
