//! The part of the drive that each client gets by weight, level and class, on disks and on flash.

use super::super::Config;
use super::{READER, disk, flash};
use crate::elevator::closed_loop::{ClosedLoopHost, RANDOM, SECOND, STREAMER, ms, nth};
use crate::{Op, PriorityClass};
use std::vec::Vec;

/// Returns the largest deviation of any client from its part, in thousandths of this part.
fn off_by(host: &ClosedLoopHost, parts: &[u64]) -> u64 {
    let whole: u64 = (0..parts.len()).map(|c| host.bytes(c)).sum();
    let all: u64 = parts.iter().sum();
    let off = parts.iter().enumerate().map(|(client, part)| {
        let due = whole * part / all;
        host.bytes(client).abs_diff(due) * 1_000 / due
    });
    off.max().unwrap_or(0)
}

/// Sequential readers of groups with weights of 100, 200, 400 and 200, the last of which has
/// members of 100 and 300. They read from a disk for two minutes.
#[test]
fn groups_share_a_disk_by_weight_at_every_level() {
    let top = [100, 200, 400, 200].map(|weight| (weight, None));
    let members = [(100, Some(3)), (300, Some(3))];
    let mut host = disk(Config::default(), &[&top[..], &members].concat());
    for group in [0, 1, 2, 4, 5] {
        host.add(READER.of(nth(group)));
    }
    host.run(120 * SECOND);
    // The members of the last group have 1/4 and 3/4 of its 200.
    let off = off_by(&host, &[100, 200, 400, 50, 150]);
    assert!(off < 30, "{off} thousandths");
}

/// A group that was idle for ten seconds while another was served. It takes no more than its part
/// when it returns.
#[test]
fn an_idle_group_earns_no_credit() {
    let mut host = disk(Config::default(), &[(100, None); 3]);
    host.add(READER.of(nth(0)));
    host.add(READER.of(nth(2)).until(ms(50)));
    host.run(10 * SECOND);
    let before = host.bytes(0);
    let late = host.add(READER.of(nth(2)));
    host.run(12 * SECOND);
    let (stayed, came) = (host.bytes(0) - before, host.bytes(late));
    assert!(came < stayed * 3 / 2, "{came} beside {stayed}");
}

#[test]
fn a_higher_priority_level_has_a_longer_slice() {
    let config = Config::default().low_latency(false);
    let mut host = disk(config, &[]);
    host.add(READER.level(0));
    host.add(READER.level(7));
    host.run(60 * SECOND);
    // 180 ms compared with 40 ms. The seek comes before a slice begins.
    let tenths = host.bytes(0) * 10 / host.bytes(1);
    assert!((43..=47).contains(&tenths), "{tenths} tenths");
}

#[test]
fn levels_keep_their_proportion_where_slices_are_shortened() {
    let mut host = disk(Config::default(), &[]);
    for level in [0, 2, 4, 6] {
        host.add(READER.level(level));
    }
    host.run(60 * SECOND);
    // The slices of the levels 0, 2, 4 and 6 without shortening, in milliseconds.
    let off = off_by(&host, &[180, 140, 100, 60]);
    assert!(off < 60, "{off} thousandths");
}

/// A realtime reader with think time, next to three others.
#[test]
fn the_realtime_class_takes_the_drive_at_once() {
    let mut host = disk(Config::default(), &[]);
    let reader = RANDOM.think(ms(20));
    let reader = host.add(reader.class(PriorityClass::Realtime));
    let others: Vec<usize> = (0..3).map(|_| host.add(READER)).collect();
    host.run(20 * SECOND);
    let others = others.iter().map(|&c| host.rate(c)).min().unwrap();
    let wait = host.gap_ms(reader);
    // Its own seek of 8 ms, and the request of another client in the drive with a seek of its own.
    assert!(wait < 40, "{wait} ms");
    assert!(others > 1_000, "{others} kB/s");
}

#[test]
fn the_idle_class_gets_the_drive_when_no_other_client_waits() {
    let mut host = disk(Config::default(), &[]);
    let idle = host.add(READER.class(PriorityClass::Idle));
    let busy = host.add(READER.until(5 * SECOND));
    host.run(5 * SECOND);
    let (early, others) = (host.bytes(idle), host.bytes(busy));
    assert!(early * 50 < others, "{early} beside {others}");
    host.run(10 * SECOND);
    assert!(host.bytes(idle) - early > others / 2);
}

type MakeHost = fn(Config, &[(u16, Option<usize>)]) -> ClosedLoopHost;

/// Returns the rate of a random reader among sequential ones, in percent of its rate without
/// contention, and the total rate in kB/s. Each client has a group of its own.
fn random_among(sequential: usize, make: MakeHost) -> (u64, u64) {
    let groups: Vec<_> = (0..=sequential).map(|_| (100, None)).collect();
    let run = |others: usize| {
        let mut host = make(Config::default(), &groups);
        let reader = host.add(RANDOM.of(nth(0)));
        for group in 1..=others {
            host.add(STREAMER.of(nth(group)));
        }
        host.run(30 * SECOND);
        (host.rate(reader), host.total())
    };
    let ((alone, _), (beside, total)) = (run(0), run(sequential));
    (beside * 100 / alone, total)
}

/// The published experiment "Proportional-share policy on CFQ": a random reader with fifteen
/// sequential ones.
#[test]
fn a_random_reader_keeps_its_share_on_a_disk_and_loses_it_on_flash() {
    // The reader gets 1/16 of the time. The turns of the others are long enough for most of the
    // disk's speed.
    let (part, total) = random_among(15, disk);
    assert!((5..=9).contains(&part), "{part} %");
    assert!(total > 150_000, "{total} kB/s");
    // Requests are counted on flash, and those of the others are 32 times as large.
    let (part, total) = random_among(15, flash);
    assert!(part < 3, "{part} %");
    assert!(total > 230_000, "{total} kB/s");
}

#[test]
fn groups_on_flash_get_requests_by_weight() {
    let mut host = flash(Config::default(), &[(100, None), (300, None)]);
    for group in [0, 1] {
        host.add(STREAMER.of(nth(group)).depth(32));
    }
    host.run(30 * SECOND);
    let off = off_by(&host, &[1, 3]);
    assert!(off < 50, "{off} thousandths");
}

#[test]
fn idling_on_flash_keeps_the_weights() {
    let config = Config::default().flash_idles(true);
    let mut host = flash(config, &[(100, None), (300, None)]);
    for group in [0, 1] {
        host.add(READER.of(nth(group)));
    }
    host.run(20 * SECOND);
    let off = off_by(&host, &[1, 3]);
    assert!(off < 50, "{off} thousandths");
}

#[test]
fn asynchronous_writes_leave_readers_most_of_a_disk() {
    let mut host = disk(Config::default(), &[]);
    let reader = host.add(READER);
    let writer = host.add(STREAMER.op(Op::Write).depth(32));
    host.run(30 * SECOND);
    let (read, written) = (host.bytes(reader), host.bytes(writer));
    assert!(
        read > 2 * written && written > read / 100,
        "{read} {written}"
    );
    assert!(host.gap_ms(writer) < 1_000 && host.gap_ms(reader) < 300);
}

#[test]
fn every_queue_has_its_turn_within_about_the_target() {
    let mut host = disk(Config::default(), &[]);
    let readers: Vec<usize> = (0..8).map(|_| host.add(READER)).collect();
    host.run(20 * SECOND);
    let gap = readers.iter().map(|&r| host.gap_ms(r)).max();
    // Eight slices of 300 / 8 = 37.5 ms, and eight seeks of 8 ms.
    assert!(gap.unwrap() < 450, "{gap:?} ms");
}
