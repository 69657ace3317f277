//! Think time: the time after which a stream sends its next request.

use crate::time::{Instant, Span};

/// Number of samples, scaled by 256, up to which there are too few of them (Linux:
/// `bfq_sample_valid`, `sample_valid`).
const ENOUGH: u32 = 80;

/// The average time between a queue's last completion and its next request (Linux: `bfq_ttime`,
/// `bfq_update_io_thinktime`). The averages are scaled by 256, and each sample replaces an eighth
/// of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Think {
    samples: u32,
    total: u64,
    mean: Span,
    /// The time at which the queue's last request completed.
    pub(crate) last_end: Option<Instant>,
    /// True if the think time is short enough for idling.
    pub(crate) is_short: bool,
}

impl Think {
    /// The think time of a new queue, which counts as short until it is known.
    pub(crate) const NEW: Self = Self {
        samples: 0,
        total: 0,
        mean: Span::ZERO,
        last_end: None,
        is_short: true,
    };

    /// Returns the think time of a stream that is opened now.
    pub(crate) const fn since(now: Instant) -> Self {
        Self {
            last_end: Some(now),
            ..Self::NEW
        }
    }

    /// Adds a sample: the queue has a request again, after it had none queued and none in flight.
    pub(crate) fn arrived(&mut self, now: Instant, slice_idle: Span) {
        let Some(last_end) = self.last_end else {
            return;
        };
        // A long pause must not dominate the average, so Linux limits a sample to twice the idle
        // slice.
        let elapsed = now
            .since(last_end)
            .min(slice_idle.saturating_mul(2))
            .as_nanos();
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = Span::from_nanos((self.total + 128) / u64::from(self.samples));
        // The rule of `bfq_update_has_short_ttime` in Linux.
        let slow = |mean: Span| mean.as_nanos() > slice_idle.as_nanos() / 2;
        self.is_short = !self.known_mean().is_some_and(slow);
    }

    /// Returns the average, once there are enough samples (Linux: `sample_valid`).
    pub(crate) fn known_mean(&self) -> Option<Span> {
        (self.samples > ENOUGH).then_some(self.mean)
    }

    /// Returns true if a request at `now` arrives so soon after the last completion that it belongs
    /// to the same burst.
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
    fn a_stream_is_slow_after_three_slow_samples() {
        let mut think = Think::NEW;
        think.arrived(ms(0), IDLE);
        assert_eq!(think.samples, 0, "nothing was completed yet");
        let mut verdicts = std::vec::Vec::new();
        for n in 0..5 {
            think.last_end = Some(ms(n * 100));
            think.arrived(ms(n * 100 + 10), IDLE);
            verdicts.push(think.is_short);
        }
        // The scaled number of samples is 32, 60, 84. Only the third exceeds 80, so only then the
        // average counts.
        assert_eq!(verdicts, [true, true, false, false, false]);
        for n in 0..20 {
            think.last_end = Some(ms(n * 100));
            think.arrived(ms(n * 100), IDLE);
        }
        assert!(think.is_short);
    }

    #[test]
    fn half_an_idle_slice_is_not_slow() {
        // Three samples of 3,976,330 ns have a rounded average of 4 ms, which is half of the idle
        // slice of 8 ms.
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
        // Three idle slices of 8 ms are 24 ms.
        assert!(think.in_time(ms(124), IDLE) && !think.in_time(ms(125), IDLE));
    }
}
