//! Ensembles: parameter sets that fit as well as the profile does.
//!
//! A parameter that no published figure determines may have another value. Each such parameter is
//! drawn from the range that its sheet considers plausible, and the tied parameters are fitted
//! again. The set is kept if every fitted figure is within the tolerance of the sheet. A model's
//! prediction is the interval that these sets span.

use crate::fit::FitError;
use crate::fit::fitting::{compare_fitted, ties};
use crate::fit::search::{NEAR_ENOUGH, Tie, round_to_three, search};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use weir_config::sheet::Sheet;
use weir_model::drive::DriveConfig;
use weir_model::load::Rng;

/// The maximum number of draws for each set that is required.
const DRAWS: usize = 8;

/// The result of a draw: a parameter set, if it fits.
type DrawnSet = Result<Option<DriveConfig>, FitError>;

/// Finds `wanted` sets that fit as well as the profile, or as many as there are among eight times
/// as many draws. The result does not depend on `jobs`. Passes the number of sets so far to
/// `found`.
///
/// # Errors
/// Returns the errors of [`fit`](crate::fit::fit).
pub fn ensemble(
    sheet: &Sheet,
    fitted: &DriveConfig,
    wanted: usize,
    jobs: usize,
    found: &(dyn Fn(usize) + Sync),
) -> Result<Vec<DriveConfig>, FitError> {
    let ties = ties(sheet)?;
    let mut sets = Vec::new();
    // The size of batches depends on `wanted` only, so that the result does not depend on the
    // number of threads.
    let batches = (0..wanted * DRAWS).step_by(wanted.max(1));
    for first in batches {
        if sets.len() >= wanted {
            break;
        }
        let batch = first..first + wanted;
        let fit = |index| fits(sheet, &ties, &draw(sheet, fitted, index));
        let batch = threads(jobs).install(|| batch.into_par_iter().map(fit).collect::<Vec<_>>());
        sets.extend(batch.into_iter().filter_map(Result::transpose));
        found(sets.len().min(wanted));
    }
    sets.into_iter().take(wanted).collect()
}

/// Creates a pool of this many threads, at least one.
pub(crate) fn threads(jobs: usize) -> ThreadPool {
    let threads = ThreadPoolBuilder::new().num_threads(jobs.max(1));
    threads.build().expect("threads can be started")
}

/// Draws the undetermined parameters of a drive uniformly from their ranges. The drawn parameters
/// may contradict each other.
fn draw(sheet: &Sheet, fitted: &DriveConfig, index: usize) -> DriveConfig {
    let mut drive = fitted.clone();
    let mut rng = Rng::new(weir_model::load::seed(&sheet.profile.name, index as u32, 0));
    for range in &sheet.plausible {
        let value = round_to_three(rng.range(range.from, range.to) as f64);
        range.parameter.set(&mut drive, value);
    }
    drive
}

/// Fits the tied parameters of a drive again. Returns the drive if every fitted figure is then
/// within its tolerance.
fn fits(sheet: &Sheet, ties: &[Tie], drive: &DriveConfig) -> DrawnSet {
    // The drawn parameters may contradict each other.
    if drive.validate().is_err() {
        return Ok(None);
    }
    let drive = search(drive, ties, NEAR_ENOUGH)?;
    let rows = compare_fitted(sheet, &drive)?;
    let holds = rows
        .iter()
        .all(|row| row.is_within_tolerance() != Some(false));
    Ok(holds.then_some(drive))
}
