//! Guests on rings: no side sleeps with work, each request is answered once, and notifications cost
//! what the scenario states.

use weir_core::{Contract, Span};
use weir_measure::Rings;
use weir_model::drive::{DriveConfig, null};
use weir_model::load::{Arrival, Pattern, Program, Rng, Size};
use weir_sim::{
    CallTiming, Cost, Guest, GuestRing, KickReaction, Policy, Results, Scenario, SimRun, Threads,
};
use weir_verify::audit::Auditors;

const fn us(us: u64) -> Span {
    Span::from_micros(us)
}

fn drive(service: Span, tags: u16) -> DriveConfig {
    DriveConfig::Null(null::NullConfig {
        service,
        tags,
        link: 0,
        ..null::NullConfig::demo()
    })
}

/// One guest with random reads of 4 KiB and a queue depth of `depth`, for a second.
fn reader(guest: Guest, depth: u32) -> Scenario {
    let mut scenario = Scenario::new("ring", drive(us(100), 32), Span::from_secs(1));
    scenario.add_client_with_group(
        "reader",
        Contract::DEFAULT,
        1 << 30,
        Program::random_reads(4096, depth),
    );
    scenario.guest = Some(guest);
    // The measurement begins after the first look at the ring.
    scenario.warm_up = Span::from_millis(1);
    scenario
}

fn play(scenario: &Scenario) -> Results {
    let mut auditors = Auditors::new();
    let observers: Vec<&mut dyn weir_sim::Observer> = vec![&mut auditors];
    let run = SimRun::observed(scenario, &Policy::none(), 0, observers);
    let results = run.unwrap().run(|_| {}).unwrap();
    let found = auditors.end(false);
    assert!(found.is_empty(), "{:?}", found.violations());
    results
}

fn mean(results: &Results) -> u64 {
    results.clients[0].meter.latency().mean() as u64
}

#[test]
fn the_latency_of_a_request_is_the_sum_of_its_steps() {
    let cost = Cost {
        request: us(3),
        response: us(2),
        interrupt: us(7),
        event: us(1),
        ipi: us(11),
        wake: us(13),
        look: us(17),
        take: us(19),
        answer: us(23),
    };
    // To the drive: request, event, notification, wake, look, take. In the drive: 100 us. Back:
    // answer, event, notification, interrupt, response.
    let there = 3 + 1 + 11 + 13 + 17 + 19;
    let back = 23 + 1 + 11 + 7 + 2;
    for ring in [GuestRing::Xen, GuestRing::XenBefore2011, GuestRing::Virtio] {
        let guest = Guest {
            ring,
            cost,
            ..Guest::default()
        };
        let results = play(&reader(guest, 1));
        let whole = (there + 100 + back) * 1000;
        assert_eq!(mean(&results), whole, "{ring:?}");
        let rings = results.rings.unwrap();
        let each = 1_000_000_000 / whole;
        for count in [rings.kicks, rings.calls, rings.wakeups] {
            assert!(count.abs_diff(each) <= 1, "{ring:?} {rings:?}");
        }
        let busy = |ns: u64, each_us: u64| ns.abs_diff(each * each_us * 1000) < whole;
        assert!(busy(rings.guest_ns, 3 + 1 + 7 + 2), "{rings:?}");
        assert!(busy(rings.backend_ns, 13 + 17 + 19 + 23 + 1), "{rings:?}");
    }
}

#[test]
fn a_shared_thread_wakes_for_completions_too() {
    let guest = Guest {
        threads: Threads::One,
        ..Guest::default()
    };
    let shared = play(&reader(guest, 1));
    let own = play(&reader(Guest::default(), 1));
    // A thread for all guests must wake up for completions, which takes 5 us.
    assert_eq!(mean(&shared) - mean(&own), 5_000, "one more wake-up");
    let wakeups = |r: &Results| r.rings.unwrap().wakeups;
    let calls = shared.rings.unwrap().calls;
    assert!(wakeups(&shared).abs_diff(2 * calls) <= 2);
}

#[test]
fn a_request_too_long_for_the_ring_is_split_and_completed_once() {
    let mut scenario = reader(Guest::default(), 2);
    scenario.clients[0].program.size = Size::Fixed(100 * 1024);
    let results = play(&scenario);
    let meter = &results.clients[0].meter;
    assert_eq!(meter.bytes(), meter.requests() * 100 * 1024);
    // 44 KiB, 44 KiB and 12 KiB.
    let done = results.counters.done;
    let pieces = 3 * results.clients[0].issued;
    assert!(done <= pieces && done + 6 >= pieces, "{done} of {pieces}");
}

#[test]
fn a_plug_reduces_kicks_by_submitting_many_requests_at_once() {
    let kicks = |plug| {
        let mut scenario = reader(
            Guest {
                plug,
                ..Guest::default()
            },
            8,
        );
        scenario.merging.plug = weir_sim::PlugScope::All;
        let results = play(&scenario);
        let requests = results.clients[0].meter.requests();
        results.rings.unwrap().kicks as f64 / requests as f64
    };
    let (one, many) = (kicks(1), kicks(16));
    assert!(many < one, "{many} {one}");
}

/// A drive with eight disks, which serves two requests at once unless they are on the same disk.
fn two_at_once(ring: GuestRing) -> Results {
    let guest = Guest {
        ring,
        ..Guest::default()
    };
    let mut scenario = reader(guest, 2);
    scenario.drive = weir_config::profile::find("stripe-8").unwrap().drive;
    scenario.capacity = None;
    scenario.duration = Span::from_secs(30);
    play(&scenario)
}

#[test]
fn a_second_request_waits_for_the_first_in_xen_before_2011() {
    let (old, new) = (
        two_at_once(GuestRing::XenBefore2011),
        two_at_once(GuestRing::Xen),
    );
    let inside = |r: &Results| {
        let split = r.clients[0].meter.split().mean_us().unwrap_or_default();
        split.total() * 1000.0
    };
    let ratio = |r: &Results| mean(r) as f64 / inside(r);
    // The back end of before 2011 asks for the next kick after it has answered all requests that it
    // took, so the second request waits for the first.
    assert!(ratio(&old) > 1.95, "twice the back end's: {}", ratio(&old));
    assert!(
        mean(&new) * 10 < mean(&old) * 6,
        "{} {}",
        mean(&new),
        mean(&old)
    );
    assert!(old.rings.unwrap().kicks < 10, "{:?}", old.rings);
}

#[test]
fn sleeping_bounds_wake_ups_and_adds_no_more_than_its_time() {
    for depth in [1, 2, 8, 32] {
        let sleep = Guest {
            kicks: KickReaction::Sleep(us(200)),
            ..Guest::default()
        };
        let results = play(&reader(sleep, depth));
        let rings = results.rings.unwrap();
        // Once in 200 us is 5000 times per second.
        assert!(rings.wakeups <= 5001, "depth {depth}: {rings:?}");
        let at_once = mean(&play(&reader(Guest::default(), depth)));
        let slept = mean(&results);
        assert!(slept <= at_once + 220_000, "{depth}: {slept} {at_once}");
    }
}

fn with_calls(calls: CallTiming, depth: u32) -> (u64, f64) {
    let guest = Guest {
        ring: GuestRing::Virtio,
        calls,
        ..Guest::default()
    };
    let mut scenario = reader(guest, depth);
    scenario.drive = drive(us(500), 32);
    let results = play(&scenario);
    let requests = results.clients[0].meter.requests();
    let rings = results.rings.unwrap();
    (mean(&results), rings.calls as f64 / requests as f64)
}

#[test]
fn adaptive_call_policies_do_not_delay_requests_at_depth_one() {
    let at_once = with_calls(CallTiming::AtOnce, 1);
    for calls in [CallTiming::Vic, CallTiming::Spdk(us(10))] {
        assert_eq!(with_calls(calls, 1), at_once, "{calls}");
    }
}

#[test]
fn at_most_a_quarter_of_the_calls_is_needed_at_depth_32() {
    for calls in [
        CallTiming::Delay {
            time: us(100),
            count: 8,
        },
        CallTiming::Vic,
    ] {
        let (_, each) = with_calls(calls, 32);
        assert!(each <= 0.25, "{calls}: {each}");
    }
}

/// Two guests on one thread. The first one reads, the other one sends `storm` kicks per second
/// without a request.
fn beside_a_storm(storm: u32, kicks: KickReaction) -> Results {
    let guest = Guest {
        threads: Threads::One,
        ring: GuestRing::Virtio,
        kicks,
        ..Guest::default()
    };
    let mut scenario = reader(guest, 2);
    scenario.add_client_with_group(
        "storm",
        Contract::DEFAULT,
        1 << 20,
        Program::random_reads(4096, 1),
    );
    scenario.clients[1].program.arrival = Arrival::Closed {
        think: Span::from_millis(10),
    };
    scenario.clients[1].empty_kicks = storm;
    play(&scenario)
}

#[test]
fn a_guest_with_empty_kicks_is_checked_late() {
    let looked = |results: &Results| results.rings.unwrap().backend_ns;
    let calm = beside_a_storm(0, KickReaction::AtOnce);
    let storm = beside_a_storm(1_000_000, KickReaction::AtOnce);
    let throttled = beside_a_storm(1_000_000, KickReaction::Throttle(100_000));
    assert!(
        looked(&storm) > looked(&calm) + 100_000_000,
        "it costs time"
    );
    assert!(looked(&throttled) < looked(&calm) + 10_000_000);
    let got = |results: &Results| results.clients[0].meter.bytes() as f64;
    assert!(got(&throttled) > got(&calm) * 0.99);
    // The guest is checked late, but it is checked.
    assert!(throttled.clients[1].meter.requests() > 0);
}

/// A scenario with random costs, policies, drive and clients, all of which end.
fn drawn(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let mut cost = || us(rng.range(0, 3) * rng.range(0, 12));
    let cost = Cost {
        request: cost(),
        response: cost(),
        interrupt: cost(),
        event: cost(),
        ipi: cost(),
        wake: cost(),
        look: cost(),
        take: cost(),
        answer: cost(),
    };
    let ring =
        [GuestRing::Xen, GuestRing::XenBefore2011, GuestRing::Virtio][rng.range(0, 2) as usize];
    let kicks = match rng.range(0, 3) {
        0 => KickReaction::AtOnce,
        1 => KickReaction::Spin(us(rng.range(1, 300))),
        2 => KickReaction::Sleep(us(rng.range(1, 500))),
        _ => KickReaction::Throttle(rng.range(1, 20_000) as u32),
    };
    let calls = match rng.range(0, 3) {
        0 => CallTiming::AtOnce,
        1 => CallTiming::Delay {
            time: us(rng.range(1, 1000)),
            count: rng.range(1, 64) as u32,
        },
        2 => CallTiming::Vic,
        _ => CallTiming::Spdk(us(rng.range(1, 100))),
    };
    let guest = Guest {
        ring,
        slots: 1 << rng.range(0, 5),
        longest: 4096 * rng.range(1, 12) as u32,
        plug: rng.range(1, 20) as u32,
        threads: [Threads::Each, Threads::One][rng.range(0, 1) as usize],
        kicks,
        calls,
        cost,
    };
    let drive = drive(us(rng.range(0, 300)), rng.range(1, 32) as u16);
    let mut scenario = Scenario::new("drawn", drive, Span::from_secs(20));
    for n in 0..rng.range(1, 4) {
        let program = Program {
            size: Size::Range {
                min: 512,
                max: 512 * rng.range(1, 200) as u32,
                step: 512,
            },
            pattern: [Pattern::Random, Pattern::Sequential][rng.range(0, 1) as usize],
            writes: rng.range(0, 100) as u8,
            requests: Some(rng.range(1, 200)),
            arrival: Arrival::Closed {
                think: us(rng.range(0, 1) * rng.range(0, 500)),
            },
            ..Program::random_reads(4096, rng.range(1, 80) as u32)
        };
        let client =
            scenario.add_client_with_group(format!("c{n}"), Contract::DEFAULT, 1 << 24, program);
        client.guest = rng.range(0, 2) as u32;
        client.empty_kicks = (rng.range(0, 3) / 3 * rng.range(0, 2000)) as u32;
        if rng.range(0, 7) == 0 {
            client.leaves = Some(us(rng.range(1, 20_000)));
        }
    }
    scenario.guest = Some(guest);
    scenario
}

#[test]
fn every_request_completes_once_and_no_thread_sleeps_with_work() {
    for seed in 0..400 {
        let scenario = drawn(seed);
        let results = play(&scenario);
        assert_eq!(results.unanswered, 0, "seed {seed}: {:?}", scenario.guest);
        for (spec, client) in scenario.clients.iter().zip(&results.clients) {
            if spec.leaves.is_none() {
                let meter = &client.meter;
                assert_eq!(meter.requests(), client.issued, "seed {seed}");
                assert_eq!(meter.failures(), 0, "seed {seed}");
                assert_eq!(Some(client.issued), spec.program.requests, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_run_is_the_same_each_time() {
    for seed in 0..20 {
        let scenario = drawn(seed);
        let lines = || -> Vec<String> {
            let results = play(&scenario);
            let records = results.records(&[]);
            records.iter().map(weir_measure::to_line).collect()
        };
        assert_eq!(lines(), lines(), "seed {seed}");
    }
}

#[test]
fn ring_counters_exclude_the_warm_up() {
    let mut scenario = reader(Guest::default(), 1);
    let whole: Rings = play(&scenario).rings.unwrap();
    scenario.warm_up = Span::from_millis(500);
    scenario.duration = Span::from_millis(500);
    let half = play(&scenario).rings.unwrap();
    assert_eq!(half.length_ns * 2, whole.length_ns);
    assert!(half.kicks.abs_diff(whole.kicks / 2) <= 1);
    assert!(half.guest_ns.abs_diff(whole.guest_ns / 2) < 200_000);
    assert!(half.backend_ns.abs_diff(whole.backend_ns / 2) < 200_000);
}
