//! Reads and writes that are longer than a command of the drive: several requests under Linux's
//! policies, one request under Weir's.

use std::collections::BTreeMap;
use weir_config::policy::find;
use weir_core::record::Call;
use weir_core::{Contract, Cookie, Instant, Layer, Op, Sizes, Span, StreamId};
use weir_model::drive::null;
use weir_model::load::{Program, Rng, Size};
use weir_sim::{Action, NrRequests, Observer, Policy, Results, Scenario, ScheduledAction, SimRun};
use weir_verify::audit::Auditors;

const TRANSFER: u32 = 256 << 10;

/// A scenario on a drive that accepts 256 KiB per command and takes a millisecond for each.
fn scenario(tags: u16) -> Scenario {
    let drive = weir_model::drive::DriveConfig::Null(null::NullConfig {
        service: Span::from_millis(1),
        tags,
        link: 0,
        command: TRANSFER,
        ..null::NullConfig::demo()
    });
    Scenario::new("too long", drive, Span::from_secs(60))
}

/// An observer of the requests that the layer accepted, and of the maximum number at a time.
#[derive(Default)]
struct AcceptedRequests {
    live: BTreeMap<(StreamId, Cookie), u32>,
    most: usize,
    longest: u32,
}

impl Observer for AcceptedRequests {
    fn call(&mut self, _: Instant, call: &Call<'_>, _: &mut Layer) {
        match call {
            Call::Submit { batch, result } => {
                let accepted = result.map_or_else(|rejected| rejected.accepted, |()| batch.len());
                for request in &batch[..accepted] {
                    let key = (request.stream, request.cookie);
                    assert!(self.live.insert(key, request.length).is_none());
                    if matches!(request.op, Op::Read | Op::Write) {
                        self.longest = self.longest.max(request.length);
                    }
                }
                self.most = self.most.max(self.live.len());
            }
            Call::Poll { outputs, .. } => {
                for output in *outputs {
                    if let weir_core::Output::Done(done) = output {
                        assert!(self.live.remove(&(done.stream, done.cookie)).is_some());
                    }
                }
            }
            _ => {}
        }
    }
}

fn played(scenario: &Scenario, policy: &Policy, seen: &mut AcceptedRequests) -> Results {
    let mut auditors = Auditors::new();
    let observers: Vec<&mut dyn Observer> = vec![&mut *seen, &mut auditors];
    let run = SimRun::observed(scenario, policy, 0, observers).unwrap();
    let results = run.run(|_| {}).unwrap();
    let found = auditors.end(seen.live.is_empty());
    assert!(
        found.is_empty(),
        "{}: {:?}",
        policy.name,
        found.violations()
    );
    results
}

#[test]
fn a_read_of_1_mib_is_four_requests_under_linux_and_one_under_weir() {
    let mut scenario = scenario(1);
    let read = Program {
        requests: Some(1),
        ..Program::sequential_reads(1 << 20, 1)
    };
    scenario.add_client_with_group("reader", Contract::DEFAULT, 1 << 30, read);
    for (policy, requests) in [("mq-deadline", 4), ("contract", 1), ("bfq-bytes", 1)] {
        let mut seen = AcceptedRequests::default();
        let results = played(&scenario, &find(policy).unwrap(), &mut seen);
        let (counters, meter) = (results.counters, &results.clients[0].meter);
        assert_eq!((counters.accepted, counters.dispatched), (requests, 4));
        assert_eq!(seen.most as u64, requests, "{policy}");
        // The program does not notice the split: it has one read, which takes four milliseconds.
        assert_eq!((meter.requests(), meter.bytes()), (1, 1 << 20), "{policy}");
        assert_eq!(meter.latency().max(), 4_000_000, "{policy}");
    }
}

#[test]
fn limits_charge_the_bytes_of_all_parts_and_each_part_as_a_request() {
    // Each slice of 20 ms has space for two parts: 25 MiB/s are 512 KiB in 20 ms, and 100
    // requests/s are two.
    let mut scenario = scenario(32);
    let contract = |bandwidth, iops| Contract {
        max: weir_core::Max {
            read_bandwidth: bandwidth,
            read_iops: iops,
            ..weir_core::Max::NONE
        },
        ..Contract::DEFAULT
    };
    let reads = Program::sequential_reads(1 << 20, 4);
    scenario.add_client_with_group("bytes", contract(25 << 20, 0), 1 << 30, reads);
    scenario.add_client_with_group("requests", contract(0, 100), 1 << 30, reads);
    let limited = played(
        &scenario,
        &find("io.max").unwrap(),
        &mut AcceptedRequests::default(),
    );
    for client in &limited.clients {
        // 25 MiB/s, or 100 parts of 256 KiB per second, are 1500 MiB in a minute.
        let mebibytes = client.meter.bytes() >> 20;
        assert!(
            (1490..=1510).contains(&mebibytes),
            "{mebibytes} in a minute"
        );
    }
}

#[test]
fn a_max_counts_requests_as_their_client_sent_them_under_every_policy() {
    let mut scenario = scenario(32);
    let contract = |iops_size| Contract {
        max: weir_core::Max {
            iops: 100,
            iops_size,
            ..weir_core::Max::NONE
        },
        ..Contract::DEFAULT
    };
    let reads = Program::sequential_reads(1 << 20, 4);
    scenario.add_client_with_group("requests", contract(0), 1 << 30, reads);
    // Each request of 1 MiB counts as 3.4 requests of 300 KiB, rounded up to 4, whatever the
    // commands are.
    scenario.add_client_with_group("sizes", contract(300 << 10), 1 << 30, reads);
    for (policy, expected) in [
        ("contract", [6000, 1500]),
        ("none", [6000, 1500]),
        ("mq-deadline", [6000, 1500]),
        ("max-limits", [6000, 1500]),
        // Linux counts commands, and has no such size.
        ("io.max", [1500, 1500]),
    ] {
        let results = played(
            &scenario,
            &find(policy).unwrap(),
            &mut AcceptedRequests::default(),
        );
        let requests = |n: usize| results.clients[n].meter.requests();
        let near = [0, 1].map(|n: usize| requests(n).abs_diff(expected[n]) <= 10);
        assert_eq!(near, [true; 2], "{policy}: {} {}", requests(0), requests(1));
    }
}

/// Over a server, `io.max` counts the commands of a request that the server receives as a whole.
#[test]
fn slices_count_the_commands_of_a_request_that_is_not_split_before() {
    let mut scenario = scenario(32);
    scenario.path = weir_sim::Path {
        latency: Span::from_micros(10),
        ..weir_sim::Path::DIRECT
    };
    let contract = Contract {
        max: weir_core::Max::of_iops(100),
        ..Contract::DEFAULT
    };
    let reads = Program::sequential_reads(1 << 20, 4);
    scenario.add_client_with_group("requests", contract, 1 << 30, reads);
    let mut seen = AcceptedRequests::default();
    let results = played(&scenario, &find("io.max").unwrap(), &mut seen);
    assert_eq!(seen.longest, 1 << 20);
    let requests = results.clients[0].meter.requests();
    // 100 commands/s for four commands per request are 1500 requests in a minute.
    assert!((1490..=1510).contains(&requests), "{requests} in a minute");
}

/// Reads and writes of random sizes, with tables that are too small, cancelled requests, and
/// clients that leave early.
fn drawn(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let mut scenario = scenario(rng.range(1, 9) as u16);
    scenario.adapter.nr_requests = match rng.range(0, 1) {
        0 => NrRequests::Unbounded,
        _ => NrRequests::Each(rng.range(1, 9) as u32),
    };
    scenario.merging.nomerges = rng.range(0, 2) as u8;
    for n in 0..rng.range(1, 5) {
        let program = Program {
            writes: rng.range(0, 100) as u8,
            size: Size::Fixed(512 * rng.range(1, 4000) as u32),
            requests: Some(rng.range(1, 40)),
            ..Program::random_reads(4096, rng.range(1, 9) as u32)
        };
        let client =
            scenario.add_client_with_group(format!("c{n}"), Contract::DEFAULT, 1 << 26, program);
        if rng.range(0, 2) == 0 {
            client.leaves = Some(Span::from_micros(rng.range(1, 100_000)));
        }
        let client = n as usize;
        for _ in 0..rng.range(0, 3) {
            let at = Span::from_micros(rng.range(1, 100_000));
            let action = Action::Cancel { client };
            scenario.actions.push(ScheduledAction { at, action });
        }
    }
    if rng.range(0, 2) > 0 {
        scenario.sizes = Some(Sizes {
            requests: scenario.clients.len() as u32 + rng.range(1, 20) as u32,
            per_stream: rng.range(1, 12) as u32,
            ..scenario.sizes(&Policy::none())
        });
    }
    scenario
}

#[test]
fn reads_and_writes_complete_once_and_whole_despite_cancellations() {
    let (mut refused, mut failed) = (0, 0);
    let policies = [
        "none",
        "mq-deadline",
        "kyber",
        "bfq",
        "cfq",
        "io.cost",
        "io.latency",
        "bfq-bytes",
        "contract",
    ];
    for seed in 0..150 {
        let scenario = drawn(seed);
        for policy in policies {
            let mut seen = AcceptedRequests::default();
            let policy = find(policy).unwrap();
            let results = played(&scenario, &policy, &mut seen);
            let what = format!("seed {seed}, {}", policy.name);
            assert!(seen.live.is_empty(), "{what}");
            assert_eq!(results.unanswered, 0, "{what}");
            assert!(
                !policy.needs_split_requests() || seen.longest <= TRANSFER,
                "{what}"
            );
            refused += results.counters.rejected;
            for (spec, client) in scenario.clients.iter().zip(&results.clients) {
                let (size, meter) = (spec.program.size.most(), &client.meter);
                let left = spec.leaves.is_some();
                assert!(
                    left || Some(client.issued) == spec.program.requests,
                    "{what}"
                );
                assert_eq!(meter.requests() + meter.failures(), client.issued, "{what}");
                assert_eq!(meter.bytes(), meter.requests() * u64::from(size), "{what}");
                failed += meter.failures();
            }
        }
    }
    assert!(refused > 1000 && failed > 1000, "{refused}, {failed}");
}
