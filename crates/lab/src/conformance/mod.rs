//! The referee: the same experiments in Linux's block layer and in the simulator, from the same job files, and how far they agree.
//!
//! An [`experiment`] is a job file of fio and a short file with drive, elevator and groups. The [`lab`] plays it in Linux 6.1 in virtual time;
//! what that gave is stored (`linux/*.txt`). [`play`] plays it here. [`verdict`] compares the two by their intervals of confidence, and [`page`] prints that.

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
use sample::Sample;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Samples of each case.
pub const RUNS: u32 = 8;

/// Seconds of a sample.
pub const SECONDS: u32 = 30;

/// The directory with experiments and samples: this crate's, or `WEIR_CONFORMANCE`.
pub fn root() -> PathBuf {
    let other = env::var_os("WEIR_CONFORMANCE");
    other.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// Linux's samples of an experiment; none if it has not been played yet.
///
/// # Errors
/// A file that is not one of samples.
pub fn stored(directory: &Path, experiment: &Experiment) -> Result<Vec<Sample>, String> {
    let file = directory.join(format!("{}.txt", experiment.name));
    match fs::read_to_string(&file) {
        Ok(text) => sample::read(&text).map_err(|e| format!("{}: {e}", file.display())),
        Err(_) => Ok(Vec::new()),
    }
}

/// Plays all cases that have samples of Linux in the simulator, in parallel, and writes the
/// comparison.
///
/// # Errors
/// A file that cannot be read, or a case that cannot be played.
pub fn compare() -> Result<page::Written, String> {
    let experiments = Experiment::all(&root().join("experiments"))?;
    let mut compared: page::Compared<'_> = Vec::new();
    for experiment in &experiments {
        let linux = stored(&root().join("linux"), experiment)?;
        let mut cases = Vec::new();
        for case in &experiment.setting.case {
            let linux: Vec<Sample> = linux
                .iter()
                .filter(|s| s.case == case.name)
                .cloned()
                .collect();
            if linux.is_empty() {
                cases.push((case, Vec::new()));
                continue;
            }
            let runs = (1..=RUNS).into_par_iter();
            let weir = runs.map(|run| play::play(experiment, case, run, SECONDS));
            let weir: Result<Vec<Vec<Sample>>, String> = weir.collect();
            cases.push((case, verdict::rows(&linux, &weir?.concat())));
        }
        compared.push((experiment, cases));
    }
    Ok(page::write(&compared, RUNS, SECONDS))
}
