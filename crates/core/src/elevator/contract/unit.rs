//! Types for quantities that must not be mixed: costs, bytes, charges and entities.

use crate::Span;
use crate::list::NIL;
use core::ops::{Add, AddAssign, Div, Mul, SubAssign};

/// Drive time that pieces cost according to the model, in nanoseconds.
///
/// A cost is a price, not an interval. Only if the drive is busy, the cost of everything in flight
/// equals the time until it is completed (Little's law). Code that relies on this calls
/// [`Cost::time`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Cost(u64);

impl Cost {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The cost of work that keeps a busy drive busy for `time`.
    pub(crate) const fn of(time: Span) -> Self {
        Self(time.as_nanos())
    }

    /// Returns the time for which this work keeps a busy drive busy.
    pub(crate) const fn time(self) -> Span {
        Span::from_nanos(self.0)
    }

    pub(crate) const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(crate) const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl SubAssign for Cost {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Cost {
    type Output = Self;
    /// Multiplies and saturates, because [`MAX`](Self::MAX) stands for a window without a limit.
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Cost {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

/// Bytes that clients requested or received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Bytes(pub(crate) u64);

impl Bytes {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<u32> for Bytes {
    fn from(bytes: u32) -> Self {
        Self(bytes.into())
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// The amount that an entity is charged in its share: nanoseconds of drive time or bytes, depending
/// on [`Excess`](super::Excess).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct ShareCharge(pub(crate) u64);

/// A member of the tree of shares: a group or a stream. A group has the number of its slot, and a
/// stream has the number of groups plus its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct ShareEntity(pub(crate) u32);

impl ShareEntity {
    /// Stands for no entity.
    pub(crate) const NONE: Self = Self(NIL);
}
