//! Numbers for people, with a fixed number of digits for each magnitude, so that equal results are
//! equal text.

/// Formats a bandwidth or another figure with three or four significant digits: `0.93`, `10.00`,
/// `249.8`, `3112`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".into(),
        // The limits are the smallest values that would round up to one more digit before the
        // point.
        v if v < 99.995 => format!("{:.2}", zero(value, 0.005)),
        v if v < 999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats a figure with three digits, or more if it is large: `3.25`, `31.5`, `410`, `4400`.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".into(),
        v if v < 9.995 => format!("{:.2}", zero(value, 0.005)),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats a value like [`figure`], but without trailing zeros, for running text.
pub fn plain(value: f64) -> String {
    let text = figure(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Formats microseconds with a suitable unit: `3.25 us`, `410 us`, `4.40 ms`, `1.20 s`.
pub fn duration(us: f64) -> String {
    match us.abs() {
        v if v < 999.5 => format!("{} us", short(us)),
        v if v < 999_500.0 => format!("{} ms", short(us / 1e3)),
        _ => format!("{} s", short(us / 1e6)),
    }
}

/// Formats a fraction (0 to 1) as a whole percentage. The result is `100%` only for the whole, and
/// `0%` only for nothing.
pub fn percent(part: f64) -> String {
    if !part.is_finite() {
        return "-".into();
    }
    let whole = (part * 100.0).round();
    if whole >= 100.0 && part < 1.0 {
        return "99%".into();
    }
    if whole <= 0.0 && part > 0.0 {
        return "1%".into();
    }
    format!("{whole:.0}%")
}

/// Formats a relative error with three digits (`0.08%`, `3.22%`, `275%`).
pub fn deviation(part: f64) -> String {
    format!("{}%", short(part * 100.0))
}

/// Formats the label of a tick of an axis: `0.05`, `2.5`, `1000`, `20k`, `5M`. `step` is the
/// distance to the next tick and determines the number of digits.
pub fn tick(value: f64, step: f64) -> String {
    let (value, step, unit) = match value.abs().max(step) {
        v if v >= 1e9 => (value / 1e9, step / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, step / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, step / 1e3, "k"),
        _ => (value, step, ""),
    };
    // The digits that the step needs. The tolerance absorbs the error of its binary representation.
    let mut digits = 0;
    let mut scaled = step;
    while digits < 9 && (scaled - scaled.round()).abs() > 1e-6 * scaled.abs() {
        scaled *= 10.0;
        digits += 1;
    }
    format!("{:.digits$}{unit}", zero(value, 1e-10))
}

/// Formats the label of a tick of a time axis in microseconds: `0`, `50 us`, `2.5 ms`, `10 s`.
pub fn time_tick(us: f64) -> String {
    let (value, unit) = match us.abs() {
        v if v < 1e-6 => return "0".into(),
        v if v < 1e3 => (us, "us"),
        v if v < 1e6 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    // Rounding to six decimal places removes the error of the binary representation of the tick.
    format!("{} {unit}", (value * 1e6).round() / 1e6)
}

/// Formats a value like [`short`], but with two significant digits below 0.1: `0.043`, `0.0021`.
pub fn fine(value: f64) -> String {
    match value.abs() {
        v if (0.000_05..0.009_5).contains(&v) => format!("{value:.4}"),
        v if (0.009_5..0.095).contains(&v) => format!("{value:.3}"),
        _ => short(value),
    }
}

/// Replaces values that would round to zero by zero, so that `-0.00` is never printed.
fn zero(value: f64, half: f64) -> f64 {
    if value.abs() < half { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_size() {
        let figures = [
            0.0,
            -0.001,
            0.934,
            10.0,
            99.994,
            99.996,
            249.84,
            999.96,
            3112.4,
            f64::NAN,
        ];
        let want = [
            "0.00", "0.00", "0.93", "10.00", "99.99", "100.0", "249.8", "1000", "3112", "-",
        ];
        assert_eq!(figures.map(figure), want);
        assert_eq!(
            [3.25, 31.54, 410.2, 4400.0].map(short),
            ["3.25", "31.5", "410", "4400"]
        );
        assert_eq!(
            [10.0, 0.5, 0.0, 249.84, 3100.0].map(plain),
            ["10", "0.5", "0", "249.8", "3100"]
        );
        let durations = [0.5, 410.2, 999.6, 4400.0, 1_200_000.0].map(duration);
        assert_eq!(
            durations,
            ["0.50 us", "410 us", "1.00 ms", "4.40 ms", "1.20 s"]
        );
    }

    #[test]
    fn percents_do_not_round_to_all_or_nothing() {
        let parts = [0.0, 0.0001, 0.094, 0.5, 0.9999, 1.0, 1.2, f64::NAN].map(percent);
        assert_eq!(parts, ["0%", "1%", "9%", "50%", "99%", "100%", "120%", "-"]);
    }

    #[test]
    fn deviations_have_three_digits() {
        let off = [0.000_04, 0.0008, 0.0322, 2.749_8].map(deviation);
        assert_eq!(off, ["0.00%", "0.08%", "3.22%", "275%"]);
    }

    #[test]
    fn ticks_have_the_digits_of_their_step() {
        let ticks = [
            (0.0, 0.25),
            (2.5, 2.5),
            (5.0, 5.0),
            (0.05, 0.05),
            (20_000.0, 5000.0),
            (5e6, 1e6),
            (1.5e6, 5e5),
        ];
        let want = ["0.00", "2.5", "5", "0.05", "20k", "5M", "1.5M"];
        assert_eq!(ticks.map(|(v, s)| tick(v, s)), want);
        let ticks = [0.0, 0.1, 50.0, 1000.0, 2500.0, 1e5, 1e6, 2e7].map(time_tick);
        let want = [
            "0", "0.1 us", "50 us", "1 ms", "2.5 ms", "100 ms", "1 s", "20 s",
        ];
        assert_eq!(ticks, want);
    }

    #[test]
    fn small_figures_have_two_significant_digits() {
        let figures = [0.0, 0.00213, 0.0431, 0.431, 43.1].map(fine);
        assert_eq!(figures, ["0.00", "0.0021", "0.043", "0.43", "43.1"]);
    }
}
