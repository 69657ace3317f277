//! Values of options in the syntax of `fio`.

use super::{OptionLine, Section};
use crate::document::Document;
use crate::text::quoted;
use std::ops::RangeInclusive;
use weir_core::Span;

/// The power of 1000 or 1024 for the first letter of a unit.
const POWERS: &[(&str, u32)] = &[("k", 1), ("m", 2), ("g", 3), ("t", 4), ("p", 5)];

/// The units of time in nanoseconds.
const TIMES: &[(&[&str], u64)] = &[
    (&["us", "usec"], 1_000),
    (&["ms", "msec"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["h", "hour"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
];

/// Reads `kb_base`. With 1024, the default, `k` is 1024 and `kib` is 1000. With 1000, it is the
/// other way round.
pub(super) fn base(doc: &mut Document<'_>, section: &Section<'_>) -> u64 {
    let Some(line) = section.get("kb_base") else {
        return 1024;
    };
    match line.value {
        Some("1000") => 1000,
        Some("1024") => 1024,
        _ => {
            report_value(doc, line, "must be 1000 or 1024", "");
            1024
        }
    }
}

/// Reports a problem with the value of an option.
pub(super) fn report_value(doc: &mut Document<'_>, line: &OptionLine<'_>, what: &str, help: &str) {
    // A variable that is not set stays in the text, and is the cause of the problem.
    let variable = line.value.is_some_and(|value| value.contains("${"));
    let help = if variable {
        "set the variable in the environment, or write its value"
    } else {
        help
    };
    let what = match line.value {
        Some(value) => format!("{} {what}", quoted(value)),
        None => "has no value".to_owned(),
    };
    doc.report_span(&line.value_at, line.name, what, help);
}

/// Parses a number of bytes such as `4k`.
pub(super) fn bytes(text: &str, base: u64) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim().to_ascii_lowercase();
    // `k`, `kb` and `ki` use the base. Only `kib` uses the other base.
    let (letter, other) = match unit.strip_suffix("ib") {
        Some(letter) => (letter, true),
        None => (unit.trim_end_matches(['i', 'b']), false),
    };
    if letter.is_empty() {
        return (!other).then_some(number);
    }
    let power = POWERS.iter().find(|p| p.0 == letter)?.1;
    // 2024 - 1024 = 1000, and 2024 - 1000 = 1024.
    let base = if other { 2024 - base } else { base };
    number.checked_mul(base.checked_pow(power)?)
}

/// Reads a number of bytes in a range.
pub(super) fn size(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    base: u64,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    size_of(doc, section.get(name)?, base, range)
}

/// Reads the number of bytes that a line states.
pub(super) fn size_of(
    doc: &mut Document<'_>,
    line: &OptionLine<'_>,
    base: u64,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    let value = line.value.unwrap_or_default();
    // Only `size` and the offsets can be percentages, and other code reads these.
    if value.ends_with('%') {
        let help = "write bytes, for example 1g";
        report_value(doc, line, "is a part of a file of unknown length", help);
        return None;
    }
    let found = bytes(value, base);
    match found.filter(|bytes| range.contains(bytes)) {
        None if found.is_some() => {
            let (least, most) = range.into_inner();
            let what = format!("must be between {least} and {most} bytes");
            report_value(doc, line, &what, "");
            None
        }
        None => {
            let help = "write for example 4096, 4k or 1g";
            report_value(doc, line, "is not a number of bytes", help);
            None
        }
        found => found,
    }
}

/// Reads a whole number in a range.
pub(super) fn count(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    let line = section.get(name)?;
    // Counts can have a unit such as `1k` too.
    let number = line.value.and_then(|v| bytes(v, 1024));
    let number = number.filter(|n| range.contains(n));
    if number.is_none() {
        let (least, most) = range.into_inner();
        let what = format!("must be a whole number from {least} to {most}");
        report_value(doc, line, &what, "");
    }
    number
}

/// Reads a length of time. A number without a unit is in units of `unit` nanoseconds.
pub(super) fn time(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    unit: u64,
) -> Option<Span> {
    let line = section.get(name)?;
    let time = span(line.value.unwrap_or_default(), unit);
    if time.is_none() {
        let help = "write for example 10, 500ms or 1m";
        report_value(doc, line, "is not a time of at most one hour", help);
    }
    time
}

/// Reads a time or a range of times. Each job draws its own time from a range. Returns the minimum,
/// and the difference between maximum and minimum.
pub(super) fn time_range(
    doc: &mut Document<'_>,
    section: &Section<'_>,
    name: &str,
    unit: u64,
) -> Option<(Span, Span)> {
    let line = section.get(name)?;
    let Some((least, most)) = line.value.and_then(|text| text.split_once('-')) else {
        return time(doc, section, name, unit).map(|time| (time, Span::ZERO));
    };
    let ends = span(least, unit).zip(span(most, unit));
    let found = ends.filter(|(least, most)| least <= most);
    if found.is_none() {
        let help = "write for example 10-20 or 0ms-500ms";
        report_value(
            doc,
            line,
            "is not a range of times of at most one hour",
            help,
        );
    }
    found.map(|(least, most)| (least, most - least))
}

/// Parses a length of time of at most one hour.
fn span(text: &str, unit: u64) -> Option<Span> {
    const MOST: u64 = 3_600_000_000_000;
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, written) = text.split_at(end);
    let written = written.trim().to_ascii_lowercase();
    let known = TIMES.iter().find(|t| t.0.contains(&written.as_str()));
    let unit = match known {
        _ if written.is_empty() => Some(unit),
        known => known.map(|t| t.1),
    };
    let number = number.parse::<u64>().ok();
    let ns = number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    ns.filter(|ns| *ns <= MOST).map(Span::from_nanos)
}

/// Reads a flag: `1` or no value is true, `0` is false.
pub(super) fn flag(doc: &mut Document<'_>, section: &Section<'_>, name: &str) -> Option<bool> {
    let line = section.get(name)?;
    match line.value {
        None | Some("1") => Some(true),
        Some("0") => Some(false),
        _ => {
            report_value(doc, line, "must be 0 or 1", "");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    /// The units are those of `fio` 3.33, as measured with `--ioengine=null --size=4kib --bs=1` and
    /// similar options.
    #[test]
    fn units_match_the_units_of_fio() {
        // With `kb_base=1024`, only `4KiB` is 4,000 bytes.
        let of = |text| bytes(text, 1024);
        assert_eq!(
            ["4096", "4k", "4K", "4kb", "4ki", "4KiB", "1g"].map(of),
            [
                Some(4096),
                Some(4096),
                Some(4096),
                Some(4096),
                Some(4096),
                Some(4000),
                Some(1 << 30)
            ]
        );
        // With `kb_base=1000`, only `4KiB` is 4,096 bytes.
        let of = |text| bytes(text, 1000);
        assert_eq!(
            ["4k", "4kb", "4ki", "4KiB", "1G"].map(of),
            [
                Some(4000),
                Some(4000),
                Some(4000),
                Some(4096),
                Some(1_000_000_000)
            ]
        );
        assert_eq!(
            [
                "",
                "k",
                "4x",
                "-4k",
                "4kk",
                "99999999999999999999",
                "9999999p"
            ]
            .map(of),
            [None; 7]
        );
    }
}
