//! Exact decimal numbers with a unit.

use super::{UnitFactor, UnitProblem};

/// The maximum number of digits after the point. 10^18 times the largest unit, 2^50, still fits
/// into 128 bits.
const FRACTION_MAX: usize = 18;

const MILLION: u128 = 1_000_000;

/// A decimal number and its unit.
pub(super) struct DecimalNumber<'a> {
    /// The number as it was written.
    pub(super) digits: &'a str,
    /// The text after the number, which can be empty.
    pub(super) unit: &'a str,
    whole: &'a str,
    fraction: &'a str,
}

impl<'a> DecimalNumber<'a> {
    /// Splits `12.5 MB` into its parts. One space before the unit is permitted.
    pub(super) fn read(text: &'a str) -> Result<Self, UnitProblem> {
        if text.starts_with('-') {
            return Err(UnitProblem::Negative);
        }
        let (whole, rest) = digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        // A comma is reported by itself, because its help differs from that for an unknown unit.
        if !whole.is_empty() && rest.starts_with(',') {
            return Err(UnitProblem::Comma);
        }
        let number = &text[..text.len() - rest.len()];
        if whole.is_empty() || number.ends_with('.') {
            return Err(UnitProblem::NotANumber);
        }
        Ok(Self {
            digits: number,
            // `8 GiB` is as common as `8GiB`.
            unit: rest.strip_prefix(' ').unwrap_or(rest),
            whole,
            // Zeros at the end do not count towards the maximum number of decimal places.
            fraction: fraction.trim_end_matches('0'),
        })
    }

    /// Returns this number of `unit`s in the smallest unit, whose name in errors is `of`.
    pub(super) fn times(&self, unit: u64, of: &'static str) -> Result<u64, UnitProblem> {
        let whole = match self.whole.trim_start_matches('0') {
            "" => 0,
            // 2^64 - 1 has 20 digits, so a number with more digits is too large.
            long if long.len() > 20 => return Err(UnitProblem::TooLarge(of)),
            digits => parse(digits),
        };
        if self.fraction.len() > FRACTION_MAX {
            return Err(UnitProblem::NotWhole(of));
        }
        let parts = 10_u128.pow(self.fraction.len() as u32);
        let fraction = parse(self.fraction) * u128::from(unit);
        if !fraction.is_multiple_of(parts) {
            return Err(UnitProblem::NotWhole(of));
        }
        u64::try_from(whole * u128::from(unit) + fraction / parts)
            .map_err(|_| UnitProblem::TooLarge(of))
    }
}

/// Returns the shortest exact text for `value`, with at most six digits after the point. Among
/// texts of equal length, it prefers the first unit of the list.
pub(super) fn shortest(value: u64, units: &[UnitFactor], suffix: &str) -> String {
    let exact = units.iter().filter_map(|&(name, unit)| {
        let millionths = u128::from(value) * MILLION;
        let unit = u128::from(unit);
        if millionths < unit * MILLION || !millionths.is_multiple_of(unit) {
            return None;
        }
        let (whole, fraction) = (millionths / unit / MILLION, millionths / unit % MILLION);
        Some(if fraction == 0 {
            format!("{whole}{name}")
        } else {
            let fraction = format!("{fraction:06}");
            format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
        })
    });
    let smallest = units.last().map_or("", |u| u.0);
    let text = exact.min_by_key(String::len);
    text.unwrap_or_else(|| format!("{value}{smallest}")) + suffix
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the value of at most 20 digits, and 0 for an empty text.
fn parse(digits: &str) -> u128 {
    digits.bytes().fold(0, |n, d| n * 10 + u128::from(d - b'0'))
}
