//! What idling depends on beside think time (`common::think`): how busy a queue keeps itself, and whether the drive queues.

use crate::{Instant, Span};

/// Short idling, and the gap that still counts as uninterrupted (Linux: `BFQ_MIN_TT`).
pub(super) const SHORT: Span = Span::from_millis(2);

/// A drive with more requests than this inside at a time queues (Linux: `BFQ_HW_QUEUE_THRESHOLD`).
pub(super) const QUEUE_THRESHOLD: u32 = 3;
/// Samples behind a verdict (Linux: `BFQ_HW_QUEUE_SAMPLES`).
const QUEUE_SAMPLES: u32 = 32;

/// How much of the time a queue has something to do (Linux: `bfq_update_io_intensity`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Intensity {
    start: Option<Instant>,
    idle: Span,
    /// At least four fifths of the time: it is bound by I/O.
    pub(super) is_bound: bool,
}

impl Intensity {
    pub(super) const NEW: Self = Self {
        start: None,
        idle: Span::ZERO,
        is_bound: true,
    };

    /// A request came; `idle_since` if the queue had nothing waiting and nothing in the drive.
    pub(super) fn arrived(&mut self, now: Instant, idle_since: Option<Instant>) {
        let Some(start) = self.start else {
            self.start = Some(now);
            return;
        };
        let whole = now.since(start);
        if let Some(since) = idle_since {
            self.idle += now.since(since.max(start));
        }
        self.is_bound = self.idle.saturating_mul(5) <= whole;
        // Observations go back at most 200 ms.
        if whole > Span::from_millis(200) {
            self.start = Some(now.saturating_sub(Span::from_nanos(whole.as_nanos() / 2)));
            self.idle = Span::from_nanos(self.idle.as_nanos() / 2);
        }
    }
}

/// Whether the drive takes several requests at a time (Linux: `hw_tag`, `bfq_update_hw_tag`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queueing {
    most: u32,
    samples: u32,
    verdict: Option<bool>,
}

impl Queueing {
    /// A request is about to come back while `in_drive` are inside and `queued` wait. `underused`: the queue in
    /// service comes back soon and has little outstanding, so that it does not fill the drive, which says nothing.
    #[inline]
    pub(super) fn observe(&mut self, in_drive: u32, queued: u32, underused: bool) {
        if self.is_certain() {
            return;
        }
        self.most = self.most.max(in_drive);
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

    /// True once the drive was seen to queue: it stays so.
    #[inline]
    pub(super) fn is_certain(self) -> bool {
        self.verdict == Some(true)
    }

    /// True once the drive was seen not to queue; it is taken to queue until then.
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
        intensity.arrived(ms(0), None);
        intensity.arrived(ms(10), Some(ms(8)));
        assert!(intensity.is_bound);
        intensity.arrived(ms(20), Some(ms(17)));
        assert!(!intensity.is_bound);
        intensity.arrived(ms(220), None);
        assert!(intensity.is_bound);
        assert_eq!(intensity.start, Some(ms(110)));
    }

    #[test]
    fn a_drive_queues_when_more_than_three_were_inside() {
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
