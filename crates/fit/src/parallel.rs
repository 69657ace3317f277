//! Independent work on several threads, with results in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The results of `work` for each item, in the order of the items, whatever `jobs` is. `work` is told how many items were started
/// before.
pub(crate) fn parallel<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let thread = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(index, item);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.max(1) {
            scope.spawn(thread);
        }
        thread();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|r| r.0);
    results.into_iter().map(|r| r.1).collect()
}

#[cfg(test)]
mod tests {
    use super::parallel;

    #[test]
    fn results_are_in_order_whatever_the_threads() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [0, 1, 3, 7] {
            let squares = parallel(jobs, &items, |_, n| n * n);
            assert_eq!(squares, items.iter().map(|n| n * n).collect::<Vec<_>>());
        }
    }
}
