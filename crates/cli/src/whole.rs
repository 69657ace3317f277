//! Whole numbers among the options.

use std::ops::RangeInclusive;

/// The number that an option says, if it is one of `range`; else what it has to be.
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
