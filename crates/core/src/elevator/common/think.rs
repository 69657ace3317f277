//! Think time: how soon a stream comes back with its next request.

use crate::time::{Instant, Span};

/// Samples, scaled by 256 as they are, that are not enough yet (Linux: `bfq_sample_valid`, `sample_valid`).
const ENOUGH: u32 = 80;

/// The time between a queue's last completion and its next request (Linux: `bfq_ttime`, `bfq_update_io_thinktime`). The averages
/// are scaled by 256 and forget an eighth with each sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Think {
    samples: u32,
    total: u64,
    mean: Span,
    /// When its last request was completed.
    pub(crate) last_end: Option<Instant>,
    /// It comes back soon enough to be waited for.
    pub(crate) is_short: bool,
}

impl Think {
    /// Taken for quick until it is known.
    pub(crate) const NEW: Self = Self {
        samples: 0,
        total: 0,
        mean: Span::ZERO,
        last_end: None,
        is_short: true,
    };

    /// The same of a stream that comes now.
    pub(crate) const fn since(now: Instant) -> Self {
        Self {
            last_end: Some(now),
            ..Self::NEW
        }
    }

    /// The queue, which had nothing waiting and nothing in the drive, has a request again.
    pub(crate) fn arrived(&mut self, now: Instant, slice_idle: Span) {
        let Some(last_end) = self.last_end else {
            return;
        };
        let elapsed = now
            .since(last_end)
            .min(slice_idle.saturating_mul(2))
            .as_nanos();
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = Span::from_nanos((self.total + 128) / u64::from(self.samples));
        // Linux: `bfq_update_has_short_ttime`.
        let slow = |mean: Span| mean.as_nanos() > slice_idle.as_nanos() / 2;
        self.is_short = !self.known_mean().is_some_and(slow);
    }

    /// The mean, once there are enough samples to go by (Linux: `sample_valid`).
    pub(crate) fn known_mean(&self) -> Option<Span> {
        (self.samples > ENOUGH).then_some(self.mean)
    }

    /// True if a request at `now` comes soon enough after the last completion to be taken for the same burst.
    pub(crate) fn in_time(&self, now: Instant, slice_idle: Span) -> bool {
        self.last_end
            .is_some_and(|end| now <= end + slice_idle.saturating_mul(3))
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
    fn half_an_idle_slice_is_not_slow() {
        for (elapsed, mean, is_short) in
            [(3_976_330, 4_000_000, true), (3_976_331, 4_000_001, false)]
        {
            let mut think = Think::since(ms(0));
            for _ in 0..3 {
                think.arrived(Instant::from_nanos(elapsed), IDLE);
            }
            assert_eq!(think.known_mean(), Some(Span::from_nanos(mean)));
            assert_eq!(think.is_short, is_short);
        }
    }

    #[test]
    fn a_burst_ends_three_idle_slices_after_the_last_completion() {
        let mut think = Think::NEW;
        assert!(!think.in_time(ms(0), IDLE));
        think.last_end = Some(ms(100));
        assert!(think.in_time(ms(124), IDLE) && !think.in_time(ms(125), IDLE));
    }
}
