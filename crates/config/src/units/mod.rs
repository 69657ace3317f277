//! Sizes, rates and times as people write them: a number with its unit.
//!
//! Units are decimal (`MB` = 10^6 bytes) or binary (`MiB` = 2^20 bytes). A fraction is allowed if
//! the value is a whole number of the smallest unit (`"1.5MB/s"`). Values are exact in 64 bits, and
//! larger values are errors.
//!
//! ```
//! use weir_config::units::{ByteSize, BytesPerSecond, Time};
//!
//! assert_eq!("8GiB".parse(), Ok(ByteSize(8 << 30)));
//! assert_eq!("1.5MB/s".parse(), Ok(BytesPerSecond(1_500_000)));
//! assert_eq!(Time::from_nanos(30_000).to_string(), "30us");
//! let error = "50MB".parse::<BytesPerSecond>().unwrap_err();
//! assert_eq!(error.to_string(), "\"50MB\" is a size, not a rate");
//! ```

mod number;

use number::DecimalNumber;
use std::fmt;
use std::str::FromStr;
use weir_core::Span;

/// A number of bytes: `"8GiB"`, `"128KiB"`, `"4096B"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct ByteSize(pub u64);

/// A number of bytes per second: `"50MB/s"`, `"1.5GiB/s"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct BytesPerSecond(pub u64);

/// A length of time: `"2s"`, `"500ms"`, `"30us"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Time(pub Span);

impl Time {
    /// Returns a time of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(Span::from_nanos(ns))
    }
}

/// The error for a text that is not a size, a rate or a time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} {reason}")]
pub struct UnitError {
    /// The text that could not be read.
    pub text: String,
    /// The problem with the text.
    pub reason: UnitProblem,
    /// A text to write instead, which is empty if the reason is sufficient.
    pub help: String,
}

impl UnitError {
    /// Returns the problem and its help.
    pub(crate) fn into_problem_parts(self) -> (String, String) {
        (self.to_string(), self.help)
    }
}

/// The problem with a text that is not a size, a rate or a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitProblem {
    /// The text does not begin with a number: digits, optionally followed by a point and digits.
    #[error("is not a number with a unit")]
    NotANumber,
    /// The number contains a comma.
    #[error("contains a comma")]
    Comma,
    /// The number is below zero.
    #[error("is negative")]
    Negative,
    /// The number is not followed by a unit.
    #[error("has no unit")]
    NoUnit,
    /// The unit does not belong to this quantity.
    #[error("has an unknown unit")]
    UnknownUnit,
    /// The unit counts bits.
    #[error("is in bits, which are not supported")]
    Bits,
    /// The text is a size, but a rate is expected.
    #[error("is a size, not a rate")]
    NotARate,
    /// The text is a rate, but a size is expected.
    #[error("is a rate, not a size")]
    NotASize,
    /// The value is not a whole number of bytes, bytes per second or nanoseconds.
    #[error("is not a whole number of {0}")]
    NotWhole(&'static str),
    /// The value exceeds 2^64 - 1 bytes, bytes per second or nanoseconds.
    #[error("is more than 2^64 - 1 {0}")]
    TooLarge(&'static str),
}

/// The name of a unit, and its multiple of the smallest unit.
type UnitFactor = (&'static str, u64);

/// The units of sizes, largest first. For each power, the decimal unit comes before the binary one,
/// so the printer prefers it among texts of equal length.
const SIZES: &[UnitFactor] = &[
    ("PB", 1_000_000_000_000_000),
    ("PiB", 1 << 50),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("B", 1),
];

const TIMES: &[UnitFactor] = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const SIZE_HELP: &str =
    "units are B, kB, MB, GB, TB, PB (powers of 1000) and KiB, MiB, GiB, TiB, PiB (powers of 1024)";
const RATE_HELP: &str = "units are B/s, kB/s, MB/s, GB/s, TB/s, PB/s (powers of 1000) and KiB/s, MiB/s, GiB/s, TiB/s, PiB/s (powers of 1024)";
const TIME_HELP: &str = "units are ns, us, ms, s, min, h";

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = DecimalNumber::read(text).map_err(|r| fail(text, r, SIZE_HELP.into()))?;
        if let Some(size) = number.unit.strip_suffix("/s") {
            let help = format!("write \"{}{size}\", without \"/s\"", number.digits);
            return Err(fail(text, UnitProblem::NotASize, help));
        }
        let unit = size_unit(number.unit).map_err(|r| {
            let help = nearest(&number, number.unit, "").unwrap_or_else(|| SIZE_HELP.into());
            fail(text, r, help)
        })?;
        number
            .times(unit, "bytes")
            .map(Self)
            .map_err(|r| fail(text, r, SIZE_HELP.into()))
    }
}

impl FromStr for BytesPerSecond {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = DecimalNumber::read(text).map_err(|r| fail(text, r, RATE_HELP.into()))?;
        let Some(size) = number.unit.strip_suffix("/s") else {
            let (reason, help) = match size_unit(number.unit) {
                Ok(_) => (UnitProblem::NotARate, format!("write \"{text}/s\"")),
                Err(reason) => (reason, RATE_HELP.into()),
            };
            return Err(fail(text, reason, help));
        };
        let unit = size_unit(size).map_err(|r| {
            let help = nearest(&number, size, "/s").unwrap_or_else(|| RATE_HELP.into());
            fail(text, r, help)
        })?;
        number
            .times(unit, "bytes a second")
            .map(Self)
            .map_err(|r| fail(text, r, RATE_HELP.into()))
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = DecimalNumber::read(text).map_err(|r| fail(text, r, TIME_HELP.into()))?;
        let unit = TIMES.iter().find(|u| u.0 == number.unit);
        let reason = match unit {
            Some(unit) => match number.times(unit.1, "nanoseconds") {
                Ok(ns) => return Ok(Self::from_nanos(ns)),
                Err(reason) => reason,
            },
            None if number.unit.is_empty() => UnitProblem::NoUnit,
            None => UnitProblem::UnknownUnit,
        };
        Err(fail(text, reason, TIME_HELP.into()))
    }
}

impl fmt::Display for ByteSize {
    /// Prints the shortest exact text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` obeys the width of the format string.
        f.pad(&number::shortest(self.0, SIZES, ""))
    }
}

impl fmt::Display for BytesPerSecond {
    /// Prints the shortest exact text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&number::shortest(self.0, SIZES, "/s"))
    }
}

impl fmt::Display for Time {
    /// Prints the shortest exact text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The general text for zero would have the smallest unit, `0ns`.
        if self.0 == Span::ZERO {
            return f.pad("0s");
        }
        f.pad(&number::shortest(self.0.as_nanos(), TIMES, ""))
    }
}

fn fail(text: &str, reason: UnitProblem, help: String) -> UnitError {
    let help = match reason {
        UnitProblem::Comma => without_commas(text),
        // The help for the unit would not help, because another part of the text is wrong.
        UnitProblem::Negative => "write it without the minus sign".to_owned(),
        // No other spelling would help.
        UnitProblem::NotWhole(_) | UnitProblem::TooLarge(_) => String::new(),
        _ => help,
    };
    UnitError {
        text: text.to_owned(),
        reason,
        help,
    }
}

/// Returns the help for a number with commas, which separate either thousands or a fraction.
fn without_commas(text: &str) -> String {
    let joined = text.replace(',', "");
    let after = text.split(',').nth(1).unwrap_or_default();
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let point = text.replace(',', ".");
    match (text.matches(',').count(), digits) {
        // A single comma before three digits can be either, so both readings are offered.
        (1, 3) => format!("write \"{joined}\", or \"{point}\" with a point before a fraction"),
        (1, _) => format!("write \"{point}\", with a point before the fraction"),
        _ => format!("write \"{joined}\", without commas"),
    }
}

/// Returns the number of bytes of a unit. `KB` is accepted for `kB`, because it is common and has
/// no other meaning here.
fn size_unit(unit: &str) -> Result<u64, UnitProblem> {
    let name = if unit == "KB" { "kB" } else { unit };
    match SIZES.iter().find(|u| u.0 == name) {
        Some(unit) => Ok(unit.1),
        None if unit.is_empty() => Err(UnitProblem::NoUnit),
        // `bps` is commonly used for bits per second.
        None if unit.ends_with("bit") || unit.ends_with("bps") => Err(UnitProblem::Bits),
        // `Mb` is a unit of bits, but `mb` is probably a misspelt `MB`, and `nearest` has the help.
        None if unit.len() > 1 && unit.ends_with('b') && !unit.starts_with(['g', 'm', 't']) => {
            Err(UnitProblem::Bits)
        }
        None => Err(UnitProblem::UnknownUnit),
    }
}

/// Returns the help for a unit without its `B` or in the wrong case.
fn nearest(number: &DecimalNumber<'_>, unit: &str, suffix: &str) -> Option<String> {
    let letters = unit.to_ascii_lowercase();
    let prefix = letters.strip_suffix('b').unwrap_or(&letters);
    let prefix = prefix.strip_suffix('i').unwrap_or(prefix);
    let (decimal, binary) = match prefix {
        "k" => ("kB", "KiB"),
        "m" => ("MB", "MiB"),
        "g" => ("GB", "GiB"),
        "t" => ("TB", "TiB"),
        "p" => ("PB", "PiB"),
        _ => return None,
    };
    let digits = number.digits;
    Some(format!(
        "write \"{digits}{decimal}{suffix}\" (powers of 1000) or \"{digits}{binary}{suffix}\" (powers of 1024)"
    ))
}

#[cfg(test)]
mod tests;
