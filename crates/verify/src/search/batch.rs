//! Batches of cases that run in parallel.

use crate::search::case::SearchCase;
use crate::search::draw::{draw, draw_shallow};
use crate::search::trial::{self, Reference, RunFailure, TrialOutcome, catch_panic};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The seeds to run, and the way in which their cases are drawn.
#[derive(Clone, Copy, Debug)]
pub struct SearchPlan {
    /// The first seed of the batch.
    pub seed: u64,
    /// The number of consecutive seeds.
    pub runs: u64,
    /// The way in which the cases are drawn.
    pub draw: DrawOptions,
    /// The number of cases that run in parallel, at least 1. It does not change the results.
    pub jobs: usize,
}

/// The way in which cases are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DrawOptions {
    /// The kind of drives to which cases are restricted, an index into
    /// [`KINDS`](crate::search::case::KINDS).
    pub kind: Option<usize>,
    /// True if the cases consist of promised clients with a queue depth of 1.
    #[serde(default)]
    pub shallow: bool,
    /// True if promises are scaled down, so that admission accepts them for the drive's worst case.
    pub admitted: bool,
}

/// Cases with their reference runs. These runs decide which promises are feasible, and stay the
/// same while the policy changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptCases {
    /// The way in which the cases were drawn.
    pub draw: DrawOptions,
    /// The cases in the order of their seeds, without those that could not be drawn or run.
    pub cases: Vec<KeptCase>,
}

/// A case with its reference runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptCase {
    /// The seed of the case.
    pub seed: u64,
    /// The case as the text of a scenario's file.
    pub case: String,
    /// The runs with which the case is compared.
    pub reference: Reference,
}

/// One of this many cases is audited, because auditors make a run several times slower.
const AUDITED: u64 = 4;

/// Runs all cases of a plan, and passes the number of finished ones to `progress`. The outcomes are
/// in the order of their seeds.
pub fn search(plan: &SearchPlan, progress: impl Fn(u64) + Sync) -> (Vec<TrialOutcome>, KeptCases) {
    let one = |index| run_seed(plan.seed.wrapping_add(index), plan.draw);
    let all: Vec<u64> = (0..plan.runs).collect();
    let (outcomes, cases): (_, Vec<_>) = in_parallel(plan.jobs, all, one, progress)
        .into_iter()
        .unzip();
    let kept = KeptCases {
        draw: plan.draw,
        cases: cases.into_iter().flatten().collect(),
    };
    (outcomes, kept)
}

/// Runs only `contract`, without auditors, and compares it with the reference runs that were kept.
pub fn search_again(
    kept: KeptCases,
    jobs: usize,
    progress: impl Fn(u64) + Sync,
) -> Vec<TrialOutcome> {
    let one = |kept: KeptCase| match SearchCase::read(&kept.case, "kept") {
        Ok(case) => TrialOutcome {
            seed: kept.seed,
            ..trial::outcome_against(&case, Ok(kept.reference), false)
        },
        Err(why) => failed_draw(kept.seed, why),
    };
    in_parallel(jobs, kept.cases, one, progress)
}

fn in_parallel<T: Send, U: Send>(
    jobs: usize,
    all: Vec<T>,
    one: impl Fn(T) -> U + Sync,
    progress: impl Fn(u64) + Sync,
) -> Vec<U> {
    let done = AtomicU64::new(0);
    let run = |work| {
        let came = one(work);
        // The counter orders nothing else, so that relaxed ordering suffices.
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        came
    };
    let threads = ThreadPoolBuilder::new().num_threads(jobs.max(1));
    let threads = threads.build().expect("threads can be started");
    threads.install(|| all.into_par_iter().map(run).collect())
}

/// Runs the case of a seed. Returns its outcome, and the case with its reference runs if these
/// succeeded.
fn run_seed(seed: u64, draw: DrawOptions) -> (TrialOutcome, Option<KeptCase>) {
    let case = match draw_case(seed, draw) {
        Ok(case) => case,
        Err(why) => return (failed_draw(seed, why), None),
    };
    // A panic in a reference run must not end the whole search.
    let reference = catch_panic(|| trial::reference(&case));
    let kept = reference.clone().ok().map(|reference| KeptCase {
        seed,
        case: case.to_string(),
        reference,
    });
    let outcome = trial::outcome_against(&case, reference, seed.is_multiple_of(AUDITED));
    (TrialOutcome { seed, ..outcome }, kept)
}

fn failed_draw(seed: u64, why: RunFailure) -> TrialOutcome {
    TrialOutcome {
        seed,
        worst: 1.0,
        title: "could not be drawn".into(),
        broken: Some(why),
        ..TrialOutcome::default()
    }
}

/// Draws the case of a seed.
///
/// # Errors
/// Returns the reason if there is no case: a bug in the search, or a panic in a run.
pub fn draw_case(seed: u64, how: DrawOptions) -> Result<SearchCase, RunFailure> {
    let draw = if how.shallow { draw_shallow } else { draw };
    let case = catch_panic(|| draw(seed, how.kind))?;
    if how.admitted {
        return catch_panic(|| Ok(case.admitted()));
    }
    Ok(case)
}
