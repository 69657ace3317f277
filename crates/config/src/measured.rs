//! Capacities of drive models, which are found by running each model once per process.

use std::sync::{Mutex, PoisonError};
use weir_core::Capacity;
use weir_model::drive::DriveConfig;

/// The maximum number of models whose capacity is cached. The oldest entry is removed first.
const REMEMBERED: usize = 16;

/// A cache of results for models.
struct ModelCache<T>(Mutex<Vec<(DriveConfig, T)>>);

static LEAST: ModelCache<Option<Capacity>> = ModelCache(Mutex::new(Vec::new()));
static MOST: ModelCache<Option<Capacity>> = ModelCache(Mutex::new(Vec::new()));

/// Returns the capacity of a model in the worst case ([`DriveConfig::worst_case`]). `None`
/// if it has no bound.
pub(crate) fn worst_case_capacity(model: &DriveConfig) -> Option<Capacity> {
    LEAST.get(model, |m| {
        let least = m.worst_case(u64::MAX).ok().flatten()?;
        // A capacity that the model states is exact. Only a measured one is rounded.
        let measured = m.capacity().is_none();
        Some(least.zip(least, |n, _| if measured { rounded(n) } else { n }))
    })
}

/// Returns the capacity of a model in the best case ([`DriveConfig::best_case`]), with
/// zero for figures without a bound. `None` for an invalid model.
pub(crate) fn best_case_capacity(model: &DriveConfig) -> Option<Capacity> {
    MOST.get(model, |m| m.best_case().ok())
}

/// Rounds a figure down to three digits, because the further digits of a measurement carry no
/// information.
pub fn rounded(figure: u64) -> u64 {
    let digits = figure.checked_ilog10().unwrap_or(0);
    let unit = 10u64.pow(digits.saturating_sub(2));
    figure / unit * unit
}

impl<T: Clone> ModelCache<T> {
    fn get(&self, model: &DriveConfig, find: impl FnOnce(&DriveConfig) -> T) -> T {
        // A thread that panicked has left the list complete, so its poison is ignored.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|k| k.0 == *model) {
            return known.clone();
        }
        // The lock is not held while the model runs, which can take long. At worst, two threads run
        // the same model.
        let found = find(model);
        let mut known = lock();
        if known.len() == REMEMBERED {
            known.remove(0);
        }
        known.push((model.clone(), found.clone()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_kept() {
        let cases = [
            (0, 0),
            (7, 7),
            (999, 999),
            (1_239, 1_230),
            (u64::MAX, 18_400_000_000_000_000_000),
        ];
        for (figure, digits) in cases {
            assert_eq!(rounded(figure), digits);
        }
    }

    #[test]
    fn a_model_is_measured_once_and_the_cache_is_bounded() {
        let known = ModelCache(Mutex::new(Vec::new()));
        let model = |tags| {
            DriveConfig::Null(weir_model::drive::null::NullConfig {
                tags,
                ..weir_model::drive::null::NullConfig::demo()
            })
        };
        for tags in 0..40 {
            // The second look-up must return the cached value, not that of the function.
            assert_eq!(known.get(&model(tags), |_| tags), tags);
            assert_eq!(known.get(&model(tags), |_| 99), tags);
            assert!(known.0.lock().unwrap().len() <= REMEMBERED);
        }
        assert_eq!(known.get(&model(0), |_| 99), 99, "long gone");
        assert_eq!(known.get(&model(39), |_| 99), 39);
    }
}
