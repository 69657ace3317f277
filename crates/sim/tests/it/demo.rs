//! The scenarios that come with Weir, without a policy.

use weir_core::{Instant, Span};
use weir_measure::LimitedBy;
use weir_measure::promise::{Cause, PromisedRate};
use weir_sim::{Policy, Results, Scenario, SimRun, measure_alone, scenario};

fn run(scenario: &Scenario, policy: &Policy) -> Results {
    SimRun::new(scenario, policy, 0)
        .unwrap()
        .run(|_| {})
        .unwrap()
}

/// A table of integers, which does not depend on the printing of floating-point numbers.
fn table(results: &Results) -> String {
    let mut lines =
        vec!["client     requests      bytes   p50 ns     p99 ns     max ns".to_owned()];
    let clients = results.clients.iter().map(|c| (c.name.as_str(), &c.meter));
    for (name, meter) in clients.chain([("total", &results.total)]) {
        let latency = meter.latency();
        lines.push(format!(
            "{name:<10} {:>8} {:>10} {:>8} {:>10} {:>10}",
            meter.requests(),
            meter.bytes(),
            latency.quantile(1, 2),
            latency.quantile(99, 100),
            latency.max()
        ));
    }
    lines.join("\n")
}

#[test]
fn the_target_starves_and_the_link_is_full_under_none() {
    let results = run(&scenario::demo(Span::from_secs(2)), &Policy::none());
    let target = &results.clients[0].meter;
    // Without a policy, the target has one of 31 requests in the drive, and a request of 4 KiB
    // waits for 30 of 128 KiB: 30 × 524 us = 15.7 ms.
    assert!(target.bytes() < 2 * 1_000_000);
    assert!(results.total.bytes() > 2 * 249_000_000);
    assert!(results.total.bytes() <= 2 * 250_000_000);
    let judged = results.judge(0, PromisedRate::new(10_000_000, 0).unwrap());
    assert_eq!(judged.fraction(), Some(0.0));
    assert_eq!(judged.seconds.short[Cause::Neighbour as usize], 2);
    assert_eq!(table(&results), DEMO.trim());
}

const DEMO: &str = "
client     requests      bytes   p50 ns     p99 ns     max ns
target          128     524288 15745024   15745024   15745024
reader-01       254   33292288 15745024   15745024   15745024
reader-02       254   33292288 15745024   15745024   15745024
reader-03       254   33292288 15745024   15745024   15745024
reader-04       254   33292288 15745024   15745024   15745024
reader-05       254   33292288 15745024   15745024   15745024
reader-06       254   33292288 15745024   15745024   15745024
reader-07       254   33292288 15745024   15745024   15745024
reader-08       254   33292288 15745024   15745024   15745024
reader-09       254   33292288 15745024   15745024   15745024
reader-10       254   33292288 15745024   15745024   15745024
reader-11       254   33292288 15745024   15745024   15745024
reader-12       254   33292288 15745024   15745024   15745024
reader-13       254   33292288 15745024   15745024   15745024
reader-14       254   33292288 15745024   15745024   15745024
reader-15       254   33292288 15775024   15775024   15775024
total          3938  499908608 15775024   15775024   15775024
";

#[test]
fn sixteen_equal_readers_share_the_link_equally() {
    let results = run(
        &scenario::equal_random_readers(Span::from_secs(2)),
        &Policy::none(),
    );
    // A second at 250 MB/s has space for 61,035 requests of 4 KiB.
    assert!(results.total.requests() > 2 * 61_030);
    for client in &results.clients {
        let fair = 2 * 250_000_000 / 16;
        assert!(client.meter.bytes().abs_diff(fair) < fair / 100);
    }
}

#[test]
fn records_name_promise_limit_and_split() {
    let scenario = scenario::demo(Span::from_secs(2));
    let results = run(&scenario, &Policy::none());
    let records = results.records(&measure_alone(&scenario).unwrap());
    assert_eq!(records.len(), 17);
    let target = &records[0];
    assert_eq!(
        (target.client.as_str(), target.promised_mb_per_s),
        ("target", Some(10.0))
    );
    assert!(
        target
            .worst_second_mb_per_s
            .is_some_and(|worst| worst < 1.0)
    );
    assert_eq!(target.windows_met, Some(0.0));
    let seconds = target.promise_seconds.as_ref().unwrap();
    assert_eq!((seconds.promised, seconds.short), (2, 2));
    assert_eq!(seconds.short_by["neighbour"], 2);
    // The target is promised 10 MB/s for two seconds, so the missing amount is 20 MB minus its
    // bytes.
    assert!(
        seconds
            .lacking_bytes
            .is_some_and(|n| n.abs_diff(20_000_000 - target.bytes) < 10_000)
    );
    assert_eq!(
        target.limited_by,
        Some(LimitedBy::Share),
        "in the drive's queue"
    );
    let split = target.split_us.as_ref().unwrap();
    assert!(
        (split.total() - target.latency_us.unwrap().mean).abs() < 0.01,
        "nothing lies between client and layer"
    );
    assert_eq!(target.series_mb_per_s.as_ref().map(Vec::len), Some(20));
    let total = &records[16];
    assert_eq!(
        (total.client.as_str(), total.promised_mb_per_s),
        ("total", None)
    );
    assert_eq!(total.drive_busy_percent, Some(100));
}

#[test]
fn progress_is_told_and_ends_at_the_end() {
    let scenario = scenario::demo(Span::from_millis(250));
    let mut told = Vec::new();
    SimRun::new(&scenario, &Policy::none(), 0)
        .unwrap()
        .run(|p| told.push(p))
        .unwrap();
    // Progress is reported every 100 ms, and at the end.
    let times: Vec<u64> = told.iter().map(|p| p.now.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [100, 200, 250]);
    assert!(told.is_sorted_by_key(|p| p.requests) && told[0].requests > 0);
    assert!(
        told.iter()
            .all(|p| p.end == Instant::ZERO + Span::from_millis(250))
    );
}
