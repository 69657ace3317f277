//! Formats numbers with three digits and a unit, at most eight columns wide.

/// Formats a rate in bytes per second, for example `12.3MB/s`.
pub(super) fn rate(bytes: u64) -> String {
    scaled(bytes as f64, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// Formats a rate in requests per second, for example `1.23kr/s`.
pub(super) fn requests(requests: u64) -> String {
    scaled(requests as f64, &["r/s", "kr/s", "Mr/s", "Gr/s"])
}

/// Formats a count, for example `12.3k`.
pub(super) fn count(number: u64) -> String {
    scaled(number as f64, &["", "k", "M", "G", "T"])
}

/// Formats microseconds with two digits, or with three if there is no decimal point, for example
/// `1.2ms` or `104ms`.
pub(super) fn time(us: f64) -> String {
    let (mut value, mut at) = (us, 0);
    let units = ["us", "ms", "s"];
    // From 999.5 on, the rounded value would have four digits.
    while value >= 999.5 && at + 1 < units.len() {
        value /= 1000.0;
        at += 1;
    }
    let digits = usize::from(value < 9.95 && value != 0.0);
    format!("{value:.digits$}{}", units[at])
}

/// Formats a fraction of 1 as a percentage.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

/// Formats seconds in the two largest units.
pub(super) fn duration(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, length) in units {
        if left >= length && parts.len() < 2 {
            parts.push(format!("{} {unit}", left / length));
            left %= length;
        }
    }
    if parts.is_empty() {
        "0 s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Formats a value with three digits, in the first unit in which they suffice. Each unit is 1000
/// times the previous one.
fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value >= 999.5 && at + 1 < units.len() {
        value /= 1000.0;
        at += 1;
    }
    // The limits are those at which rounding would add a digit.
    let digits = match value {
        _ if at == 0 && value.fract() == 0.0 => 0,
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{value:.digits$}{}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_printed_with_three_digits_and_a_unit() {
        let cases = [
            (0, "0B/s"),
            (999, "999B/s"),
            (999_499, "999kB/s"),
            (999_500, "1.00MB/s"),
            (12_345_678, "12.3MB/s"),
            (99_960_000, "100MB/s"),
            (1_500_000_000_000, "1.50TB/s"),
        ];
        for (bytes, text) in cases {
            assert_eq!(rate(bytes), text);
        }
        assert_eq!(time(0.0), "0us");
        assert_eq!(time(0.4), "0.4us");
        assert_eq!(time(1234.0), "1.2ms");
        assert_eq!(time(99_960.0), "100ms");
        assert_eq!(time(12_345_678.0), "12s");
        assert_eq!(count(9_996), "10.0k");
        assert_eq!(requests(500), "500r/s");
        assert_eq!(duration(0), "0 s");
        assert_eq!(duration(90_061), "1 d 1 h");
    }

    #[test]
    fn possible_rates_and_counts_fit_their_columns() {
        for power in 0..15 {
            for digit in [1, 5, 9] {
                let bytes = digit * 10_u64.pow(power);
                assert!(rate(bytes).len() <= 8, "{bytes}");
                assert!(count(bytes).len() <= 5, "{bytes}");
            }
        }
    }
}
