//! Tests of the flash drive with known figures: bounds, streams, buffer, flushes and cleaning.

use super::*;
use crate::drive::DriveConfig;
use crate::drive::testing::{ClosedLoop, LoopClient, LoopTotals};
use Vec;

const SECOND: Span = Span::from_secs(1);

fn config() -> SsdConfig {
    SsdConfig::generic()
}

fn load(config: &SsdConfig) -> ClosedLoop<Ssd> {
    ClosedLoop::new(config.build().unwrap(), config.size)
}

fn run(config: &SsdConfig, clients: &mut [LoopClient], millis: u64) -> (Vec<LoopTotals>, Span) {
    load(config).run(clients, Span::from_millis(millis))
}

/// Asserts that `value` is within `percent` of `expected`.
fn near(value: u64, expected: u64, percent: u64) {
    let off = value.abs_diff(expected) * 100;
    assert!(
        off <= expected * percent,
        "{value} is not {expected} within {percent} %"
    );
}

fn readers(count: u64) -> Vec<LoopClient> {
    let at = |i| i * (2 << 30);
    (0..count)
        .map(|i| LoopClient::sequential(Op::Read, 128 << 10, 2, at(i)))
        .collect()
}

#[test]
fn a_lone_read_takes_each_of_its_parts_once() {
    let mut clients = [LoopClient::random(Op::Read, 4096, 1)];
    let (results, _) = run(&config(), &mut clients, 100);
    // The parts: overhead, controller, die, channel (4096 bytes at 200 MB/s), link (4096 bytes at
    // 540 MB/s).
    let parts = 40_000 + 5_000 + 80_000 + 20_480 + 7_585;
    near(results[0].mean().as_nanos(), parts, 1);
}

#[test]
fn the_link_bounds_sequential_reads_and_the_dies_random_ones() {
    let (results, elapsed) = run(&config(), &mut readers(8), 500);
    let rate: u64 = results.iter().map(|r| r.rate(elapsed)).sum();
    near(rate, 540_000_000, 2);
    let slow = SsdConfig {
        read: Span::from_millis(1),
        channels: 2,
        dies: 2,
        ..config()
    };
    let mut clients = [LoopClient::random(Op::Read, 4096, 32)];
    let (results, elapsed) = run(&slow, &mut clients, 2000);
    let rate = results[0].requests * SECOND.as_nanos() / elapsed.as_nanos();
    assert!(
        rate <= 4000,
        "four dies, a thousand reads a second each: {rate}"
    );
    assert!(rate >= 3600, "all of them at work: {rate}");
}

#[test]
fn read_ahead_keeps_the_link_busy_for_one_reader_that_waits() {
    let one = || [LoopClient::sequential(Op::Read, 128 << 10, 1, 0)];
    let (ahead, time) = run(&config(), &mut one(), 500);
    let blind = SsdConfig {
        read_ahead: 0,
        ..config()
    };
    let (without, blind_time) = run(&blind, &mut one(), 500);
    assert!(ahead[0].rate(time) > 400_000_000, "{}", ahead[0].rate(time));
    assert!(without[0].rate(blind_time) * 10 < ahead[0].rate(time) * 8);
}

#[test]
fn a_deeper_queue_is_never_slower_for_random_reads() {
    let mut before = 0;
    for depth in [1, 2, 4, 8, 16, 32] {
        let mut clients = [LoopClient::random(Op::Read, 4096, depth)];
        let (results, elapsed) = run(&config(), &mut clients, 500);
        let rate = results[0].rate(elapsed);
        assert!(rate >= before, "depth {depth}: {rate} after {before}");
        before = rate;
    }
}

#[test]
fn littles_law_holds_for_flash() {
    let mut clients = [
        LoopClient::random(Op::Read, 4096, 8),
        LoopClient::sequential(Op::Read, 65536, 2, 1 << 30),
        LoopClient::random(Op::Write, 8192, 4),
    ];
    let (results, elapsed) = run(&config(), &mut clients, 2000);
    for (result, depth) in results.iter().zip([8, 2, 4]) {
        near(result.latency.as_nanos(), elapsed.as_nanos() * depth, 3);
    }
}

#[test]
fn each_stream_overtakes_a_random_read_by_the_stated_bytes_and_no_more() {
    for (streams, favour) in [(15, 0), (15, 1 << 20), (3, 1 << 20), (3, 4 << 20)] {
        let config = SsdConfig { favour, ..config() };
        let mut clients = readers(streams);
        clients.push(LoopClient::random(Op::Read, 4096, 1));
        let (results, elapsed) = run(&config, &mut clients, 2000);
        // In addition to the favoured bytes, the reads in progress and a queue of earlier reads are
        // served before the target.
        let favoured = favour * streams;
        let ahead = favoured + (31 << 17);
        let bound =
            Span::from_nanos(ahead * 1_000_000_000 / 540_000_000) + config.window.saturating_mul(2);
        let target = results.last().unwrap();
        assert!(target.longest <= bound, "{favour}: {:?}", target.longest);
        // From time to time, one stream has all its reads in progress and does not wait.
        let least = favour * (streams - 1);
        assert!(
            target.mean().as_nanos() >= least * 1_000_000_000 / 540_000_000,
            "{favour}: {:?}",
            target.mean()
        );
        let rate: u64 = results.iter().map(|r| r.rate(elapsed)).sum();
        near(rate, 540_000_000, 3);
    }
}

#[test]
fn writes_are_answered_from_the_buffer_until_the_dies_are_the_bound() {
    let (results, elapsed) = run(
        &config(),
        &mut [LoopClient::sequential(Op::Write, 128 << 10, 4, 0)],
        2000,
    );
    // 32 dies program 16 KiB in 1.3 ms each, after 82 us on the channel.
    let dies = 32 * (16 << 10) * 1_000_000_000 / (1_300_000 + 81_920);
    near(results[0].rate(elapsed), dies, 8);
    let (results, _) = run(&config(), &mut [LoopClient::random(Op::Write, 4096, 1)], 1);
    assert!(
        results[0].mean() < Span::from_micros(60),
        "{:?}",
        results[0].mean()
    );
}

#[test]
fn a_flush_completes_when_earlier_writes_are_in_the_flash() {
    let mut clients = [
        LoopClient::random(Op::Write, 4096, 1),
        LoopClient::random(Op::Flush, 0, 1),
    ];
    let (results, _) = run(&config(), &mut clients, 0);
    assert!(results[0].latency < Span::from_micros(60));
    // One page must be programmed, which takes 1.3 ms.
    assert!(results[1].latency >= Span::from_micros(1300));
    let protected = SsdConfig {
        protected: true,
        ..config()
    };
    let (results, _) = run(&protected, &mut clients, 0);
    assert!(results[1].latency < Span::from_micros(60));
}

#[test]
fn a_flush_takes_its_configured_time_and_occupies_the_controller() {
    let slow = SsdConfig {
        flush: Span::from_millis(2),
        ..config()
    };
    let mut clients = [
        LoopClient::random(Op::Flush, 0, 3),
        LoopClient::random(Op::Read, 4096, 1),
    ];
    let (results, _) = run(&slow, &mut clients, 0);
    // Three flushes of 2 ms each occupy the controller one after the other.
    assert!(results[0].longest >= Span::from_millis(6));
    assert!(results[0].longest < Span::from_micros(6100));
    assert!(results[1].latency > Span::from_millis(6));
}

#[test]
fn a_read_suspends_a_program_operation() {
    let one_die = SsdConfig {
        channels: 1,
        dies: 1,
        filled: 0,
        ..config()
    };
    let mut clients = [
        LoopClient::sequential(Op::Write, 16 << 10, 4, 0),
        LoopClient::random(Op::Read, 4096, 1),
    ];
    let (results, _) = run(&one_die, &mut clients, 2000);
    assert!(
        results[1].mean() < Span::from_micros(500),
        "{:?}",
        results[1].mean()
    );
}

#[test]
fn random_overwrites_settle_at_a_steady_rate_below_the_first_one() {
    let small = SsdConfig {
        size: 2 << 30,
        filled: 100,
        block: 64,
        ..config()
    };
    let mut load = load(&small);
    let mut rate = |millis| {
        let mut clients = [LoopClient::random(Op::Write, 4096, 32)];
        let (results, elapsed) = load.run(&mut clients, Span::from_millis(millis));
        results[0].rate(elapsed)
    };
    let first = rate(500);
    rate(60_000);
    let (settled, later) = (rate(20_000), rate(20_000));
    assert!(settled * 2 < first, "{first} {settled}");
    near(settled, later, 5);
    assert!(load.drive.write_amplification() > 2 * 1024);
}

#[test]
fn a_write_without_a_buffer_is_in_the_flash_before_the_next() {
    let none = SsdConfig {
        write_buffer: 0,
        ..config()
    };
    // A write leaves three units over, and four units make a page.
    let mut clients = [LoopClient::random(Op::Write, 3 * 4096, 4)];
    let (results, elapsed) = run(&none, &mut clients, 100);
    let each = elapsed.as_nanos() / results[0].requests;
    assert!(each >= none.program.as_nanos(), "{each} ns each");
}

#[test]
fn every_second_page_of_a_die_takes_the_time_of_an_upper_page() {
    let one_die = SsdConfig {
        channels: 1,
        dies: 1,
        read_ahead: 0,
        read_upper: Span::from_micros(180),
        ..config()
    };
    let mut clients = [LoopClient::sequential(Op::Read, 16 << 10, 1, 0)];
    let (equal, _) = run(
        &SsdConfig {
            read_upper: Span::ZERO,
            ..one_die
        },
        &mut clients.clone(),
        500,
    );
    let (results, _) = run(&one_die, &mut clients, 500);
    // Half of the pages take 100 us more.
    near(
        results[0].mean().as_nanos(),
        equal[0].mean().as_nanos() + 50_000,
        1,
    );
    near(
        results[0].longest.as_nanos(),
        equal[0].longest.as_nanos() + 100_000,
        1,
    );
}

#[test]
fn the_rate_of_random_reads_varies_over_time_with_retries() {
    // The controller is the bound: 50,000 commands a second.
    let varying = SsdConfig {
        command: Span::from_micros(20),
        retries: 250,
        ..config()
    };
    let rates = |seed| -> Vec<u64> {
        let drive = DriveConfig::Ssd(varying).build_seeded(seed).unwrap();
        let mut load = ClosedLoop::new(drive, varying.size);
        let mut rate = || {
            let mut clients = [LoopClient::random(Op::Read, 4096, 32)];
            let (results, elapsed) = load.run(&mut clients, Span::from_secs(5));
            results[0].requests * SECOND.as_nanos() / elapsed.as_nanos()
        };
        (0..20).map(|_| rate()).collect()
    };
    let all = rates(1);
    let (least, most) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
    // With a retry for a quarter of the commands, the controller does four fifths of the commands.
    assert!((39_500..42_500).contains(&least), "{all:?}");
    assert!((47_500..50_100).contains(&most), "{all:?}");
    assert!(rates(1) == all && rates(2) != all);
}

#[test]
fn a_lone_reader_in_its_own_queue_passes_commands_that_were_not_fetched() {
    // Tags are assigned to queues in turn: the reader of 4 KiB has the last tag, of queue 3, and
    // the deep reader all tags of the other queues.
    let longest = |fetch, burst| {
        let config = SsdConfig {
            queues: 4,
            tags: 32,
            favour: 0,
            fetch,
            burst,
            ..config()
        };
        let mut drive = config.build().unwrap();
        let mut at = |tag: u32, queue: u16, offset: u64, length: u32| {
            let command = Dispatch {
                queue: weir_core::QueueId(queue),
                tag: Tag(tag),
                ..Dispatch::new(Op::Read, offset, length)
            };
            drive.submit(Instant::ZERO, &command).unwrap();
        };
        for i in 0..96 {
            at(i, (i % 3) as u16, u64::from(i) << 20, 128 << 10);
        }
        at(96, 3, 1 << 30, 4096);
        loop {
            let next = drive.next_completion().unwrap();
            while let Some(ended) = drive.pop(next) {
                if ended.completion.tag == Tag(96) {
                    return ended.at.since(Instant::ZERO);
                }
            }
        }
    };
    // Without arbitration, 96 commands of 128 KiB are first, which take 23.3 ms of the link.
    let (all, one, four) = (longest(0, 0), longest(1 << 20, 1), longest(1 << 20, 16));
    assert!(all > Span::from_millis(23), "{all:?}");
    // What was fetched before is 1 MiB and what is on the link, about 500 us. Then the other three
    // queues have one command each.
    assert!(one < Span::from_millis(4), "{one:?}");
    // With a burst of 16, up to 6 MiB of the others are before it.
    assert!(one < four && four < Span::from_millis(16), "{four:?}");
}

#[test]
fn every_command_ends_with_arbitration_of_reads_writes_and_flushes() {
    for fetch in [4096, 1 << 16, 1 << 24] {
        let config = SsdConfig {
            queues: 3,
            tags: 8,
            fetch,
            burst: 2,
            write_buffer: 1 << 20,
            ..config()
        };
        let mut clients = [
            LoopClient::random(Op::Read, 4096, 8),
            LoopClient::sequential(Op::Write, 256 << 10, 8, 0),
            LoopClient::random(Op::Flush, 0, 4),
            LoopClient::random(Op::Discard, 1 << 20, 4),
        ];
        // The loop asserts that each command ends once, at the announced time.
        let (results, _) = run(&config, &mut clients, 500);
        assert!(results.iter().all(|r| r.requests > 100), "{results:?}");
    }
}

#[test]
fn one_stream_overtakes_random_reads_by_the_stated_bytes_if_the_drive_waits_for_it() {
    let mean = |linger, favour| {
        let config = SsdConfig {
            linger: Span::from_micros(linger),
            favour,
            ..config()
        };
        // One read at a time, so that the stream has none in the drive after each.
        let mut clients = [
            LoopClient::sequential(Op::Read, 128 << 10, 1, 0),
            LoopClient::random(Op::Read, 4096, 1),
        ];
        let (results, _) = run(&config, &mut clients, 2000);
        (results[1].mean(), results[1].longest)
    };
    let link = |bytes: u64| Span::from_nanos(bytes * 1_000_000_000 / 540_000_000);
    // Without waiting, the number of favoured bytes has no effect.
    assert_eq!(mean(0, 1 << 20), mean(0, 4 << 20));
    for favour in [1 << 20, 4 << 20] {
        let (waiting, longest) = mean(500, favour);
        assert!(waiting >= link(favour), "{favour}: {waiting:?}");
        assert!(longest < link(favour) + Span::from_millis(3), "{longest:?}");
    }
}

#[test]
fn a_random_read_starts_when_the_drive_has_waited_for_a_stream_that_ended() {
    let config = SsdConfig {
        linger: Span::from_millis(5),
        ..config()
    };
    let mut drive = config.build().unwrap();
    let mut now = Instant::ZERO;
    let mut read = |drive: &mut Ssd, offset, length| {
        let command = Dispatch::new(Op::Read, offset, length);
        drive.submit(now, &command).unwrap();
        loop {
            let next = drive.next_completion().unwrap();
            if let Some(ended) = drive.pop(next) {
                let took = ended.at.since(now);
                now = ended.at;
                return took;
            }
        }
    };
    read(&mut drive, 0, 131_072);
    let alone = read(&mut drive, 1 << 30, 4096);
    read(&mut drive, 131_072, 131_072);
    let held_back = read(&mut drive, 2 << 30, 4096);
    assert!(held_back >= Span::from_millis(5), "{held_back:?}");
    assert!(held_back < alone + Span::from_millis(5), "{held_back:?}");
}
