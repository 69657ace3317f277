//! Offsets of unequal popularity, computed in integers.

use crate::load::power::{self, Fixed, exp2_of_minus, log2};
use crate::load::program::{Law, Skew};
use core::num::NonZeroU64;
use weir_core::random::Rng;

/// The denominator of the laws' parameters.
const MILLION: u64 = 1_000_000;

/// The number of terms whose mean approximates a normal distribution. `fio` uses the same number.
const TERMS: u64 = 12;

/// Chooses positions from 0 to n-1 with the popularity of a [`Skew`].
#[derive(Clone, Debug)]
pub(crate) struct Skewed {
    places: NonZeroU64,
    ranks: Ranks,
    /// A factor that scatters the ranks one-to-one, because it is coprime to `places`.
    stride: u64,
    /// The position of the first rank.
    first: u64,
}

/// Chooses ranks from 0 to n-1.
#[derive(Clone, Debug)]
enum Ranks {
    Zipf(Zipf),
    /// A Pareto distribution: the rank is n times a random number below 1 to the power of this
    /// exponent.
    Pareto(Fixed),
    /// The mean of [`TERMS`] numbers, displaced by up to half of this.
    Normal(u64),
}

impl Skewed {
    /// Creates the state for a skew that has been validated.
    pub(crate) fn new(skew: Skew, places: NonZeroU64) -> Self {
        let n = places.get();
        // The stride is near the golden section of the range, so that adjacent ranks are far apart.
        let golden = (u128::from(n) * 618_033_988_749_894_848 / 1_000_000_000_000_000_000) as u64;
        let stride = (golden.max(1)..=n)
            .find(|&stride| gcd(stride, n) == 1)
            .expect("n - 1 has no common factor with n");
        let part = |millionths: u32, of| u128::from(n) * u128::from(millionths) / of;
        let ranks = match skew.law {
            Law::Zipf(exponent) => Ranks::Zipf(Zipf::new(exponent, places)),
            Law::Pareto(power) => Ranks::Pareto(pareto(power)),
            // The deviation is a percentage of all positions. The displacement is limited to half
            // of them.
            Law::Normal(deviation) => Ranks::Normal(
                (part(deviation, 100 * u128::from(MILLION)) as u64)
                    .saturating_add(u64::from(deviation > 0))
                    .min(n / 2),
            ),
        };
        let first = part(skew.center.unwrap_or(0), u128::from(MILLION)) % u128::from(n);
        Self {
            places,
            ranks,
            stride,
            first: first as u64,
        }
    }

    /// Chooses the next position.
    pub(crate) fn draw_position(&self, rng: &mut Rng) -> u64 {
        let n = u128::from(self.places.get());
        let rank = u128::from(match &self.ranks {
            Ranks::Zipf(zipf) => zipf.rank(self.places, rng) - 1,
            Ranks::Pareto(exponent) => {
                // The lowest bit is set, because zero has no logarithm.
                let below_1 = NonZeroU64::MIN | rng.next_u64();
                let power = exp2_of_minus((minus_log2(below_1) * *exponent) >> power::BITS);
                ((n * u128::from(power)) >> 64) as u64
            }
            Ranks::Normal(width) => normal(self.places, *width, rng),
        });
        ((rank * u128::from(self.stride) + u128::from(self.first)) % n) as u64
    }
}

/// The logarithm of a multiple of 2^-64, without its sign.
fn minus_log2(number: NonZeroU64) -> Fixed {
    (64 << power::BITS) - log2(number)
}

/// The exponent with which the part `1 - h` of all numbers below 1 becomes less than `h`.
///
/// With `h` of 0.2, 80 % of all requests go to 20 % of the positions.
fn pareto(h: u32) -> Fixed {
    let of_a_million = |part: u64| {
        let part = NonZeroU64::new(part).expect("between 0 and 1");
        log2(NonZeroU64::new(MILLION).expect("not zero")) - log2(part)
    };
    let (h, rest) = (u64::from(h), MILLION - u64::from(h));
    (of_a_million(h) << power::BITS) / of_a_million(rest)
}

/// A random rank around the middle.
fn normal(places: NonZeroU64, width: u64, rng: &mut Rng) -> u64 {
    let n = places.get();
    let sum: u128 = (0..TERMS).map(|_| u128::from(rng.below(places))).sum();
    let mean = (sum / u128::from(TERMS)) as u64;
    let Some(width) = NonZeroU64::new(width) else {
        return mean;
    };
    let drawn = rng.below(width);
    let half = width.get() / 2;
    // A displacement that would leave the range is halved as often as necessary.
    if drawn >= half {
        let mut further = drawn - half;
        while mean + further >= n {
            further /= 2;
        }
        mean + further
    } else {
        let mut back = half - drawn;
        while back > mean {
            back /= 2;
        }
        mean - back
    }
}

/// Zipf's law without a table of ranks: the k-th most popular rank has a probability in proportion
/// to 1/k^exponent.
#[derive(Clone, Debug)]
struct Zipf {
    /// The exponent in millionths.
    exponent: u32,
    /// The number of powers of two up to the number of positions.
    octaves: NonZeroU64,
    /// The cumulative bounds of the octaves. Empty for the exponent 1, with which all bounds are
    /// equal.
    bounds: Vec<u64>,
}

impl Zipf {
    fn new(exponent: u32, places: NonZeroU64) -> Self {
        let octaves = u64::from(places.ilog2()) + 1;
        let off = MILLION.abs_diff(exponent.into());
        // The bound of an octave is its number of ranks times the weight of its first rank,
        // 2^(octave * (1 - exponent)), as a part of the largest bound.
        let bound = |octave: u64| {
            let from_largest = if u64::from(exponent) < MILLION {
                octaves - 1 - octave
            } else {
                octave
            };
            let exponent = (Fixed::from(from_largest * off) << power::BITS) / Fixed::from(MILLION);
            // Up to 64 octaves are added up, so 7 bits are kept free for the sum.
            exp2_of_minus(exponent) >> 7
        };
        let sums = (0..octaves).scan(0, |sum, octave| {
            *sum += bound(octave);
            Some(*sum)
        });
        Self {
            exponent,
            octaves: NonZeroU64::new(octaves).expect("at least one"),
            bounds: if off == 0 { Vec::new() } else { sums.collect() },
        }
    }

    /// Chooses a rank from 1 to n by rejection sampling.
    ///
    /// An octave is chosen by its bound, and then a number k in it, which is accepted with
    /// probability (2^octave / k)^exponent. With the exponent 1, every octave has the same bound,
    /// and no power is needed.
    fn rank(&self, places: NonZeroU64, rng: &mut Rng) -> u64 {
        loop {
            let base = 1u64 << self.octave(rng);
            let rank = base + (rng.next_u64() & (base - 1));
            let of = NonZeroU64::new(rank).expect("at least the octave's first");
            if rank <= places.get() && self.accepts(base, of, rng) {
                return rank;
            }
        }
    }

    fn octave(&self, rng: &mut Rng) -> u64 {
        let Some(all) = self.bounds.last().copied().and_then(NonZeroU64::new) else {
            return rng.below(self.octaves);
        };
        let drawn = rng.below(all);
        self.bounds.partition_point(|sum| *sum <= drawn) as u64
    }

    /// Returns true if a rank of the octave that begins with `base` is accepted.
    fn accepts(&self, base: u64, rank: NonZeroU64, rng: &mut Rng) -> bool {
        if self.bounds.is_empty() {
            return rng.ratio(base, rank);
        }
        let above = log2(rank) & ((1 << power::BITS) - 1);
        let exponent = above * Fixed::from(self.exponent) / Fixed::from(MILLION);
        rng.next_u64() <= exp2_of_minus(exponent)
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
    use std::collections::{BTreeMap, BTreeSet};

    fn skewed(law: Law, n: u64) -> Skewed {
        Skewed::new(Skew { law, center: None }, NonZeroU64::new(n).unwrap())
    }

    #[test]
    fn ranks_are_drawn_in_proportion_to_their_inverse() {
        let n = NonZeroU64::new(100).unwrap();
        let (zipf, mut rng) = (Zipf::new(1_000_000, n), Rng::new(7));
        let mut seen = [0u64; 101];
        let draws = 400_000;
        for _ in 0..draws {
            seen[zipf.rank(n, &mut rng) as usize] += 1;
        }
        // The 100th harmonic number is 5.18738.
        for k in [1, 2, 3, 4, 7, 10, 50, 100] {
            let want = draws * 100_000 / (518_738 * k as u64);
            let slack = 5 * want.isqrt();
            assert!(seen[k].abs_diff(want) < slack, "{k}: {} {want}", seen[k]);
        }
    }

    /// With the exponent 2, the k-th of 4 ranks has 144/k^2 of 205 parts. With 0.5, the sum of
    /// 1/sqrt(k) is 2.7844570.
    #[test]
    fn ranks_are_drawn_in_proportion_to_a_power() {
        let n = NonZeroU64::new(4).unwrap();
        let draws = 400_000u64;
        let wanted = [
            (2_000_000, [702_439, 175_610, 78_049, 43_902]),
            (500_000, [359_137, 253_948, 207_348, 179_568]),
        ];
        for (exponent, parts) in wanted {
            let (zipf, mut rng) = (Zipf::new(exponent, n), Rng::new(3));
            let mut seen = [0u64; 5];
            for _ in 0..draws {
                seen[zipf.rank(n, &mut rng) as usize] += 1;
            }
            for (seen, part) in seen[1..].iter().zip(parts) {
                let want = draws * part / 1_000_000;
                assert!(
                    seen.abs_diff(want) < 5 * want.isqrt(),
                    "{exponent}: {seen} {want}"
                );
            }
        }
    }

    #[test]
    fn every_rank_has_a_place_of_its_own() {
        for n in (1..300).chain([1 << 12, 6_700]) {
            let z = skewed(Law::Zipf(1_000_000), n);
            let places: BTreeSet<u64> = (0..n)
                .map(|rank| (u128::from(rank) * u128::from(z.stride) % u128::from(n)) as u64)
                .collect();
            assert_eq!(places.len() as u64, n);
        }
    }

    #[test]
    fn the_largest_space_works() {
        let mut rng = Rng::new(8);
        let mut most = |law| {
            let skewed = skewed(law, u64::MAX);
            (0..100).map(|_| skewed.draw_position(&mut rng)).max()
        };
        for law in [
            Law::Zipf(1_000_000),
            Law::Zipf(1_100_000),
            Law::Zipf(1),
            Law::Pareto(200_000),
            Law::Pareto(999_999),
            Law::Normal(99_000_000),
        ] {
            assert!(most(law) > Some(u64::MAX / 2), "{law:?}");
        }
        // With such steep laws, all requests go to the first position.
        assert_eq!(most(Law::Zipf(100_000_000)), Some(0));
        assert_eq!(most(Law::Pareto(1)), Some(0));
    }

    #[test]
    fn the_center_places_the_first_rank() {
        let n = NonZeroU64::new(1_000).unwrap();
        for (center, hot) in [(None, 0), (Some(250_000), 250), (Some(1_000_000), 0)] {
            let law = Law::Zipf(3_000_000);
            let skewed = Skewed::new(Skew { law, center }, n);
            let mut rng = Rng::new(5);
            let at_hot = (0..1_000)
                .filter(|_| skewed.draw_position(&mut rng) == hot)
                .count();
            assert!((780..880).contains(&at_hot), "{center:?}: {at_hot}");
        }
    }

    /// The popularity that `fio` 3.33 produced on 65,536 positions.
    ///
    /// The numbers are from 262,144 requests by `--ioengine=null --rw=randread --bs=4k --size=256m
    /// --loops=4 --write_iolog`, as ten-thousandths of all requests that went to a number of the
    /// most popular positions. In `fio`, several ranks of a tail can fall on one position. Its
    /// ranks of Zipf's law result from an integral instead of a sum, so that with the exponent 1.1
    /// the first ten get 1.5 % of all requests more than the law gives them. Therefore the test
    /// tolerates 2 %.
    #[test]
    fn places_are_as_popular_as_with_fio() {
        let marks = [1, 3, 10, 100];
        let measured = [
            (Law::Zipf(1_100_000), [1_367, 2_488, 3_832, 6_013]),
            (Law::Zipf(800_000), [241, 496, 897, 1_998]),
            (Law::Zipf(1_200_000), [1_969, 3_462, 5_081, 7_281]),
            (Law::Zipf(2_000_000), [6_073, 8_400, 9_518, 9_954]),
            (Law::Pareto(200_000), [2_134, 2_487, 2_940, 4_053]),
        ];
        for (law, wanted) in measured {
            let (skewed, mut rng) = (skewed(law, 65_536), Rng::new(11));
            let mut seen = BTreeMap::new();
            let draws = 262_144u64;
            for _ in 0..draws {
                *seen.entry(skewed.draw_position(&mut rng)).or_insert(0u64) += 1;
            }
            let mut counts: Vec<u64> = seen.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            for (mark, want) in marks.into_iter().zip(wanted) {
                let got = counts[..mark].iter().sum::<u64>() * 10_000 / draws;
                assert!(got.abs_diff(want) <= 200, "{law:?} {mark}: {got} {want}");
            }
        }
    }

    /// The thousandths of all requests that go to the middle half of the ranks with `normal:0`,
    /// `normal:20` and `normal:99`.
    ///
    /// The mean of twelve numbers has the deviation n/12. The displacement is uniformly distributed
    /// up to n/10 or n/4 respectively.
    #[test]
    fn normal_ranks_lie_around_the_middle() {
        let n = NonZeroU64::new(65_536).unwrap();
        for (deviation, middle) in [(0, 997), (20_000_000, 988), (99_000_000, 867)] {
            let skewed = skewed(Law::Normal(deviation), n.get());
            let Ranks::Normal(width) = skewed.ranks else {
                panic!("{skewed:?}")
            };
            let mut rng = Rng::new(2);
            let draws = (0..20_000).map(|_| normal(n, width, &mut rng));
            let inside = draws
                .filter(|r| (n.get() / 4..n.get() * 3 / 4).contains(r))
                .count();
            assert!(
                (inside as u64 / 20).abs_diff(middle) <= 8,
                "{deviation}: {inside}"
            );
        }
    }
}
