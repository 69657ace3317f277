//! Weight raising: the queues that are raised, the duration, and the effect.

use super::plain;
use super::turns::{check, log};
use crate::PriorityClass;
use crate::elevator::closed_loop::{self, Client, ClosedLoopHost, RANDOM, SECOND, STREAMER, ms};
use std::string::String;
use std::vec::Vec;

/// A player that reads 16 KiB every 40 ms.
const PLAYER: Client = STREAMER.length(16 * 1024).depth(1).think(ms(40));

fn host(low_latency: bool) -> ClosedLoopHost {
    let config = plain().low_latency(low_latency);
    closed_loop::host(config, &[])
}

/// Runs eight streamers for ten seconds and adds one more client. Returns its rate in the first
/// second and in the fifth and sixth, and the rate of all clients in the first, in kB/s.
fn newcomer(low_latency: bool, client: Client) -> (u64, u64, u64) {
    let mut host = host(low_latency);
    for _ in 0..8 {
        host.add(STREAMER);
    }
    host.run(10 * SECOND);
    let before = host.total() * 10;
    let newcomer = host.add(client);
    host.run(11 * SECOND);
    let first = host.bytes(newcomer) / 1_000;
    let all = host.total() * 11 - before;
    host.run(14 * SECOND);
    let then = host.bytes(newcomer);
    host.run(16 * SECOND);
    (first, (host.bytes(newcomer) - then) / 2_000, all)
}

#[test]
fn a_newcomer_is_served_at_once_for_a_few_seconds() {
    let (plain_first, plain_later, _) = newcomer(false, RANDOM);
    let (first, later, all) = newcomer(true, RANDOM);
    // Without contention, a random reader of 4 KiB gets 88 MB/s on this drive.
    assert!(plain_first < 5_000, "{plain_first} kB/s");
    assert!(first > 50_000 && all > first, "{first} of {all} kB/s");
    assert!(
        later < 2 * plain_later + 1_000,
        "{later}, {plain_later} kB/s"
    );
}

#[test]
fn a_newcomer_that_moves_too_much_is_not_raised_for_long() {
    // An interactive period ends after 120,000 sectors, which are 61 MB.
    let (first, ..) = newcomer(true, STREAMER);
    assert!((61_000..=100_000).contains(&first), "{first} kB/s");
}

/// Starts random readers one after the other, then two streamers of higher priority, which are
/// never raised. Returns the kilobytes that the readers read together in one second.
fn burst(readers: usize, apart: u64) -> u64 {
    let mut host = host(true);
    let mut got = Vec::new();
    for _ in 0..readers {
        got.push(host.add(RANDOM));
        host.run(host.now + apart);
    }
    host.run(host.now + ms(200));
    for _ in 0..2 {
        host.add(STREAMER.level(3));
    }
    let before: u64 = got.iter().map(|&c| host.bytes(c)).sum();
    host.run(host.now + SECOND);
    (got.iter().map(|&c| host.bytes(c)).sum::<u64>() - before) / 1_000
}

#[test]
fn clients_of_a_large_burst_are_not_raised() {
    // Eight readers are a large burst, but not if they start more than 180 ms apart.
    let (few, many, slowly) = (burst(7, ms(10)), burst(8, ms(10)), burst(8, ms(200)));
    assert!(many * 3 < few * 2, "{many} and {few} kB/s");
    assert!(many * 3 < slowly * 2, "{many} and {slowly} kB/s");
}

/// Returns the mean wait in microseconds of a player next to four streamers of higher priority,
/// after its interactive period.
fn player(low_latency: bool) -> u64 {
    let mut host = host(low_latency);
    for _ in 0..4 {
        host.add(STREAMER.level(3));
    }
    host.run(10 * SECOND);
    let player = host.add(PLAYER);
    host.run(20 * SECOND);
    let before = host.bytes(player);
    host.run(30 * SECOND);
    // Each read takes the pause of 40 ms plus its wait.
    let reads = (host.bytes(player) - before) / (16 * 1024);
    (10_000_000 - reads * 40_000) / reads
}

#[test]
fn a_soft_real_time_client_waits_little_for_as_long_as_it_plays() {
    let (plain, raised) = (player(false), player(true));
    assert!(raised < 5_000, "{raised} us");
    assert!(plain > 5 * raised, "{plain} and {raised} us");
}

/// Runs a realtime client that thinks for 10 ms beside four streamers that start after it. All are
/// raised. Returns its reads in half a second, and the kilobytes of the others.
fn thinker_beside_newcomers(injection: bool) -> (u64, u64) {
    let config = plain().low_latency(true).injection(injection);
    let mut host = closed_loop::host(config, &[]);
    let thinker = host.add(RANDOM.class(PriorityClass::Realtime).think(ms(10)));
    for after in 1..=4 {
        host.run(ms(after));
        host.add(STREAMER.depth(1));
    }
    host.run(SECOND / 2);
    let (thinker, all) = (host.bytes(thinker), host.all());
    (thinker / 4096, (all - thinker) / 1_000)
}

#[test]
fn the_drive_is_kept_for_a_raised_client_that_thinks() {
    // The drive idles for a raised client for 20 ms. Another one preempts it only if it continues a
    // turn, and the turns of the others never began.
    let (reads, others) = thinker_beside_newcomers(false);
    assert!(reads >= 49 && others == 0, "{reads} reads, {others} kB");
    // With injection, the time without a measurement is not long enough for a request of another.
    let (reads, others) = thinker_beside_newcomers(true);
    assert!(reads >= 49 && others < 5_000, "{reads} reads, {others} kB");
}

/// Logs the turns of a client that joins two streamers after eight seconds: the first six that
/// begin `after` milliseconds or later.
fn turns_of(client: Client, level: u8, after: u64) -> String {
    let mut host = host(true);
    for _ in 0..2 {
        host.add(STREAMER.level(level));
    }
    host.run(8 * SECOND);
    host.events();
    host.add(client);
    let from = 8 * SECOND + ms(after);
    host.run(from - ms(100).min(ms(after)));
    if after > 100 {
        host.events();
    }
    host.run(from + ms(500));
    let all = log(&mut host, 3, 2_000);
    let of_client = |line: &&str| line.starts_with("2 ");
    let begins = |line: &str| line[2..].split('-').next().and_then(|at| at.parse().ok());
    let own = (all.lines().filter(of_client)).filter(|line| begins(line) >= Some(from / 1_000));
    own.take(6)
        .fold(String::new(), |log, line| log + line + "\n")
}

#[test]
fn a_newcomer_gets_all_turns_with_small_budgets_while_raised() {
    // The budgets are twice the smallest one. The streamers are not served in the meantime.
    check(
        &turns_of(RANDOM, 4, 0),
        "
        2 8000000-8023715 3806 BudgetExhausted 3800 3800
        2 8023715-8046796 3806 BudgetExhausted 3800 3800
        2 8046796-8068829 3806 BudgetExhausted 3800 3800
        2 8068829-8091910 3806 BudgetExhausted 3800 3800
        2 8091910-8113942 3806 BudgetExhausted 3800 3800
        2 8113942-8137023 3806 BudgetExhausted 3800 3800
        ",
    );
    // After 120,000 sectors, the client is one among equals.
    check(
        &turns_of(RANDOM, 4, 650),
        "
        2 8655303-8677335 3806 BudgetExhausted 3800 3800
        2 8677335-8700416 3806 BudgetExhausted 3800 3800
        2 8700416-8713172 3806 NoMoreRequests 2208 2208
        2 8713218-8713742 1598 Preempted 8 974
        2 8715332-8715856 624 Preempted 8 974
        2 8717445-8717969 2208 Preempted 8 974
        ",
    );
}

#[test]
fn the_turn_of_a_soft_real_time_client_begins_with_its_request() {
    // The client sends 40 ms after a completion, and the drive idles for it for 20 ms.
    check(
        &turns_of(PLAYER, 3, 0),
        "
        2 8000000-8021778 3806 TooIdle 32 32
        2 8041778-8063894 3806 TooIdle 32 32
        2 8083894-8106010 3770 TooIdle 32 32
        2 8126010-8148125 3770 TooIdle 32 32
        2 8168125-8190241 3770 TooIdle 32 32
        2 8210241-8232357 3770 TooIdle 32 32
        ",
    );
    // The interactive period has ended, and the client is raised as soft real-time.
    check(
        &turns_of(PLAYER, 3, 4_000),
        "
        2 12000434-12022549 2254 TooIdle 32 32
        2 12042549-12064665 2254 TooIdle 32 32
        2 12084665-12106781 2254 TooIdle 32 32
        2 12126781-12148896 2172 TooIdle 32 32
        2 12168896-12191012 2172 TooIdle 32 32
        2 12211012-12233128 2172 TooIdle 32 32
        ",
    );
}
