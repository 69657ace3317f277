//! Depths as they follow from latencies.

use super::super::domain::DEPTHS;
use super::super::latency::DomainLatency;
use super::Config;
use crate::{Instant, Span};

const READ: usize = 0;
const WRITE: usize = 1;

/// Latencies with targets of 4 ms for reads and 40 ms for writes.
pub(super) struct LatencyBench {
    latency: DomainLatency,
    now: Instant,
}

impl LatencyBench {
    pub(super) fn new() -> Self {
        let config = Config {
            read_lat_nsec: Span::from_millis(4),
            write_lat_nsec: Span::from_millis(40),
        };
        Self {
            latency: DomainLatency::new(&config),
            now: Instant::ZERO,
        }
    }

    /// Completes a number of requests, all with these latencies in microseconds.
    fn end(&mut self, requests: u32, domain: usize, total: u64, in_drive: u64) {
        for _ in 0..requests {
            let (total, in_drive) = (Span::from_micros(total), Span::from_micros(in_drive));
            self.latency
                .add_completion(domain, self.now, total, in_drive);
        }
    }

    /// Lets 100 ms pass. Returns the depths of reads and writes.
    fn period(&mut self) -> [u32; 2] {
        self.now += Span::from_millis(100);
        self.latency.run(self.now);
        [self.latency.depths[READ], self.latency.depths[WRITE]]
    }
}

#[test]
fn depths_stay_the_same_while_latencies_are_within_targets() {
    let mut bench = LatencyBench::new();
    bench.end(1_000, READ, 3_900, 100);
    bench.end(1_000, WRITE, 39_000, 100);
    assert_eq!(bench.period(), [256, 128]);
    // A long wait outside the drive does not change them either, because the depths are at their
    // maximum.
    bench.end(1_000, READ, 9_000, 100);
    assert_eq!(bench.period(), [256, 128]);
}

/// A domain in the second quarter of its target keeps two quarters of its depth, and so on.
#[test]
fn a_domain_within_its_target_gives_up_depth_under_congestion() {
    // The quarters of 40 ms are 10 ms each, and the first one includes 10 ms.
    for (total, depth) in [(10_000, 32), (10_001, 64), (25_000, 96), (40_000, 128)] {
        let mut bench = LatencyBench::new();
        bench.end(500, READ, 8_000, 8_000);
        bench.end(500, WRITE, total, 5_000);
        assert_eq!(bench.period(), [256, depth], "{total}");
    }
}

/// A long wait for the drive counts as slow, although the drive itself is fast.
#[test]
fn the_wait_for_the_drive_counts() {
    let mut bench = LatencyBench::new();
    bench.end(500, READ, 8_000, 8_000);
    bench.end(500, WRITE, 30_000, 500);
    assert_eq!(bench.period(), [256, 96]);
}

/// One request in ten may take longer in the drive, and one in a hundred in total.
#[test]
fn percentiles_leave_out_the_slowest() {
    // 10 % of 500 requests are 50.
    for (slow, depth) in [(50, 128), (51, 32)] {
        let mut bench = LatencyBench::new();
        bench.end(500 - slow, READ, 100, 100);
        bench.end(slow, READ, 9_000, 9_000);
        bench.end(500, WRITE, 100, 100);
        assert_eq!(bench.period()[WRITE], depth, "{slow} slow");
    }
    // 1 % of 500 requests are 5.
    for (slow, depth) in [(5, 32), (6, 64)] {
        let mut bench = LatencyBench::new();
        bench.end(500, READ, 8_000, 8_000);
        bench.end(500 - slow, WRITE, 100, 100);
        bench.end(slow, WRITE, 15_000, 100);
        assert_eq!(bench.period()[WRITE], depth, "{slow} slow");
    }
}

/// The depth of a domain above its target at most doubles in each period. It never falls below one.
#[test]
fn depths_fall_to_one_and_rise_again() {
    let mut bench = LatencyBench::new();
    let mut seen = std::vec::Vec::new();
    for _ in 0..5 {
        bench.end(500, READ, 8_000, 8_000);
        bench.end(500, WRITE, 100, 100);
        seen.push(bench.period()[WRITE]);
    }
    // Writes are in the first quarter, so a quarter of their depth is left each time: 128, 32, 8,
    // 2, and then at least 1.
    assert_eq!(seen, [32, 8, 2, 1, 1]);
    seen.clear();
    for _ in 0..9 {
        bench.end(500, READ, 100, 100);
        bench.end(500, WRITE, 90_000, 100);
        seen.push(bench.period()[WRITE]);
    }
    // Writes are in the last bucket, so the depth is multiplied by 8/4.
    assert_eq!(seen, [2, 4, 8, 16, 32, 64, 128, 128, 128]);
}

/// A percentile of the latency in the drive begins the wait for the total again, as in Linux.
#[test]
fn fewer_than_500_requests_count_after_a_second() {
    let mut bench = LatencyBench::new();
    let mut changed = std::vec::Vec::new();
    for period in 0..70 {
        bench.end(10, READ, 8_000, 8_000);
        bench.end(10, WRITE, 100, 100);
        let before = bench.latency.depths[WRITE];
        if bench.period()[WRITE] != before {
            changed.push(period);
        }
    }
    // With 10 requests in a period, the total has 500 after 50 periods. The next congestion is
    // noticed one second later.
    assert_eq!(changed, [60]);
}

/// The total latency is remembered until a congestion uses it. The next congestion needs a new
/// value.
#[test]
fn the_total_latency_of_a_domain_is_used_once() {
    let mut bench = LatencyBench::new();
    bench.end(500, WRITE, 100, 100);
    assert_eq!(bench.period(), [256, 128]);
    bench.end(500, READ, 8_000, 8_000);
    assert_eq!(bench.period(), [256, 32]);
    bench.end(500, READ, 8_000, 8_000);
    assert_eq!(bench.period(), [256, 32]);
}

#[test]
fn a_histogram_is_cleared_after_a_percentile_is_taken() {
    let mut bench = LatencyBench::new();
    bench.end(5_000, READ, 8_000, 8_000);
    bench.end(5_000, WRITE, 100, 100);
    assert_eq!(bench.period(), [256, 32]);
    bench.end(500, READ, 100, 100);
    bench.end(500, WRITE, 100, 100);
    assert_eq!(bench.period(), [256, 32]);
}

/// The targets are the extreme values: zero and centuries.
#[test]
fn extreme_targets_are_accepted() {
    for (target, depth) in [(Span::ZERO, DEPTHS[WRITE]), (Span::MAX, 32)] {
        let config = Config {
            read_lat_nsec: Span::ZERO,
            write_lat_nsec: target,
        };
        let mut bench = LatencyBench {
            latency: DomainLatency::new(&config),
            now: Instant::ZERO,
        };
        bench.end(500, READ, 10, 10);
        bench.end(500, WRITE, 100, 100);
        assert_eq!(bench.period(), [256, depth]);
    }
}

/// A request that completes exactly when the depths are adapted counts for this adaptation.
#[test]
fn an_adaptation_due_now_includes_completions_of_now() {
    let mut bench = LatencyBench::new();
    bench.end(500, READ, 8_000, 8_000);
    bench.now += Span::from_millis(100);
    bench.latency.run_before(bench.now);
    bench.end(500, WRITE, 10_000, 5_000);
    bench.latency.run(bench.now);
    assert_eq!(bench.latency.depths[WRITE], 32);
    // One nanosecond later, the write is too late for the adaptation.
    let mut bench = LatencyBench::new();
    bench.end(500, READ, 8_000, 8_000);
    bench.now += Span::from_nanos(100_000_001);
    bench.latency.run_before(bench.now);
    bench.end(500, WRITE, 10_000, 5_000);
    bench.latency.run(bench.now);
    assert_eq!(bench.latency.depths[WRITE], DEPTHS[WRITE]);
}
