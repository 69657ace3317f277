//! A host whose processors are busy with other things: the server's thread is late, and what it had in the drive is done meanwhile.

use weir_core::{Instant, Span};
use weir_measure::promise::Rate;
use weir_sim::{Machine, Path, Policy, Results, Run, Scenario, Stall, scenario};

const SECONDS: u64 = 3;

/// The demo, on a machine on which the server's thread gets a processor for `length - stall` of every `length`, and wakes up to a
/// millisecond late in between.
fn busy(stall: Span, length: Span) -> Scenario {
    let duration = Span::from_secs(SECONDS);
    let mut scenario = scenario::demo(duration);
    scenario.path = Path {
        latency: Span::from_micros(10),
        turn: Span::from_micros(2),
        processor: Span::from_micros(2),
    };
    let periods = duration.as_nanos() / length.as_nanos();
    // Where in its period a stall begins wanders, as it would.
    let begin = |n: u64| n * length.as_nanos() + n * 7_919 % (length - stall).as_nanos();
    let stalls = (1..periods).map(|n| Stall {
        at: Instant::from_nanos(begin(n)),
        length: stall,
    });
    scenario.machine = Machine {
        late: [0, 50, 0, 0, 1_000, 0, 100].map(Span::from_micros).to_vec(),
        stalls: stalls.collect(),
    };
    scenario
}

fn run(scenario: &Scenario, policy: &Policy) -> Results {
    let run = Run::new(scenario, policy, 0).unwrap();
    run.run(|_| {}).unwrap()
}

/// A slice of the scheduler for each of one or two others on the same processor, and now and then a long wait.
#[test]
#[ignore = "0.3 to 0.44 of the total under none"]
fn a_late_driver_costs_contracts_a_fifth_of_the_total_at_the_most() {
    for (stall, length) in [(3, 12), (3, 6), (20, 100)] {
        let [stall, length] = [stall, length].map(Span::from_millis);
        let scenario = busy(stall, length);
        let none = run(&scenario, &Policy::none()).total.bytes();
        let total = run(&scenario, &Policy::contract()).total.bytes();
        let of = format!("stalls of {stall:?} in {length:?}");
        assert!(total * 10 >= none * 8, "{of}: {total} of {none}");
    }
}

#[test]
#[ignore = "6.8 MB in the worst second"]
fn a_promise_loses_a_fifth_to_a_late_driver_at_the_most() {
    let scenario = busy(Span::from_millis(3), Span::from_millis(12));
    let rate = Rate::new(8_000_000, 0).expect("something is promised");
    let judged = run(&scenario, &Policy::contract()).judge(0, rate);
    assert_eq!(judged.seconds.kept, SECONDS, "{judged:?}");
}
