//! Powers of numbers below 1 in fixed point, with the same result on every machine.

/// The number of bits after the point, in logarithms and exponents.
pub(crate) const BITS: u32 = 40;

/// A logarithm to base 2, or an exponent, as a multiple of 2^-40.
pub(crate) type Fixed = u128;

/// 2^-(1/2), 2^-(1/4) and so on, each the root of the one before it, as multiples of 2^-64.
const ROOTS: [u64; BITS as usize] = {
    let mut roots = [0; BITS as usize];
    let mut square = 1u128 << 127;
    let mut at = 0;
    while at < roots.len() {
        let root = square.isqrt();
        roots[at] = root as u64;
        square = root << 64;
        at += 1;
    }
    roots
};

/// The logarithm of `number` to base 2, rounded down.
///
/// Each bit after the point results from squaring the mantissa. The bit is set if the square is 2
/// or more.
pub(crate) fn log2(number: core::num::NonZeroU64) -> Fixed {
    let whole = number.ilog2();
    let mut mantissa = number.get() << (63 - whole);
    let mut log = Fixed::from(whole);
    for _ in 0..BITS {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let above = square >> 127 == 1;
        mantissa = (square >> if above { 64 } else { 63 }) as u64;
        log = log << 1 | Fixed::from(above);
    }
    log
}

/// 2^-`exponent` as a multiple of 2^-64, at most just below 1.
pub(crate) fn exp2_of_minus(exponent: Fixed) -> u64 {
    let whole = exponent >> BITS;
    // The result would be less than the smallest multiple of 2^-64.
    if whole >= 64 {
        return 0;
    }
    let mut power = u64::MAX;
    for (at, root) in ROOTS.iter().enumerate() {
        if exponent >> (BITS as usize - 1 - at) & 1 == 1 {
            power = ((u128::from(power) * u128::from(*root)) >> 64) as u64;
        }
    }
    power >> whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;

    const ONE: Fixed = 1 << BITS;

    fn log(number: u64) -> Fixed {
        log2(NonZeroU64::new(number).unwrap())
    }

    #[test]
    fn logarithms_match_known_values() {
        assert_eq!(
            [1, 2, 1 << 40, 1 << 63].map(log),
            [0, ONE, 40 * ONE, 63 * ONE]
        );
        // log2(3) = 1.584962500721156, log2(10) = 3.321928094887362, and 2^64 - 1 is just below 64.
        for (number, trillionths) in [(3, 1_584_962_500_721), (10, 3_321_928_094_887)] {
            let want = ONE * trillionths / 1_000_000_000_000;
            assert!(log(number).abs_diff(want) <= 2, "{number}: {}", log(number));
        }
        assert!(64 * ONE - log(u64::MAX) <= 1);
    }

    #[test]
    fn powers_undo_logarithms() {
        assert_eq!(exp2_of_minus(0), u64::MAX);
        assert_eq!(exp2_of_minus(64 * ONE), 0);
        assert_eq!(exp2_of_minus(Fixed::MAX), 0);
        for number in [1, 2, 3, 1_000, 1_234_567_890_123, 1 << 50, u64::MAX] {
            let back = exp2_of_minus(64 * ONE - log(number));
            // The tolerance is 2^-38 of the number, because the logarithm is exact to 2^-40 and
            // each root is rounded.
            let slack = (number >> 38).max(1);
            assert!(back.abs_diff(number) <= slack, "{number}: {back}");
        }
    }
}
