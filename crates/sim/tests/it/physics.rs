//! Results that can be computed by hand.

use weir_core::{Contract, Instant, Span};
use weir_model::drive::{Freeze, hdd, null, ssd};
use weir_model::load::{Arrival, Program, SyncMode};
use weir_sim::{CpuStall, Path, Policy, Results, Scenario, SimError, SimRun};

fn idle() -> Scenario {
    let drive = weir_model::drive::DriveConfig::Null(null::NullConfig::demo());
    Scenario::new("physics", drive, Span::from_secs(1))
}

fn one(program: Program) -> Scenario {
    let mut scenario = idle();
    scenario.add_client_with_group("one", Contract::DEFAULT, 1 << 20, program);
    scenario
}

fn run(scenario: &Scenario) -> Results {
    let run = SimRun::new(scenario, &Policy::none(), 0).unwrap();
    run.run(|_| {}).unwrap()
}

#[test]
fn a_lone_reader_waits_for_service_and_transfer() {
    // 30 us of service, and 4096 bytes at 250 MB/s: 16.384 us.
    let results = run(&one(Program::random_reads(4096, 1)));
    let meter = &results.clients[0].meter;
    assert_eq!(
        (meter.latency().min(), meter.latency().max()),
        (46_384, 46_384)
    );
    assert_eq!(meter.requests(), 1_000_000_000 / 46_384);
    assert_eq!(meter.split().drive.min(), 46_384);
    assert_eq!(
        (meter.split().limit.max(), meter.split().elevator.max()),
        (0, 0)
    );
    assert_eq!(results.unanswered, 1);
}

#[test]
fn a_path_adds_its_latency_twice_and_the_turn_of_the_answer() {
    let mut scenario = one(Program::random_reads(4096, 1));
    scenario.path = Path {
        latency: Span::from_micros(20),
        turn: Span::from_micros(3),
        processor: Span::from_micros(4),
    };
    scenario.machine.late = [5, 6, 7].map(Span::from_micros).to_vec();
    let results = run(&scenario);
    let meter = &results.clients[0].meter;
    // The drive's time, and 5 us to 7 us until the server notices the completion. The turn in which
    // the request arrived has ended long before.
    let drive = &meter.split().drive;
    assert_eq!((drive.min(), drive.max()), (51_384, 53_384));
    // Additional time: both directions (40 us), and the turn (3 us) with half the request's
    // processor time (2 us).
    assert_eq!(
        (meter.latency().min(), meter.latency().max()),
        (96_384, 98_384)
    );
}

#[test]
fn a_server_processes_requests_one_after_the_other() {
    // 32 requests at once: the processor takes 50 us for each, and the link takes less.
    let mut scenario = one(Program::random_reads(4096, 32));
    scenario.path.processor = Span::from_micros(50);
    let meter = &run(&scenario).clients[0].meter;
    assert!(
        (19_950..=20_000).contains(&meter.requests()),
        "{}",
        meter.requests()
    );
    // All completions of a turn are processed in the next one. Turns take 1 ms and process all 32
    // requests.
    scenario.path = Path {
        turn: Span::from_millis(1),
        ..Path::DIRECT
    };
    let meter = &run(&scenario).clients[0].meter;
    assert_eq!(meter.requests() % 32, 0);
    assert!(
        (300 * 32..=500 * 32).contains(&meter.requests()),
        "{}",
        meter.requests()
    );
}

#[test]
fn a_stall_delays_completions_and_lengthens_the_current_turn() {
    let mut program = Program::random_reads(4096, 1);
    program.start = Span::from_millis(1);
    let mut scenario = one(program);
    let latency = |scenario: &Scenario| run(scenario).clients[0].meter.latency().max();
    scenario.path.turn = Span::from_micros(10);
    // 46.384 us in the drive and the turn of 10 us.
    assert_eq!(latency(&scenario), 56_384);
    let stall = |at: u64| CpuStall {
        at: Instant::from_nanos(1_000_000 + at),
        length: Span::from_micros(1_000),
    };
    // The completion would be noticed 46.4 us after the beginning. It is noticed when the stall
    // ends, 1 ms after 40 us.
    scenario.machine.stalls = vec![stall(40_000)];
    assert_eq!(latency(&scenario), 40_000 + 1_000_000 + 10_000);
    // The answer would leave 10 us later. It leaves 1 ms later.
    scenario.machine.stalls = vec![stall(50_000)];
    assert_eq!(latency(&scenario), 56_384 + 1_000_000);
    // When this stall ends, nothing is due for another 30 us.
    scenario.machine.stalls = vec![CpuStall {
        at: Instant::from_nanos(1_015_000),
        length: Span::from_micros(1),
    }];
    assert_eq!(latency(&scenario), 56_384);
}

#[test]
fn the_sum_of_latencies_is_depth_times_time() {
    for depth in [1, 4, 32, 100] {
        let results = run(&one(Program::random_reads(4096, depth)));
        let sum = results.clients[0].meter.latency().sum();
        let whole = u128::from(depth) * 1_000_000_000;
        let longest = u128::from(results.clients[0].meter.latency().max());
        assert!(sum <= whole && sum + u128::from(depth) * longest >= whole);
    }
}

#[test]
fn an_open_loop_is_served_at_its_rate_and_beyond_the_drive_it_waits() {
    let at_interval = |us| {
        let interval = Span::from_micros(us);
        let mut program = Program::random_reads(4096, 1_000);
        program.arrival = Arrival::Even { interval };
        run(&one(program)).clients.remove(0).meter
    };
    let slow = at_interval(100);
    assert_eq!(slow.requests(), 10_000);
    assert_eq!(slow.latency().max(), 46_384);
    // A request is due every 10 us, but the link takes 16.4 us for each, so the waiting times grow.
    let fast = at_interval(10);
    assert!((61_000..=61_035).contains(&fast.requests()));
    assert!(
        fast.latency().max() > 380_000_000,
        "due at 0.61 s, served at 1 s"
    );
}

#[test]
fn a_program_that_ends_ends_the_measurement() {
    let mut program = Program::random_reads(4096, 1);
    program.requests = Some(10);
    let results = run(&one(program));
    assert_eq!((results.total.requests(), results.unanswered), (10, 0));
    assert_eq!(
        results.total.length_ns(),
        463_840,
        "measured up to the last answer"
    );
}

#[test]
fn flushes_move_no_bytes_and_wait_for_writes() {
    let mut program = Program::random_reads(4096, 2);
    program.writes = 100;
    program.sync = SyncMode::Fdatasync(2);
    let meter = &run(&one(program)).clients[0].meter;
    // A round has two writes (62.768 us) and a flush (30 us).
    let rounds = 1_000_000_000 / 92_768;
    assert!(meter.requests().abs_diff(rounds * 3) <= 3);
    assert!(meter.bytes().abs_diff(rounds * 8192) <= 8192);
    assert_eq!(meter.latency().min(), 30_000);
}

#[test]
fn a_run_without_advancing_time_is_an_error() {
    let mut scenario = one(Program::random_reads(4096, 1));
    scenario.drive = weir_model::drive::DriveConfig::Null(null::NullConfig {
        service: Span::ZERO,
        link: 0,
        ..null::NullConfig::demo()
    });
    let error = SimRun::new(&scenario, &Policy::none(), 0)
        .unwrap()
        .run(|_| {});
    assert!(matches!(error, Err(SimError::Stuck { .. })));
}

#[test]
fn a_drive_that_freezes_serves_nothing_meanwhile() {
    let mut scenario = one(Program::random_reads(4096, 1));
    scenario.freeze = Some(Freeze {
        first: Span::from_millis(300),
        length: Span::from_millis(200),
        every: Span::from_millis(400),
        seed: None,
    });
    let results = run(&scenario);
    let meter = &results.clients[0].meter;
    // The drive is frozen from 300 ms to 500 ms and from 700 ms to 900 ms.
    let tenths = meter.plot().complete(meter.end_ns());
    let served: Vec<bool> = tenths.iter().map(|w| w.requests > 0).collect();
    let frozen = [3, 4, 7, 8];
    assert!(
        (0..10).all(|n| served[n] != frozen.contains(&n)),
        "{served:?}"
    );
    // 600 ms remain, in which each request takes 46.384 us.
    assert!((599_000_000 / 46_384..=601_000_000 / 46_384).contains(&meter.requests()));
    assert_eq!(meter.latency().max(), 200_046_384);
    let freeze = scenario.freeze.as_mut().unwrap();
    freeze.length = freeze.every;
    let refused = SimRun::new(&scenario, &Policy::none(), 0);
    assert_eq!(refused.unwrap_err(), SimError::Freeze);
}

/// A drive that stalls for 100 ms in each 500 ms, at a random time.
fn stalling() -> weir_model::drive::DriveConfig {
    weir_model::drive::DriveConfig::Ssd(ssd::SsdConfig {
        stall_every: Span::from_millis(500),
        stall_length: Span::from_millis(100),
        ..ssd::SsdConfig::generic()
    })
}

#[test]
fn stalls_of_flash_depend_on_the_repetition_and_on_nothing_else() {
    let mut scenario = one(Program::sequential_reads(4096, 1));
    scenario.drive = stalling();
    let tenths = |repetition| {
        let run = SimRun::new(&scenario, &Policy::none(), repetition).unwrap();
        let results = run.run(|_| {}).unwrap();
        assert!(results.used_random_numbers);
        let meter = &results.clients[0].meter;
        assert!(meter.latency().max() >= 100_000_000);
        let served = meter.plot().complete(meter.end_ns());
        served.iter().map(|w| w.requests).collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..4).map(tenths).collect();
    assert_eq!(all[0], tenths(0));
    assert!(all.iter().any(|run| *run != all[0]));
    // The two stalls of a second leave 80 % of its requests.
    let requests: u64 = all[0].iter().sum();
    scenario.drive = weir_model::drive::DriveConfig::Ssd(ssd::SsdConfig::generic());
    let without = run(&scenario).clients[0].meter.requests();
    assert!(
        (79..=81).contains(&(requests * 100 / without)),
        "{requests} of {without}"
    );
}

#[test]
fn scattered_files_depend_on_the_repetition_and_must_fit() {
    let mut scenario = idle();
    scenario.drive = weir_model::drive::DriveConfig::Hdd(hdd::HddConfig::generic());
    scenario.duration = Span::from_secs(10);
    let program = Program::random_reads(4096, 1);
    scenario.add_client_with_group("one", Contract::DEFAULT, 1 << 30, program);
    let mean = |scenario: &Scenario, repetition| {
        let run = SimRun::new(scenario, &Policy::none(), repetition).unwrap();
        run.run(|_| {}).unwrap().clients[0].meter.latency().mean()
    };
    let adjacent = mean(&scenario, 0);
    scenario.spread = Some(scenario.drive.size().unwrap());
    let scattered = mean(&scenario, 0);
    assert!(scattered > adjacent * 1.5, "{scattered} after {adjacent}");
    assert_eq!(mean(&scenario, 0).to_bits(), scattered.to_bits());
    assert_ne!(mean(&scenario, 1).to_bits(), scattered.to_bits());
    assert!(run(&scenario).used_random_numbers);
    scenario.spread = Some((1 << 30) - 1);
    let refused = SimRun::new(&scenario, &Policy::none(), 0);
    assert_eq!(refused.unwrap_err(), SimError::Spread);
}
