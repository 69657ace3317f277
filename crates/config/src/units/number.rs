//! A number and what follows it, exact.

use super::{Reason, Unit};

/// Digits behind the point that are looked at; 10^18 units of any kind are still exact in 128 bits.
const FRACTION_MAX: usize = 18;

const MILLION: u128 = 1_000_000;

/// A number with digits behind its point, and its unit.
pub(super) struct Number<'a> {
    /// As it was written.
    pub(super) digits: &'a str,
    /// What follows, perhaps nothing.
    pub(super) unit: &'a str,
    whole: &'a str,
    fraction: &'a str,
}

impl<'a> Number<'a> {
    /// Splits `12.5 MB` into its parts. One space before the unit is permitted.
    pub(super) fn read(text: &'a str) -> Result<Self, Reason> {
        if text.starts_with('-') {
            return Err(Reason::Negative);
        }
        let (whole, rest) = digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        if !whole.is_empty() && rest.starts_with(',') {
            return Err(Reason::Comma);
        }
        let number = &text[..text.len() - rest.len()];
        if whole.is_empty() || number.ends_with('.') {
            return Err(Reason::NotANumber);
        }
        Ok(Self {
            digits: number,
            unit: rest.strip_prefix(' ').unwrap_or(rest),
            whole,
            fraction: fraction.trim_end_matches('0'),
        })
    }

    /// This number of units, in the smallest one, which is named `of`.
    pub(super) fn times(&self, unit: u64, of: &'static str) -> Result<u64, Reason> {
        let whole = match self.whole.trim_start_matches('0') {
            "" => 0,
            // Nothing of more than 20 digits fits into 64 bits.
            long if long.len() > 20 => return Err(Reason::TooLarge(of)),
            digits => parse(digits),
        };
        if self.fraction.len() > FRACTION_MAX {
            return Err(Reason::NotWhole(of));
        }
        let parts = 10_u128.pow(self.fraction.len() as u32);
        let fraction = parse(self.fraction) * u128::from(unit);
        if !fraction.is_multiple_of(parts) {
            return Err(Reason::NotWhole(of));
        }
        u64::try_from(whole * u128::from(unit) + fraction / parts).map_err(|_| Reason::TooLarge(of))
    }
}

/// The shortest exact way to write `value`, with at most six digits behind the point; the largest unit among equals.
pub(super) fn shortest(value: u64, units: &[Unit], suffix: &str) -> String {
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

/// The digits at the beginning, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// At most 20 digits as a number; none are zero.
fn parse(digits: &str) -> u128 {
    digits.bytes().fold(0, |n, d| n * 10 + u128::from(d - b'0'))
}
