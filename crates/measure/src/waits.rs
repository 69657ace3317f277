//! Where requests spend their time.

use crate::{Histogram, SplitUs};

/// The waits of one request, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Throttled by a limit or another controller, before the elevator.
    pub limit_ns: u64,
    /// In the elevator, while others are served.
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

    /// The last `length_ns` of them: the waits follow one another in the order of the fields.
    pub(crate) fn last(&self, length_ns: u64) -> Self {
        let mut left = length_ns;
        let mut part = |wait: u64| {
            let part = wait.min(left);
            left -= part;
            part
        };
        let (drive_ns, elevator_ns) = (part(self.drive_ns), part(self.elevator_ns));
        Self {
            limit_ns: part(self.limit_ns),
            elevator_ns,
            drive_ns,
        }
    }

    /// Subtracts `part`.
    pub(crate) fn less(&self, part: Self) -> Self {
        Self {
            limit_ns: self.limit_ns - part.limit_ns,
            elevator_ns: self.elevator_ns - part.elevator_ns,
            drive_ns: self.drive_ns - part.drive_ns,
        }
    }

    /// Adds the waits of others.
    pub fn add(&mut self, more: Self) {
        self.limit_ns = self.limit_ns.saturating_add(more.limit_ns);
        self.elevator_ns = self.elevator_ns.saturating_add(more.elevator_ns);
        self.drive_ns = self.drive_ns.saturating_add(more.drive_ns);
    }
}

/// Parts of the waits of one request, in nanoseconds, for callers that know them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Within {
    /// Of the time in the elevator: the elevator idled for another stream's next request.
    pub idle_ns: u64,
    /// Of the time in the drive: the drive had not begun to serve it.
    pub queue_ns: u64,
}

/// The waits of many requests, a histogram for each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Time throttled.
    pub limit: Histogram,
    /// Time in the elevator.
    pub elevator: Histogram,
    /// Time in the drive.
    pub drive: Histogram,
    within: Sums,
}

/// Sums of [`Within`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    count: u64,
    idle_ns: u128,
    queue_ns: u128,
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
            within: Sums::default(),
        }
    }

    /// Records one request. Does not allocate.
    #[inline]
    pub fn record(&mut self, waits: Waits) {
        self.limit.record(waits.limit_ns);
        self.elevator.record(waits.elevator_ns);
        self.drive.record(waits.drive_ns);
    }

    /// Records `n` requests that waited for nothing. Does not allocate.
    pub(crate) fn record_none(&mut self, n: u64) {
        self.limit.record_n(0, n);
        self.elevator.record_n(0, n);
        self.drive.record_n(0, n);
        self.within.count += n;
    }

    /// Records the parts of one request's waits. Does not allocate.
    #[inline]
    pub fn record_within(&mut self, within: Within) {
        self.within.count += 1;
        self.within.idle_ns += u128::from(within.idle_ns);
        self.within.queue_ns += u128::from(within.queue_ns);
    }

    /// Adds everything `other` has recorded.
    ///
    /// # Panics
    /// As [`Histogram::merge`].
    pub fn merge(&mut self, other: &Self) {
        self.limit.merge(&other.limit);
        self.elevator.merge(&other.elevator);
        self.drive.merge(&other.drive);
        self.within.count += other.within.count;
        self.within.idle_ns += other.within.idle_ns;
        self.within.queue_ns += other.within.queue_ns;
    }

    /// The means, in microseconds.
    pub fn mean_us(&self) -> SplitUs {
        let within = |sum: u128| {
            let count = self.within.count;
            (count > 0).then(|| sum as f64 / count as f64 / 1e3)
        };
        SplitUs {
            limit: self.limit.mean() / 1e3,
            elevator: self.elevator.mean() / 1e3,
            drive: self.drive.mean() / 1e3,
            idle: within(self.within.idle_ns),
            queue: within(self.within.queue_ns),
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
                drive: 20.0,
                ..SplitUs::default()
            }
        );
        assert_eq!(a.drive.max(), 30_000);
        let within = |idle_ns, queue_ns| Within { idle_ns, queue_ns };
        a.record_within(within(1000, 0));
        b.record_within(within(2000, 8000));
        a.merge(&b);
        assert_eq!(
            (a.mean_us().idle, a.mean_us().queue),
            (Some(1.5), Some(4.0))
        );
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
