//! A run is the same each time, to the byte, and no request is lost, whatever the scenario.

use weir_config::policy::find;
use weir_core::record::{Call, Recorder, replay};
use weir_core::{
    Class, Contract, Edit, Flags, GroupId, Instant, Knobs, Layer, Max, ROOT, Sizes, Span,
};
use weir_model::drive::{null, ssd};
use weir_model::load::{Arrival, Pattern, Program, Rng, Size, SyncMode};
use weir_sim::{
    Action, Advice, Buffered, CpuStall, GroupSpec, NrRequests, Observer, Path, Policy, Results,
    Scenario, ScheduledAction, SimRun, scenario,
};
use weir_verify::audit::Auditors;

fn policies() -> [Policy; 4] {
    [
        Policy::none(),
        find("bfq").unwrap(),
        find("bfq-bytes").unwrap(),
        Policy::contract(),
    ]
}

fn recorded(scenario: &Scenario, policy: &Policy, repetition: u32) -> (Vec<u8>, Results) {
    let mut recorder = Recorder::new(&SimRun::config(scenario, policy));
    let run = SimRun::observed(scenario, policy, repetition, vec![&mut recorder]).unwrap();
    let results = run.run(|_| {}).unwrap();
    (recorder.bytes().to_vec(), results)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_repetition_others() {
    let mut scenario = scenario::demo(Span::from_millis(60));
    scenario.actions = vec![ScheduledAction {
        at: Span::from_millis(30),
        action: Action::Hold {
            client: 3,
            held: true,
        },
    }];
    for policy in policies() {
        let (first, _) = recorded(&scenario, &policy, 0);
        assert!(
            first == recorded(&scenario, &policy, 0).0,
            "{}",
            policy.name
        );
        assert!(
            first != recorded(&scenario, &policy, 1).0,
            "{}",
            policy.name
        );
        assert!(replay(&first).unwrap().calls > 100);
    }
}

#[test]
fn observers_do_not_change_a_run() {
    let scenario = scenario::demo(Span::from_millis(50));
    for policy in policies() {
        let alone = SimRun::new(&scenario, &policy, 0)
            .unwrap()
            .run(|_| {})
            .unwrap();
        let (_, watched) = recorded(&scenario, &policy, 0);
        assert_eq!(alone.total, watched.total);
        assert_eq!(alone.counters, watched.counters);
    }
}

/// An observer that checks the order of calls within an instant, and that time never decreases.
#[derive(Default)]
struct CallOrder {
    now: Instant,
    class: u8,
    calls: u64,
}

impl Observer for CallOrder {
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        let class = match call {
            Call::Complete { .. } => 0,
            Call::Submit { .. } => 2,
            Call::Poll { .. } => 3,
            _ => 1,
        };
        assert!(now >= self.now, "time goes back");
        // A poll ends a turn, and the next turn may be at the same instant.
        assert!(
            now > self.now || self.class == 3 || class >= self.class,
            "{call:?} after class {} at {now:?}",
            self.class
        );
        (self.now, self.class) = (now, class);
        self.calls += 1;
    }
}

/// A random scenario of a seed: groups, contracts, programs, connections, table sizes, drive and
/// path.
fn drawn(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let drive = null::NullConfig {
        service: Span::from_nanos(rng.range(1, 100_000)),
        tags: rng.range(1, 40) as u16,
        queues: rng.range(1, 3) as u16,
        link: rng.range(20_000_000, 500_000_000),
        tick: Span::from_millis(rng.range(0, 1) * rng.range(0, 3)),
        wake: Span::ZERO,
        command: null::NullConfig::COMMAND,
    };
    let drive = weir_model::drive::DriveConfig::Null(drive);
    let mut s = Scenario::new("drawn", drive, Span::from_secs(60));
    let inner = rng.range(0, 2);
    for _ in 0..inner {
        let (parent, contract) = (
            ROOT,
            Contract {
                min: 0,
                ..contract(&mut rng)
            },
        );
        let knobs = Knobs::NONE;
        s.groups.push(GroupSpec {
            parent,
            contract,
            knobs,
        });
    }
    for n in 0..rng.range(1, 9) {
        let contract = contract(&mut rng);
        let program = program(&mut rng);
        let client = s.add_client_with_group(format!("c{n}"), contract, 1 << 22, program);
        client.arrives = Span::from_micros(rng.range(0, 2) * rng.range(0, 3_000));
        if rng.range(0, 3) == 0 {
            client.leaves = Some(client.arrives + Span::from_micros(rng.range(0, 50_000)));
        }
        client.flags = [Flags::NONE, Flags::SYNC][rng.range(0, 1) as usize];
        let group = client.group.0 as usize - 1;
        s.groups[group].parent = GroupId(rng.range(0, inner) as u32);
    }
    if rng.range(0, 1) == 0 {
        s.path = Path {
            latency: Span::from_micros(rng.range(0, 50)),
            turn: Span::from_micros(rng.range(0, 9)),
            processor: Span::from_micros(rng.range(0, 9)),
        };
        for _ in 0..rng.range(0, 3) {
            s.machine.late.push(Span::from_micros(rng.range(0, 20)));
        }
        for n in 0..rng.range(0, 3) {
            s.machine.stalls.push(CpuStall {
                at: Instant::from_nanos(n * 10_000_000 + rng.range(0, 9_000_000)),
                length: Span::from_micros(rng.range(0, 1_000)),
            });
        }
    }
    s.actions = actions(&mut rng, &s);
    buffer(&mut rng, &mut s);
    if rng.range(0, 1) == 0 {
        s.sizes = Some(sizes(&mut rng, &s));
    }
    s
}

/// Gives some scenarios a drive with positions or an adapter, and makes some clients processes with
/// a page cache.
fn buffer(rng: &mut Rng, s: &mut Scenario) {
    match rng.range(0, 19) {
        0 | 1 => {
            s.drive =
                weir_model::drive::DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic());
        }
        2 | 3 => {
            let flash = ssd::SsdConfig {
                size: 2 << 30,
                ..ssd::SsdConfig::generic()
            };
            s.drive = weir_model::drive::DriveConfig::Ssd(flash);
        }
        _ => {}
    }
    s.places = vec![1 << 30; rng.range(0, 2) as usize];
    s.adapter.ata = rng.range(0, 1) == 0;
    s.adapter.nr_requests = match rng.range(0, 2) {
        0 => NrRequests::Unbounded,
        1 => NrRequests::Linux,
        _ => NrRequests::Each(rng.range(1, 9) as u32),
    };
    for client in &mut s.clients {
        if rng.range(0, 2) > 0 {
            continue;
        }
        let program = &mut client.program;
        (program.depth, program.fua) = (1, false);
        program.size = Size::Fixed(4096 * rng.range(1, 40) as u32);
        let advice = [Advice::Normal, Advice::Sequential, Advice::Random];
        client.buffered = Some(Buffered {
            read_ahead: 4096 * (rng.range(0, 1) * rng.range(0, 64)) as u32,
            advice: advice[rng.range(0, 2) as usize],
            copy: Span::from_nanos(rng.range(1, 3_000)),
            wakeup: Span::from_nanos(rng.range(0, 1) * rng.range(0, 50_000)),
            // Few pages, so that writers are throttled.
            dirty_bytes: rng.range(1, 64) << 20,
        });
    }
}

/// Random actions: requests are cancelled, contracts change, and clients are put on hold.
fn actions(rng: &mut Rng, s: &Scenario) -> Vec<ScheduledAction> {
    let mut actions = Vec::new();
    for _ in 0..rng.range(0, 12) {
        let client = rng.range(0, s.clients.len() as u64 - 1) as usize;
        let at = Span::from_millis(rng.range(0, 40));
        let action = match rng.range(0, 2) {
            0 => Action::Cancel { client },
            1 => Action::Hold { client, held: true },
            _ => Action::Change(vec![Edit::SetContract {
                id: s.clients[client].group,
                contract: contract(rng),
            }]),
        };
        actions.push(ScheduledAction { at, action });
    }
    // At the end, all clients are released, so that each request can complete.
    for client in 0..s.clients.len() {
        let at = Span::from_millis(rng.range(40, 60));
        let action = Action::Hold {
            client,
            held: false,
        };
        actions.push(ScheduledAction { at, action });
    }
    actions
}

fn sizes(rng: &mut Rng, s: &Scenario) -> Sizes {
    let (streams, reserved) = (s.clients.len() as u32 + 1, rng.range(0, 2) as u32);
    Sizes {
        requests: streams * reserved + rng.range(1, 40) as u32,
        streams,
        groups: s.groups.len() as u32 + 1,
        spaces: streams,
        per_stream: rng.range(1, 20) as u32,
        reserved,
        scheduler_tags: rng.range(1, 30) as u32,
        events: 4096,
        stalled: 0,
    }
}

fn contract(rng: &mut Rng) -> Contract {
    let class = match rng.range(0, 5) {
        0 => Class::Idle,
        _ => Class::BestEffort,
    };
    let limited = rng.range(0, 2) == 0;
    Contract {
        min: if class == Class::Idle {
            0
        } else {
            rng.range(0, 1) * rng.range(1, 1_000_000)
        },
        share: rng.range(1, 1_000) as u16,
        max: Max {
            bandwidth: if limited {
                rng.range(2_000_000, 50_000_000)
            } else {
                0
            },
            iops: if limited { rng.range(500, 20_000) } else { 0 },
            burst: Span::from_millis(rng.range(0, 20)),
            ..Max::NONE
        },
        class,
        ..Contract::DEFAULT
    }
}

fn program(rng: &mut Rng) -> Program {
    let interval = Span::from_micros(rng.range(10, 400));
    let patterns = [
        Pattern::Sequential,
        Pattern::Random,
        Pattern::Shuffled,
        Pattern::ZIPF,
    ];
    Program {
        zones: None,
        files: 1,
        activity: None,
        pattern: patterns[rng.range(0, 3) as usize],
        writes: rng.range(0, 100) as u8,
        fua: rng.range(0, 3) == 0,
        sync: match rng.range(0, 2) {
            0 => SyncMode::Never,
            1 => SyncMode::Flush(rng.range(1, 9) as u32),
            _ => SyncMode::Fdatasync(rng.range(1, 9) as u32),
        },
        size: Size::Range {
            min: 512,
            max: rng.range(1, 600) as u32 * 512,
            step: 512,
        },
        depth: rng.range(1, 40) as u32,
        arrival: match rng.range(0, 3) {
            0 => Arrival::Even { interval },
            1 => Arrival::Poisson { interval },
            2 => Arrival::Closed { think: interval },
            _ => Arrival::Closed { think: Span::ZERO },
        },
        think_every: 1,
        start: Span::from_micros(rng.range(0, 3_000)),
        start_spread: Span::from_micros(rng.range(0, 1) * 500),
        stop: None,
        requests: Some(rng.range(1, 120)),
    }
}

#[test]
fn every_request_of_a_drawn_scenario_completes_once() {
    for seed in 0..600 {
        let scenario = drawn(seed);
        for policy in policies() {
            let mut order = CallOrder::default();
            let mut auditors = Auditors::new();
            let observers: Vec<&mut dyn Observer> = vec![&mut order, &mut auditors];
            let run = SimRun::observed(&scenario, &policy, 0, observers).unwrap();
            let results = run.run(|_| {}).unwrap();
            let what = format!("seed {seed}, {}", policy.name);
            assert_eq!(results.unanswered, 0, "{what}");
            assert_eq!(results.counters.accepted, results.counters.done, "{what}");
            assert_eq!(
                (results.counters.stray, results.counters.clamped),
                (0, 0),
                "{what}"
            );
            for (spec, client) in scenario.clients.iter().zip(&results.clients) {
                let all = spec.leaves.is_some() || Some(client.issued) == spec.program.requests;
                assert!(all, "{what}: {} issued {}", client.name, client.issued);
            }
            assert!(order.calls > 0);
            let found = auditors.end(true);
            assert!(found.is_empty(), "{what}: {:?}", found.violations());
        }
    }
}
