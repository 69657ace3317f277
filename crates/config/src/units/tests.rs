//! Tests of sizes, rates and times: accepted and refused spellings, help texts, and printed texts.

use super::*;
use proptest::prelude::*;

fn size(text: &str) -> Result<u64, UnitProblem> {
    text.parse::<ByteSize>().map(|s| s.0).map_err(|e| e.reason)
}

fn rate(text: &str) -> Result<u64, UnitProblem> {
    text.parse::<BytesPerSecond>()
        .map(|s| s.0)
        .map_err(|e| e.reason)
}

fn time(text: &str) -> Result<u64, UnitProblem> {
    text.parse::<Time>()
        .map(|s| s.0.as_nanos())
        .map_err(|e| e.reason)
}

#[test]
fn common_spellings_are_read() {
    assert_eq!(size("8GiB"), Ok(8 << 30));
    assert_eq!(size("8 GiB"), Ok(8 << 30));
    assert_eq!(size("128KiB"), Ok(128 << 10));
    assert_eq!(size("4096B"), Ok(4096));
    assert_eq!(size("0B"), Ok(0));
    assert_eq!(size("1KB"), Ok(1000));
    assert_eq!(size("1kB"), Ok(1000));
    assert_eq!(size("1.5MB"), Ok(1_500_000));
    assert_eq!(size("0.5KiB"), Ok(512));
    assert_eq!(size("007.500GB"), Ok(7_500_000_000));
    // 2^-18 has 18 decimal places, which is the maximum. 2^-19 has 19.
    assert_eq!(size("0.000003814697265625PiB"), Ok(1 << 32));
    assert!(size("0.0000019073486328125PiB").is_err());
    assert_eq!(rate("50MB/s"), Ok(50_000_000));
    assert_eq!(rate("1 MiB/s"), Ok(1 << 20));
    assert_eq!(time("2s"), Ok(2_000_000_000));
    assert_eq!(time("30us"), Ok(30_000));
    assert_eq!(time("500ms"), Ok(500_000_000));
    assert_eq!(time("1.5us"), Ok(1_500));
    assert_eq!(time("2min"), Ok(120_000_000_000));
}

#[test]
fn wrong_spellings_are_refused() {
    assert_eq!(size(""), Err(UnitProblem::NotANumber));
    assert_eq!(size("GiB"), Err(UnitProblem::NotANumber));
    assert_eq!(size(" 8GiB"), Err(UnitProblem::NotANumber));
    assert_eq!(size(".5GiB"), Err(UnitProblem::NotANumber));
    assert_eq!(size("5.GiB"), Err(UnitProblem::NotANumber));
    // Everything after the number is the unit, here `.3GiB`.
    assert_eq!(size("1.2.3GiB"), Err(UnitProblem::UnknownUnit));
    assert_eq!(size("-8GiB"), Err(UnitProblem::Negative));
    assert_eq!(size("8"), Err(UnitProblem::NoUnit));
    assert_eq!(size("8 "), Err(UnitProblem::NoUnit));
    assert_eq!(size("8G"), Err(UnitProblem::UnknownUnit));
    assert_eq!(size("8gb"), Err(UnitProblem::UnknownUnit));
    assert_eq!(size("8GiB "), Err(UnitProblem::UnknownUnit));
    assert_eq!(size("1e3B"), Err(UnitProblem::UnknownUnit));
    // `8gb` is probably a misspelt `8GB`, but `8Gb` is eight gigabits.
    assert_eq!(size("8Gb"), Err(UnitProblem::Bits));
    assert_eq!(size("8Gbit"), Err(UnitProblem::Bits));
    assert_eq!(size("8MB/s"), Err(UnitProblem::NotASize));
    assert_eq!(size("0.5B"), Err(UnitProblem::NotWhole("bytes")));
    assert_eq!(size("1.0001KiB"), Err(UnitProblem::NotWhole("bytes")));
    assert_eq!(rate("50MB"), Err(UnitProblem::NotARate));
    assert_eq!(rate("50"), Err(UnitProblem::NoUnit));
    assert_eq!(rate("50/s"), Err(UnitProblem::NoUnit));
    assert_eq!(rate("50Mbit/s"), Err(UnitProblem::Bits));
    assert_eq!(rate("50Mbps"), Err(UnitProblem::Bits));
    assert_eq!(rate("50MB/min"), Err(UnitProblem::UnknownUnit));
    assert_eq!(time("2"), Err(UnitProblem::NoUnit));
    assert_eq!(time("2m"), Err(UnitProblem::UnknownUnit));
    assert_eq!(time("2sec"), Err(UnitProblem::UnknownUnit));
    assert_eq!(time("0.5ns"), Err(UnitProblem::NotWhole("nanoseconds")));
}

#[test]
fn values_up_to_64_bits_are_read() {
    assert_eq!(size("18446744073709551615B"), Ok(u64::MAX));
    assert_eq!(
        size("18446744073709551616B"),
        Err(UnitProblem::TooLarge("bytes"))
    );
    // 16,384 PiB are 2^14 * 2^50 = 2^64 bytes.
    assert_eq!(size("16384PiB"), Err(UnitProblem::TooLarge("bytes")));
    assert_eq!(size("16383PiB"), Ok(16_383 << 50));
    assert_eq!(
        size("99999999999999999999999999999999999999999999B"),
        Err(UnitProblem::TooLarge("bytes"))
    );
    assert_eq!(
        size("99999999999999999999PiB"),
        Err(UnitProblem::TooLarge("bytes"))
    );
    assert_eq!(
        size("0.0000000000000000001PB"),
        Err(UnitProblem::NotWhole("bytes"))
    );
}

#[test]
fn errors_propose_a_valid_text() {
    let error = |text: &str| text.parse::<ByteSize>().unwrap_err();
    assert_eq!(error("8G").to_string(), "\"8G\" has an unknown unit");
    assert_eq!(
        error("8G").help,
        "write \"8GB\" (powers of 1000) or \"8GiB\" (powers of 1024)"
    );
    assert_eq!(error("8").help, SIZE_HELP);
    let rate = "50MB".parse::<BytesPerSecond>().unwrap_err();
    assert_eq!(rate.help, "write \"50MB/s\"");
    let rate = "50M/s".parse::<BytesPerSecond>().unwrap_err();
    assert_eq!(
        rate.help,
        "write \"50MB/s\" (powers of 1000) or \"50MiB/s\" (powers of 1024)"
    );
}

#[test]
fn values_print_as_the_shortest_exact_text() {
    let table = [
        (0, "0B"),
        (1, "1B"),
        (512, "512B"),
        (1000, "1kB"),
        (4096, "4KiB"),
        (1_500_000, "1.5MB"),
        (10_000_000, "10MB"),
        (8 << 30, "8GiB"),
        (3 << 29, "1.5GiB"),
        // In megabytes, the exact text would be longer.
        (57_600_001, "57600001B"),
        (90_000_100, "90.0001MB"),
        (u64::MAX, "18446744073709551615B"),
    ];
    for (value, text) in table {
        assert_eq!(ByteSize(value).to_string(), text);
        assert_eq!(BytesPerSecond(value).to_string(), format!("{text}/s"));
    }
    assert_eq!(Time(Span::ZERO).to_string(), "0s");
    assert_eq!(Time(Span::from_micros(30)).to_string(), "30us");
    assert_eq!(Time(Span::from_millis(2_500)).to_string(), "2.5s");
    assert_eq!(Time(Span::from_secs(90)).to_string(), "90s");
    assert_eq!(format!("{:>6}|", ByteSize(512)), "  512B|");
}

/// Draws values near the bounds of units as well as arbitrary values.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..100_000,
        (0_usize..SIZES.len(), 0_u64..5_000).prop_map(|(u, n)| SIZES[u].1.saturating_mul(n)),
        (0_usize..TIMES.len(), 0_u64..5_000).prop_map(|(u, n)| TIMES[u].1.saturating_mul(n)),
    ]
}

proptest! {
    #[test]
    fn printed_values_parse_to_the_same_value(value in value()) {
        prop_assert_eq!(size(&ByteSize(value).to_string()), Ok(value));
        prop_assert_eq!(rate(&BytesPerSecond(value).to_string()), Ok(value));
        prop_assert_eq!(time(&Time::from_nanos(value).to_string()), Ok(value));
    }

    /// Compares the result with the same sum in thousandths.
    #[test]
    fn fractions_are_exact_or_refused(whole in 0_u64..1 << 20, thousandths in 0_u64..1000, unit in 0..SIZES.len()) {
        let (name, unit) = SIZES[unit];
        let sum = (u128::from(whole) * 1000 + u128::from(thousandths)) * u128::from(unit);
        let expected = if sum.is_multiple_of(1000) {
            u64::try_from(sum / 1000).map_err(|_| UnitProblem::TooLarge("bytes"))
        } else {
            Err(UnitProblem::NotWhole("bytes"))
        };
        prop_assert_eq!(size(&format!("{whole}.{thousandths:03}{name}")), expected);
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "[-0-9. a-zA-Z/\u{b5}]{0,24}") {
        let _ = (size(&text), rate(&text), time(&text));
    }
}
