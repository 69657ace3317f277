//! Many cases in parallel.

use crate::search::trial::{self, Broken, Outcome, Reference, caught};
use crate::search::{case::Case, draw};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The cases to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// How many consecutive seeds.
    pub runs: u64,
    /// How the cases are drawn.
    pub draw: Draw,
    /// How many in parallel, at least 1. Does not change the results.
    pub jobs: usize,
}

/// How cases are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Draw {
    /// Only drives of this kind, an index into [`KINDS`](crate::search::case::KINDS).
    pub kind: Option<usize>,
    /// Promises are scaled down to what admission accepts of the drive's worst case.
    pub admitted: bool,
}

/// Cases with the runs that they are held against: they decide what is feasible, and stay the same for every form of the policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// How they were drawn.
    pub draw: Draw,
    /// In the order of their seeds, without those that could not be drawn or run.
    pub cases: Vec<KeptCase>,
}

/// A case with the runs that it is held against.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptCase {
    /// Its seed.
    pub seed: u64,
    /// The text of its file.
    pub case: String,
    /// The runs.
    pub reference: Reference,
}

/// One of this many cases is audited.
const AUDITED: u64 = 4;

/// Runs all cases of a plan, and tells `progress` how many are done. Outcomes are in the order of their seeds.
pub fn search(plan: &Plan, progress: impl Fn(u64) + Sync) -> (Vec<Outcome>, Kept) {
    let one = |index| one(plan.seed.wrapping_add(index), plan.draw);
    let all: Vec<u64> = (0..plan.runs).collect();
    let (outcomes, cases): (_, Vec<_>) = in_parallel(plan.jobs, all, one, progress)
        .into_iter()
        .unzip();
    let kept = Kept {
        draw: plan.draw,
        cases: cases.into_iter().flatten().collect(),
    };
    (outcomes, kept)
}

/// Runs cases under `contract` alone, without auditors, and holds them against the runs that were kept.
pub fn search_again(kept: Kept, jobs: usize, progress: impl Fn(u64) + Sync) -> Vec<Outcome> {
    let one = |kept: KeptCase| match Case::read(&kept.case, "kept") {
        Ok(case) => Outcome {
            seed: kept.seed,
            ..trial::outcome_against(&case, Ok(kept.reference), false)
        },
        Err(why) => undrawn(kept.seed, why),
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
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        came
    };
    let threads = ThreadPoolBuilder::new().num_threads(jobs.max(1));
    let threads = threads.build().expect("threads can be started");
    threads.install(|| all.into_par_iter().map(run).collect())
}

/// The outcome of a seed, and what it was held against.
fn one(seed: u64, draw: Draw) -> (Outcome, Option<KeptCase>) {
    let case = match drawn(seed, draw) {
        Ok(case) => case,
        Err(why) => return (undrawn(seed, why), None),
    };
    let reference = caught(|| trial::reference(&case));
    let kept = reference.clone().ok().map(|reference| KeptCase {
        seed,
        case: case.to_string(),
        reference,
    });
    let outcome = trial::outcome_against(&case, reference, seed.is_multiple_of(AUDITED));
    (Outcome { seed, ..outcome }, kept)
}

fn undrawn(seed: u64, why: Broken) -> Outcome {
    Outcome {
        seed,
        worst: 1.0,
        title: "could not be drawn".into(),
        broken: Some(why),
        ..Outcome::default()
    }
}

/// The case of a seed.
///
/// # Errors
/// Why there is none: a bug in the search, or a panic in a run.
pub fn drawn(seed: u64, how: Draw) -> Result<Case, Broken> {
    let case = caught(|| draw(seed, how.kind))?;
    if how.admitted {
        return caught(|| Ok(case.admitted()));
    }
    Ok(case)
}
