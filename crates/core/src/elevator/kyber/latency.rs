//! How long requests take, and how many places in the drive each domain gets from that (Linux: `kyber_timer_fn`).
//!
//! Latencies are counted twice: from when a request came to the elevator (*total*), and from when the drive got it (*in the drive*). When
//! nine of ten requests of some domain are not out of the drive within its target, the drive is congested, and each domain gets places in
//! proportion to how near its total latency is to its target: fewer if it is below. A domain beyond its target gets more in any case.

use super::config::Config;
use super::domain::{DEPTHS, DOMAINS, TIMED};
use crate::time::{Instant, Span};

/// A latency is counted in quarters of the target (Linux: `KYBER_LATENCY_SHIFT`).
const QUARTERS: u32 = 4;
/// What is counted as seven quarters and more is told apart no further (Linux: `KYBER_LATENCY_BUCKETS`).
const BUCKETS: usize = 8;
/// What discards are to be done within (Linux: `kyber_latency_targets`).
const DISCARD_TARGET: Span = Span::from_secs(5);
/// The depths are looked at this long after the first request that ended since the last time.
const PERIOD: Span = Span::from_millis(100);
/// A percentile says something of this number of requests,
const ENOUGH: u32 = 500;
/// or after this time.
const PATIENCE: Span = Span::from_secs(1);

/// Latencies of one kind, in quarters of the target; the first bucket is up to a quarter.
#[derive(Clone, Copy, Debug, Default)]
struct Histogram([u32; BUCKETS]);

impl Histogram {
    /// Linux: `add_latency_sample`.
    fn add(&mut self, target: Span, latency: Span) {
        let quarter = (target.as_nanos() / u64::from(QUARTERS)).max(1);
        let bucket = latency.as_nanos().saturating_sub(1) / quarter;
        let bucket = bucket.min(BUCKETS as u64 - 1) as usize;
        self.0[bucket] = self.0[bucket].saturating_add(1);
    }

    fn samples(&self) -> u32 {
        self.0.iter().fold(0, |all, &n| all.saturating_add(n))
    }

    /// The bucket that `percent` of what was counted reach at most; it is empty then.
    fn take_percentile(&mut self, percent: u32) -> u32 {
        let samples = u64::from(self.samples());
        let mut left = (samples * u64::from(percent)).div_ceil(100);
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

/// What is known of a domain with a target.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    total: Histogram,
    in_drive: Histogram,
    /// When a percentile is taken even of few requests.
    patience_ends: Option<Instant>,
    /// The bucket of the total latency when it was last known, while no congestion has used it.
    p99: Option<u32>,
}

impl Timed {
    /// A percentile of one of the two, if enough is known of it (Linux: `calculate_percentile`; the two share one time-out there, too).
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

    /// The bucket of the total latency by which the depth is set. A domain may not have had enough requests for one in the same period as
    /// others, so what was known before counts, once.
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

/// The depths of the domains, and what they follow from (Linux: `struct kyber_queue_data`).
#[derive(Debug)]
pub(super) struct Latency {
    targets: [Span; TIMED],
    timed: [Timed; TIMED],
    /// When the depths are looked at next.
    due: Option<Instant>,
    pub(super) depths: [u32; DOMAINS],
}

impl Latency {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            targets: [config.read_lat_nsec, config.write_lat_nsec, DISCARD_TARGET],
            timed: [Timed::default(); TIMED],
            due: None,
            depths: DEPTHS,
        }
    }

    /// A piece is back (Linux: `kyber_completed_request`).
    pub(super) fn ended(&mut self, domain: usize, now: Instant, total: Span, in_drive: Span) {
        let Some(timed) = self.timed.get_mut(domain) else {
            return;
        };
        let target = self.targets[domain];
        timed.total.add(target, total);
        timed.in_drive.add(target, in_drive);
        self.due.get_or_insert(now + PERIOD);
    }

    /// When it is time, looks at the depths. Nothing depends on them between two calls, so nobody has to be woken for this.
    pub(super) fn run(&mut self, now: Instant) {
        if let Some(due) = self.due.filter(|&due| due <= now) {
            self.due = None;
            self.resize(due);
        }
    }

    /// As [`Self::run`] before anything else that happens now: what is due now is not due yet.
    pub(super) fn run_before(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due < now) {
            self.run(now);
        }
    }

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
            if congested || p99 >= QUARTERS {
                let depth = self.depths[domain] * (p99 + 1) / QUARTERS;
                self.depths[domain] = depth.clamp(1, DEPTHS[domain]);
            }
        }
    }
}
