//! Tests of the timing of the null drive.

use super::*;
use Vec;
use proptest::prelude::*;
use std::vec;
use weir_core::QueueId;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn command(tag: u32, op: Op, length: u32) -> Dispatch {
    Dispatch {
        tag: Tag(tag),
        ..Dispatch::new(op, 0, length)
    }
}

fn demo() -> Null {
    NullConfig::demo().build().unwrap()
}

/// All completions in order, as tags with times.
fn drain(drive: &mut Null) -> Vec<(u32, u64)> {
    let mut ended = Vec::new();
    while let Some(next) = drive.next_completion() {
        while let Some(e) = drive.pop(next) {
            assert_eq!(e.at, next, "no sooner and no later than announced");
            ended.push((e.completion.tag.0, e.at.as_nanos()));
        }
    }
    ended
}

#[test]
fn services_run_in_parallel_and_transfers_one_after_the_other() {
    let mut d = demo();
    for tag in 0..3 {
        d.submit(at(0), &command(tag, Op::Read, 4096)).unwrap();
    }
    d.submit(at(10_000), &command(3, Op::Write, 131_072))
        .unwrap();
    // 30 us of service, then 16.384 us each on the link. 128 KiB take 524.288 us, after the other
    // transfers.
    assert_eq!(
        drain(&mut d),
        [(0, 46_384), (1, 62_768), (2, 79_152), (3, 603_440)]
    );
    // On an idle link, the transfer starts when the service ends.
    d.submit(at(1_000_000), &command(0, Op::Read, 1)).unwrap();
    assert_eq!(drain(&mut d), [(0, 1_030_004)]);
}

#[test]
fn discards_and_zeroing_move_no_bytes() {
    let mut d = demo();
    d.submit(at(0), &command(0, Op::Read, 131_072)).unwrap();
    d.submit(at(1), &command(1, Op::Discard, 1 << 30)).unwrap();
    d.submit(at(2), &command(2, Op::WriteZeroes, 1 << 20))
        .unwrap();
    d.submit(at(3), &command(3, Op::Read, 4096)).unwrap();
    assert_eq!(
        drain(&mut d),
        // Discards and zeroing end 30 us after their submission, while the first read is still on
        // the link.
        [(1, 30_001), (2, 30_002), (0, 554_288), (3, 570_672)]
    );
}

#[test]
fn a_flush_ends_after_earlier_commands_only() {
    let mut d = demo();
    d.submit(at(0), &command(0, Op::Flush, 0)).unwrap();
    d.submit(at(0), &command(1, Op::Write, 131_072)).unwrap();
    d.submit(at(0), &command(2, Op::Discard, 4096)).unwrap();
    d.submit(at(5), &command(3, Op::Flush, 0)).unwrap();
    d.submit(at(5), &command(4, Op::Write, 4096)).unwrap();
    let ended = drain(&mut d);
    assert_eq!(
        ended,
        [
            (0, 30_000),
            (2, 30_000),
            (1, 554_288),
            (3, 554_288),
            (4, 570_672)
        ]
    );
}

#[test]
fn equal_times_end_in_the_order_of_submission() {
    let config = NullConfig {
        link: 0,
        ..NullConfig::demo()
    };
    let mut d = config.build().unwrap();
    for (tag, op) in [
        (5, Op::Discard),
        (3, Op::Read),
        (4, Op::Discard),
        (1, Op::Flush),
    ] {
        d.submit(at(7), &command(tag, op, 512)).unwrap();
    }
    let tags: Vec<u32> = drain(&mut d).into_iter().map(|e| e.0).collect();
    assert_eq!(tags, [5, 3, 4, 1]);
}

#[test]
fn a_full_queue_is_busy_and_another_is_not() {
    let config = NullConfig {
        tags: 2,
        queues: 2,
        ..NullConfig::demo()
    };
    let mut d = config.build().unwrap();
    let on = |queue, tag| Dispatch {
        queue: QueueId(queue),
        ..command(tag, Op::Read, 512)
    };
    d.submit(at(0), &on(0, 0)).unwrap();
    d.submit(at(0), &on(0, 1)).unwrap();
    assert_eq!(d.submit(at(0), &on(0, 9)), Err(QueueFull));
    d.submit(at(0), &on(1, 2)).unwrap();
    assert_eq!(d.in_flight(), 3);
    assert_eq!(d.pop(at(30_000)), None, "its bytes are still on the link");
    assert_eq!(
        d.pop(at(32_048)).unwrap().completion,
        Completion::ok(Tag(0))
    );
    d.submit(at(32_048), &on(0, 0)).unwrap();
    assert_eq!(drain(&mut d).len(), 3);
    assert_eq!(d.in_flight(), 0);
}

#[test]
fn time_never_goes_back() {
    let mut d = demo();
    d.submit(at(1_000), &command(0, Op::Discard, 512)).unwrap();
    d.submit(at(0), &command(1, Op::Discard, 512)).unwrap();
    assert_eq!(drain(&mut d), [(0, 31_000), (1, 31_000)]);
}

#[test]
fn ticks_hand_bandwidth_out_in_lumps() {
    let tick = Span::from_millis(20);
    // A tick has 20 ms × 250 MB/s = 5,000,000 bytes, which are 38 requests of 128 KiB.
    let config = NullConfig {
        tick,
        tags: 64,
        ..NullConfig::demo()
    };
    let mut d = config.build().unwrap();
    for tag in 0..64 {
        d.submit(at(0), &command(tag, Op::Read, 131_072)).unwrap();
    }
    let ended = drain(&mut d);
    assert_eq!((ended[37].1, ended[38].1), (30_000, 20_030_000));
}

#[test]
fn parameters_out_of_range_are_named() {
    type Spoil = fn(&mut NullConfig);
    let bad: [(&str, Spoil); 9] = [
        ("service", |c| c.service = Span::from_secs(11)),
        ("tags", |c| c.tags = 0),
        ("queues", |c| c.queues = 0),
        ("queues", |c| c.queues = 1025),
        ("link", |c| c.link = 999),
        ("link", |c| c.link = 1_000_000_000_001),
        ("tick", |c| c.tick = Span::from_nanos(999)),
        ("tick", |c| c.tick = Span::from_secs(2)),
        ("tick", |c| (c.link, c.tick) = (0, Span::from_millis(20))),
    ];
    for (key, spoil) in bad {
        let mut config = NullConfig::demo();
        spoil(&mut config);
        assert_eq!(config.validate().map_err(|e| e.field), Err(key));
    }
    let config = NullConfig {
        tags: 0,
        ..NullConfig::demo()
    };
    let error = config.build().unwrap_err();
    assert_eq!(std::format!("{error}"), "tags = 0: must be 1 to 65535");
}

#[test]
fn capacity_is_the_narrowest_of_link_tags_and_lumps() {
    let of = |service, link, tick| {
        let service = Span::from_micros(service);
        let config = NullConfig {
            service,
            link,
            tick,
            ..NullConfig::demo()
        };
        config.capacity().map(|c| (c.read, c.write, c.iops))
    };
    let none = Span::ZERO;
    let mb = 1_000_000;
    assert_eq!(
        of(30, 250 * mb, none),
        Some((250 * mb, 250 * mb, 1_066_666))
    );
    // 32 requests of 4 KiB in 1 ms.
    assert_eq!(
        of(1_000, 250 * mb, none),
        Some((131_072_000, 131_072_000, 32_000))
    );
    assert_eq!(of(0, 250 * mb, none), Some((250 * mb, 250 * mb, 0)));
    assert_eq!(of(0, 0, none), None);
    // A tick has three bytes, not 3.5.
    assert_eq!(of(0, 3_500, Span::from_millis(1)), Some((3_000, 3_000, 0)));
}

#[test]
fn a_drive_of_less_than_a_request_a_second_is_bounded_all_the_same() {
    let config = NullConfig {
        service: Span::from_secs(10),
        tags: 1,
        ..NullConfig::demo()
    };
    let capacity = config.capacity().unwrap();
    assert_eq!((capacity.read, capacity.iops), (4096, 1));
}

/// Runs `requests` of a closed loop with a queue depth of `depth`. Returns the elapsed time and the
/// sum of the requests' times in the drive.
fn closed_loop(config: NullConfig, depth: u32, requests: u64, length: u32) -> (u64, u64) {
    let mut d = config.build().unwrap();
    let mut began = vec![0; depth as usize];
    for tag in 0..depth {
        d.submit(at(0), &command(tag, Op::Read, length)).unwrap();
    }
    let (mut done, mut total, mut now) = (0, 0, 0);
    while done < requests {
        now = d.next_completion().unwrap().as_nanos();
        while let Some(e) = d.pop(at(now)) {
            let tag = e.completion.tag.0;
            total += now - began[tag as usize];
            began[tag as usize] = now;
            done += 1;
            d.submit(at(now), &command(tag, Op::Read, length)).unwrap();
        }
    }
    (now, total)
}

#[test]
fn more_depth_never_gives_less_and_the_link_is_reached_exactly() {
    let mut last = u64::MAX;
    for depth in 1..=32 {
        let (time, _) = closed_loop(NullConfig::demo(), depth, 10_000, 4096);
        assert!(time <= last, "depth {depth}");
        last = time;
    }
    // The link is busy from the end of the first service on.
    assert_eq!(last, 30_000 + 10_000 * 16_384);
    let (time, _) = closed_loop(NullConfig::demo(), 1, 10_000, 4096);
    assert_eq!(time, 10_000 * 46_384);
}

prop_compose! {
    fn config()(
        service in prop_oneof![Just(0u64), 1u64..100_000],
        tags in 1u16..40,
        queues in 1u16..4,
        link in prop_oneof![Just(0u64), 1_000u64..2_000_000, 1_000_000u64..2_000_000_000],
        tick in prop_oneof![3 => Just(0u64), 1 => 2_000_000u64..50_000_000],
        wake in prop_oneof![3 => Just(0u64), 1 => 1_000u64..100_000],
    ) -> NullConfig {
        NullConfig {
            service: Span::from_nanos(service),
            tags,
            queues,
            link,
            tick: Span::from_nanos(if link == 0 { 0 } else { tick }),
            wake: Span::from_nanos(wake),
            command: NullConfig::COMMAND,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random commands at random times: each ends once, in order, after its service, and the link's
    /// rate is never exceeded.
    #[test]
    fn every_command_ends_once_and_the_link_is_never_exceeded(
        config in config(),
        steps in prop::collection::vec((0u64..60_000, 0usize..5, 1u32..200_000, 0u16..4), 1..200),
    ) {
        let mut d = config.build().unwrap();
        let room = usize::from(config.tags) * usize::from(config.queues);
        let mut free: Vec<Vec<u32>> = (0..u32::from(config.queues))
            .map(|q| (q * u32::from(config.tags)..(q + 1) * u32::from(config.tags)).collect())
            .collect();
        let mut inside = vec![None; room];
        let mut ended = Vec::new();
        let mut now = 0;
        for (pause, op, length, queue) in steps {
            now += pause;
            take(&mut d, now, &config, &mut inside, &mut free, &mut ended);
            let queue = queue % config.queues;
            let c = Dispatch {
                queue: QueueId(queue),
                ..command(*free[usize::from(queue)].last().unwrap_or(&0), Op::ALL[op], length)
            };
            let busy = free[usize::from(queue)].pop().is_none();
            prop_assert_eq!(d.submit(at(now), &c).is_err(), busy);
            if !busy {
                prop_assert!(inside[c.tag.0 as usize].replace((now, c)).is_none());
            }
        }
        while let Some(next) = d.next_completion() {
            take(&mut d, next.as_nanos(), &config, &mut inside, &mut free, &mut ended);
        }
        prop_assert!(inside.iter().all(Option::is_none) && d.in_flight() == 0);
        prop_assert!(ended.is_sorted_by_key(|e: &(u64, u64)| e.0));
        check_link(&config, &ended)?;
    }

    /// Little's law: the sum of all times in the drive is the integral of the number of commands in
    /// it.
    #[test]
    fn depth_is_throughput_times_latency(depth in 1u32..32, length in 1u32..200_000) {
        let (time, total) = closed_loop(NullConfig::demo(), depth, 2_000, length);
        // Commands that are still in flight at the end have been in the drive for at most the time
        // of `depth` requests.
        let inside = u128::from(depth) * u128::from(time);
        let rest = u128::from(depth) * u128::from(time) / 2_000 * u128::from(depth) * 2;
        prop_assert!(u128::from(total) <= inside && u128::from(total) + rest >= inside);
    }
}

/// Takes the completions, checks them against the submissions, and records transfers as (end,
/// bytes).
fn take(
    d: &mut Null,
    now: u64,
    config: &NullConfig,
    inside: &mut [Option<(u64, Dispatch)>],
    free: &mut [Vec<u32>],
    ended: &mut Vec<(u64, u64)>,
) {
    while let Some(e) = d.pop(at(now)) {
        let tag = e.completion.tag.0;
        let (began, c) = inside[tag as usize].take().expect("it was inside");
        free[usize::from(c.queue.0)].push(tag);
        let end = e.at.as_nanos();
        assert!(end <= now && end >= began + config.service.as_nanos());
        assert_eq!(
            end,
            config.next_completion_time(end),
            "the drive looks then"
        );
        if c.op == Op::Flush {
            assert!(
                inside.iter().flatten().all(|other| other.0 >= began),
                "a flush waits for what was submitted before"
            );
        }
        let moves = matches!(c.op, Op::Read | Op::Write);
        ended.push((end, if moves { c.length.into() } else { 0 }));
    }
}

/// Checks that no more bytes have crossed between any two completions than the link carries, or
/// than the ticks in between grant.
fn check_link(config: &NullConfig, ended: &[(u64, u64)]) -> Result<(), TestCaseError> {
    if config.link == 0 {
        return Ok(());
    }
    let tick = config.tick.as_nanos();
    let ended: Vec<_> = ended.iter().filter(|e| e.1 > 0).collect();
    for (i, first) in ended.iter().enumerate() {
        let mut bytes = 0u128;
        for (k, last) in ended.iter().enumerate().skip(i) {
            // The bytes of the first completion crossed before its end, or belong to a tick of
            // their own.
            bytes += u128::from(if k == i && tick == 0 { 0 } else { last.1 });
            // With a polling drive, bytes that are completed with the first may have crossed since
            // the previous poll.
            let passed = u128::from(last.0 - first.0 + config.wake.as_nanos());
            let most = if tick == 0 {
                u128::from(config.link) * (passed + 1) / 1_000_000_000 + 1
            } else {
                let largest = ended[i..=k].iter().map(|e| e.1).max().unwrap_or(0);
                u128::from(config.bytes_per_tick()) * (passed / u128::from(tick) + 2)
                    + u128::from(largest)
            };
            prop_assert!(bytes <= most, "{bytes} bytes in {passed} ns, not {most}");
        }
    }
    Ok(())
}
