//! The time of requests, divided among the places where it was spent.

use crate::{Histogram, SplitUs};
use weir_core::{Span, Waits};

/// The division of one request's time.
///
/// The layer reports the waits. The other parts are parts of these waits, and only a caller that
/// observes the drive knows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// The time throttled, in the elevator, and in the drive.
    pub waits: Waits,
    /// The part of the time in the elevator during which the elevator idled for the next request of
    /// another stream.
    pub idle: Span,
    /// The part of the time in the drive before the drive began to serve the request.
    pub queue: Span,
}

impl Breakdown {
    /// Returns the breakdown of the last `length` of the waits. Idling is the last part of the time
    /// in the elevator, and queueing the first part of the time in the drive.
    #[must_use]
    pub fn last(&self, length: Span) -> Self {
        let waits = self.waits.last(length);
        Self {
            waits,
            idle: self.idle.min(waits.elevator),
            // The time that was cut off the drive's wait came first, so it was spent queueing.
            queue: self.queue - (self.waits.drive - waits.drive),
        }
    }

    /// Adds the breakdown of a later period.
    pub fn add(&mut self, more: Self) {
        self.waits += more.waits;
        self.idle += more.idle;
        self.queue += more.queue;
    }
}

/// The waits of many requests: a histogram for each place, and sums of the parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitSplit {
    /// The time throttled by controllers.
    pub limit: Histogram,
    /// The time in the elevator.
    pub elevator: Histogram,
    /// The time in the drive.
    pub drive: Histogram,
    idle_ns: u128,
    queue_ns: u128,
}

impl WaitSplit {
    /// Creates an empty split, with histograms of 7 bits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty split with histograms of `bits` significant bits (see
    /// [`Histogram::with_bits`]).
    pub fn with_bits(bits: u32) -> Self {
        Self {
            limit: Histogram::with_bits(bits),
            elevator: Histogram::with_bits(bits),
            drive: Histogram::with_bits(bits),
            idle_ns: 0,
            queue_ns: 0,
        }
    }

    /// Records the waits of one request without their parts. Does not allocate.
    #[inline]
    pub fn record_waits(&mut self, waits: &Waits) {
        self.limit.record(waits.limit.as_nanos());
        self.elevator.record(waits.elevator.as_nanos());
        self.drive.record(waits.drive.as_nanos());
    }

    /// Records the breakdown of one request. Does not allocate.
    #[inline]
    pub(crate) fn record(&mut self, of: &Breakdown) {
        self.record_waits(&of.waits);
        self.idle_ns += u128::from(of.idle.as_nanos());
        self.queue_ns += u128::from(of.queue.as_nanos());
    }

    /// Records `n` requests without any wait. Does not allocate.
    pub(crate) fn record_none(&mut self, n: u64) {
        self.limit.record_n(0, n);
        self.elevator.record_n(0, n);
        self.drive.record_n(0, n);
    }

    /// Adds the requests of another split.
    ///
    /// # Panics
    /// Panics if `other` has fewer bits than this split (see [`Histogram::merge`]).
    pub fn merge(&mut self, other: &Self) {
        self.limit.merge(&other.limit);
        self.elevator.merge(&other.elevator);
        self.drive.merge(&other.drive);
        self.idle_ns += other.idle_ns;
        self.queue_ns += other.queue_ns;
    }

    /// Returns the mean times in microseconds, or `None` without a request.
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
        let (mut a, mut b) = (WaitSplit::new(), WaitSplit::new());
        assert_eq!(a.mean_us(), None);
        a.record(&parts(1000, 2000, 30_000, 1000, 0));
        b.record(&parts(3000, 0, 10_000, 0, 8000));
        a.merge(&b);
        // Means over the two requests: (1000 + 3000) / 2 ns = 2 us throttled, (1000 + 0) / 2 ns =
        // 0.5 us idle.
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
        // 10 + 20 + 30 ns throttled, in the elevator and in the drive. The elevator idled in the
        // last 16 of its 20 ns, and the drive began after the first 20 of its 30 ns.
        let last = |length| parts(10, 20, 30, 16, 20).last(Span::from_nanos(length));
        assert_eq!(last(100), parts(10, 20, 30, 16, 20));
        assert_eq!(last(55), parts(5, 20, 30, 16, 20));
        assert_eq!(last(45), parts(0, 15, 30, 15, 20));
        assert_eq!(last(27), parts(0, 0, 27, 0, 17));
        assert_eq!(last(7), parts(0, 0, 7, 0, 0));
    }
}
