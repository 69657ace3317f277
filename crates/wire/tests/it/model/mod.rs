//! The rings as they are shipped, under a model checker: loom runs them in every order of memory accesses that the language allows
//! (with a bound on how often a thread is interrupted), and says when everybody sleeps.
//!
//! `cargo test -p weir-wire --features mutants --test it model:: -- --nocapture --test-threads 1` prints which case passes, and
//! with which bug built in which case fails. Without the feature only the cases run.

mod event;
mod memory;
mod notify;
mod rings;

use rings::Case;
use std::time::Instant;
use weir_core::Span;
use weir_wire::notify::KickPolicy;
use weir_wire::ring::xen::Rearm;

/// A name, and what is run in every order.
struct Model {
    name: &'static str,
    run: fn(),
}

const fn case(requests: u16, before_wrap: u16, one_by_one: bool) -> Case {
    Case {
        requests,
        before_wrap,
        one_by_one,
    }
}

const MODELS: &[Model] = &[
    Model {
        name: "ring: xen, two requests, wrap after the first",
        run: || rings::xen(case(2, 1, true), Rearm::Drained, 1),
    },
    Model {
        name: "ring: xen, three requests, wrap after the second",
        run: || rings::xen(case(3, 2, true), Rearm::Drained, 1),
    },
    Model {
        name: "ring: xen, three requests at once",
        run: || rings::xen(case(3, 1, false), Rearm::Drained, 1),
    },
    Model {
        name: "ring: xen, the drive waits for a second request",
        run: || rings::xen(case(2, 1, true), Rearm::Drained, 2),
    },
    Model {
        name: "ring: xen as before 2011, three requests, wrap after the second",
        run: || rings::xen(case(3, 2, true), Rearm::Answered, 1),
    },
    Model {
        name: "ring: split by index, two requests, wrap after the first",
        run: || rings::split(case(2, 1, true), true),
    },
    Model {
        name: "ring: split by index, three requests, wrap after the second",
        run: || rings::split(case(3, 2, true), true),
    },
    Model {
        name: "ring: split by index, three requests at once",
        run: || rings::split(case(3, 1, false), true),
    },
    Model {
        name: "ring: split by flag, two requests, wrap after the first",
        run: || rings::split(case(2, 1, true), false),
    },
    Model {
        name: "ring: split by flag, three requests, wrap after the second",
        run: || rings::split(case(3, 2, true), false),
    },
    Model {
        name: "notify: calls are gathered, two at most",
        run: || notify::calls(3),
    },
    Model {
        name: "notify: a kick before the queue is enabled",
        run: || notify::kick_before_enable(KickPolicy::AtOnce),
    },
    Model {
        name: "notify: a kick before the queue is enabled, asleep",
        run: || notify::kick_before_enable(SLEEP),
    },
    Model {
        name: "notify: throttle, kicks without work",
        run: || notify::storm(THROTTLE, 1),
    },
    Model {
        name: "notify: sleep, kicks without work",
        run: || notify::storm(SLEEP, 2),
    },
    Model {
        name: "notify: spin, kicks without work",
        run: || notify::storm(SPIN, 2),
    },
];

/// The rule that seed 004's patch replaced: requests wait for what the drive has. If that in turn waits for them, everybody sleeps.
const BEFORE_2011: Model = Model {
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

/// How often a thread is interrupted where it would not have to wait, in one run: `./bench soak` has time for one more.
fn interruptions() -> usize {
    let variable = std::env::var("WEIR_INTERRUPTIONS");
    variable.map_or(2, |text| text.parse().expect("a number"))
}

/// Runs a model in every order with at most a number of interruptions.
fn check(model: &Model, interruptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 10_000;
    builder.check(model.run);
}

#[test]
fn every_case_passes() {
    for model in MODELS {
        let start = Instant::now();
        check(model, interruptions());
        println!(
            "{:<66} passes  {:>6} ms",
            model.name,
            start.elapsed().as_millis()
        );
    }
}

/// One model in a process of its own, perhaps with a bug: the model checker ends the process when everybody sleeps.
#[test]
#[ignore = "run by those that expect a failure"]
fn one() {
    let variable = |name| std::env::var(name).expect("the caller sets it");
    #[cfg(feature = "mutants")]
    weir_wire::mutant::select(variable("WEIR_MUTANT").parse().expect("a number"));
    let name = variable("WEIR_MODEL");
    let mut models = MODELS.iter().chain([&BEFORE_2011]);
    let model = models.find(|model| model.name == name);
    check(model.expect("there is such a model"), interruptions());
}

/// How a model fails with a bug, or with 0 for none; `None` if it passes.
fn failure(model: &Model, number: u32) -> Option<String> {
    let program = std::env::current_exe().expect("it has a path");
    let output = std::process::Command::new(program)
        .args(["model::one", "--exact", "--ignored", "--nocapture"])
        .env("WEIR_MUTANT", number.to_string())
        .env("WEIR_MODEL", model.name)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("it can be run");
    if output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let why = lines.nth(1).expect("a model fails by a panic");
    let why = if why.starts_with("deadlock") {
        "everybody sleeps"
    } else {
        why
    };
    Some(why.to_string())
}

/// Every bug is found in each family of models that it concerns.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_fails() {
    let mut missed = Vec::new();
    for mutant in weir_wire::mutant::ALL {
        println!("{} {}", mutant.number, mutant.bug);
        for family in mutant.caught_by {
            let concerned = MODELS.iter().filter(|model| model.name.starts_with(family));
            let failed =
                concerned.filter_map(|model| Some((model.name, failure(model, mutant.number)?)));
            let mut found = false;
            for (name, why) in failed {
                println!("    {name:<62} fails: {why}");
                found = true;
            }
            if !found {
                missed.push(format!("{} in {family}", mutant.bug));
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

#[test]
fn the_rule_of_before_2011_fails() {
    let why = failure(&BEFORE_2011, 0).expect("it fails");
    println!("{:<66} fails: {why}", BEFORE_2011.name);
    assert_eq!(why, "everybody sleeps");
}
