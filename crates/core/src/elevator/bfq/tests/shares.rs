//! Who gets how much.

use super::host::{Host, RANDOM, SECOND, STREAMER};
use crate::elevator;
use crate::elevator::bfq::{Charge, Config};
use std::println;

fn bfq(config: Config) -> elevator::Config {
    elevator::Config::Bfq(config)
}

/// Shares of bytes, with budgets small enough for a window of a second: tolerance (10 %) times 250 MB/s times a second times the
/// smallest share (1 of 16), halved.
fn windowed() -> Config {
    Config {
        charge: Charge::Service,
        max_budget: (25_000_000 / 16 / 2 / 512) as u32,
        ..Config::default()
    }
}

/// One random reader and fifteen streamers, each in a group of its own with the same share, for two seconds.
fn one_reader_among_streamers(elevator: elevator::Config) -> (f64, f64) {
    let mut host = Host::new(elevator, &[(100, None); 16]);
    let reader = host.add(RANDOM.of(0));
    for group in 1..16 {
        host.add(STREAMER.of(group));
    }
    host.run(2 * SECOND);
    (host.rate(reader), host.total())
}

#[test]
fn a_random_reader_gets_its_share_among_fifteen_streamers() {
    for (name, elevator) in [
        ("none", elevator::Config::None),
        ("bfq, Linux's defaults", bfq(Config::default())),
    ] {
        let (reader, total) = one_reader_among_streamers(elevator);
        println!("{name}: reader {reader:.2} MB/s, total {total:.1} MB/s");
    }
    let (reader, total) = one_reader_among_streamers(bfq(windowed()));
    println!("bfq, windowed: reader {reader:.2} MB/s, total {total:.1} MB/s");
    assert!(reader >= 10.0, "{reader} MB/s");
    assert!(total >= 0.7 * 250.0, "{total} MB/s");
}

#[test]
fn shares_divide_the_drive() {
    let shares = [1, 2, 4, 8].map(|share| (share, None));
    let mut host = Host::new(bfq(windowed()), &shares);
    let clients = [0, 1, 2, 3].map(|g| host.add(STREAMER.of(g)));
    host.run(10 * SECOND);
    for (i, &client) in clients.iter().enumerate() {
        let expected = host.total() * f64::from(1 << i) / 15.0;
        let got = host.rate(client);
        println!("share {}: {got:.2} MB/s of {expected:.2}", 1 << i);
        assert!(
            (got - expected).abs() <= 0.02 * expected,
            "{got} MB/s for {expected}"
        );
    }
}

#[test]
fn nobody_is_idled_for_among_equal_random_readers() {
    let total = |elevator| {
        let mut host = Host::new(elevator, &[]);
        for _ in 0..16 {
            host.add(RANDOM);
        }
        host.run(SECOND);
        host.total()
    };
    let (none, bfq) = (total(elevator::Config::None), total(bfq(Config::default())));
    println!("none {none:.1} MB/s, bfq {bfq:.1} MB/s");
    assert!(bfq >= 0.95 * none, "{bfq} of {none} MB/s");
}
