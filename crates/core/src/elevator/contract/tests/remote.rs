//! A server across a network: its times vary by themselves, and many requests at once are what it is fast with.

use super::*;

/// A request takes 1 to 11 ms, whatever else is there, and 200 MB/s cross the network.
const POOL: Pipe = Pipe {
    stated: Some(Capacity {
        read: 80_000_000,
        write: 80_000_000,
        ..Capacity::NONE
    }),
    link: 200_000_000,
    service: 1_000_000,
    jitter: 10_000_000,
    tags: 160,
    ..PIPE
};

/// A client that writes 64 KiB and has 16 outstanding, beside fifteen that write 128 KiB.
fn clients() -> Vec<Client> {
    let writer = Client {
        depth: 8,
        writes_every: 1,
        ..READER
    };
    let mut clients = std::vec![Client {
        contract: min(16_000_000),
        size: 64 * KIB,
        depth: 16,
        ..writer
    }];
    clients.resize(16, writer);
    clients
}

fn play(config: elevator::Config) -> Run {
    Host::new(config, POOL, &clients(), 12).run(12)
}

fn remote(millis: u64) -> elevator::Config {
    elevator::Config::Contract(Config {
        remote: Span::from_millis(millis),
        ..Config::default()
    })
}

#[test]
fn a_pool_keeps_its_rate_and_a_promise() {
    let [none, local, pool] = [elevator::Config::None, remote(0), remote(30)].map(play);
    let most = none.all();
    assert!(
        none.worst(0, 10, 120) < 16_000_000,
        "there is nothing to keep"
    );
    assert!(
        pool.worst(0, 10, 120) >= 15_840_000,
        "{}",
        pool.worst(0, 10, 120)
    );
    assert!(pool.all() >= most * 90 / 100, "{} of {most}", pool.all());
    assert!(
        local.all() < most * 75 / 100,
        "a pool needs no words of its own: {}",
        local.all()
    );
}
