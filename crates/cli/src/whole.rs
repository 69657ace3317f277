//! Parses options that are whole numbers.

use std::ops::RangeInclusive;

/// Returns the number in an option's text. If it is not in `range`, the error is the requirement
/// for clap's message.
pub(crate) fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| {
        format!(
            "must be a whole number from {} to {}",
            range.start(),
            range.end()
        )
    })
}
