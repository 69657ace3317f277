//! Detection of idle groups: they think for long, or their requests are as fast as expected (Linux:
//! `throtl_tg_is_idle`, `blk_throtl_update_idletime`, `blk_throtl_bio_endio`,
//! `throtl_update_latency_buckets`).
//!
//! Times are in Linux's microseconds, which are 1,024 ns each.

use crate::time::{Instant, Span};

/// The time since the last completion after which a group always counts as idle (Linux:
/// `MAX_IDLE_TIME`).
const IDLE_MAX: u64 = 5_000_000;
/// The number of request sizes with a latency of their own: up to 4 KiB, 8 KiB and so on (Linux:
/// `LATENCY_BUCKET_SIZE`).
const BUCKETS: usize = 9;
/// The number of samples needed for a mean.
const SAMPLES_MIN: u64 = 32;
/// The number of requests after which the counts of all requests and of slow ones are halved.
const COUNT_MAX: u64 = 1024;
/// The assumed latency on disks, where none is measured. Shorter latencies than `DISK_LEAST` are
/// cache hits and do not count (Linux: `DFL_HD_BASELINE_LATENCY`, `LATENCY_FILTERED_HD`).
const DISK_BASELINE: u64 = 4_000;
const DISK_LEAST: u64 = 1_000;

/// Converts nanoseconds to Linux's microseconds.
pub(super) fn micros(nanos: u64) -> u64 {
    nanos >> 10
}

fn bucket_of(bytes: u64) -> usize {
    let sectors = bytes.div_ceil(512).max(1).next_power_of_two();
    (sectors.ilog2() as usize)
        .saturating_sub(3)
        .min(BUCKETS - 1)
}

/// The think time and latencies of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdleDetector {
    /// The time of the last completion. `looked_at` is the last completion that counted for the
    /// think time.
    ended: u64,
    looked_at: u64,
    /// The mean think time of the group.
    think: u64,
    /// Completed requests. `bad` counts those that were slow.
    count: u64,
    bad: u64,
    halve_at: u64,
}

impl IdleDetector {
    /// Observes that the group sends a request.
    pub(super) fn observe_submission(&mut self, now: Instant) {
        let now = micros(now.as_nanos());
        // Only the first request after a completion follows a pause. Others were sent while the
        // group was busy.
        if self.ended == 0 || now <= self.ended || self.ended == self.looked_at {
            return;
        }
        // A moving average in which the new pause counts 1/8.
        self.think = (self.think * 7 + now - self.ended) >> 3;
        self.looked_at = self.ended;
    }

    /// Observes a completion. `bad` tells whether the request was slow, or `None` if it does not
    /// count. `tick` is the present tick.
    pub(super) fn observe_completion(
        &mut self,
        now: Instant,
        tick: u64,
        slice: u64,
        bad: Option<bool>,
    ) {
        self.ended = micros(now.as_nanos());
        if let Some(bad) = bad {
            self.count += 1;
            self.bad += u64::from(bad);
        }
        if tick > self.halve_at || self.count > COUNT_MAX {
            self.halve_at = tick + slice;
            self.count /= 2;
            self.bad /= 2;
        }
    }

    /// Returns true if no other group needs to be throttled for this one.
    pub(super) fn is_idle(&self, now: Instant, idle: Span) -> bool {
        // The threshold is in true microseconds, while times are in units of 1,024 ns, as in Linux.
        let threshold = idle.as_nanos() / 1_000;
        let away = micros(now.as_nanos()).saturating_sub(self.ended);
        away > IDLE_MAX.min(threshold.saturating_mul(4))
            || self.think > threshold
            // `bad * 5 < count`: fewer than 20 % of the requests were slow.
            || self.count > 0 && self.bad * 5 < self.count
    }
}

/// The latency of requests of one size while low limits apply.
#[derive(Clone, Copy, Debug, Default)]
struct LatencyBucket {
    mean: u64,
    valid: bool,
    /// The sum of latencies since the last update of the mean.
    sum: u64,
    samples: u64,
}

/// The latency of undisturbed requests by size and direction.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    buckets: [[LatencyBucket; BUCKETS]; 2],
    rotational: bool,
    looked: Instant,
}

impl Baseline {
    pub(super) fn new(rotational: bool) -> Self {
        let bucket = LatencyBucket {
            mean: if rotational { DISK_BASELINE } else { 0 },
            ..LatencyBucket::default()
        };
        Self {
            buckets: [[bucket; BUCKETS]; 2],
            rotational,
            looked: Instant::ZERO,
        }
    }

    /// Adds the time that a request took in the drive.
    pub(super) fn add(&mut self, direction: usize, bytes: u64, took: Span) {
        let bucket = &mut self.buckets[direction][bucket_of(bytes)];
        bucket.sum = bucket.sum.saturating_add(micros(took.as_nanos()));
        bucket.samples += 1;
    }

    /// Updates the means once per second on flash. Larger requests count as at least as slow as
    /// smaller ones.
    pub(super) fn update_means(&mut self, now: Instant) {
        if self.rotational || now < self.looked + Span::from_secs(1) {
            return;
        }
        self.looked = now;
        for direction in &mut self.buckets {
            let mut smaller = 0;
            for bucket in direction {
                let mean = if bucket.samples >= SAMPLES_MIN {
                    let mean = bucket.sum / bucket.samples;
                    (bucket.sum, bucket.samples) = (0, 0);
                    mean
                } else {
                    0
                };
                if mean > 0 {
                    let mean = if bucket.valid {
                        (bucket.mean * 7 + mean) >> 3
                    } else {
                        mean
                    };
                    (bucket.mean, bucket.valid) = (mean, true);
                }
                // A larger request cannot be faster than a smaller one, so a lower mean is an
                // effect of few samples.
                bucket.mean = bucket.mean.max(smaller);
                if mean > 0 {
                    smaller = bucket.mean;
                }
            }
        }
    }

    /// Returns true if a request took more than `latency` longer than expected, or `None` if it
    /// does not count.
    pub(super) fn is_bad(
        &self,
        direction: usize,
        bytes: u64,
        took: Span,
        latency: Span,
    ) -> Option<bool> {
        let took = micros(took.as_nanos());
        if self.rotational && took < DISK_LEAST {
            return None;
        }
        let mean = self.buckets[direction][bucket_of(bytes)].mean;
        Some(took > mean.saturating_add(latency.as_nanos() / 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn request_sizes_fall_into_nine_buckets() {
        let buckets = [1, 4096, 4097, 8192, 1 << 20, 1 << 30].map(bucket_of);
        assert_eq!(buckets, [0, 0, 1, 1, 8, 8]);
    }

    #[test]
    fn a_group_with_a_long_think_time_or_pause_is_idle() {
        let mut idle_detector = IdleDetector::default();
        let idle = |idle_detector: &IdleDetector, ms| idle_detector.is_idle(at(ms), MS);
        idle_detector.observe_completion(at(10_000), 2_500, 5, None);
        assert!(!idle(&idle_detector, 10_004) && idle(&idle_detector, 10_006));
        // A pause of 10 ms contributes 1/8, which is 1.25 ms and more than the threshold of 1 ms.
        idle_detector.observe_submission(at(10_010));
        idle_detector.observe_completion(at(10_010), 2_502, 5, None);
        assert!(idle(&idle_detector, 10_010));
        for _ in 0..60 {
            idle_detector.observe_submission(at(10_011));
            idle_detector.observe_completion(at(10_011), 2_502, 5, None);
        }
        assert!(
            idle(&idle_detector, 10_011),
            "what comes at once has no think time to learn from"
        );
    }

    #[test]
    fn a_group_is_idle_after_a_pause_of_four_thresholds() {
        // The detector's microseconds are 1,024 ns long.
        let us = |n: u64| Instant::from_nanos(n * 1_024);
        let mut idle_detector = IdleDetector::default();
        idle_detector.observe_completion(us(1_000), 1, 5, None);
        assert!(!idle_detector.is_idle(us(5_000), MS));
        assert!(idle_detector.is_idle(us(5_001), MS));
    }

    #[test]
    fn a_group_with_less_than_a_fifth_of_slow_requests_is_idle() {
        let mut idle_detector = IdleDetector::default();
        // The counts are halved with the first completion, because no time of halving is set yet.
        // One slow request therefore disappears.
        for n in 0..11 {
            idle_detector.observe_completion(at(10_000), 2_500, 5, Some(n < 3));
        }
        assert!(
            !idle_detector.is_idle(at(10_000), MS),
            "two of ten are not less than a fifth"
        );
        idle_detector.observe_completion(at(10_000), 2_500, 5, Some(false));
        assert!(idle_detector.is_idle(at(10_000), MS));
    }

    #[test]
    fn baselines_are_learned_once_a_second_and_grow_with_size() {
        let mut baseline = Baseline::new(false);
        for _ in 0..SAMPLES_MIN {
            baseline.add(0, 4096, Span::from_micros(1_024));
        }
        baseline.add(0, 1 << 20, Span::from_micros(1));
        assert_eq!(
            baseline.is_bad(0, 4096, MS, Span::from_micros(500)),
            Some(true)
        );
        baseline.update_means(at(2_000));
        assert_eq!(
            baseline.is_bad(0, 4096, MS, Span::from_micros(500)),
            Some(false)
        );
        assert_eq!(
            baseline.buckets[0][8].mean, 1_000,
            "as long as the small ones"
        );
        baseline.update_means(at(4_000));
        assert_eq!(baseline.buckets[0][0].mean, 1_000, "nothing is new");
        assert_eq!(baseline.buckets[1][8].mean, 0, "writes are others");
        assert_eq!(
            Baseline::new(true).is_bad(0, 4096, Span::from_micros(900), MS),
            None
        );
    }

    /// Returns an instant in Linux's microseconds.
    fn us(n: u64) -> Instant {
        Instant::from_nanos(n * 1_024)
    }

    #[test]
    fn a_pause_counts_once_and_by_an_eighth() {
        let mut idle_detector = IdleDetector::default();
        idle_detector.observe_submission(us(900));
        assert_eq!(idle_detector.think, 0, "nothing has ended yet");
        idle_detector.observe_completion(us(1_000), 1, 5, None);
        idle_detector.observe_submission(us(1_801));
        assert_eq!(idle_detector.think, 801 / 8);
        idle_detector.observe_submission(us(5_000));
        assert_eq!(
            idle_detector.think, 100,
            "the second request follows no end"
        );
        idle_detector.observe_completion(us(6_000), 1, 5, None);
        idle_detector.observe_submission(us(6_000));
        assert_eq!(
            idle_detector.think, 100,
            "it came before the other had ended"
        );
        idle_detector.observe_submission(us(6_800));
        assert_eq!(idle_detector.think, (100 * 7 + 800) / 8);
    }

    #[test]
    fn counts_are_halved_once_a_slice_and_when_they_are_large() {
        let mut idle_detector = IdleDetector::default();
        idle_detector.observe_completion(at(1), 10, 5, Some(true));
        assert_eq!(
            (
                idle_detector.count,
                idle_detector.bad,
                idle_detector.halve_at
            ),
            (0, 0, 15)
        );
        for _ in 0..COUNT_MAX {
            idle_detector.observe_completion(at(1), 15, 5, Some(true));
        }
        assert_eq!((idle_detector.count, idle_detector.bad), (1_024, 1_024));
        idle_detector.observe_completion(at(1), 15, 5, Some(true));
        assert_eq!(
            (
                idle_detector.count,
                idle_detector.bad,
                idle_detector.halve_at
            ),
            (512, 512, 20)
        );
        idle_detector.observe_completion(at(1), 21, 5, Some(false));
        assert_eq!((idle_detector.count, idle_detector.bad), (256, 256));
    }

    #[test]
    fn a_group_with_a_think_time_of_exactly_the_threshold_is_not_idle() {
        let mut idle_detector = IdleDetector::default();
        idle_detector.observe_completion(us(1_000), 1, 5, None);
        idle_detector.think = 1_000;
        assert!(!idle_detector.is_idle(us(1_000), MS));
        idle_detector.think = 1_001;
        assert!(idle_detector.is_idle(us(1_000), MS));
    }

    #[test]
    fn means_are_taken_after_a_second_and_never_on_disks() {
        let learned = |rotational, now| {
            let mut baseline = Baseline::new(rotational);
            for _ in 0..SAMPLES_MIN {
                baseline.add(0, 4096, Span::from_micros(1_024));
            }
            baseline.update_means(now);
            baseline.buckets[0][0].mean
        };
        assert_eq!(learned(false, at(999)), 0);
        assert_eq!(learned(false, at(1_000)), 1_000);
        assert_eq!(learned(true, at(2_000)), DISK_BASELINE);
    }

    #[test]
    fn an_old_mean_does_not_raise_the_mean_of_larger_requests() {
        let mut baseline = Baseline::new(false);
        let add = |baseline: &mut Baseline, bytes, took: u64| {
            for _ in 0..SAMPLES_MIN {
                baseline.add(0, bytes, Span::from_nanos(1_024 * took));
            }
        };
        add(&mut baseline, 4096, 2_000);
        baseline.update_means(at(1_000));
        add(&mut baseline, 16 << 10, 1_000);
        baseline.update_means(at(2_000));
        assert_eq!([0, 2].map(|b| baseline.buckets[0][b].mean), [2_000, 1_000]);
    }

    #[test]
    fn the_permitted_latency_is_not_slow() {
        let baseline = Baseline::new(true);
        let is_bad = |took: u64| {
            let took = Span::from_nanos(took * 1_024);
            baseline.is_bad(1, 4096, took, Span::from_micros(500))
        };
        assert_eq!(is_bad(DISK_LEAST - 1), None);
        assert_eq!(is_bad(DISK_LEAST), Some(false));
        assert_eq!(is_bad(DISK_BASELINE + 500), Some(false));
        assert_eq!(is_bad(DISK_BASELINE + 501), Some(true));
    }
}
