//! Conformance with Linux: the same experiments run in Linux's block layer and in the simulator,
//! from the same job files, and their results are compared.
//!
//! An [`experiment`] is a job file of fio and a short file with drive, elevator and groups. The
//! [`lab`] runs it in Linux 6.1 in virtual time, and its samples are stored (`linux/*.txt`).
//! [`play`] runs it in the simulator. [`verdict`] compares the two by their confidence intervals,
//! and [`page`] prints the comparison.

pub mod experiment;
pub mod guest;
pub mod lab;
pub mod page;
pub mod play;
pub mod sample;
pub mod validation;
pub mod verdict;

use experiment::Experiment;
use rayon::prelude::*;
use sample::PlayerSample;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The number of samples of each case.
pub const RUNS: u32 = 8;

/// The length of a sample in seconds.
pub const SECONDS: u32 = 30;

/// Returns the directory with experiments and samples: this crate's, or `WEIR_CONFORMANCE`.
pub fn root() -> PathBuf {
    let other = env::var_os("WEIR_CONFORMANCE");
    other.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// Reads Linux's samples of an experiment. Returns none if it has not been run yet.
///
/// # Errors
/// Returns an error if the file does not contain samples.
pub fn stored(directory: &Path, experiment: &Experiment) -> Result<Vec<PlayerSample>, String> {
    let file = directory.join(format!("{}.txt", experiment.name));
    match fs::read_to_string(&file) {
        Ok(text) => sample::read(&text).map_err(|e| format!("{}: {e}", file.display())),
        Err(_) => Ok(Vec::new()),
    }
}

/// Runs all cases that have samples of Linux in the simulator, in parallel, and writes the
/// comparison.
///
/// # Errors
/// Returns an error if a file cannot be read or a case cannot be run.
pub fn compare() -> Result<page::ConformancePage, String> {
    let experiments = Experiment::all(&root().join("experiments"))?;
    let mut compared: page::ComparedExperiments<'_> = Vec::new();
    for experiment in &experiments {
        let linux = stored(&root().join("linux"), experiment)?;
        let mut cases = Vec::new();
        for case in &experiment.setting.case {
            let linux: Vec<PlayerSample> = linux
                .iter()
                .filter(|s| s.case == case.name)
                .cloned()
                .collect();
            // The page lists the case without rows.
            if linux.is_empty() {
                cases.push((case, Vec::new()));
                continue;
            }
            let runs = (1..=RUNS).into_par_iter();
            let weir = runs.map(|run| play::play(experiment, case, run, SECONDS));
            let weir: Result<Vec<Vec<PlayerSample>>, String> = weir.collect();
            cases.push((case, verdict::rows(&linux, &weir?.concat())));
        }
        compared.push((experiment, cases));
    }
    Ok(page::write(&compared, RUNS, SECONDS))
}
