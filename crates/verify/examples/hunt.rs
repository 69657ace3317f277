//! Hunts a planted bug: runs a core with one of the patches `mutants/*.patch` until an auditor
//! notices the bug. `./bench mutants` does this for each patch.
//!
//! `hunt AUDITOR` succeeds when the auditor with that name finds a violation. `hunt assertions`
//! succeeds when an assertion of the core fails. A build without debug assertions leaves the bug to
//! the auditors.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::process::ExitCode;
use weir_verify::audit::random::{self, RandomDecisions};
use weir_verify::audit::steady::{self, Kind};

/// The number of random runs, and the number of operations of each.
const RUNS: u32 = 400;
const STEPS: u64 = 4_000;
/// The number of scenes of each kind.
const SCENES: u32 = 40;

/// Returns the kinds of scenes in which an auditor of a steady state may find a violation, or none
/// for an auditor of random operations.
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

/// Returns the names of the auditors that find a violation in the run of a seed. Without a kind,
/// the run consists of random operations.
fn noticed_by(kind: Option<Kind>, seed: u64) -> Vec<&'static str> {
    let run = || match kind {
        Some(kind) => steady::run(kind, seed).map_or_else(|f| f.violations, |_| Vec::new()),
        None => random::run(seed, STEPS).map_or_else(|f| f.violations, |_| Vec::new()),
    };
    catch_unwind(run).map_or_else(
        |_| vec!["assertions"],
        |violations| violations.iter().map(|v| v.auditor).collect(),
    )
}

fn main() -> ExitCode {
    let Some(auditor) = std::env::args().nth(1) else {
        eprintln!("usage: hunt AUDITOR | assertions");
        return ExitCode::from(2);
    };
    // Failing assertions are expected, and their messages would hide the result.
    std::panic::set_hook(Box::new(|_| {}));
    let kinds: Vec<_> = kinds(&auditor).iter().copied().map(Some).collect();
    // An auditor without scenes is tested by random operations.
    let (rounds, kinds) = match kinds.len() {
        0 => (RUNS, vec![None]),
        _ => (SCENES, kinds),
    };
    let (mut seeds, mut others, mut runs) = (RandomDecisions::new(1), BTreeSet::new(), 0);
    for _ in 0..rounds {
        // All kinds of scenes get the same seeds.
        let seed = seeds.bits();
        for &kind in &kinds {
            runs += 1;
            let noticed = noticed_by(kind, seed);
            if noticed.iter().any(|name| *name == auditor) {
                println!("noticed in run {runs}");
                return ExitCode::SUCCESS;
            }
            others.extend(noticed);
        }
    }
    println!("not noticed in {runs} runs, but by {others:?}");
    ExitCode::FAILURE
}
