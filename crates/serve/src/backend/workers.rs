//! Threads for operations that block. Each volume has its own few, so that a slow volume does not
//! delay others.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::interface::Caller;

/// The maximum number of threads of one pool.
const THREADS: usize = 2;
/// The maximum number of tasks that wait in one pool.
const WAITING: usize = 64;
/// The time without a task after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// A pool of at most two threads, which are started on demand and end after a time without tasks.
/// Dropping the pool discards tasks that have not begun. Those that have begun run to their end,
/// and their results are dropped.
pub(super) struct Workers<T> {
    shared: Arc<SharedPool<T>>,
}

struct SharedPool<T> {
    state: Mutex<PoolState<T>>,
    work: Condvar,
}

struct PoolState<T> {
    waiting: VecDeque<Task<T>>,
    /// The results of tasks, or their panics.
    done: VecDeque<std::thread::Result<T>>,
    threads: usize,
    /// The number of threads that wait for a task.
    idle: usize,
    closed: bool,
}

struct Task<T> {
    run: Box<dyn FnOnce() -> T + Send>,
    caller: Caller,
}

impl<T: Send + 'static> Workers<T> {
    /// Creates a pool without threads.
    pub(super) fn new() -> Self {
        let state = PoolState {
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            threads: 0,
            idle: 0,
            closed: false,
        };
        Self {
            shared: Arc::new(SharedPool {
                state: Mutex::new(state),
                work: Condvar::new(),
            }),
        }
    }

    /// Runs `run` on a thread and then calls the shard, so that [`next`](Self::next) returns the
    /// result. Returns false if too many tasks wait, or if the system provides no thread.
    pub(super) fn submit(&self, caller: Caller, run: impl FnOnce() -> T + Send + 'static) -> bool {
        let mut state = self.shared.lock();
        if state.waiting.len() >= WAITING {
            return false;
        }
        state.waiting.push_back(Task {
            run: Box::new(run),
            caller,
        });
        // A thread that was notified may not have woken yet, so it still counts as idle. Comparing
        // with the number of waiting tasks starts another one in that case.
        if state.waiting.len() > state.idle && state.threads < THREADS {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("weir-storage".into());
            match thread.spawn(move || shared.serve()) {
                Ok(_) => state.threads += 1,
                // No thread would ever run the task.
                Err(_) if state.threads == 0 => {
                    state.waiting.pop_back();
                    return false;
                }
                // The existing thread will run the task.
                Err(_) => {}
            }
        }
        self.shared.work.notify_one();
        true
    }

    /// Returns true if no task waits or runs, and [`next`](Self::next) has returned all results.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.waiting.is_empty() && state.done.is_empty() && state.threads == state.idle
    }

    /// Returns the result of a completed task, if there is one. If the task has panicked, the panic
    /// continues here and ends the shard. The request would hang otherwise.
    pub(super) fn next(&self) -> Option<T> {
        let done = self.shared.lock().done.pop_front()?;
        Some(done.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl<T> SharedPool<T> {
    fn lock(&self) -> MutexGuard<'_, PoolState<T>> {
        // No code under the lock can panic during a change, so the state is valid even if the lock
        // is poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs tasks until there have been none for [`IDLE`], or the pool is dropped.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.waiting.pop_front() {
                // Tasks can block, so the lock is released while one runs.
                drop(state);
                let done = catch_unwind(AssertUnwindSafe(task.run));
                state = self.lock();
                state.done.push_back(done);
                task.caller.call();
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let (woken, timeout) = self
                .work
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl<T> Drop for Workers<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiting.clear();
        // The threads end by themselves. Joining one that is blocked in a task would block the
        // shard.
        self.shared.work.notify_all();
    }
}

impl<T> fmt::Debug for Workers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Workers")
            .field("waiting", &state.waiting.len())
            .field("threads", &state.threads)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use weir_uring::{AnyRing, IoRingConfig, Ring};

    use super::super::News;
    use super::*;

    fn ring() -> AnyRing {
        AnyRing::open(&IoRingConfig {
            arena_bytes: 4096,
            in_flight: 4,
            ..IoRingConfig::default()
        })
        .unwrap()
    }

    fn caller(ring: &AnyRing) -> Caller {
        Caller {
            waker: ring.waker(),
            news: News::default(),
            space: 0,
        }
    }

    #[test]
    fn every_task_is_answered_and_the_ring_woken() {
        let mut ring = ring();
        let workers = Workers::new();
        let mut missing: Vec<u32> = (0..50).collect();
        for task in missing.clone() {
            assert!(workers.submit(caller(&ring), move || task));
        }
        while !missing.is_empty() {
            while let Some(task) = workers.next() {
                missing.retain(|n| *n != task);
            }
            if !missing.is_empty() {
                ring.submit_and_wait(None).unwrap();
            }
        }
        assert!(workers.shared.lock().threads <= THREADS);
    }

    #[test]
    fn a_task_that_panics_ends_the_thread_that_waits_for_it() {
        let mut ring = ring();
        let workers = Workers::<()>::new();
        let payload: Box<dyn std::any::Any + Send> = Box::new("a fault of a test's");
        assert!(workers.submit(caller(&ring), || resume_unwind(payload)));
        ring.submit_and_wait(None).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| workers.next())).is_err());
        assert!(workers.submit(caller(&ring), || ()), "the pool is whole");
    }

    #[test]
    fn waiting_tasks_are_bounded_and_dropped_with_the_pool() {
        let ring = ring();
        let workers = Workers::new();
        let (sender, begun) = mpsc::channel();
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let task = || {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            move || {
                sender.send(()).unwrap();
                drop(gate.lock());
            }
        };
        for _ in 0..THREADS {
            assert!(workers.submit(caller(&ring), task()));
            begun.recv().unwrap();
        }
        for _ in 0..WAITING {
            assert!(workers.submit(caller(&ring), task()));
        }
        assert!(!workers.submit(caller(&ring), task()));
        let shared = Arc::clone(&workers.shared);
        drop(workers);
        drop(closed);
        drop(sender);
        assert_eq!(begun.iter().count(), 0, "none of those that waited began");
        while shared.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}
