//! Shares of clients with few requests in flight.

use super::*;

/// Two readers with a low queue depth and the shares 1 : `ratio`.
fn two(ratio: u16, depth: u32) -> [Client; 2] {
    [100, 100 * ratio].map(|weight| READER.depth(depth).with(share(weight)))
}

/// Returns the service of the second client as a percentage of that of the first, and the
/// throughput of both. The first second does not count.
fn play(clients: &[Client; 2]) -> (u64, u64) {
    let run = contract(clients, 6);
    let [one, other] = [0, 1].map(|client| run.tally(client).tenths[10..].iter().sum::<u64>());
    (100 * other / one, (one + other) / 5)
}

#[test]
fn two_clients_with_few_requests_divide_by_their_shares() {
    for (ratio, depth) in [(2, 1), (2, 2), (2, 4), (10, 2), (10, 4)] {
        let (part, all) = play(&two(ratio, depth));
        let asked = 100 * u64::from(ratio);
        assert!(
            (asked * 9 / 10..=asked * 11 / 10).contains(&part),
            "1 : {ratio}, {depth}: {part}"
        );
        assert!(all >= LINK * 85 / 100, "1 : {ratio}, {depth}: {all}");
    }
}

#[test]
fn a_shallow_client_costs_others_no_more_than_the_sacrifice() {
    let pipe = PIPE.service(2_000_000);
    let shallow = SMALL.with(share(1_000));
    let deep = READER.depth(32).with(share(500));
    let play = |sacrifice| {
        let config = elevator::Config::Contract(Config::default().sacrifice(sacrifice));
        let clients = [deep, shallow];
        run_on(pipe, config, &clients, 6)
    };
    let [none, some] = [0, 15].map(play);
    // `sacrifice` permits 15 %. The measurement has a tolerance of 2 %.
    let most = none.all() * 83 / 100;
    assert!(some.all() >= most, "{} of {}", some.all(), none.all());
    let [before, after] = [none.bytes(1), some.bytes(1)];
    assert!(after >= before * 120 / 100, "{after}, not {before}");
}
