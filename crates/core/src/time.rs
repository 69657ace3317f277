//! Instants and spans as unsigned nanoseconds. There is no clock behind them.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Sub};

/// A point in time: nanoseconds since an origin that the driver chose. It is never negative, and
/// 584 years pass before it would overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

// Arithmetic on instants and spans saturates instead of wrapping, so that `MAX` plus any span is
// still "never".
impl Instant {
    /// The origin of the driver's time.
    pub const ZERO: Self = Self(0);
    /// The latest representable instant, which means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time that passed since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns this instant moved back by `span`, at most to the origin.
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// A span of no length.
    pub const ZERO: Self = Self(0);
    /// The longest representable span.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a span of `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// Returns a span of `n` microseconds, saturating.
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// Returns a span of `n` milliseconds, saturating.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// Returns a span of `n` seconds, saturating.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// Returns this span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this span times `n`, saturating.
    pub const fn saturating_mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// Returns this span minus `other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        // Never negative, so that a small disorder of times cannot become a huge span.
        self.saturating_sub(other)
    }
}

impl Div<u64> for Span {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

/// Returns `a * b / d` rounded down, exact in 128 bits, saturating at `u64::MAX`. `d` must not be
/// zero.
pub(crate) fn mul_div_floor(a: u64, b: u64, d: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(d)).unwrap_or(u64::MAX)
}

/// Returns `a * b / d` rounded up, exact in 128 bits, saturating at `u64::MAX`. `d` must not be
/// zero.
pub(crate) fn mul_div_ceil(a: u64, b: u64, d: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)).div_ceil(u128::from(d))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_saturate_instead_of_wrapping() {
        assert_eq!(Instant::MAX + Span::from_nanos(1), Instant::MAX);
        assert_eq!(Instant::ZERO.since(Instant::MAX), Span::ZERO);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
        assert_eq!(
            Instant::from_nanos(5).saturating_sub(Span::from_nanos(9)),
            Instant::ZERO
        );
    }

    #[test]
    fn products_are_exact_and_round_as_named() {
        // `u64::MAX` is four times its quarter plus 3, and three quarters of 3 are 2.25.
        assert_eq!(mul_div_floor(u64::MAX, 3, 4), u64::MAX / 4 * 3 + 2);
        assert_eq!(mul_div_floor(7, 1, 2), 3);
        assert_eq!(mul_div_ceil(7, 1, 2), 4);
        assert_eq!(mul_div_floor(u64::MAX, u64::MAX, 1), u64::MAX);
    }
}
