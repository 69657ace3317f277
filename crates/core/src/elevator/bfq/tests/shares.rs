//! The part of the drive that each client gets, by share and by second.

use super::plain;
use crate::elevator;
use crate::elevator::bfq::{Charge, Config};
use crate::elevator::closed_loop::{self, Client, KIB, RANDOM, SECOND, STREAMER, nth};
use crate::testing::{bandwidth, change, limit};
use std::println;

fn bfq(config: Config) -> elevator::Config {
    elevator::Config::Bfq(config)
}

/// Shares of bytes, with budgets that are small enough to hold shares in every second: the
/// tolerance of 10 % of 250 MB, times the smallest share of 1/16, divided by two.
fn windowed() -> Config {
    plain()
        .charge(Charge::Service)
        .max_budget((25_000_000 / 16 / 2 / 512) as u32)
}

/// Runs one random reader and fifteen streamers for two seconds, each in a group of its own with
/// the same share. Returns the reader's rate and the total.
fn one_reader_among_streamers(elevator: elevator::Config) -> (u64, u64) {
    let mut host = closed_loop::host(elevator, &[(100, None); 16]);
    let reader = host.add(RANDOM.of(nth(0)));
    for group in 1..16 {
        host.add(STREAMER.of(nth(group)));
    }
    host.run(2 * SECOND);
    (host.rate(reader), host.total())
}

#[test]
fn a_random_reader_gets_its_share_among_fifteen_streamers() {
    for (name, elevator) in [
        ("none", elevator::Config::None),
        ("bfq, Linux's defaults", bfq(plain())),
    ] {
        let (reader, total) = one_reader_among_streamers(elevator);
        println!("{name}: reader {reader} kB/s, total {total} kB/s");
    }
    let (reader, total) = one_reader_among_streamers(bfq(windowed()));
    println!("bfq, windowed: reader {reader} kB/s, total {total} kB/s");
    // 1/16 of 250 MB/s is 15.6 MB/s.
    assert!(reader >= 10_000, "{reader} kB/s");
    assert!(total >= 175_000, "{total} kB/s");
}

/// Shares of 1, 2, 4 and 8 with requests of different sizes, over ten seconds.
#[test]
fn shares_divide_the_drive() {
    let shares = [1, 2, 4, 8].map(|share| (share, None));
    let mut host = closed_loop::host(bfq(windowed()), &shares);
    let clients = [128, 64, 128, 32].map(|kib| STREAMER.length(kib * KIB));
    let clients = [0, 1, 2, 3].map(|g| host.add(clients[g].of(nth(g))));
    host.run(10 * SECOND);
    for (share, client) in [1, 2, 4, 8].into_iter().zip(clients) {
        let expected = host.total() * share / 15;
        let got = host.rate(client);
        println!("share {share}: {got} kB/s of {expected}");
        let deviation = got.abs_diff(expected) * 1_000 / expected;
        assert!(deviation < 20, "{deviation} thousandths");
    }
}

#[test]
fn shares_divide_every_second() {
    let shares = [1, 2, 4, 8].map(|share| (share, None));
    let mut host = closed_loop::host(bfq(windowed()), &shares);
    let clients = [0, 1, 2, 3].map(|g| host.add(STREAMER.of(nth(g))));
    // The first eleven budgets are Linux's default, whatever the largest budget may be. The first
    // second is therefore not checked.
    host.run(SECOND);
    for second in 2..=10 {
        let before = clients.map(|c| host.bytes(c));
        host.run(second * SECOND);
        let got = [0, 1, 2, 3].map(|i| host.bytes(clients[i]) - before[i]);
        let total: u64 = got.iter().sum();
        for (i, got) in got.into_iter().enumerate() {
            let expected = total * (1 << i) / 15;
            let off = got.abs_diff(expected) * 1_000 / expected;
            assert!(
                off <= 100,
                "second {second}, share {}: {off} thousandths",
                1 << i
            );
        }
    }
}

#[test]
fn the_drive_does_not_idle_for_a_throttled_client() {
    let limited = |config: Config, client: Client| {
        let mut host = closed_loop::host(bfq(config), &[(100, None); 5]);
        let clients = [0, 1, 2, 3].map(|group| {
            host.edit(change(nth(group), limit(bandwidth(5_000_000))));
            host.add(client.of(nth(group)))
        });
        (host, clients)
    };
    for config in [plain(), windowed()] {
        for client in [STREAMER, RANDOM] {
            let (mut host, clients) = limited(config, client);
            host.run(2 * SECOND);
            for rate in clients.map(|c| host.rate(c)) {
                assert!((4_900..=5_100).contains(&rate), "{rate} kB/s");
            }
        }
    }
    // A client without a limit gets the rest of the drive.
    let (mut host, clients) = limited(windowed(), STREAMER);
    host.add(STREAMER.of(nth(4)));
    host.run(2 * SECOND);
    for rate in clients.map(|c| host.rate(c)) {
        assert!(rate >= 4_900, "{rate} kB/s");
    }
    assert!(host.total() >= 245_000, "{} kB/s", host.total());
}

#[test]
fn equal_random_readers_are_not_idled_for() {
    let total = |elevator| {
        let mut host = closed_loop::host(elevator, &[]);
        for _ in 0..16 {
            host.add(RANDOM);
        }
        host.run(SECOND);
        host.total()
    };
    let (none, bfq) = (total(elevator::Config::None), total(bfq(plain())));
    println!("none {none} kB/s, bfq {bfq} kB/s");
    assert!(bfq * 100 >= 95 * none, "{bfq} of {none} kB/s");
}
