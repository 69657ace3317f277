//! Many cases in parallel.

use crate::trial::{self, Outcome};
use crate::{case::Case, draw};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// The cases to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// How many consecutive seeds.
    pub runs: u64,
    /// Only drives of this kind, an index into [`KINDS`](crate::case::KINDS).
    pub kind: Option<usize>,
    /// How many in parallel, at least 1. Does not change the results.
    pub jobs: usize,
}

/// One of this many cases is audited.
const AUDITED: u64 = 4;

/// Runs all cases of a plan, and tells `progress` how many are done. Outcomes are in the order of their seeds.
pub fn search(plan: &Plan, progress: impl Fn(u64) + Sync) -> Vec<Outcome> {
    let done = AtomicU64::new(0);
    let run = |index| {
        let outcome = one(plan.seed.wrapping_add(index), plan.kind);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        outcome
    };
    let threads = ThreadPoolBuilder::new().num_threads(plan.jobs.max(1));
    let threads = threads.build().expect("threads can be started");
    threads.install(|| (0..plan.runs).into_par_iter().map(run).collect())
}

/// The outcome of a seed.
pub fn one(seed: u64, kind: Option<usize>) -> Outcome {
    let outcome = match drawn(seed, kind) {
        Ok(case) => trial::outcome(&case, seed.is_multiple_of(AUDITED)),
        Err(why) => Outcome {
            worst: 1.0,
            title: "could not be drawn".into(),
            broken: Some(why),
            ..Outcome::default()
        },
    };
    Outcome { seed, ..outcome }
}

/// The case of a seed.
///
/// # Errors
/// Why there is none: a bug in the search, or a panic in a run.
pub fn drawn(seed: u64, kind: Option<usize>) -> Result<Case, String> {
    let case = catch_unwind(AssertUnwindSafe(|| draw(seed, kind)));
    case.unwrap_or_else(|panic| Err(trial::panicked(panic.as_ref())))
}
