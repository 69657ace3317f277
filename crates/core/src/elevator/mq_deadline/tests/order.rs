//! The order in which requests are dispatched.

use super::super::Config;
use crate::elevator::scripted::ScriptedHost;
use crate::{Op, PriorityClass, Span, StreamId};
use PriorityClass::{BestEffort, Idle, Realtime};
use std::vec;
use std::vec::Vec;

const MS: u64 = 1_000_000;

/// A drive that serves one command at a time, in 1 ms each, and one client.
fn one_at_a_time(config: Config) -> (ScriptedHost, StreamId) {
    let mut host = ScriptedHost::new(config, 1, 64, MS);
    let stream = host.open(BestEffort);
    (host, stream)
}

/// Batches of `fifo_batch` requests.
fn batches(fifo_batch: u32) -> Config {
    Config::default().fifo_batch(fifo_batch)
}

#[test]
fn a_batch_goes_by_position_from_the_oldest_on_and_then_begins_with_the_oldest_again() {
    let (mut host, s) = one_at_a_time(Config::default());
    for (cookie, block) in [(0, 50), (1, 20), (2, 80), (3, 60), (4, 10)] {
        host.submit(s, Op::Read, block, 1, cookie);
    }
    // The batch goes up from the oldest request: 50, 60, 80. Then the oldest is 20, although 10
    // comes before it by position.
    assert_eq!(host.drain(), [0, 3, 2, 1, 4]);
}

#[test]
fn reads_go_first_twice_then_writes() {
    let (mut host, s) = one_at_a_time(batches(2));
    for n in 0..6 {
        host.submit(s, Op::Write, n, 1, 100 + n);
    }
    for n in 0..8 {
        host.submit(s, Op::Read, n, 1, n);
    }
    // Two batches of two reads come first, and then one batch of two writes.
    let expected = [0, 1, 2, 3, 100, 101, 4, 5, 6, 7, 102, 103, 104, 105];
    assert_eq!(host.drain(), expected);
}

#[test]
fn an_overdue_request_begins_the_next_batch() {
    let config = batches(2).read_expire(Span::from_millis(3));
    let (mut host, s) = one_at_a_time(config);
    // The request at 900 is dispatched at once. No request is behind it, so the oldest one begins
    // the next batch.
    host.submit(s, Op::Read, 900, 1, 0);
    host.poll();
    for (cookie, block) in [(1, 500), (2, 100), (3, 600), (4, 700), (5, 800)] {
        host.submit(s, Op::Read, block, 1, cookie);
    }
    // 500 and 600 are dispatched at 1 ms and 2 ms. At 3 ms the batch has ended and 100 is overdue.
    assert_eq!(host.drain(), [0, 1, 3, 2, 4, 5]);
}

#[test]
fn a_batch_without_expired_requests_continues_by_position() {
    let (mut host, s) = one_at_a_time(batches(2));
    host.submit(s, Op::Read, 900, 1, 0);
    host.poll();
    for (cookie, block) in [(1, 500), (2, 100), (3, 600), (4, 700), (5, 800)] {
        host.submit(s, Op::Read, block, 1, cookie);
    }
    assert_eq!(host.drain(), [0, 1, 3, 4, 5, 2]);
}

#[test]
fn a_lower_priority_waits_until_nothing_higher_is_in_the_drive() {
    let mut host = ScriptedHost::new(Config::default(), 2, 64, MS);
    let (realtime, idle) = (host.open(Realtime), host.open(Idle));
    host.submit(idle, Op::Read, 0, 1, 10);
    host.submit(realtime, Op::Read, 5, 1, 0);
    host.poll();
    assert_eq!(host.sent, [(0, 5, 1)], "a place is free, and stays so");
    assert_eq!(host.drain(), [0, 10]);
}

#[test]
fn an_aged_request_is_served_before_higher_priorities() {
    let config = Config::default().prio_aging_expire(Span::from_millis(3));
    let mut host = ScriptedHost::new(config, 1, 4096, MS);
    let (realtime, idle) = (host.open(Realtime), host.open(Idle));
    host.submit(idle, Op::Read, 0, 1, 100);
    for n in 0..6 {
        host.submit(realtime, Op::Read, 10 * n, 1, n);
    }
    // The idle request arrives first, but it is served only when it has waited for 3 ms.
    assert_eq!(host.drain(), [0, 1, 2, 100, 3, 4, 5]);
}

#[test]
fn the_parts_of_a_long_request_go_one_behind_the_other_and_count_for_the_batch() {
    let (mut host, s) = one_at_a_time(batches(3));
    host.submit(s, Op::Read, 0, 40, 0);
    host.submit(s, Op::Read, 64, 1, 1);
    host.submit(s, Op::Write, 0, 1, 2);
    // The request of 40 blocks takes commands of 16, 16 and 8, which are a batch of three.
    host.drain();
    let expected = [(0, 0, 16), (0, 16, 16), (0, 32, 8), (1, 64, 1), (2, 0, 1)];
    assert_eq!(host.sent, expected);
}

#[test]
fn a_batch_continues_after_a_cancelled_request() {
    let (mut host, s) = one_at_a_time(Config::default());
    for n in 0..4 {
        host.submit(s, Op::Read, n, 1, n);
    }
    host.poll();
    host.layer.cancel(crate::Instant::ZERO, s, 1);
    assert_eq!(host.drain(), [0, 2, 3]);
}

#[test]
fn async_depth_limits_writes_where_there_are_tags_for_all() {
    let config = Config::default().async_depth(2);
    let mut host = ScriptedHost::new(config, 1, 4096, MS);
    let (writer, reader) = (host.open(BestEffort), host.open(BestEffort));
    // The drive is idle until the first poll, so without the limit all four would be dispatched in
    // the order of position.
    for (n, block) in [10, 30, 20, 40].into_iter().enumerate() {
        host.submit(writer, Op::Write, block, 1, 100 + n as u64);
    }
    host.submit(reader, Op::Read, 50, 1, 0);
    host.drain();
    let order: Vec<u64> = host.sent.iter().map(|sent| sent.0).collect();
    assert_eq!(order, [0, 100, 101, 102, 103]);
}

#[test]
fn three_quarters_of_the_tags_are_for_writes() {
    let mut host = ScriptedHost::new(Config::default(), 1, 4, MS);
    let (writer, reader) = (host.open(BestEffort), host.open(BestEffort));
    for n in 0..8 {
        host.submit(writer, Op::Write, n, 1, 100 + n);
    }
    host.submit(reader, Op::Read, 50, 1, 0);
    // Four tags: three for writes, and one that only the read can take.
    host.drain();
    let read = host.sent.iter().position(|sent| sent.0 == 0);
    assert_eq!(read, Some(0));
    let first: Vec<u64> = vec![0, 100, 101, 102];
    let order: Vec<u64> = host.sent.iter().take(4).map(|sent| sent.0).collect();
    assert_eq!(order, first);
}
