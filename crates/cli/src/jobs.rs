//! The number of parallel runs: the option `--jobs` and its thread pool.

use crate::whole;
use clap::Args;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::thread;

/// The option `--jobs`, which several commands share.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct JobsOption {
    /// Number of parallel runs, 1 to 1024. Results do not depend on it [default: the number of
    /// CPUs]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=1024))]
    jobs: Option<u32>,
}

impl JobsOption {
    /// Returns the number of parallel runs: the requested number, or one for each CPU.
    pub(crate) fn count(self) -> usize {
        match self.jobs {
            Some(jobs) => jobs as usize,
            // If the number of CPUs is unknown, one run at a time is always possible.
            None => thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

/// Returns a pool of `jobs` threads, and of one thread if `jobs` is 0.
pub(crate) fn threads(jobs: usize) -> ThreadPool {
    let threads = ThreadPoolBuilder::new().num_threads(jobs.max(1));
    threads.build().expect("threads can be started")
}
