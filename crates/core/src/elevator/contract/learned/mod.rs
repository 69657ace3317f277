//! Models of the drive and of its clients that are learned from completions. This is the lowest
//! layer of the elevator.

pub(crate) mod afterwork;
pub(crate) mod arrival;
pub(crate) mod cost;
pub(crate) mod window;

use super::constants::AVERAGE_PART;

/// Returns the moving average in which the newest sample has the weight 1 / [`AVERAGE_PART`]. The
/// first sample is the average.
pub(crate) fn average(old: u64, sample: u64) -> u64 {
    if old == 0 {
        sample
    } else {
        old - old / AVERAGE_PART + sample / AVERAGE_PART
    }
}
