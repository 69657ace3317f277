//! The production code of the rings under a model checker. loom runs it in every order of memory
//! accesses that the language allows, with a bound on the number of interruptions of a thread, and
//! reports when all threads sleep.
//!
//! `cargo test -p weir-wire --test it model:: -- --nocapture --test-threads 1` prints each case
//! that passes. `./bench mutants` checks that the bugs in `crates/verify/mutants` make cases fail.

mod event;
mod memory;
mod notify;
mod rings;

use rings::ModelCase;
use std::time::Instant;
use weir_core::Span;
use weir_wire::notify::KickPolicy;
use weir_wire::ring::xen::Rearm;

/// A case: its name, and the function that is run in every order.
struct RingModel {
    name: &'static str,
    run: fn(),
}

const fn case(requests: u16, before_wrap: u16, one_by_one: bool) -> ModelCase {
    ModelCase {
        requests,
        before_wrap,
        one_by_one,
    }
}

const MODELS: &[RingModel] = &[
    RingModel {
        name: "ring: xen, two requests, wrap after the first",
        run: || rings::xen(case(2, 1, true), Rearm::Drained, 1),
    },
    RingModel {
        name: "ring: xen, three requests, wrap after the second",
        run: || rings::xen(case(3, 2, true), Rearm::Drained, 1),
    },
    RingModel {
        name: "ring: xen, three requests at once",
        run: || rings::xen(case(3, 1, false), Rearm::Drained, 1),
    },
    RingModel {
        name: "ring: xen, the drive waits for a second request",
        run: || rings::xen(case(2, 1, true), Rearm::Drained, 2),
    },
    RingModel {
        name: "ring: xen as before 2011, three requests, wrap after the second",
        run: || rings::xen(case(3, 2, true), Rearm::Answered, 1),
    },
    RingModel {
        name: "ring: split by index, two requests, wrap after the first",
        run: || rings::split(case(2, 1, true), true),
    },
    RingModel {
        name: "ring: split by index, three requests, wrap after the second",
        run: || rings::split(case(3, 2, true), true),
    },
    RingModel {
        name: "ring: split by index, three requests at once",
        run: || rings::split(case(3, 1, false), true),
    },
    RingModel {
        name: "ring: split by flag, two requests, wrap after the first",
        run: || rings::split(case(2, 1, true), false),
    },
    RingModel {
        name: "ring: split by flag, three requests, wrap after the second",
        run: || rings::split(case(3, 2, true), false),
    },
    RingModel {
        name: "notify: calls are gathered, two at most",
        run: || notify::calls(3),
    },
    RingModel {
        name: "notify: a kick before the queue is enabled",
        run: || notify::kick_before_enable(KickPolicy::AtOnce),
    },
    RingModel {
        name: "notify: a kick before the queue is enabled, asleep",
        run: || notify::kick_before_enable(SLEEP),
    },
    RingModel {
        name: "notify: throttle, kicks without work",
        run: || notify::storm(THROTTLE, 1),
    },
    RingModel {
        name: "notify: sleep, kicks without work",
        run: || notify::storm(SLEEP, 2),
    },
    RingModel {
        name: "notify: spin, kicks without work",
        run: || notify::storm(SPIN, 2),
    },
];

/// The rule of Xen's back end before 2011, under which requests wait for the completion of those in
/// the drive. If the drive in turn waits for the next request, all sides sleep.
const BEFORE_2011: RingModel = RingModel {
    name: "ring: xen as before 2011, the drive waits for a second request",
    run: || rings::xen(case(2, 1, true), Rearm::Answered, 2),
};

const SLEEP: KickPolicy = KickPolicy::Sleep {
    span: Span::from_micros(200),
};
const SPIN: KickPolicy = KickPolicy::Spin {
    span: Span::from_micros(20),
};
const THROTTLE: KickPolicy = KickPolicy::Throttle {
    interval: Span::ZERO,
    burst: 0,
    jiffy: Span::from_millis(1),
};

/// Returns the maximum number of times that a thread is interrupted in one run although it need not
/// wait. `./bench soak` has time for one more.
fn interruptions() -> usize {
    let variable = std::env::var("WEIR_INTERRUPTIONS");
    variable.map_or(2, |text| text.parse().expect("a number"))
}

/// Runs a model in every order with at most this number of interruptions.
fn check(model: &RingModel, interruptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 10_000;
    builder.check(model.run);
}

/// Asserts that the models pass whose names contain `family`.
fn pass(family: &str) {
    for model in MODELS.iter().filter(|model| model.name.contains(family)) {
        let start = Instant::now();
        check(model, interruptions());
        println!(
            "{:<66} passes  {:>6} ms",
            model.name,
            start.elapsed().as_millis()
        );
    }
}

#[test]
fn xen() {
    pass("ring: xen");
}

#[test]
fn split_by_index() {
    pass("ring: split by index");
}

#[test]
fn split_by_flag() {
    pass("ring: split by flag");
}

#[test]
fn calls() {
    pass("notify: calls");
}

#[test]
fn kicks_before_enable() {
    pass("notify: a kick before");
}

#[test]
fn kicks_without_work() {
    pass("kicks without work");
}

/// Runs in a process of its own, because the model checker ends the process when all threads sleep.
#[test]
#[ignore = "it fails, as the next test expects"]
fn before_2011() {
    check(&BEFORE_2011, interruptions());
}

#[test]
fn the_rule_of_xen_before_2011_deadlocks() {
    let program = std::env::current_exe().expect("it has a path");
    let output = std::process::Command::new(program)
        .args(["model::before_2011", "--exact", "--ignored", "--nocapture"])
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("it can be run");
    assert!(!output.status.success());
    // loom reports a deadlock by a panic, whose message is on the next line.
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let why = lines.nth(1).expect("a model fails by a panic");
    println!("{:<66} fails: {why}", BEFORE_2011.name);
    assert!(why.starts_with("deadlock"), "{why}");
}
