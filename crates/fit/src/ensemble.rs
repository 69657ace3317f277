//! Parameter sets that fit as well as the profile does.
//!
//! What nothing published shows could as well be otherwise: each such parameter is drawn from the range that its sheet calls plausible,
//! the tied ones are found anew, and the set is kept if every fitted figure is as near as the sheet asks. What a model predicts is the
//! interval that these sets span.

use crate::Error;
use crate::fit::{compare_fitted, ties};
use crate::search::{NEAR_ENOUGH, Tie, round_to_three, search};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_config::sheet::Sheet;
use weir_drive::Config;
use weir_load::Rng;

/// Sets drawn for each one that is wanted, at most.
const DRAWS: usize = 8;

/// What came of a draw: a set if it fits.
type Drawn = Result<Option<Config>, Error>;

/// `wanted` sets that fit as well, or as many as there are among eight times as many draws: the same ones whatever `jobs`. `found` is
/// told how many there are so far.
///
/// # Errors
/// As [`fit`](crate::fit).
pub fn ensemble(
    sheet: &Sheet,
    fitted: &Config,
    wanted: usize,
    jobs: usize,
    found: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Config>, Error> {
    let ties = ties(sheet)?;
    let sets: Mutex<Vec<(usize, Drawn)>> = Mutex::default();
    let next = AtomicUsize::new(0);
    // Draws are given out in order and each that is given out is finished, so that none before the last is missing at the end.
    let work = || {
        while count(&lock(&sets)) < wanted {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= wanted * DRAWS {
                return;
            }
            let set = fits(sheet, &ties, &draw(sheet, fitted, index));
            let mut sets = lock(&sets);
            sets.push((index, set));
            found(count(&sets).min(wanted));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut sets = sets.into_inner().unwrap_or_else(PoisonError::into_inner);
    sets.sort_by_key(|s| s.0);
    let sets = sets.into_iter().filter_map(|(_, set)| set.transpose());
    sets.take(wanted).collect()
}

/// A drive with every parameter that nothing shows somewhere in its range, each place equally likely; it may be an impossible one.
fn draw(sheet: &Sheet, fitted: &Config, index: usize) -> Config {
    let mut drive = fitted.clone();
    let mut rng = Rng::new(weir_load::seed(&sheet.profile.name, index as u32, 0));
    for range in &sheet.plausible {
        let value = round_to_three(rng.range(range.from, range.to) as f64);
        range.parameter.set(&mut drive, value);
    }
    drive
}

/// The drive with its tied parameters found anew, if every fitted figure holds then.
fn fits(sheet: &Sheet, ties: &[Tie], drive: &Config) -> Drawn {
    if drive.validate().is_err() {
        return Ok(None);
    }
    let drive = search(drive, ties, NEAR_ENOUGH)?;
    let rows = compare_fitted(sheet, &drive)?;
    let holds = rows.iter().all(|row| row.holds() != Some(false));
    Ok(holds.then_some(drive))
}

fn count(sets: &[(usize, Drawn)]) -> usize {
    sets.iter().filter(|s| !matches!(s.1, Ok(None))).count()
}

fn lock(sets: &Mutex<Vec<(usize, Drawn)>>) -> MutexGuard<'_, Vec<(usize, Drawn)>> {
    sets.lock().unwrap_or_else(PoisonError::into_inner)
}
