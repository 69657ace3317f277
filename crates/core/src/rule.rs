//! Rules that the fields of a configuration must follow, checked in one way everywhere.

use crate::time::Span;
use core::fmt;
use core::ops::RangeInclusive;

/// Whether a rule holds, the field that it is about, the field's value, and what is allowed.
pub type Rule = (bool, &'static str, u64, &'static str);

/// A field that breaks its rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The field.
    pub field: &'static str,
    /// What it was set to, in the unit of `allowed`.
    pub value: u64,
    /// What is allowed, with the unit.
    pub allowed: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        write!(f, "{field} = {value}: must be {allowed}")
    }
}

impl core::error::Error for Broken {}

/// Checks rules in their order.
///
/// # Errors
/// The first that does not hold.
pub fn check(rules: impl IntoIterator<Item = Rule>) -> Result<(), Broken> {
    let mut rules = rules.into_iter();
    match rules.find(|(holds, ..)| !holds) {
        Some((_, field, value, allowed)) => Err(Broken {
            field,
            value,
            allowed,
        }),
        None => Ok(()),
    }
}

/// Rules, a row each: the field, its value, what must hold of it (a range, or a condition), and what is allowed.
#[macro_export]
macro_rules! rules {
    ($($field:expr, $value:expr, $holds:expr, $allowed:expr;)*) => {
        [$({
            let value = $crate::rule::Number::number($value);
            ($crate::rule::Holds::holds($holds, value), $field, value, $allowed)
        }),*]
    };
}

/// What must hold of a value.
pub trait Holds {
    /// Whether it holds of this value.
    fn holds(self, value: u64) -> bool;
}

impl Holds for bool {
    fn holds(self, _: u64) -> bool {
        self
    }
}

impl Holds for RangeInclusive<u64> {
    fn holds(self, value: u64) -> bool {
        self.contains(&value)
    }
}

/// What a field of a configuration is, as a number: times in nanoseconds, flags as 0 and 1.
pub trait Number: Copy {
    /// The number.
    fn number(self) -> u64;
    /// `value`, or the largest number that it can hold.
    fn from_number(value: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn number(self) -> u64 {
                self.into()
            }
            fn from_number(value: u64) -> Self {
                Self::try_from(value).unwrap_or(Self::MAX)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64);

impl Number for Span {
    fn number(self) -> u64 {
        self.as_nanos()
    }
    fn from_number(value: u64) -> Self {
        Self::from_nanos(value)
    }
}

impl Number for bool {
    fn number(self) -> u64 {
        self.into()
    }
    fn from_number(value: u64) -> Self {
        value > 0
    }
}

/// What a number of a configuration counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// KiB: 1024 bytes.
    Kib,
    /// Sectors of 512 bytes.
    Sectors,
    /// A plain number.
    Count,
    /// 1 for true, 0 for false.
    Flag,
    /// The place of one of these words.
    Word(&'static [&'static str]),
}

impl Unit {
    /// Bytes that the number 1 stands for, where it is a size.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::Kib => Some(1024),
            Self::Sectors => Some(512),
            Self::Time | Self::Count | Self::Flag | Self::Word(_) => None,
        }
    }
}

/// What is allowed of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// These words say it.
    Words(&'static str),
    /// A number from the one to the other.
    Between(Unit, u64, u64),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Words(words) => f.write_str(words),
            Self::Between(Unit::Flag, ..) => f.write_str("0 or 1"),
            Self::Between(unit, least, most) => {
                if least == 0 {
                    f.write_str("at most ")?;
                } else {
                    number(f, unit, least)?;
                    f.write_str(" to ")?;
                }
                number(f, unit, most)
            }
        }
    }
}

/// A number with its unit.
fn number(f: &mut fmt::Formatter<'_>, unit: Unit, value: u64) -> fmt::Result {
    match unit {
        Unit::Time => match value {
            v if v.is_multiple_of(1_000_000_000) => write!(f, "{} s", v / 1_000_000_000),
            v if v.is_multiple_of(1_000_000) => write!(f, "{} ms", v / 1_000_000),
            v => write!(f, "{v} ns"),
        },
        Unit::Kib => write!(f, "{value} KiB"),
        Unit::Sectors => write!(f, "{value} sectors"),
        Unit::Count | Unit::Flag | Unit::Word(_) => write!(f, "{value}"),
    }
}

/// Why a [`Config`](crate::Config) makes no layer: the field and what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// What is allowed.
    pub allowed: Allowed,
}

impl From<Broken> for ConfigError {
    fn from(broken: Broken) -> Self {
        Self {
            field: broken.field,
            allowed: Allowed::Words(broken.allowed),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.field, self.allowed)
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_said_with_its_unit() {
        let said = |unit, least, most| std::format!("{}", Allowed::Between(unit, least, most));
        let ms = 1_000_000;
        assert_eq!(said(Unit::Time, 0, 2_000 * ms), "at most 2 s");
        assert_eq!(said(Unit::Time, 1, 20 * ms), "1 ns to 20 ms");
        assert_eq!(said(Unit::Kib, 4, 8), "4 KiB to 8 KiB");
        assert_eq!(said(Unit::Sectors, 0, 8), "at most 8 sectors");
        assert_eq!(said(Unit::Count, 1, 64), "1 to 64");
        assert_eq!(said(Unit::Flag, 0, 1), "0 or 1");
        assert_eq!(std::format!("{}", Allowed::Words("even")), "even");
    }

    #[test]
    fn the_first_rule_that_is_broken_is_named() {
        let rules = |one, two| [(one, "one", 1, "2"), (two, "two", 3, "4")];
        assert_eq!(check(rules(true, true)), Ok(()));
        assert_eq!(check(rules(true, false)).unwrap_err().field, "two");
        let broken = check(rules(false, false)).unwrap_err();
        assert_eq!(
            (broken.field, broken.value, broken.allowed),
            ("one", 1, "2")
        );
    }
}
