//! Every mutant of the core is noticed by the auditor that is named for it; without a mutant the same runs pass.
//!
//! Needs the feature `mutants`: `cargo test -p weir-audit --features mutants --test it mutants::`.
#![cfg(feature = "mutants")]

use std::panic::{UnwindSafe, catch_unwind};
use weir_audit::Violation;
use weir_audit::random::{self, Random};
use weir_audit::steady::{self, Kind};
use weir_core::mutant::{self, Mutant};

/// A mutant is looked for in this many runs of this many random operations.
const RUNS: u64 = 400;
const STEPS: u64 = 4_000;

/// Mutants of shares, waits and promises are looked for in this many scenes of the kinds that are checked for them.
const SCENES: u64 = 40;

/// Mutants that are not visible from outside, and the tests that notice them.
const ELSEWHERE: &[(u32, &str)] = &[
    (mutant::WEIGHT_KEPT, BFQ),
    (mutant::IDLE_RESTARTS_AT_V, BFQ),
    (mutant::ELIGIBILITY_IGNORED, BFQ),
    (mutant::DEPTH_IGNORED, DEPTH),
    (mutant::SEEKY_STAY_MERGED, SPLIT),
    (mutant::FLUSH_OWN_CONNECTION, SERVE),
    (mutant::ANSWER_BEFORE_SYNC, SERVE),
    (mutant::COST_TIMER_LOST, COST),
    (mutant::COST_DONE_FORGOTTEN, COST),
    (mutant::COST_DEBT_FORGOTTEN, COST),
    (mutant::COST_NOTHING_DONATED, COST),
    (mutant::COST_WEIGHTS_STALE, COST),
    (mutant::CFQ_FIFO_IGNORED, CFQ),
    (mutant::CFQ_LEVEL_IGNORED, CFQ),
    (mutant::CFQ_GROUP_RETURNS_EARLY, CFQ),
    (mutant::CFQ_NOBODY_COOPERATES, CFQ),
    (mutant::CFQ_NEVER_PARTED, CFQ),
    (mutant::CFQ_REALTIME_WAITS, CFQ),
    (mutant::CFQ_QUANTUM_IGNORED, CFQ),
    (mutant::CFQ_REQUESTS_UNLIMITED, CFQ),
    (mutant::KYBER_DEPTH_IGNORED, KYBER),
    (mutant::KYBER_TOTAL_IN_DRIVE, KYBER),
    (mutant::KYBER_NEVER_THROTTLED, KYBER),
    (mutant::KYBER_HISTOGRAM_KEPT, KYBER),
    (mutant::ABSENT_IGNORED, SHALLOW),
    (mutant::LOW_TIMER_LOST, LOW),
    (mutant::LOW_NEVER_DOWN, LOW),
    (mutant::LOW_NEVER_IDLE, LOW),
    (mutant::LOW_NOT_CHARGED, LOW),
];
const CFQ: &str =
    "weir-core, elevator/cfq/tests/mutants.rs: each bug is noticed by a test of the room";
const KYBER: &str = "weir-core, elevator/kyber/tests/mutants.rs";
const BFQ: &str = "weir-core, elevator/bfq/tests/mutants.rs: differs from a scan";
const DEPTH: &str = "weir-core, elevator/bfq/tests/depth.rs: a reader waits for its tag";
const SPLIT: &str = "weir-core, elevator/bfq/tests/merge.rs: seeky streams part";
const COST: &str = "weir-core, tests/cost/rules.rs: each bug breaks its own rule";
const SHALLOW: &str = "weir-core, elevator/contract/tests/shallow.rs: two of few requests each";
const LOW: &str = "weir-core, control/low/tests.rs: every bug breaks its rule";
const SERVE: &str = "weir-serve, tests/durability: a cut of the power loses what was acknowledged";

/// The scenes in which an auditor of a steady state may find a violation; none for an auditor of random operations.
fn kinds(auditor: &str) -> &'static [Kind] {
    match auditor {
        "fair" => &[
            Kind::BfqShares,
            Kind::CfqShares,
            Kind::ContractShares,
            Kind::CostShares,
        ],
        "starvation" => &[
            Kind::BfqWaits,
            Kind::CfqWaits,
            Kind::ContractWaits,
            Kind::DeadlineWaits,
            Kind::KyberWaits,
        ],
        "promise" => &[
            Kind::Promises,
            Kind::Requests,
            Kind::Tenants,
            Kind::Unrest,
            Kind::SlowRealtime,
        ],
        "realtime" | "precedence" => &[Kind::Realtime],
        "idle" => &[Kind::IdleMembers],
        _ => &[],
    }
}

type Run = Box<dyn Fn() -> Vec<Violation> + UnwindSafe>;

/// The runs in which an auditor may find a violation.
fn runs(auditor: &str) -> Vec<Run> {
    let mut seeds = Random::new(1);
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..SCENES {
        let seed = seeds.bits();
        for &kind in kinds(auditor) {
            let found =
                move || steady::run(kind, seed).map_or_else(|f| f.violations, |_| Vec::new());
            runs.push(Box::new(found));
        }
    }
    for _ in 0..if runs.is_empty() { RUNS } else { 0 } {
        let seed = seeds.bits();
        let found = move || random::run(seed, STEPS).map_or_else(|f| f.violations, |_| Vec::new());
        runs.push(Box::new(found));
    }
    runs
}

/// How many runs it took until the mutant's auditor noticed it, or else the auditor that did notice it.
fn hunt(bug: &Mutant) -> Result<usize, Vec<&'static str>> {
    let mut others = Vec::new();
    for (tried, run) in runs(bug.caught_by).into_iter().enumerate() {
        // A mutant may upset the layer until it panics, which does not say what is wrong.
        let Ok(violations) = catch_unwind(run) else {
            others.push("a panic");
            continue;
        };
        if violations.iter().any(|v| v.auditor == bug.caught_by) {
            return Ok(tried + 1);
        }
        others.extend(violations.iter().map(|v| v.auditor));
    }
    others.sort_unstable();
    others.dedup();
    Err(others)
}

/// One test, because the mutant in force is one for the whole process.
#[test]
fn every_bug_is_noticed_by_its_auditor() {
    let mut missed = Vec::new();
    for bug in mutant::ALL {
        if let Some((_, place)) = ELSEWHERE.iter().find(|e| e.0 == bug.number) {
            println!("{:2} elsewhere ({place}): {}", bug.number, bug.bug);
            continue;
        }
        mutant::select(bug.number);
        match hunt(bug) {
            Ok(runs) => println!(
                "{:2} {} after {runs} runs: {}",
                bug.number, bug.caught_by, bug.bug
            ),
            Err(others) => missed.push(format!(
                "{} ({}) was not noticed by `{}`, but by {others:?}",
                bug.number, bug.bug, bug.caught_by
            )),
        }
    }
    mutant::select(0);
    assert!(missed.is_empty(), "{missed:#?}");
    for (auditor, most) in [
        ("once", 400),
        ("fair", 20),
        ("starvation", 20),
        ("promise", 40),
        ("precedence", 20),
        ("realtime", 20),
        ("idle", 20),
    ] {
        for run in runs(auditor).into_iter().take(most) {
            assert_eq!(run(), [], "without a bug");
        }
    }
}
