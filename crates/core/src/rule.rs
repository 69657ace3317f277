//! Rules for the fields of a configuration, checked in the same way everywhere.

use crate::time::Span;
use core::fmt;
use core::ops::RangeInclusive;

/// A checked rule: true if it holds, the name of the field, the value of the field, and the allowed
/// values in words.
pub type Rule = (bool, &'static str, u64, &'static str);

/// A field with a value that is not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleViolation {
    /// The name of the field.
    pub field: &'static str,
    /// The value of the field, in the unit of `allowed`.
    pub value: u64,
    /// The allowed values with their unit.
    pub allowed: &'static str,
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        write!(f, "{field} = {value}: must be {allowed}")
    }
}

impl core::error::Error for RuleViolation {}

/// Checks rules in their order.
///
/// # Errors
/// Returns the first rule that does not hold.
pub fn check(rules: impl IntoIterator<Item = Rule>) -> Result<(), RuleViolation> {
    let mut rules = rules.into_iter();
    match rules.find(|(holds, ..)| !holds) {
        Some((_, field, value, allowed)) => Err(RuleViolation {
            field,
            value,
            allowed,
        }),
        None => Ok(()),
    }
}

/// Creates rules from one row for each rule: the field, its value, the condition (a range or a
/// boolean), and the allowed values in words.
#[macro_export]
macro_rules! rules {
    ($($field:expr, $value:expr, $holds:expr, $allowed:expr;)*) => {
        [$({
            let value = $crate::rule::Number::number($value);
            ($crate::rule::Holds::holds($holds, value), $field, value, $allowed)
        }),*]
    };
}

/// A condition on the value of a field.
pub trait Holds {
    /// Returns true if the condition holds for `value`.
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

/// A type of a configuration's field that can be converted to a number. Times are in nanoseconds,
/// and flags are 0 or 1.
pub trait Number: Copy {
    /// Returns the value as a number.
    fn number(self) -> u64;
    /// Returns `value` in this type, or the type's largest value if `value` is too large.
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

/// The unit of a number of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TunableUnit {
    /// A time in nanoseconds.
    Time,
    /// A size in KiB (1024 bytes).
    Kib,
    /// A size in sectors of 512 bytes.
    Sectors,
    /// A number without a unit.
    Count,
    /// A flag: 1 for true, 0 for false.
    Flag,
    /// The index of one of these words.
    Word(&'static [&'static str]),
}

impl TunableUnit {
    /// Returns the bytes for which the number 1 stands, if the unit is a size.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::Kib => Some(1024),
            Self::Sectors => Some(512),
            Self::Time | Self::Count | Self::Flag | Self::Word(_) => None,
        }
    }
}

/// The allowed values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// A description in words.
    Words(&'static str),
    /// A range of numbers from the first to the second, inclusive.
    Between(TunableUnit, u64, u64),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Words(words) => f.write_str(words),
            Self::Between(TunableUnit::Flag, ..) => f.write_str("0 or 1"),
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

/// Writes a number with its unit.
fn number(f: &mut fmt::Formatter<'_>, unit: TunableUnit, value: u64) -> fmt::Result {
    match unit {
        TunableUnit::Time => match value {
            // The largest unit that leaves a whole number.
            v if v.is_multiple_of(1_000_000_000) => write!(f, "{} s", v / 1_000_000_000),
            v if v.is_multiple_of(1_000_000) => write!(f, "{} ms", v / 1_000_000),
            v => write!(f, "{v} ns"),
        },
        TunableUnit::Kib => write!(f, "{value} KiB"),
        TunableUnit::Sectors => write!(f, "{value} sectors"),
        TunableUnit::Count | TunableUnit::Flag | TunableUnit::Word(_) => write!(f, "{value}"),
    }
}

/// The reason why a [`Config`](crate::Config) is refused: a field and its allowed values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The name of the field.
    pub field: &'static str,
    /// The allowed values of the field.
    pub allowed: Allowed,
}

impl From<RuleViolation> for ConfigError {
    fn from(broken: RuleViolation) -> Self {
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
    fn allowed_values_are_printed_with_their_unit() {
        let said = |unit, least, most| std::format!("{}", Allowed::Between(unit, least, most));
        let ms = 1_000_000;
        assert_eq!(said(TunableUnit::Time, 0, 2_000 * ms), "at most 2 s");
        assert_eq!(said(TunableUnit::Time, 1, 20 * ms), "1 ns to 20 ms");
        assert_eq!(said(TunableUnit::Kib, 4, 8), "4 KiB to 8 KiB");
        assert_eq!(said(TunableUnit::Sectors, 0, 8), "at most 8 sectors");
        assert_eq!(said(TunableUnit::Count, 1, 64), "1 to 64");
        assert_eq!(said(TunableUnit::Flag, 0, 1), "0 or 1");
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
