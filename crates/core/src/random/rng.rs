//! The generator xoshiro256**, which is the one for new code.

use crate::random::SplitMix;
use core::num::NonZeroU64;

/// xoshiro256** 1.0 (Blackman and Vigna 2018), seeded by `SplitMix64`. It uses no floating-point
/// numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates the sequence of `seed`. Any seed is valid, including zero.
    pub fn new(seed: u64) -> Self {
        let mut seeder = SplitMix::new(seed);
        Self {
            // Four different numbers of SplitMix64 are never all zero, which xoshiro requires.
            state: core::array::from_fn(|_| seeder.next_u64()),
        }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a uniformly distributed number below `n` (Lemire 2019: multiply, and reject the
    /// values that would bias the result).
    #[inline]
    pub fn below(&mut self, n: NonZeroU64) -> u64 {
        let n = n.get();
        // The upper half of the product is the result, and the lower half shows whether the draw is
        // biased.
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // 2^64 modulo `n`: the number of low products that must be rejected.
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Returns a uniformly distributed number from `low` to `high`, both included, or `low` if
    /// `high` is smaller.
    #[inline]
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        match span.checked_add(1).and_then(NonZeroU64::new) {
            Some(n) => low + self.below(n),
            // The range has 2^64 numbers, so any 64 bits will do.
            None => self.next_u64(),
        }
    }

    /// Returns true with the probability `numerator / denominator`, and always if the numerator is
    /// larger.
    #[inline]
    pub fn ratio(&mut self, numerator: u64, denominator: NonZeroU64) -> bool {
        self.below(denominator) < numerator
    }

    /// Returns an exponentially distributed number of mean 1, in units of 2^-32.
    ///
    /// It uses von Neumann's comparisons (1951), which are exact and need no logarithm. It draws
    /// 4.3 numbers on average.
    pub fn exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.next_u64();
            let (mut last, mut falling) = (first, 1u32);
            loop {
                let next = self.next_u64();
                if next >= last {
                    break;
                }
                last = next;
                falling += 1;
            }
            // The run of falling numbers has an odd length with probability e^-x, so x is accepted
            // then.
            if falling % 2 == 1 {
                return (whole << 32) + (first >> 32);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonzero(n: u64) -> NonZeroU64 {
        NonZeroU64::new(n).unwrap()
    }

    #[test]
    fn the_reference_implementations_numbers() {
        // xoshiro256** from the state 1, 2, 3, 4.
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let want = [
            11_520,
            0,
            1_509_978_240,
            1_215_971_899_390_074_240,
            1_216_172_134_540_287_360,
            607_988_272_756_665_600,
            16_172_922_978_634_559_625,
            8_476_171_486_693_032_832,
            10_595_114_339_597_558_777,
            2_904_607_092_377_533_576,
        ];
        assert_eq!(core::array::from_fn(|_| rng.next_u64()), want);
    }

    #[test]
    fn the_first_sixteen_numbers_of_seed_zero() {
        let mut rng = Rng::new(0);
        let want = [
            0x99ec_5f36_cb75_f2b4,
            0xbf6e_1f78_4956_452a,
            0x1a5f_849d_4933_e6e0,
            0x6aa5_94f1_262d_2d2c,
            0xbba5_ad4a_1f84_2e59,
            0xffef_8375_d9eb_caca,
            0x6c16_0dee_d2f5_4c98,
            0x8920_ad64_8fc3_0a3f,
            0xdb03_2c0b_a753_9731,
            0xeb3a_475a_3e74_9a3d,
            0x1d42_993f_a43f_2a54,
            0x1136_1bf5_26a1_4bb5,
            0x1b4f_07a5_ab3d_8e9c,
            0xa7a3_257f_6986_db7f,
            0x7efd_aa95_605d_fc9c,
            0x4bde_97c0_a78e_aab8,
        ];
        assert_eq!(core::array::from_fn(|_| rng.next_u64()), want);
    }

    #[test]
    fn below_returns_every_number_with_equal_probability() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(nonzero(6)) as usize] += 1;
        }
        // 10,000 of each are expected, with a standard deviation of about 91.
        assert!(seen.iter().all(|n| (9_600..10_400).contains(n)), "{seen:?}");
        // Slightly above a power of two, a plain remainder or product would be biased by a factor
        // of two.
        let n = nonzero((1 << 63) + 1);
        // Half of the results are below 2^62, so 5,000 are expected, with a standard deviation of
        // 50.
        let low = (0..10_000).filter(|_| rng.below(n) < 1 << 62).count();
        assert!((4_800..5_200).contains(&low), "{low}");
        assert_eq!(rng.below(nonzero(1)), 0);
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut rng = Rng::new(2);
        let (mut least, mut most) = (u64::MAX, 0);
        for _ in 0..1_000 {
            let n = rng.range(10, 13);
            (least, most) = (least.min(n), most.max(n));
        }
        assert_eq!((least, most), (10, 13));
        assert_eq!(rng.range(5, 5), 5);
        assert_eq!(rng.range(7, 3), 7);
        assert!(
            (0..64)
                .map(|_| rng.range(0, u64::MAX))
                .any(|n| n > u64::MAX / 2)
        );
    }

    #[test]
    fn ratios() {
        let mut rng = Rng::new(3);
        let hits = (0..90_000).filter(|_| rng.ratio(1, nonzero(3))).count();
        // 30,000 hits are expected, with a standard deviation of about 141.
        assert!((29_500..30_500).contains(&hits), "{hits}");
        assert!((0..100).all(|_| rng.ratio(100, nonzero(100)) && !rng.ratio(0, nonzero(100))));
    }

    #[test]
    fn exponentials_have_the_mean_and_the_tail_of_their_kind() {
        let mut rng = Rng::new(4);
        let n = 200_000u64;
        let (mut sum, mut squares, mut above_two) = (0u128, 0u128, 0u64);
        for _ in 0..n {
            let x = u128::from(rng.exponential());
            sum += x;
            squares += x * x;
            above_two += u64::from(x > 2 << 32);
        }
        // Mean 1, second moment 2, P(x > 2) = e^-2 = 0.1353; bounds of about five standard errors.
        let mean = sum * 1_000 / (u128::from(n) << 32);
        let second = (squares >> 32) * 1_000 / (u128::from(n) << 32);
        assert!((989..=1_011).contains(&mean), "{mean}");
        assert!((1_950..=2_050).contains(&second), "{second}");
        assert!(
            (26_300..=27_800).contains(&above_two),
            "{above_two} of {n}: e^-2 is 27067"
        );
    }
}
