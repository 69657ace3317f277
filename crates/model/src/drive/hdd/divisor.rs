//! Division by a constant as a multiplication, because the disk divides once for each command that
//! it considers.

/// A divisor that is known in advance, with its inverse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    divisor: u64,
    /// The inverse: 2^64 divided by the divisor, rounded up.
    inverse: u64,
    /// The bound below which the quotient of a multiplication is exact (Granlund and Montgomery
    /// 1994). Larger dividends are divided.
    exact: u64,
}

impl Divisor {
    /// Creates a divisor, which must be at least 2.
    pub(super) fn new(divisor: u64) -> Self {
        let divisor = divisor.max(2);
        Self {
            divisor,
            inverse: u64::MAX / divisor + 1,
            exact: u64::MAX / divisor,
        }
    }

    /// The divisor itself, as it was given.
    pub(super) fn get(self) -> u64 {
        self.divisor
    }

    #[inline]
    pub(super) fn quotient(self, n: u64) -> u64 {
        if n < self.exact {
            ((u128::from(n) * u128::from(self.inverse)) >> 64) as u64
        } else {
            n / self.divisor
        }
    }

    #[inline]
    pub(super) fn remainder(self, n: u64) -> u64 {
        n - self.quotient(n) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::random::Rng;

    #[test]
    fn agrees_with_division() {
        let mut random = Rng::new(1);
        for divisor in [2, 3, 7, 64, 1000, 8_333_333, 291_573, 1 << 40, u64::MAX] {
            let by = Divisor::new(divisor);
            let near = [
                0,
                1,
                divisor - 1,
                divisor,
                by.exact - 1,
                by.exact,
                by.exact + 1,
            ];
            for n in near {
                assert_eq!(
                    (by.quotient(n), by.remainder(n)),
                    (n / divisor, n % divisor)
                );
            }
            for shift in (0..64).cycle().take(20_000) {
                let n = random.next_u64() >> shift;
                assert_eq!(
                    (by.quotient(n), by.remainder(n)),
                    (n / divisor, n % divisor)
                );
            }
        }
    }
}
