//! `weir-lab linux LAB [RUNS] [WORD...]` plays each case in the lab until it has RUNS samples of Linux (8), or only those cases whose
//! `experiment: case` contains one of the words, and stores each sample as it comes: a run that was broken off goes on where it was. To play a
//! case again, take its lines out of the file. `weir-lab weir [WORD...]` prints the simulator's
//! samples of cases, and `weir-lab page` plays all in the simulator and prints the page, `docs/conformance.md`.
//! `weir-lab guest WEIR [--kernel FILE] [WORD...]` plays those rows of `guest/rows.toml` in a guest that have no figures of Linux, with the
//! program `weir` as the drive; those of `6.1-program` need that kernel (`crates/linux/program-kernel FILE` builds it). To play a row again, take its line out of `guest/linux.txt`. `weir-lab guest-page` prints their page,
//! `docs/conformance-guest.md`, and `weir-lab guest-figure` how many agree.
//! `weir-lab validation WEIR KERNEL [WORD...]` plays what was published of drives on a kernel that is a program, for `docs/validation.md`.
//! `WEIR_CONFORMANCE` is another directory of experiments and samples than this crate's.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};
use weir_lab::conformance::experiment::{Case, Experiment};
use weir_lab::conformance::lab::Lab;
use weir_lab::conformance::sample;
use weir_lab::conformance::{RUNS, SECONDS, compare, guest, play, root, stored, validation};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match &words[..] {
        ["linux", lab, rest @ ..] => {
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

/// Whether a case is meant by the words: its name contains one of them, or there are none.
fn is_meant(experiment: &Experiment, case: &Case, which: &[&str]) -> bool {
    let name = format!("{}: {}", experiment.name, case.name);
    which.is_empty() || which.iter().any(|w| name.contains(w))
}

fn weir(which: &[&str]) -> Result<(), String> {
    for experiment in Experiment::all(&root().join("experiments"))? {
        let mut samples = Vec::new();
        for case in &experiment.setting.case {
            if is_meant(&experiment, case, which) {
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

/// Plays the cases that are named, or all. One that cannot be played does not keep the others from it.
fn linux(lab: &Path, runs: u32, which: &[&str]) -> Result<(), String> {
    let lab = Lab {
        directory: lab.to_owned(),
        scratch: scratch(),
    };
    let mut problems = Vec::new();
    for experiment in Experiment::all(&root().join("experiments"))? {
        for case in &experiment.setting.case {
            if !is_meant(&experiment, case, which) {
                continue;
            }
            if let Err(problem) = fill(&lab, &experiment, case, runs) {
                let name = format!("{}: {}", experiment.name, case.name);
                eprintln!("{name}: {problem}");
                problems.push(name);
            }
        }
    }
    let _ = fs::remove_dir_all(&lab.scratch);
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("not all samples of: {}", problems.join("; ")))
}

/// Plays a case until it has `runs` samples.
fn fill(lab: &Lab, experiment: &Experiment, case: &Case, runs: u32) -> Result<(), String> {
    let directory = root().join("linux");
    let file = directory.join(format!("{}.txt", experiment.name));
    let mut samples = stored(&directory, experiment)?;
    loop {
        let of_case = samples.iter().filter(|s| s.case == case.name);
        let there: BTreeSet<u32> = of_case.map(|s| s.run).collect();
        if there.len() >= runs as usize {
            return Ok(());
        }
        let (began, seed) = (Instant::now(), there.last().copied().unwrap_or(0) + 1);
        samples.extend(lab.play(experiment, case, seed)?);
        // In the order of the cases, whichever was played last.
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
