//! Tests of the disk with known figures: timing, order, caches and flushes.

use super::*;
use crate::drive::testing::{ClosedLoop, LoopClient, LoopTotals};
use Vec;
use weir_core::Span;

fn config() -> HddConfig {
    HddConfig::generic()
}

fn load(config: &HddConfig) -> ClosedLoop<Hdd> {
    ClosedLoop::new(config.build().unwrap(), config.size())
}

const SECOND: Span = Span::from_secs(1);

fn run(config: &HddConfig, clients: &mut [LoopClient], seconds: u64) -> (Vec<LoopTotals>, Span) {
    load(config).run(clients, SECOND.saturating_mul(seconds))
}

/// Asserts that `value` is within `percent` of `expected`.
fn near(value: u64, expected: u64, percent: u64) {
    let off = value.abs_diff(expected) * 100;
    assert!(
        off <= expected * percent,
        "{value} is not {expected} within {percent} %"
    );
}

#[test]
fn a_random_read_takes_a_seek_half_a_revolution_and_its_transfer() {
    let config = config();
    let mut clients = [LoopClient::random(Op::Read, 4096, 1)];
    let (results, _) = run(&config, &mut clients, 60);
    // The mean over random pairs of positions covers the whole curve, not only its middle point.
    let curve = Curve::new(&config.seek, config.tracks());
    let mut random = load(&config);
    let geometry = Geometry::new(&config.zones, config.revolution());
    let mut track = || {
        let byte = random.random() % config.size();
        geometry.place(byte).track
    };
    let seek: u64 = (0..10_000)
        .map(|_| curve.time(track(), track()))
        .sum::<u64>()
        / 10_000;
    let half = config.revolution().as_nanos() / 2;
    // The overhead is 100 us, and the transfer of 4 KiB takes 37 us to 68 us, depending on the
    // zone.
    near(
        results[0].mean().as_nanos(),
        seek + half + 100_000 + 50_000,
        2,
    );
}

#[test]
fn a_long_read_goes_at_the_rate_of_its_zone() {
    let mut from = 0;
    for zone in config().zones {
        let mut clients = [LoopClient::sequential(Op::Read, 128 << 10, 4, from)];
        let (results, elapsed) = run(&config(), &mut clients, 5);
        near(results[0].rate(elapsed), zone.rate, 1);
        from += zone.bytes;
    }
}

#[test]
fn read_ahead_keeps_the_rate_of_a_reader_at_depth_one() {
    let mut clients = [LoopClient::sequential(Op::Read, 64 << 10, 1, 0)];
    let (results, elapsed) = run(&config(), &mut clients, 5);
    near(results[0].rate(elapsed), 110_000_000, 3);
    let blind = HddConfig {
        segment: 0,
        ..config()
    };
    let mut clients = [LoopClient::sequential(Op::Read, 64 << 10, 1, 0)];
    let (results, elapsed) = run(&blind, &mut clients, 5);
    // Without read-ahead, the next 64 KiB pass under the head before their command arrives, so each
    // read waits for a revolution of 8.3 ms: 7.9 MB/s.
    assert!(results[0].rate(elapsed) < 10_000_000, "a revolution each");
}

#[test]
fn a_deeper_queue_is_never_slower_for_random_reads() {
    let mut before = 0;
    for depth in [1, 2, 4, 8, 16, 32] {
        let mut clients = [LoopClient::random(Op::Read, 4096, depth)];
        let (results, elapsed) = run(&config(), &mut clients, 60);
        let rate = results[0].requests * SECOND.as_nanos() / elapsed.as_nanos().max(1);
        assert!(rate >= before, "depth {depth}: {rate} after {before}");
        before = rate;
    }
    assert!(before > 120, "picking by positioning time helps: {before}");
}

#[test]
fn littles_law_holds_for_a_disk() {
    let mut clients = [
        LoopClient::random(Op::Read, 4096, 16),
        LoopClient::sequential(Op::Write, 65536, 4, 1 << 30),
    ];
    let (results, elapsed) = run(&config(), &mut clients, 30);
    for (result, depth) in results.iter().zip([16, 4]) {
        near(result.latency.as_nanos(), elapsed.as_nanos() * depth, 3);
    }
}

#[test]
fn a_sequential_stream_holds_the_head_until_others_are_overdue() {
    for millis in [200, 1000] {
        let config = HddConfig {
            ageing: Span::from_millis(millis),
            ..config()
        };
        let mut clients = [
            LoopClient::sequential(Op::Read, 128 << 10, 4, 0),
            LoopClient::random(Op::Read, 4096, 1),
        ];
        let (results, _) = run(&config, &mut clients, 30);
        let mean = results[1].mean().as_nanos() / 1_000_000;
        // There are up to three streams: the random read, and the sequential stream, which counts
        // as two if one of its commands has overtaken an older one.
        assert!((2 * millis..3 * millis).contains(&mean), "{mean} ms");
        // The bound: all other overdue commands are served first, each with a full stroke, a
        // revolution and its transfer.
        let one = config.seek.full + config.revolution() + Span::from_millis(3);
        let bound = config.ageing.saturating_mul(3) + one.saturating_mul(6);
        assert!(results[1].longest <= bound, "{:?}", results[1].longest);
    }
}

#[test]
fn writes_are_answered_from_the_cache_until_it_is_full() {
    let mut clients = [LoopClient::random(Op::Write, 4096, 1)];
    let (results, _) = run(&config(), &mut clients, 1);
    assert!(results[0].requests > 200, "{}", results[0].requests);
    let through = HddConfig {
        write_cache: 0,
        ..config()
    };
    let mut clients = [LoopClient::random(Op::Write, 4096, 1)];
    let (results, _) = run(&through, &mut clients, 10);
    let mean = results[0].mean().as_nanos() / 1_000_000;
    // 12 ms for the average seek, 4.2 ms for half a revolution and 0.5 ms to settle.
    assert!((14..19).contains(&mean), "{mean} ms");
}

#[test]
fn a_flush_ends_when_everything_before_it_is_on_the_platters() {
    let mut load = load(&config());
    let mut clients = [
        LoopClient::random(Op::Write, 4096, 8),
        LoopClient::random(Op::Flush, 0, 1),
    ];
    let (results, elapsed) = load.run(&mut clients, Span::from_nanos(1));
    assert!(results[0].longest < Span::from_millis(2));
    // Eight writes that are chosen by positioning time take some milliseconds each.
    assert!(results[1].latency > Span::from_millis(30));
    assert_eq!(results[1].latency, elapsed, "nothing was left to write");
    assert_eq!((load.drive.cached, load.drive.dirty.len()), (0, 0));
}

#[test]
fn commands_after_a_flush_begin_after_it() {
    let mut load = load(&config());
    let mut clients = [
        LoopClient::random(Op::Write, 4096, 8),
        LoopClient::random(Op::Flush, 0, 1),
        LoopClient::random(Op::Read, 4096, 1),
    ];
    let (results, _) = load.run(&mut clients, Span::from_nanos(1));
    assert!(results[2].latency > results[1].latency);
}

#[test]
fn consecutive_flushes_end_and_later_commands_begin() {
    let mut load = load(&config());
    let mut clients = [
        LoopClient::random(Op::Read, 4096, 2),
        LoopClient::random(Op::Flush, 0, 3),
        LoopClient::random(Op::Write, 4096, 2),
        LoopClient::random(Op::Flush, 0, 2),
        LoopClient::random(Op::Read, 4096, 1),
    ];
    // The load checks that all commands end.
    let (results, _) = load.run(&mut clients, Span::from_nanos(1));
    assert!(results[4].latency > results[3].longest);
}

#[test]
fn a_flush_takes_its_configured_time_and_occupies_the_arm() {
    let plain = config();
    let slow = HddConfig {
        flush: Span::from_millis(20),
        ..plain
    };
    let run = |config: &HddConfig| {
        let mut clients = [
            LoopClient::random(Op::Flush, 0, 2),
            LoopClient::random(Op::Read, 4096, 1),
        ];
        load(config).run(&mut clients, Span::from_nanos(1)).0
    };
    let (plain, slow) = (run(&plain), run(&slow));
    assert!(plain[0].longest < Span::from_millis(1));
    // The second of the two flushes waits for both: 2 × 20 ms.
    assert_eq!(slow[0].longest, plain[0].longest + Span::from_millis(40));
    assert!(slow[1].latency > Span::from_millis(40));
}

#[test]
fn skipped_candidates_would_not_have_been_chosen() {
    let config = config();
    let mut load = load(&config);
    let (mut chosen, mut tags) = (0, 0..);
    for _ in 0..3_000 {
        // A busy disk with near and far reads and writes, at a random rotational phase.
        let mut drive = config.build().unwrap();
        let random: Vec<u64> = (0..80).map(|_| load.random()).collect();
        let t = Instant::from_nanos(random[0] % 10_000_000_000);
        let near = random[1] % config.size();
        drive.head.end = near;
        drive.head.track = drive.geometry.place(near).track;
        drive.head.zone = drive.geometry.place(near).zone;
        drive.head.at = t.saturating_sub(Span::from_nanos(random[2] % 3_000_000));
        drive.head.reading = random[3].is_multiple_of(2);
        for r in random[4..].chunks(4).take(random[3] as usize % 20) {
            let start = match r[0] % 3 {
                0 => near + r[1] % (4 << 20),
                1 => near,
                _ => r[1] % config.size(),
            };
            let start = start.min(config.size() - (1 << 20)) / 512 * 512;
            let arrived = t.saturating_sub(Span::from_nanos(r[2] % 510_000_000));
            drive.waiting.push(Job {
                tag: Some(Tag(0)),
                op: if r[3] % 4 == 0 {
                    Op::WriteZeroes
                } else {
                    Op::Read
                },
                fua: false,
                start,
                end: start + 4096 * (1 + r[3] % 64),
                place: drive.geometry.place(start),
                arrived,
                ready: arrived + Span::from_nanos(r[2] % 7 * 100_000_000),
                sequence: tags.next().unwrap(),
            });
        }
        let read = drive.read_ahead_end(t);
        let key = |j: &Job| {
            let ageing = config.ageing.saturating_mul(drive.streams_waiting());
            let overdue = t.since(j.arrived) > ageing;
            let begins = drive.access(t, j, read).begins;
            (
                !overdue,
                if overdue { j.arrived } else { begins },
                j.sequence,
            )
        };
        let jobs = drive.waiting.iter().enumerate();
        let best = jobs
            .min_by_key(|(_, j)| key(j))
            .map(|(i, _)| (JobSource::Queue, i));
        assert_eq!(drive.choose_job(t), best);
        chosen += u32::from(best.is_some());
    }
    assert!(chosen > 2_000);
}
