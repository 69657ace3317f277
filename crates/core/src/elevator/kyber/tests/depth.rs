//! How depths follow from latencies.

use super::super::domain::DEPTHS;
use super::super::latency::Latency;
use super::Config;
use crate::{Instant, Span};

const READ: usize = 0;
const WRITE: usize = 1;

/// With targets of 4 ms for reads and 40 ms for writes.
pub(super) struct Bench {
    latency: Latency,
    now: Instant,
}

impl Bench {
    pub(super) fn new() -> Self {
        let config = Config {
            read_lat_nsec: Span::from_millis(4),
            write_lat_nsec: Span::from_millis(40),
        };
        Self {
            latency: Latency::new(&config),
            now: Instant::ZERO,
        }
    }

    /// A number of requests end, all with these latencies in microseconds.
    fn end(&mut self, requests: u32, domain: usize, total: u64, in_drive: u64) {
        for _ in 0..requests {
            let (total, in_drive) = (Span::from_micros(total), Span::from_micros(in_drive));
            self.latency.ended(domain, self.now, total, in_drive);
        }
    }

    /// A tenth of a second passes.
    fn period(&mut self) -> [u32; 2] {
        self.now += Span::from_millis(100);
        self.latency.run(self.now);
        [self.latency.depths[READ], self.latency.depths[WRITE]]
    }
}

#[test]
fn nothing_changes_while_all_are_within_their_targets() {
    let mut bench = Bench::new();
    bench.end(1_000, READ, 3_900, 100);
    bench.end(1_000, WRITE, 39_000, 100);
    assert_eq!(bench.period(), [256, 128]);
    // Nor when they wait for long outside the drive: depths are as large as they get.
    bench.end(1_000, READ, 9_000, 100);
    assert_eq!(bench.period(), [256, 128]);
}

/// In the second quarter of its target a domain keeps two quarters of its depth, and so on.
#[test]
fn who_is_within_its_target_gives_way_when_the_drive_is_congested() {
    for (total, depth) in [(10_000, 32), (10_001, 64), (25_000, 96), (40_000, 128)] {
        let mut bench = Bench::new();
        bench.end(500, READ, 8_000, 8_000);
        bench.end(500, WRITE, total, 5_000);
        assert_eq!(bench.period(), [256, depth], "{total}");
    }
}

/// What waits for the drive for long counts as slow although the drive is fast.
#[test]
fn the_wait_for_the_drive_counts() {
    let mut bench = Bench::new();
    bench.end(500, READ, 8_000, 8_000);
    bench.end(500, WRITE, 30_000, 500);
    assert_eq!(bench.period(), [256, 96]);
}

/// One in ten may take longer in the drive, one in a hundred in all.
#[test]
fn percentiles_leave_out_the_slowest() {
    for (slow, depth) in [(50, 128), (51, 32)] {
        let mut bench = Bench::new();
        bench.end(500 - slow, READ, 100, 100);
        bench.end(slow, READ, 9_000, 9_000);
        bench.end(500, WRITE, 100, 100);
        assert_eq!(bench.period()[WRITE], depth, "{slow} slow");
    }
    for (slow, depth) in [(5, 32), (6, 64)] {
        let mut bench = Bench::new();
        bench.end(500, READ, 8_000, 8_000);
        bench.end(500 - slow, WRITE, 100, 100);
        bench.end(slow, WRITE, 15_000, 100);
        assert_eq!(bench.period()[WRITE], depth, "{slow} slow");
    }
}

/// A depth comes back by up to twice in a period when its domain is beyond its target, and never goes below one.
#[test]
fn depths_fall_to_one_and_rise_again() {
    let mut bench = Bench::new();
    let mut seen = std::vec::Vec::new();
    for _ in 0..5 {
        bench.end(500, READ, 8_000, 8_000);
        bench.end(500, WRITE, 100, 100);
        seen.push(bench.period()[WRITE]);
    }
    assert_eq!(seen, [32, 8, 2, 1, 1]);
    seen.clear();
    for _ in 0..9 {
        bench.end(500, READ, 100, 100);
        bench.end(500, WRITE, 90_000, 100);
        seen.push(bench.period()[WRITE]);
    }
    assert_eq!(seen, [2, 4, 8, 16, 32, 64, 128, 128, 128]);
}

/// Fewer than 500 requests say something after a second. What is said in the drive begins the wait for the total anew, as in Linux.
#[test]
fn few_requests_are_believed_after_a_second() {
    let mut bench = Bench::new();
    let mut changed = std::vec::Vec::new();
    for period in 0..70 {
        bench.end(10, READ, 8_000, 8_000);
        bench.end(10, WRITE, 100, 100);
        let before = bench.latency.depths[WRITE];
        if bench.period()[WRITE] != before {
            changed.push(period);
        }
    }
    // Ten in a period: the total has its 500 after 50, and the next congestion is seen a second later.
    assert_eq!(changed, [60]);
}

/// The total latency is remembered until congestion makes use of it, and then once.
#[test]
fn what_was_known_of_a_domain_counts_once() {
    let mut bench = Bench::new();
    bench.end(500, WRITE, 100, 100);
    assert_eq!(bench.period(), [256, 128]);
    bench.end(500, READ, 8_000, 8_000);
    assert_eq!(bench.period(), [256, 32]);
    bench.end(500, READ, 8_000, 8_000);
    assert_eq!(bench.period(), [256, 32]);
}

/// What has been judged is not judged again.
#[test]
fn a_histogram_begins_anew() {
    let mut bench = Bench::new();
    bench.end(5_000, READ, 8_000, 8_000);
    bench.end(5_000, WRITE, 100, 100);
    assert_eq!(bench.period(), [256, 32]);
    bench.end(500, READ, 100, 100);
    bench.end(500, WRITE, 100, 100);
    assert_eq!(bench.period(), [256, 32]);
}

/// Everything goes through the extremes: targets of nothing and of centuries.
#[test]
fn any_target_will_do() {
    for (target, depth) in [(Span::ZERO, DEPTHS[WRITE]), (Span::MAX, 32)] {
        let config = Config {
            read_lat_nsec: Span::ZERO,
            write_lat_nsec: target,
        };
        let mut bench = Bench {
            latency: Latency::new(&config),
            now: Instant::ZERO,
        };
        bench.end(500, READ, 10, 10);
        bench.end(500, WRITE, 100, 100);
        assert_eq!(bench.period(), [256, depth]);
    }
}

/// What ends at the very instant at which the depths are looked at counts with what ended before.
#[test]
fn what_is_due_now_waits_for_what_ends_now() {
    let mut bench = Bench::new();
    bench.end(500, READ, 8_000, 8_000);
    bench.now += Span::from_millis(100);
    bench.latency.run_before(bench.now);
    bench.end(500, WRITE, 10_000, 5_000);
    bench.latency.run(bench.now);
    assert_eq!(bench.latency.depths[WRITE], 32);
    // A nanosecond later it would have been too late.
    let mut bench = Bench::new();
    bench.end(500, READ, 8_000, 8_000);
    bench.now += Span::from_nanos(100_000_001);
    bench.latency.run_before(bench.now);
    bench.end(500, WRITE, 10_000, 5_000);
    bench.latency.run(bench.now);
    assert_eq!(bench.latency.depths[WRITE], DEPTHS[WRITE]);
}
