//! What is learned of the drive and of its clients, from what they do: the lowest layer.

pub(crate) mod afterwork;
pub(crate) mod arrival;
pub(crate) mod cost;
pub(crate) mod window;

use super::constants::AVERAGE_PART;

/// A moving average in which the newest sample has the part 1 / [`AVERAGE_PART`].
pub(crate) fn average(old: u64, sample: u64) -> u64 {
    if old == 0 {
        sample
    } else {
        old - old / AVERAGE_PART + sample / AVERAGE_PART
    }
}
