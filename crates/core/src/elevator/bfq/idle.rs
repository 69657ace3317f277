//! What idling depends on: how fast a stream comes back with its next request, how busy it keeps itself, and whether the drive
//! queues.

use super::queue::Queue;
use crate::{Instant, Span};

/// Short idling, and the gap that still counts as uninterrupted (Linux: `BFQ_MIN_TT`).
pub(super) const SHORT: Span = Span::from_millis(2);

/// A drive with more requests than this inside at a time queues (Linux: `BFQ_HW_QUEUE_THRESHOLD`).
const QUEUE_THRESHOLD: u32 = 3;
/// Samples behind a verdict (Linux: `BFQ_HW_QUEUE_SAMPLES`).
const QUEUE_SAMPLES: u32 = 32;

/// The time between a queue's last completion and its next request (Linux: `bfq_ttime`, `bfq_update_io_thinktime`). The averages
/// are scaled by 256 and forget an eighth with each sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Think {
    samples: u32,
    total: u64,
    mean: Span,
    /// When its last request was completed.
    pub(super) last_end: Option<Instant>,
    /// It comes back soon enough to be waited for.
    pub(super) is_short: bool,
}

impl Think {
    /// Taken for quick until it is known.
    pub(super) const NEW: Self = Self {
        samples: 0,
        total: 0,
        mean: Span::ZERO,
        last_end: None,
        is_short: true,
    };

    /// The queue, which had nothing waiting and nothing in the drive, has a request again.
    pub(super) fn arrived(&mut self, now: Instant, slice_idle: Span) {
        let Some(last_end) = self.last_end else {
            return;
        };
        let elapsed = now.since(last_end).min(slice_idle.times(2)).as_nanos();
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = Span::from_nanos((self.total + 128) / u64::from(self.samples));
        // Linux: `bfq_update_has_short_ttime`, `bfq_sample_valid`.
        let known = self.samples > 80;
        self.is_short = !(known && self.mean.as_nanos() > slice_idle.as_nanos() / 2);
    }

    /// True if a request at `now` comes soon enough after the last completion to be taken for the same burst.
    pub(super) fn in_time(&self, now: Instant, slice_idle: Span) -> bool {
        self.last_end
            .is_some_and(|end| now <= end + slice_idle.times(3))
    }
}

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
        self.is_bound = self.idle.times(5) <= whole;
        // Observations go back at most 200 ms.
        if whole > Span::from_millis(200) {
            self.start = Some(now.back(Span::from_nanos(whole.as_nanos() / 2)));
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
    /// A request is about to come back while `in_drive` are inside and `queued` wait. `in_service` is the queue in service.
    #[inline]
    pub(super) fn observe(&mut self, in_drive: u32, queued: u32, in_service: Option<&Queue>) {
        if self.is_certain() {
            return;
        }
        self.most = self.most.max(in_drive);
        if in_drive + queued <= QUEUE_THRESHOLD {
            return;
        }
        // A queue that is waited for does not fill the drive; that says nothing.
        if in_drive < QUEUE_THRESHOLD
            && in_service.is_some_and(|q| q.think.is_short && q.outstanding() < QUEUE_THRESHOLD)
        {
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

    const IDLE: Span = Span::from_millis(8);

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_stream_is_slow_once_three_samples_say_so() {
        let mut think = Think::NEW;
        think.arrived(ms(0), IDLE);
        assert_eq!(think.samples, 0, "nothing was completed yet");
        let mut verdicts = std::vec::Vec::new();
        for n in 0..5 {
            think.last_end = Some(ms(n * 100));
            think.arrived(ms(n * 100 + 10), IDLE);
            verdicts.push(think.is_short);
        }
        assert_eq!(verdicts, [true, true, false, false, false]);
        for n in 0..20 {
            think.last_end = Some(ms(n * 100));
            think.arrived(ms(n * 100), IDLE);
        }
        assert!(think.is_short);
    }

    #[test]
    fn a_burst_ends_three_idle_slices_after_the_last_completion() {
        let mut think = Think::NEW;
        assert!(!think.in_time(ms(0), IDLE));
        think.last_end = Some(ms(100));
        assert!(think.in_time(ms(124), IDLE) && !think.in_time(ms(125), IDLE));
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
            queueing.observe(3, 5, None);
        }
        assert!(!queueing.is_absent(), "unknown until the 33rd sample");
        queueing.observe(3, 5, None);
        assert!(queueing.is_absent());
        queueing.observe(4, 0, None);
        for _ in 0..32 {
            queueing.observe(3, 5, None);
        }
        assert!(!queueing.is_absent());
        for _ in 0..99 {
            queueing.observe(1, 5, None);
        }
        assert!(!queueing.is_absent(), "once seen, for good");
    }
}
