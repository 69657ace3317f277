//! How much is done at a time.

use crate::whole;
use clap::Args;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::thread;

/// How many runs are made at a time.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Jobs {
    /// Number of parallel runs, 1 to 1024. Results do not depend on it [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = |n: &str| whole::number(n, 1..=1024))]
    jobs: Option<u32>,
}

impl Jobs {
    /// As many as were asked for, or one for each processor.
    pub(crate) fn count(self) -> usize {
        match self.jobs {
            Some(jobs) => jobs as usize,
            None => thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

/// This many threads, at least one.
pub(crate) fn threads(jobs: usize) -> ThreadPool {
    let threads = ThreadPoolBuilder::new().num_threads(jobs.max(1));
    threads.build().expect("threads can be started")
}
