//! Where requests spend their time.

use crate::{Histogram, SplitUs};
use weir_core::{Span, Waits};

/// Where the time of a request went: the layer's waits, and the parts of them that only a caller
/// with a view of the drive knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Throttled, in the elevator, and in the drive.
    pub waits: Waits,
    /// The part of the time in the elevator in which the elevator idled for another stream's next request.
    pub idle: Span,
    /// The part of the time in the drive in which the drive had not begun to serve the request.
    pub queue: Span,
}

impl Breakdown {
    /// The part that lies in the last `length` of the waits. Idling comes last in the elevator, queueing first in the drive.
    #[must_use]
    pub fn last(&self, length: Span) -> Self {
        let waits = self.waits.last(length);
        Self {
            waits,
            idle: self.idle.min(waits.elevator),
            queue: self.queue - (self.waits.drive - waits.drive),
        }
    }

    /// Adds the breakdown of time that came later.
    pub fn add(&mut self, more: Self) {
        self.waits += more.waits;
        self.idle += more.idle;
        self.queue += more.queue;
    }
}

/// The waits of many requests: a histogram for each kind, and sums of their parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Time throttled.
    pub limit: Histogram,
    /// Time in the elevator.
    pub elevator: Histogram,
    /// Time in the drive.
    pub drive: Histogram,
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
            idle_ns: 0,
            queue_ns: 0,
        }
    }

    /// Records the waits of one request of which no parts are known. Does not allocate.
    #[inline]
    pub fn record_waits(&mut self, waits: &Waits) {
        self.limit.record(waits.limit.as_nanos());
        self.elevator.record(waits.elevator.as_nanos());
        self.drive.record(waits.drive.as_nanos());
    }

    /// Records one request. Does not allocate.
    #[inline]
    pub(crate) fn record(&mut self, of: &Breakdown) {
        self.record_waits(&of.waits);
        self.idle_ns += u128::from(of.idle.as_nanos());
        self.queue_ns += u128::from(of.queue.as_nanos());
    }

    /// Records `n` requests that waited for nothing. Does not allocate.
    pub(crate) fn record_none(&mut self, n: u64) {
        self.limit.record_n(0, n);
        self.elevator.record_n(0, n);
        self.drive.record_n(0, n);
    }

    /// Adds everything `other` has recorded.
    ///
    /// # Panics
    /// As [`Histogram::merge`].
    pub fn merge(&mut self, other: &Self) {
        self.limit.merge(&other.limit);
        self.elevator.merge(&other.elevator);
        self.drive.merge(&other.drive);
        self.idle_ns += other.idle_ns;
        self.queue_ns += other.queue_ns;
    }

    /// The means, in microseconds; `None` if nothing was recorded.
    pub fn mean_us(&self) -> Option<SplitUs> {
        let count = self.drive.count();
        let part = |sum: u128| Some(sum as f64 / count as f64 / 1e3);
        (count > 0).then(|| SplitUs {
            limit: self.limit.mean() / 1e3,
            elevator: self.elevator.mean() / 1e3,
            drive: self.drive.mean() / 1e3,
            idle: part(self.idle_ns),
            queue: part(self.queue_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(limit: u64, elevator: u64, drive: u64, idle: u64, queue: u64) -> Breakdown {
        let ns = Span::from_nanos;
        Breakdown {
            waits: Waits {
                limit: ns(limit),
                elevator: ns(elevator),
                drive: ns(drive),
            },
            idle: ns(idle),
            queue: ns(queue),
        }
    }

    #[test]
    fn a_split_keeps_its_parts_apart() {
        let (mut a, mut b) = (Split::new(), Split::new());
        assert_eq!(a.mean_us(), None);
        a.record(&parts(1000, 2000, 30_000, 1000, 0));
        b.record(&parts(3000, 0, 10_000, 0, 8000));
        a.merge(&b);
        let mean = SplitUs {
            limit: 2.0,
            elevator: 1.0,
            drive: 20.0,
            idle: Some(0.5),
            queue: Some(4.0),
        };
        assert_eq!(a.mean_us(), Some(mean));
        assert_eq!(a.drive.max(), 30_000);
    }

    #[test]
    fn waits_before_the_last_are_cut_off() {
        let last = |length| parts(10, 20, 30, 16, 20).last(Span::from_nanos(length));
        assert_eq!(last(100), parts(10, 20, 30, 16, 20));
        assert_eq!(last(55), parts(5, 20, 30, 16, 20));
        assert_eq!(last(45), parts(0, 15, 30, 15, 20));
        assert_eq!(last(27), parts(0, 0, 27, 0, 17));
        assert_eq!(last(7), parts(0, 0, 7, 0, 0));
    }
}
