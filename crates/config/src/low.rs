//! Settings of `io.low` for a group in the format of Linux's file: `8:16 rbps=10485760 wbps=max
//! riops=max wiops=max idle=1000 latency=100`.

use crate::nearest;
use crate::text::quoted;
use std::fmt::Write as _;
use weir_core::{LowKnobs, Span};

/// A problem with a line, and its help.
type LowProblem = (String, String);

/// The word for a limit that is not set.
const NO_LIMIT: &str = "max";
/// The names of the settings: limits, followed by times in microseconds.
const NAMES: [&str; 6] = ["rbps", "wbps", "riops", "wiops", "idle", "latency"];
/// The maximum of a limit, which is the same as in contracts.
const MOST: u64 = 1_000_000_000_000;
/// The maximum of a time in microseconds: one minute, as for the tunables of the policy.
const MICROS_MOST: u64 = 60_000_000;

/// Reads a line. Settings that it does not name are not set.
pub(crate) fn read(line: &str) -> Result<LowKnobs, LowProblem> {
    let mut low = LowKnobs::NONE;
    let mut named = Vec::new();
    for (nth, word) in line.split_whitespace().enumerate() {
        if nth == 0 && is_device(word) {
            continue;
        }
        let Some((name, value)) = word.split_once('=') else {
            let what = format!("{} is not a setting", quoted(word));
            return Err((
                what,
                "write for example rbps=10485760 idle=1000 latency=100".into(),
            ));
        };
        if !NAMES.contains(&name) {
            let what = format!("unknown setting {}", quoted(name));
            return Err((what, nearest::help(name, NAMES)));
        }
        if named.contains(&name) {
            return Err((format!("{name} is set twice"), "write it once".into()));
        }
        named.push(name);
        set(&mut low, name, value)?;
    }
    // A line without a limit would replace the min by nothing.
    if low.is_limited() {
        Ok(low)
    } else {
        let help = "set at least one of rbps, wbps, riops and wiops, or remove the key";
        Err(("must have at least one limit".into(), help.into()))
    }
}

fn set(low: &mut LowKnobs, name: &str, value: &str) -> Result<(), LowProblem> {
    let is_time = matches!(name, "idle" | "latency");
    let most = if is_time { MICROS_MOST } else { MOST };
    let number = match value {
        // The core uses zero for no limit.
        NO_LIMIT if !is_time => 0,
        _ => match whole(value) {
            Some(number) if (1..=most).contains(&number) => number,
            _ => {
                let or = if is_time { "" } else { ", or max" };
                let what = format!("{name} cannot be {}", quoted(value));
                return Err((what, format!("write {name}=1 to {name}={most}{or}")));
            }
        },
    };
    match name {
        "rbps" => low.read_bandwidth = number,
        "wbps" => low.write_bandwidth = number,
        "riops" => low.read_iops = number,
        "wiops" => low.write_iops = number,
        "idle" => low.idle = Span::from_micros(number),
        _ => low.latency = Span::from_micros(number),
    }
    Ok(())
}

/// Parses a number that consists of decimal digits only.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Returns true for the number of a device such as `8:16`. It is accepted, so that a line of Linux
/// can be copied.
pub(crate) fn is_device(word: &str) -> bool {
    let parts = word.split_once(':');
    parts.is_some_and(|(major, minor)| whole(major).is_some() && whole(minor).is_some())
}

/// Returns the line for a configuration.
pub(crate) fn line(low: &LowKnobs) -> String {
    let mut line = String::new();
    let limits = [
        low.read_bandwidth,
        low.write_bandwidth,
        low.read_iops,
        low.write_iops,
    ];
    for (name, limit) in NAMES.into_iter().zip(limits) {
        let _ = match limit {
            0 => write!(line, "{name}={NO_LIMIT} "),
            limit => write!(line, "{name}={limit} "),
        };
    }
    for (name, time) in [("idle", low.idle), ("latency", low.latency)] {
        if time > Span::ZERO {
            let _ = write!(line, "{name}={} ", time.as_nanos() / 1_000);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_low_limits_parse_to_the_same_limits() {
        for text in [
            "rbps=10485760 wbps=max riops=max wiops=7 idle=1000 latency=100",
            "rbps=max wbps=max riops=1 wiops=max",
        ] {
            let low = read(text).unwrap();
            assert_eq!(line(&low), text);
        }
        let with_device = read("8:16 wiops=7 idle=1").unwrap();
        assert_eq!((with_device.write_iops, with_device.read_iops), (7, 0));
        assert_eq!(with_device.idle, Span::from_micros(1));
    }

    #[test]
    fn wrong_lines_are_explained() {
        let said = |text: &str| {
            let (what, help) = read(text).unwrap_err();
            format!("{what}; {help}")
        };
        for (text, expected) in [
            ("", "must have at least one limit; set at least one of"),
            ("rbps=max idle=5", "must have at least one limit; "),
            ("rbps", "\"rbps\" is not a setting; "),
            // Only the first word can be the number of a device.
            ("8:16 8:16", "\"8:16\" is not a setting; "),
            ("rps=5", "unknown setting \"rps\"; did you mean \"rbps\"?"),
            ("riops=5 riops=6", "riops is set twice; "),
            ("riops=0", "riops cannot be \"0\"; write riops=1 to "),
            // The parser of Rust would accept a sign.
            ("riops=+5", "riops cannot be \"+5\"; "),
            ("riops=", "riops cannot be \"\"; "),
            ("riops=99999999999999999999", "riops cannot be "),
            ("riops=5 idle=max", "idle cannot be \"max\"; "),
            ("riops=5 latency=60000001", "latency cannot be "),
        ] {
            assert!(said(text).starts_with(expected), "{text}: {}", said(text));
        }
    }
}
