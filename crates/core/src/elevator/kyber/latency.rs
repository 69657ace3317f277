//! Latencies of requests, and the number of tokens that follows from them for each domain (Linux:
//! `kyber_timer_fn`).
//!
//! Two latencies are counted: from the arrival of a request at the elevator (*total*), and from its
//! dispatch (*in the drive*). If the 90th percentile of a domain's latency in the drive exceeds its
//! target, the drive is congested. Then the tokens of each domain are scaled by the ratio of its
//! total latency to its target, so a domain below its target gets fewer. A domain above its target
//! gets more in any case.

use super::config::Config;
use super::domain::{DEPTHS, DOMAINS, TIMED};
use crate::time::{Instant, Span};

/// Number of latency buckets up to the target (Linux: `KYBER_GOOD_BUCKETS`).
const QUARTERS: u32 = 4;
/// Number of buckets. The last one contains all latencies above seven quarters of the target
/// (Linux: `KYBER_LATENCY_BUCKETS`).
const BUCKETS: usize = 8;
/// Latency target of discards (Linux: `kyber_latency_targets`).
const DISCARD_TARGET: Span = Span::from_secs(5);
/// Time from the first completion after an adaptation of the depths to the next adaptation.
const PERIOD: Span = Span::from_millis(100);
/// Number of samples from which a percentile is used at once.
const ENOUGH: u32 = 500;
/// Time after which a percentile is used even with fewer samples.
const PATIENCE: Span = Span::from_secs(1);

/// The latencies of one kind, in quarters of the target. The first bucket contains latencies of up
/// to one quarter.
#[derive(Clone, Copy, Debug, Default)]
struct Histogram([u32; BUCKETS]);

impl Histogram {
    /// Adds a latency (Linux: `add_latency_sample`).
    fn add(&mut self, target: Span, latency: Span) {
        let quarter = (target.as_nanos() / u64::from(QUARTERS)).max(1);
        // The upper limit of a bucket belongs to it.
        let bucket = latency.as_nanos().saturating_sub(1) / quarter;
        let bucket = bucket.min(BUCKETS as u64 - 1) as usize;
        self.0[bucket] = self.0[bucket].saturating_add(1);
    }

    fn samples(&self) -> u32 {
        self.0.iter().fold(0, |all, &n| all.saturating_add(n))
    }

    /// Returns the bucket of a percentile, and empties the histogram.
    fn take_percentile(&mut self, percent: u32) -> u32 {
        let samples = u64::from(self.samples());
        let mut left = (samples * u64::from(percent)).div_ceil(100);
        // The last bucket contains all remaining samples, so it needs no check.
        let buckets = self.0.iter().take(BUCKETS - 1);
        let bucket = buckets
            .take_while(|&&n| {
                let below = u64::from(n) < left;
                left -= if below { u64::from(n) } else { 0 };
                below
            })
            .count();
        self.0 = [0; BUCKETS];
        bucket as u32
    }
}

/// The measurements of a domain with a target.
#[derive(Clone, Copy, Debug, Default)]
struct TimedDomain {
    total: Histogram,
    in_drive: Histogram,
    /// The time at which a percentile is used even with few samples.
    patience_ends: Option<Instant>,
    /// The bucket of the total latency when it was last known. A congestion uses it only once.
    p99: Option<u32>,
}

impl TimedDomain {
    /// Returns a percentile of one of the two histograms, if it has enough samples (Linux:
    /// `calculate_percentile`, where both share one time-out, too).
    fn percentile(
        &mut self,
        which: impl Fn(&mut Self) -> &mut Histogram,
        percent: u32,
        now: Instant,
    ) -> Option<u32> {
        let samples = which(self).samples();
        if samples == 0 {
            return None;
        }
        let ends = *self.patience_ends.get_or_insert(now + PATIENCE);
        if samples < ENOUGH && now < ends {
            return None;
        }
        self.patience_ends = None;
        Some(which(self).take_percentile(percent))
    }

    /// Returns the bucket of the total latency that sets the depth. A domain may have too few
    /// samples in a period in which the others have enough. Therefore the previous bucket is used,
    /// but only once.
    fn known(&mut self, now: Instant, congested: bool) -> Option<u32> {
        let p99 = self.percentile(|t| &mut t.total, 99, now);
        if congested {
            let known = self.p99.take();
            p99.or(known)
        } else {
            self.p99 = p99.or(self.p99);
            p99
        }
    }
}

/// The depths of the domains, and the measurements that they follow from (Linux: `struct
/// kyber_queue_data`).
#[derive(Debug)]
pub(super) struct DomainLatency {
    targets: [Span; TIMED],
    timed: [TimedDomain; TIMED],
    /// The time of the next adaptation of the depths.
    due: Option<Instant>,
    pub(super) depths: [u32; DOMAINS],
}

impl DomainLatency {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            targets: [config.read_lat_nsec, config.write_lat_nsec, DISCARD_TARGET],
            timed: [TimedDomain::default(); TIMED],
            due: None,
            depths: DEPTHS,
        }
    }

    /// Adds a completed piece (Linux: `kyber_completed_request`).
    pub(super) fn add_completion(
        &mut self,
        domain: usize,
        now: Instant,
        total: Span,
        in_drive: Span,
    ) {
        // The last domain has no target, so its depth never changes.
        let Some(timed) = self.timed.get_mut(domain) else {
            return;
        };
        let target = self.targets[domain];
        timed.total.add(target, total);
        timed.in_drive.add(target, in_drive);
        self.due.get_or_insert(now + PERIOD);
    }

    /// Adapts the depths if it is time. Nothing depends on the depths between two calls, so no
    /// timer is necessary.
    pub(super) fn run(&mut self, now: Instant) {
        if let Some(due) = self.due.filter(|&due| due <= now) {
            self.due = None;
            self.resize(due);
        }
    }

    /// Adapts the depths if the time for that was before `now`. An adaptation that is due at
    /// exactly `now` comes after the completions of this instant.
    pub(super) fn run_before(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due < now) {
            self.run(now);
        }
    }

    /// Adapts the depths of all domains to their latencies.
    fn resize(&mut self, now: Instant) {
        let mut congested = false;
        for timed in &mut self.timed {
            let p90 = timed.percentile(|t| &mut t.in_drive, 90, now);
            congested |= p90.is_some_and(|bucket| bucket >= QUARTERS);
        }
        for (domain, timed) in self.timed.iter_mut().enumerate() {
            let Some(p99) = timed.known(now, congested) else {
                continue;
            };
            // Without congestion, a domain keeps its tokens unless it misses its target itself.
            if congested || p99 >= QUARTERS {
                let depth = self.depths[domain] * (p99 + 1) / QUARTERS;
                self.depths[domain] = depth.clamp(1, DEPTHS[domain]);
            }
        }
    }
}
