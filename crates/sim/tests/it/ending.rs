//! Programs that end, and requests that have a deadline.

use weir_core::Span;
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::{Policy, Results, Scenario, SimRun};

const SIZE: u64 = 1 << 30;

/// A drive that serves one request at a time, in a millisecond each.
fn drive() -> weir_model::drive::DriveConfig {
    weir_model::drive::DriveConfig::Null(null::NullConfig {
        tags: 1,
        service: Span::from_millis(1),
        link: 0,
        ..null::NullConfig::demo()
    })
}

/// A scenario of ten seconds, the first of which is not measured.
fn scenario() -> Scenario {
    let mut scenario = Scenario::new("ending", drive(), Span::from_secs(9));
    scenario.capacity = None;
    scenario.warm_up = Span::from_secs(1);
    scenario
}

fn add(scenario: &mut Scenario, name: &str, program: Program) -> usize {
    scenario.add_client_with_group(name, weir_core::Contract::DEFAULT, SIZE, program);
    scenario.clients.len() - 1
}

fn played(scenario: &Scenario) -> Results {
    let run = SimRun::new(scenario, &Policy::none(), 0).unwrap();
    run.run(|_| {}).unwrap()
}

fn program(requests: u64) -> Program {
    Program {
        requests: Some(requests),
        start: Span::from_secs(1),
        ..Program::random_reads(4096, 1)
    }
}

#[test]
fn a_run_ends_with_the_program_of_its_target() {
    let mut scenario = scenario();
    // 500 requests of 1 ms each, one at a time, without another client.
    let at = add(&mut scenario, "program", program(500));
    let whole = played(&scenario);
    assert_eq!(whole.clients[0].runtime, Some(Span::from_millis(500)));
    assert_eq!(
        whole.total.length_ns(),
        500_000_000,
        "nothing was left to happen"
    );

    add(&mut scenario, "other", Program::random_reads(4096, 1));
    let whole = played(&scenario);
    assert_eq!(whole.total.length_ns(), 9_000_000_000);
    // The two clients take turns, and the program has the first one: 500 + 499 requests of 1 ms.
    assert_eq!(whole.clients[0].runtime, Some(Span::from_millis(999)));
    scenario.exits = Some(at);
    let ended = played(&scenario);
    assert_eq!(ended.clients[0].runtime, whole.clients[0].runtime);
    assert_eq!(ended.total.length_ns(), 999_000_000);
    let other = &ended.clients[1].meter;
    assert!(
        (499..=500).contains(&other.requests()),
        "{}",
        other.requests()
    );

    // The program does not end in time.
    scenario.clients[at].program.requests = Some(5_000);
    let late = played(&scenario);
    assert_eq!(late.clients[0].runtime, None);
    assert_eq!(late.total.length_ns(), 9_000_000_000);
}

#[test]
fn late_requests_are_counted_even_without_an_answer() {
    let frames = |rate: u64| Program {
        arrival: Arrival::Even {
            interval: Span::from_nanos(1_000_000_000 / rate),
        },
        ..Program::random_reads(4096, 1)
    };
    let mut scenario = scenario();
    let at = add(&mut scenario, "player", frames(100));
    assert_eq!(
        played(&scenario).clients[at].meter.late(),
        None,
        "no deadline"
    );
    scenario.clients[at].deadline = Some(Span::from_millis(1));
    assert_eq!(played(&scenario).clients[at].meter.late(), Some(0));
    // Each request takes 1 ms, so all 900 requests of nine seconds miss a deadline of 999 us.
    scenario.clients[at].deadline = Some(Span::from_micros(999));
    assert_eq!(played(&scenario).clients[at].meter.late(), Some(900), "all");

    // The rate is twice that of the drive. All requests except those of the first few milliseconds
    // are late, and half of them are not even sent at the end.
    scenario.clients[at].program = frames(2_000);
    scenario.clients[at].deadline = Some(Span::from_millis(10));
    let results = played(&scenario);
    let meter = &results.clients[at].meter;
    assert_eq!(meter.requests(), 9_000);
    // The requests whose deadline is not after the end of the run.
    let due = 2_000 * 9 - 2_000 / 100 + 1;
    assert_eq!(meter.late(), Some(due));
}

#[test]
fn an_abandoned_run_has_no_results() {
    let mut scenario = scenario();
    add(&mut scenario, "other", Program::random_reads(4096, 1));
    let run = || SimRun::new(&scenario, &Policy::none(), 0).unwrap();
    let mut asked = 0;
    let abandoned = run().run_while(|_| {
        asked += 1;
        asked < 3
    });
    assert!(abandoned.unwrap().is_none());
    assert_eq!(asked, 3, "it is not asked again");
    let whole = run().run_while(|_| true).unwrap().unwrap();
    assert_eq!(whole.total.requests(), played(&scenario).total.requests());
}

#[test]
fn repetitions_without_random_choices_are_identical() {
    let repeated = |program: Program| {
        let mut scenario = scenario();
        add(&mut scenario, "first", Program::sequential_reads(4096, 1));
        add(&mut scenario, "second", program);
        [0, 7].map(|repetition| {
            let run = SimRun::new(&scenario, &Policy::none(), repetition).unwrap();
            let results = run.run(|_| {}).unwrap();
            let mut records = results.records(&[]);
            for record in &mut records {
                (record.repeat, record.seed) = (0, None);
            }
            (results.used_random_numbers, records)
        })
    };
    let [first, later] = repeated(Program::sequential_reads(8192, 2));
    assert!(!first.0 && first == later);
    let poisson = Arrival::Poisson {
        interval: Span::from_millis(3),
    };
    let [first, later] = repeated(Program {
        arrival: poisson,
        ..Program::sequential_reads(8192, 2)
    });
    assert!(first.0 && later.0 && first.1 != later.1);
}

#[test]
fn a_client_is_measured_over_its_own_time() {
    let mut scenario = scenario();
    let between = |start, stop| Program {
        start: Span::from_millis(start),
        stop: Some(Span::from_millis(stop)),
        ..Program::random_reads(4096, 2)
    };
    for (name, program) in [
        ("short", between(0, 3_000)),
        ("late", between(7_050, 9_050)),
        ("gone", between(0, 900)),
        ("long", between(0, 20_000)),
    ] {
        add(&mut scenario, name, program);
    }
    scenario.clients[3].arrives = Span::from_millis(4_000);
    scenario.clients[3].leaves = Some(Span::from_millis(6_000));
    let results = played(&scenario);
    let of = |client: usize| {
        let meter = &results.clients[client].meter;
        let ms = |ns: u64| ns.div_ceil(1_000_000);
        (ms(meter.begins_ns()), ms(meter.length_ns()))
    };
    // Measured from the end of the warm-up at 1 s on. The last reply arrives at most 2 ms after the
    // stop, because two requests of 1 ms are in flight.
    assert!(matches!(of(0), (0, 2_000..=2_003)), "{:?}", of(0));
    assert!(matches!(of(1), (6_050, 2_000..=2_003)), "{:?}", of(1));
    assert_eq!(of(2), (0, 0));
    assert_eq!(of(3), (3_000, 2_000));
    let records = results.records(&[]);
    for client in [0, 1, 3] {
        let record = &records[client];
        // Each client is alone on the drive in its time, so it gets all 1000 requests/s of 4 KiB.
        let full = 4096.0 * 1000.0 / 1e6;
        for mb_per_s in [
            Some(record.bandwidth_mb_per_s),
            record.worst_second_mb_per_s,
        ] {
            let off = mb_per_s.map(|mb_per_s| (mb_per_s / full - 1.0).abs());
            assert!(off.is_some_and(|off| off < 0.005), "{record:?}");
        }
    }
    assert_eq!(records[1].begins_s, Some(6.05));
}
