//! `weir-conformance linux LAB [WORD...]` plays the cases that have no samples of Linux yet, or those whose `experiment: case` contains one of
//! the words, again, in the lab. `weir-conformance page` plays all in the simulator and prints the page, `docs/conformance.md`.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};
use weir_conformance::experiment::Experiment;
use weir_conformance::lab::Lab;
use weir_conformance::sample::{self, Sample};
use weir_conformance::{RUNS, compare, root, stored};

/// Seeds that are tried for a case's samples.
const SEEDS_MAX: u32 = 4 * RUNS;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match &words[..] {
        ["linux", lab, which @ ..] => linux(Path::new(lab), which),
        ["page"] => compare().map(|page| print!("{page}")),
        _ => Err("usage: weir-conformance linux LAB [WORD...] | page".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("weir-conformance: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn linux(lab: &Path, which: &[&str]) -> Result<(), String> {
    let scratch = env::temp_dir().join(format!("weir-conformance-{}", std::process::id()));
    let lab = Lab {
        directory: lab.to_owned(),
        scratch,
    };
    for experiment in Experiment::all(&root().join("experiments"))? {
        let file = root()
            .join("linux")
            .join(format!("{}.txt", experiment.name));
        let mut samples = stored(&root().join("linux"), &experiment)?;
        for case in &experiment.setting.case {
            let name = format!("{}: {}", experiment.name, case.name);
            let there = samples.iter().any(|s| s.case == case.name);
            let wanted = if which.is_empty() {
                !there
            } else {
                which.iter().any(|w| name.contains(w))
            };
            if !wanted {
                continue;
            }
            let (mut new, mut runs, mut seed) = (Vec::new(), 0, 0);
            while runs < RUNS {
                seed += 1;
                if seed > SEEDS_MAX {
                    return Err(format!("{name}: too many samples are not valid"));
                }
                match lab.play(&experiment, case, seed)? {
                    Some(sample) => {
                        new.extend(sample);
                        runs += 1;
                        eprintln!("{name}: {runs} of {RUNS}");
                    }
                    None => {
                        eprintln!(
                            "{name}: seed {seed}: the drive had more inside than it has tags"
                        );
                    }
                }
            }
            samples.retain(|s| s.case != case.name);
            samples.extend(new);
            // In the order of the cases, whichever was played last.
            let place = |s: &Sample| {
                experiment
                    .setting
                    .case
                    .iter()
                    .position(|c| c.name == s.case)
            };
            samples.sort_by_key(place);
            fs::write(&file, sample::write(&samples))
                .map_err(|e| format!("{}: {e}", file.display()))?;
        }
    }
    let _ = fs::remove_dir_all(&lab.scratch);
    Ok(())
}
