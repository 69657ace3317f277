//! Contracts on a modelled drive. Each request takes 30 us in parallel with the others, and then
//! its bytes cross a link of 250 MB/s one after the other.

mod flush;
mod learn;
mod pace;
mod remote;
mod rest;
mod shallow;

use super::*;
use crate::elevator;
use crate::testing::{
    Client, KIB, PIPE as DRIVE, Pipe, PipeDrive, SECOND, STREAMER, group, min, share,
};
use crate::{Capacity, Contract, Flags, Max, ROOT, Span};
use std::vec::Vec;

const LINK: u64 = DRIVE.link;
const CAPACITY: Capacity = crate::testing::capacity(LINK);
const PIPE: Pipe = DRIVE.stated(Some(CAPACITY)).tags(64);

/// Reads a small file again and again, 128 KiB at a time.
const READER: Client = STREAMER.with(Contract::DEFAULT).flags(Flags::SYNC).file(0);

/// Reads 4 KiB at a time with a queue depth of 1.
const SMALL: Client = READER.length(4 * KIB).depth(1);

/// Makes every `every`th request of a client a write. A `stable` write is on stable storage when it
/// completes.
fn writes(every: u64, stable: bool) -> Option<(u64, Op, Flags)> {
    let stable = if stable { Flags::FUA } else { Flags::NONE };
    (every > 0).then_some((every, Op::Write, Flags::SYNC.with(stable)))
}

type PipeHost = crate::testing::Host<PipeDrive>;

fn host(elevator: elevator::Config, pipe: Pipe, clients: &[Client]) -> PipeHost {
    let config = crate::Config::of(elevator).drive(pipe.shape());
    let mut host = PipeHost::new(config, &[], pipe.into());
    for client in clients {
        host.add(*client);
    }
    host
}

fn run_on(pipe: Pipe, elevator: elevator::Config, clients: &[Client], seconds: u64) -> PipeHost {
    let mut host = host(elevator, pipe, clients);
    host.run(seconds * SECOND);
    host
}

fn run(elevator: elevator::Config, clients: &[Client], seconds: u64) -> PipeHost {
    run_on(PIPE, elevator, clients, seconds)
}

fn contract(clients: &[Client], seconds: u64) -> PipeHost {
    contract_on(PIPE, clients, seconds)
}

fn contract_on(pipe: Pipe, clients: &[Client], seconds: u64) -> PipeHost {
    let elevator = elevator::Config::Contract(Config::default());
    run_on(pipe, elevator, clients, seconds)
}

/// A client with random reads of 4 KiB and a queue depth of 1, and fifteen streams. Each has a min
/// of 10 MB/s.
fn demo(think: u64) -> Vec<Client> {
    let target = SMALL.think(think).with(min(10_000_000));
    let reader = READER.with(min(10_000_000));
    core::iter::once(target)
        .chain(core::iter::repeat_n(reader, 15))
        .collect()
}

#[test]
fn the_random_reader_gets_its_min_in_every_second_and_the_drive_stays_busy() {
    // Without control, each read waits for at least 15 requests of 128 KiB. These take 7.9 ms at
    // 250 MB/s, so the reader gets about 0.5 MB/s.
    let none = run(elevator::Config::None, &demo(0), 4);
    assert!(
        none.tally(0).worst_second_bytes(0, 40) < 1_000_000,
        "without control it starves: {}",
        none.tally(0).worst_second_bytes(0, 40)
    );
    // Both throughputs are per second: 4 s without control, 10 s with it.
    let kept = contract(&demo(0), 10);
    kept.assert_rate(0, 0..100, 10_000_000);
    for reader in 1..16 {
        kept.assert_rate(reader, 0..100, 10_000_000);
    }
    assert!(
        kept.all() * 4 >= none.all() * 10 * 95 / 100,
        "{} of {}",
        kept.all() / 10,
        none.all() / 4
    );
}

#[test]
fn a_client_that_takes_its_time_between_requests_still_gets_its_min() {
    for think in [20_000, 80_000, 150_000] {
        let kept = contract(&demo(think), 5);
        kept.assert_rate(0, 0..50, 10_000_000);
        // The drive is kept idle for the client when it is behind, so the others lose some
        // throughput.
        assert!(
            kept.all() >= 5 * LINK * 85 / 100,
            "think {think}: {}",
            kept.all() / 5
        );
    }
}

#[test]
fn clients_with_equal_promises_do_not_idle_the_drive() {
    let reader = SMALL.with(min(10_000_000));
    let none = run(elevator::Config::None, &[reader; 16], 3);
    let kept = contract(&[reader; 16], 3);
    assert!(
        kept.all() * 100 >= none.all() * 95,
        "{} of {}",
        kept.all(),
        none.all()
    );
    assert!((0..16).all(|c| kept.tally(c).worst_second_bytes(0, 30) >= 10_000_000));
}

#[test]
fn shares_are_kept_over_ten_seconds_and_in_every_one() {
    let clients = [1, 2, 4, 8].map(|s| READER.with(share(s * 100)));
    // The parts of 1, 2, 4 and 8 are fifteenths of the link. Over 10 s each client is within 2 %,
    // and in each second within 10 % of its fair part.
    let kept = contract(&clients, 10);
    for (client, part) in [1u64, 2, 4, 8].into_iter().enumerate() {
        let fair = 10 * LINK * part / 15;
        let got = kept.bytes(client);
        assert!(
            got.abs_diff(fair) * 100 <= fair * 2,
            "client {client}: {got} of {fair}"
        );
        for second in kept
            .tally(client)
            .tenths
            .chunks(10)
            .map(|c| c.iter().sum::<u64>())
        {
            assert!(
                second.abs_diff(fair / 10) * 100 <= fair,
                "client {client}: {second} of {}",
                fair / 10
            );
        }
    }
}

#[test]
fn a_realtime_client_is_answered_at_once() {
    let max = Max::NONE.bandwidth(10_000_000).burst(Span::from_millis(10));
    let realtime = Contract::DEFAULT.class(Class::Realtime).max(max);
    // 50 small reads per second, next to fifteen streams.
    let target = SMALL.think(20_000_000).with(realtime);
    let clients: Vec<_> = core::iter::once(target)
        .chain(core::iter::repeat_n(READER, 15))
        .collect();
    let kept = contract(&clients, 5);
    assert!(
        kept.tally(0).longest < 20_000_000,
        "its first: {}",
        kept.tally(0).longest
    );
    assert!(kept.all() >= 5 * LINK * 90 / 100);
}

#[test]
fn a_realtime_client_that_asks_for_less_than_its_max_waits_for_no_promise() {
    let realtime = |bandwidth, burst| {
        Contract::DEFAULT
            .class(Class::Realtime)
            .max(Max::NONE.bandwidth(bandwidth).burst(burst))
    };
    // 30 small reads per second. The other realtime client uses all of its max, and the drive is
    // half as fast as stated, so it cannot keep the two promises of 80 MB/s.
    let paced = SMALL
        .think(30_000_000)
        .with(realtime(10_000_000, Span::from_millis(10)));
    let greedy = READER.depth(4).with(realtime(40_000_000, Span::ZERO));
    let promised = READER.depth(16).with(min(80_000_000));
    let slow = PIPE.link(LINK / 2);
    let kept = contract_on(slow, &[paced, greedy, promised, promised], 5);
    assert!(
        kept.tally(0).longest < 20_000_000,
        "{}",
        kept.tally(0).longest
    );
    // The promises are 200 MB/s in all on a drive of 125 MB/s, so each client gets at least half of
    // its promise.
    for (client, promise) in [(1, 40_000_000), (2, 80_000_000), (3, 80_000_000)] {
        let got = kept.tally(client).worst_second_bytes(10, 50);
        assert!(got >= promise / 2, "client {client}: {got}");
    }
}

#[test]
fn a_min_is_kept_as_clients_come_and_go_and_unused_time_is_shared() {
    let brief = READER.from(2 * SECOND).until(4 * SECOND).depth(16);
    let promised = READER.with(min(100_000_000).share(1));
    let other = READER.with(share(1000));
    let kept = contract(&[promised, other, brief], 6);
    kept.assert_rate(0, 0..60, 100_000_000);
    let alone = contract(&[promised], 2);
    assert!(alone.all() >= 2 * LINK * 95 / 100);
}

#[test]
fn the_idle_class_gets_the_rest_and_does_not_starve() {
    let idle = READER.with(Contract::DEFAULT.class(Class::Idle));
    let kept = contract(&[READER, READER, idle], 4);
    // The idle class is served once in 200 ms: at least four requests per second, and less than 5 %
    // of the throughput.
    assert!(
        kept.bytes(2) >= 4 * 4 * u64::from(READER.length),
        "{}",
        kept.bytes(2)
    );
    assert!(kept.bytes(2) * 20 < kept.all());
    assert!(kept.tally(2).longest <= 500_000_000);
}

#[test]
fn pieces_with_a_high_fixed_cost_are_not_cut() {
    // 125 us per request and 140 MB/s: 16 KiB cost less than four pieces of 4 KiB, since each piece
    // costs 125 us.
    let capacity = Capacity::NONE
        .read(140_000_000)
        .write(140_000_000)
        .iops(8_000);
    let pipe = PIPE.stated(Some(capacity));
    let client = |length, contract| READER.length(length).with(contract);
    let clients = [
        client(4 * KIB, min(20_000_000)),
        client(16 * KIB, share(100)),
    ];
    let kept = contract_on(pipe, &clients, 1);
    assert!(kept.bytes(1) > 0);
    let counted = kept.layer.counters();
    assert!(counted.dispatched <= counted.accepted, "{counted:?}");
}

#[test]
fn tenants_divide_before_their_volumes_do() {
    let elevator = elevator::Config::Contract(Config::default());
    let mut host = host(elevator, PIPE, &[]);
    let tenant = GroupId(10);
    host.edit(group(tenant.0, share(300)));
    for (parent, own) in [(ROOT, 100), (tenant, 100), (tenant, 200)] {
        host.add(READER.of(parent).with(share(own)));
    }
    host.run(2 * SECOND);
    let kept = host;
    // The root divides 100 : 300, and the tenant divides its three quarters 100 : 200.
    let parts = [0, 1, 2].map(|c| kept.bytes(c) * 100 / kept.all());
    assert!(
        parts[0].abs_diff(25) <= 1 && parts[1].abs_diff(25) <= 1 && parts[2].abs_diff(50) <= 1,
        "{parts:?}"
    );
}
