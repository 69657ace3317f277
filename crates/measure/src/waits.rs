//! Where the time of requests went.

use crate::{Histogram, SplitUs};

/// The waits of one request, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Held by a limit or another controller, before the elevator.
    pub limit_ns: u64,
    /// In the elevator: waiting for its turn among others.
    pub elevator_ns: u64,
    /// In the drive, from dispatch to completion.
    pub drive_ns: u64,
}

impl Waits {
    /// The sum of the three, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.limit_ns
            .saturating_add(self.elevator_ns)
            .saturating_add(self.drive_ns)
    }
}

/// The waits of many requests, a histogram for each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Time held by a limit.
    pub limit: Histogram,
    /// Time in the elevator.
    pub elevator: Histogram,
    /// Time in the drive.
    pub drive: Histogram,
}

impl Split {
    /// Empty, with histograms of 7 bits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empty, with histograms of `bits`, as [`Histogram::with_bits`].
    pub fn with_bits(bits: u32) -> Self {
        Self {
            limit: Histogram::with_bits(bits),
            elevator: Histogram::with_bits(bits),
            drive: Histogram::with_bits(bits),
        }
    }

    /// Records one request. Does not allocate.
    #[inline]
    pub fn record(&mut self, waits: Waits) {
        self.limit.record(waits.limit_ns);
        self.elevator.record(waits.elevator_ns);
        self.drive.record(waits.drive_ns);
    }

    /// Adds everything `other` has recorded.
    ///
    /// # Panics
    /// As [`Histogram::merge`].
    pub fn merge(&mut self, other: &Self) {
        self.limit.merge(&other.limit);
        self.elevator.merge(&other.elevator);
        self.drive.merge(&other.drive);
    }

    /// The means, in microseconds.
    pub fn mean_us(&self) -> SplitUs {
        SplitUs {
            limit: self.limit.mean() / 1e3,
            elevator: self.elevator.mean() / 1e3,
            drive: self.drive.mean() / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_keeps_its_parts_apart() {
        let mut a = Split::new();
        a.record(Waits {
            limit_ns: 1000,
            elevator_ns: 2000,
            drive_ns: 30_000,
        });
        let mut b = Split::new();
        b.record(Waits {
            limit_ns: 3000,
            elevator_ns: 0,
            drive_ns: 10_000,
        });
        a.merge(&b);
        assert_eq!(
            a.mean_us(),
            SplitUs {
                limit: 2.0,
                elevator: 1.0,
                drive: 20.0
            }
        );
        assert_eq!(a.drive.max(), 30_000);
    }

    #[test]
    fn a_total_saturates() {
        let waits = Waits {
            limit_ns: u64::MAX,
            elevator_ns: 1,
            drive_ns: 1,
        };
        assert_eq!(waits.total_ns(), u64::MAX);
    }
}
