//! Observations that idling depends on besides the think time (`common::think`).
//!
//! [`Intensity`] measures how much of its time a queue has I/O to do. [`Queueing`] finds out
//! whether the drive serves several requests at once. The decision itself is made in `turn`.

use crate::{Instant, Span};

/// The short time of idling, and the longest gap that still counts as uninterrupted service (Linux:
/// `BFQ_MIN_TT`).
pub(super) const SHORT: Span = Span::from_millis(2);

/// The number of requests in the drive above which the drive counts as one that queues requests
/// (Linux: `BFQ_HW_QUEUE_THRESHOLD`).
pub(super) const QUEUE_THRESHOLD: u32 = 3;
/// The number of samples before a verdict about the drive (Linux: `BFQ_HW_QUEUE_SAMPLES`).
const QUEUE_SAMPLES: u32 = 32;

/// The part of the time in which a queue has requests waiting or in the drive (Linux:
/// `bfq_update_io_intensity`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Intensity {
    start: Option<Instant>,
    idle: Span,
    /// True if the queue had requests for at least 80 % of the time, so that it is bound by I/O.
    pub(super) is_bound: bool,
}

impl Intensity {
    pub(super) const NEW: Self = Self {
        start: None,
        idle: Span::ZERO,
        is_bound: true,
    };

    /// Records the arrival of a request. `idle_since` is set if the queue had nothing waiting and
    /// nothing in the drive, and is the time since when.
    pub(super) fn on_arrival(&mut self, now: Instant, idle_since: Option<Instant>) {
        let Some(start) = self.start else {
            self.start = Some(now);
            return;
        };
        let whole = now.since(start);
        if let Some(since) = idle_since {
            // Idle time before the start of the observation is not part of `whole`.
            self.idle += now.since(since.max(start));
        }
        // `idle * 5 <= whole` is `idle <= 20 %` without a division.
        self.is_bound = self.idle.saturating_mul(5) <= whole;
        // Both lengths are halved, so their ratio stays but new behaviour outweighs the old.
        if whole > Span::from_millis(200) {
            self.start = Some(now.saturating_sub(Span::from_nanos(whole.as_nanos() / 2)));
            self.idle = Span::from_nanos(self.idle.as_nanos() / 2);
        }
    }
}

/// A detector of drives that serve several requests at once (Linux: `hw_tag`, `bfq_update_hw_tag`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queueing {
    most: u32,
    samples: u32,
    verdict: Option<bool>,
}

impl Queueing {
    /// Takes a sample when a request is about to complete, while `in_drive` requests are in the
    /// drive and `queued` wait.
    ///
    /// `underused` means that the queue in service has a short think time and few requests
    /// outstanding, so that it does not fill the drive. Such a sample proves nothing about the
    /// drive.
    #[inline]
    pub(super) fn observe(&mut self, in_drive: u32, queued: u32, underused: bool) {
        if self.is_certain() {
            return;
        }
        self.most = self.most.max(in_drive);
        // With so little load, even a drive that queues would have no more in it.
        if in_drive + queued <= QUEUE_THRESHOLD {
            return;
        }
        if underused && in_drive < QUEUE_THRESHOLD {
            return;
        }
        self.samples += 1;
        if self.samples > QUEUE_SAMPLES {
            self.verdict = Some(self.most > QUEUE_THRESHOLD);
            self.most = 0;
            self.samples = 0;
        }
    }

    /// Returns true once the drive was observed to queue requests, which then holds for good.
    #[inline]
    pub(super) fn is_certain(self) -> bool {
        self.verdict == Some(true)
    }

    /// Returns true once the drive was observed not to queue requests. Until then it is assumed to
    /// queue them.
    pub(super) fn is_absent(self) -> bool {
        self.verdict == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_queue_idle_for_more_than_a_fifth_of_the_time_is_not_bound_by_io() {
        let mut intensity = Intensity::NEW;
        intensity.on_arrival(ms(0), None);
        intensity.on_arrival(ms(10), Some(ms(8)));
        assert!(intensity.is_bound);
        intensity.on_arrival(ms(20), Some(ms(17)));
        assert!(!intensity.is_bound);
        intensity.on_arrival(ms(220), None);
        assert!(intensity.is_bound);
        assert_eq!(intensity.start, Some(ms(110)));
    }

    #[test]
    fn a_drive_queues_once_more_than_three_requests_were_in_flight() {
        let mut queueing = Queueing::default();
        for _ in 0..32 {
            queueing.observe(3, 5, false);
        }
        assert!(!queueing.is_absent(), "unknown until the 33rd sample");
        queueing.observe(3, 5, false);
        assert!(queueing.is_absent());
        queueing.observe(4, 0, false);
        for _ in 0..32 {
            queueing.observe(3, 5, false);
        }
        assert!(!queueing.is_absent());
        for _ in 0..99 {
            queueing.observe(1, 5, false);
        }
        assert!(!queueing.is_absent(), "once seen, for good");
    }
}
