//! The command of the conformance tests: measures Linux's side, runs Weir's side, and prints the
//! pages.
//!
//! - `weir-lab linux LAB [RUNS] [WORD...]` runs each case in the lab until it has RUNS samples of
//!   Linux (8 by default). With words, it runs only cases whose `experiment: case` contains one of
//!   them. Each sample is stored at once, so that an interrupted run continues where it was. To
//!   measure a case again, remove its lines from the file.
//! - `weir-lab weir [WORD...]` prints the simulator's samples of cases.
//! - `weir-lab page` runs all cases in the simulator and prints the page, `docs/conformance.md`.
//! - `weir-lab guest WEIR [--kernel FILE] [WORD...]` runs those rows of `guest/rows.toml` in a
//!   guest that have no figures of Linux, with the program `weir` as the drive. The rows of
//!   `6.1-program` need that kernel (`crates/linux/program-kernel FILE` builds it). To measure a
//!   row again, remove its line from `guest/linux.txt`.
//! - `weir-lab guest-page` prints the page of these rows, `docs/conformance-guest.md`, and
//!   `weir-lab guest-figure` prints the number of rows that agree.
//! - `weir-lab validation WEIR KERNEL [WORD...]` measures the published figures of drives on a
//!   kernel that is a program, for `docs/validation.md`.
//!
//! Set `WEIR_CONFORMANCE` to a directory of experiments and samples other than this crate's.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};
use weir_lab::conformance::experiment::{ConformanceCase, Experiment};
use weir_lab::conformance::lab::NullBlkLab;
use weir_lab::conformance::sample;
use weir_lab::conformance::{RUNS, SECONDS, compare, guest, play, root, stored, validation};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match &words[..] {
        ["linux", lab, rest @ ..] => {
            // A first word that is a number is the number of runs.
            let runs = rest.first().and_then(|word| word.parse().ok());
            let which = &rest[usize::from(runs.is_some())..];
            linux(Path::new(lab), runs.unwrap_or(RUNS), which)
        }
        ["weir", which @ ..] => weir(which),
        ["guest", weir, "--kernel", kernel, which @ ..] => {
            guest::fill(Path::new(weir), Some(*kernel), which)
        }
        ["guest", weir, which @ ..] => guest::fill(Path::new(weir), None, which),
        ["validation", weir, kernel, which @ ..] => {
            validation::fill(Path::new(weir), kernel, which)
        }
        ["guest-page"] => guest::compare().map(|written| print!("{}", written.page)),
        ["guest-figure"] => guest::compare().map(|written| println!("{}", written.figure)),
        ["page"] => compare().map(|written| print!("{}", written.page)),
        _ => Err(
            "usage: weir-lab linux LAB [RUNS] [WORD...] | weir [WORD...] | page | guest WEIR [--kernel FILE] [WORD...] | guest-page | guest-figure | validation WEIR KERNEL [WORD...]".to_owned(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("weir-lab: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if a case is selected: its name contains one of the words, or there are no words.
fn is_selected(experiment: &Experiment, case: &ConformanceCase, which: &[&str]) -> bool {
    let name = format!("{}: {}", experiment.name, case.name);
    which.is_empty() || which.iter().any(|w| name.contains(w))
}

fn weir(which: &[&str]) -> Result<(), String> {
    for experiment in Experiment::all(&root().join("experiments"))? {
        let mut samples = Vec::new();
        for case in &experiment.setting.case {
            if is_selected(&experiment, case, which) {
                for run in 1..=RUNS {
                    samples.extend(play::play(&experiment, case, run, SECONDS)?);
                }
            }
        }
        if !samples.is_empty() {
            print!("{}:\n{}", experiment.name, sample::write(&samples));
        }
    }
    Ok(())
}

fn scratch() -> PathBuf {
    env::temp_dir().join(format!("weir-conformance-{}", std::process::id()))
}

/// Runs the selected cases, or all. A case that fails does not prevent the others from running.
fn linux(lab: &Path, runs: u32, which: &[&str]) -> Result<(), String> {
    let lab = NullBlkLab {
        directory: lab.to_owned(),
        scratch: scratch(),
    };
    let mut problems = Vec::new();
    for experiment in Experiment::all(&root().join("experiments"))? {
        for case in &experiment.setting.case {
            if !is_selected(&experiment, case, which) {
                continue;
            }
            if let Err(problem) = fill(&lab, &experiment, case, runs) {
                let name = format!("{}: {}", experiment.name, case.name);
                eprintln!("{name}: {problem}");
                problems.push(name);
            }
        }
    }
    // Temporary files that cannot be removed do no harm.
    let _ = fs::remove_dir_all(&lab.scratch);
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("not all samples of: {}", problems.join("; ")))
}

/// Runs a case until it has `runs` samples.
fn fill(
    lab: &NullBlkLab,
    experiment: &Experiment,
    case: &ConformanceCase,
    runs: u32,
) -> Result<(), String> {
    let directory = root().join("linux");
    let file = directory.join(format!("{}.txt", experiment.name));
    let mut samples = stored(&directory, experiment)?;
    loop {
        let of_case = samples.iter().filter(|s| s.case == case.name);
        let there: BTreeSet<u32> = of_case.map(|s| s.run).collect();
        if there.len() >= runs as usize {
            return Ok(());
        }
        // New samples continue after the last seed, so that no sample is measured twice.
        let (began, seed) = (Instant::now(), there.last().copied().unwrap_or(0) + 1);
        samples.extend(lab.play(experiment, case, seed)?);
        // The samples are stored in the order of the cases, so that the file does not depend on the
        // order of runs.
        let cases = &experiment.setting.case;
        samples.sort_by_key(|s| (cases.iter().position(|c| c.name == s.case), s.run));
        fs::write(&file, sample::write(&samples))
            .map_err(|e| format!("{}: {e}", file.display()))?;
        let (name, took) = (&experiment.name, began.elapsed().as_secs());
        eprintln!(
            "{name}: {}: {} of {runs}, {took} s",
            case.name,
            there.len() + 1
        );
    }
}
