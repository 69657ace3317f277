//! Drives that are faster or slower than stated, with short and long delays.

use super::*;
use crate::testing::min_iops;

/// A client with random reads of 4 KiB, a queue depth of 1 and a min of `want`, and fifteen streams
/// with a min of 10 MB/s each.
fn clients(want: u64) -> Vec<Client> {
    let target = SMALL.with(min(want));
    let reader = READER.depth(4).with(min(10_000_000));
    core::iter::once(target)
        .chain(core::iter::repeat_n(reader, 15))
        .collect()
}

/// Returns the throughput of reads of 4 KiB with a queue depth of 1 and without contention.
fn alone(pipe: Pipe) -> u64 {
    let time = pipe.service + pipe.jitter / 2 + 4096 * SECOND / pipe.link;
    4096 * SECOND / time
}

fn drives() -> impl Iterator<Item = Pipe> {
    let times = [1, 2, 4, 8];
    let rest = [
        (10_000, 8),
        (100_000, 32),
        (1_000_000, 64),
        (5_000_000, 256),
    ];
    times.into_iter().flat_map(move |times| {
        rest.map(|(service, tags)| PIPE.link(LINK * times).service(service).tags(tags))
    })
}

/// Without `sacrifice`, only promises reduce the throughput.
fn without_sacrifice() -> elevator::Config {
    elevator::Config::Contract(Config::default().sacrifice(0))
}

fn kept_on(pipe: Pipe, clients: &[Client]) -> PipeHost {
    contract_on(pipe, clients, 2)
}

#[test]
fn a_drive_faster_than_stated_is_used_and_promises_are_kept() {
    for pipe in drives() {
        for jitter in [0, pipe.service / 2] {
            let pipe = pipe.jitter(jitter);
            let want = 10_000_000.min(alone(pipe) / 2);
            let clients = clients(want);
            let none = run_on(pipe, elevator::Config::None, &clients, 2);
            let kept = kept_on(pipe, &clients);
            let unshared = run_on(pipe, without_sacrifice(), &clients, 2);
            let all = [none.all(), unshared.all(), kept.all()];
            assert!(all[1] * 100 >= all[0] * 88, "{pipe:?}: {all:?}");
            assert!(all[2] * 100 >= all[1] * 83, "{pipe:?}: {all:?}");
            kept.assert_rate(0, 1..20, want);
            let worst = (1..16)
                .map(|c| kept.tally(c).worst_second_bytes(1, 20))
                .min()
                .unwrap();
            assert!(worst >= 10_000_000, "{pipe:?}: {worst}");
        }
    }
}

#[test]
fn a_promise_near_what_its_client_can_reach_is_kept_and_costs_others_little() {
    // The drive serves all requests in parallel, so nobody has to wait for the client.
    let pipe = PIPE.link(8 * LINK).service(1_000_000).tags(64);
    for percent in [90, 93, 96] {
        let want = alone(pipe) * percent / 100;
        let mut clients = vec![SMALL.with(min(want))];
        clients.extend([SMALL.depth(2); 15]);
        let none = run_on(pipe, elevator::Config::None, &clients, 2);
        let kept = run_on(pipe, without_sacrifice(), &clients, 2);
        let all = [none.all(), kept.all()];
        assert!(all[1] * 100 >= all[0] * 90, "{percent}: {all:?}");
        kept.assert_rate(0, 1..20, want);
    }
}

#[test]
fn a_promise_that_its_client_cannot_reach_costs_others_little() {
    for pipe in drives() {
        for jitter in [0, pipe.service / 4] {
            let pipe = pipe.jitter(jitter);
            let reach = alone(pipe);
            let clients = clients((reach * 5 / 4).min(60_000_000));
            let none = run_on(pipe, elevator::Config::None, &clients, 2);
            let kept = kept_on(pipe, &clients);
            let unshared = run_on(pipe, without_sacrifice(), &clients, 2);
            let all = [none.all(), unshared.all(), kept.all()];
            assert!(all[1] * 100 >= all[0] * 65, "{pipe:?}: {all:?}");
            assert!(all[2] * 100 >= all[1] * 83, "{pipe:?}: {all:?}");
            // The client gets at least 40 % of the throughput that it has without contention.
            let worst = kept.tally(0).worst_second_bytes(1, 20);
            assert!(
                worst * 100 >= reach.min(60_000_000) * 40,
                "{pipe:?}: {worst} of {reach}"
            );
        }
    }
}

#[test]
fn a_drive_too_slow_for_its_promises_keeps_each_in_proportion() {
    let client = |size: u32, depth: u32, mb: u64| {
        READER
            .length(size * KIB)
            .depth(depth)
            .with(min(mb * 1_000_000))
    };
    let mut unlike: Vec<_> = [100, 50, 25, 10].map(|mb| client(128, 4, mb)).into();
    unlike.extend([10, 5].map(|mb| client(4, 1, mb)));
    for clients in [clients(10_000_000), unlike] {
        // Parts are in proportion to the promises, so that a promise is met to the same degree for
        // each client.
        let promised: u64 = clients.iter().map(Client::promised).sum();
        for slower in [2, 4, 8] {
            let pipe = PIPE.link(LINK / slower).service(100_000);
            let kept = contract_on(pipe, &clients, 4);
            assert!(kept.all() >= 4 * pipe.link * 92 / 100, "{}", kept.all());
            for (i, client) in clients.iter().enumerate() {
                let part = client.promised() * pipe.link / promised;
                let worst = kept.tally(i).worst_second_bytes(10, 40);
                assert!(
                    worst >= part * 3 / 4,
                    "client {i} of {slower} times slower: {worst} of {part}"
                );
            }
        }
    }
}

/// All clients are behind after the stall, and the client that sent the first request is furthest
/// behind.
#[test]
fn a_client_that_arrives_during_a_stall_is_served_like_the_others() {
    let client = |second: u64| {
        READER
            .with(min(100_000_000))
            .depth(16)
            .from(second * SECOND)
    };
    let pipe = PIPE.tags(8).frozen([SECOND, 9 * SECOND]);
    let kept = contract_on(pipe, &[client(0), client(5)], 12);
    for reader in 0..2 {
        kept.assert_rate(reader, 90..120, 100_000_000);
    }
}

/// A client with two requests that end together: the promise gives both the time that it gives one
/// request after another.
#[test]
fn requests_that_end_together_were_outstanding_together() {
    let pipe = PIPE.stated(Some(CAPACITY.iops(100_000))).service(1_000_000);
    let target = READER.length(512).with(min_iops(1_800));
    let others = READER.length(256 * KIB).depth(7);
    let kept = kept_on(pipe, &[target, others]);
    let worst = kept.tally(0).worst_second_bytes(1, 20) / 512;
    assert!(worst >= 1_800, "{worst} a second");
}

#[test]
fn a_drive_slower_than_stated_keeps_its_reachable_promises() {
    let mut clients = clients(10_000_000);
    for reader in &mut clients[1..] {
        reader.contract = Some(min(1_000_000));
    }
    for slower in [2, 4, 8] {
        let pipe = PIPE.link(LINK / slower).service(100_000);
        // In the first second, the drive still has the work that it accepted before its speed was
        // known.
        let kept = contract_on(pipe, &clients, 3);
        assert!(kept.all() >= 3 * pipe.link * 75 / 100, "{}", kept.all());
        for (i, client) in clients.iter().enumerate() {
            let worst = kept.tally(i).worst_second_bytes(10, 30);
            // On the drive that is eight times slower, a read of 4 KiB without contention takes 60
            // % of the time that its promise allows.
            let least = if slower == 8 { 96 } else { 100 };
            assert!(
                // The request that is in flight at the end counts.
                (worst + u64::from(client.length)) * 100 >= client.promised() * least,
                "client {i} of {slower} times slower: {worst}"
            );
        }
    }
}
