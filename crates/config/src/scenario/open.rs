//! Opening of scenarios by name or by file, in TOML or as a job file of `fio`.

use super::fio;
use super::script::{Script, read};
use crate::file::text as contents;
use crate::nearest;
use crate::problem::Problem;
use std::path::Path;

/// The error for a name that no scenario has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown scenario {name:?}{}", nearest.map_or(String::new(), |n| format!("; did you mean {n:?}?")))]
pub struct UnknownScenario {
    /// The name that was not found.
    pub name: String,
    /// The most similar name of a scenario.
    pub nearest: Option<&'static str>,
}

built_in! { "scenario" in "scenarios":
    "contract"
    "equal-readers"
    "shares"
    "max"
    "latency"
    "latency-sporadic"
    "no-control"
    "max-limits"
    "moving-hog"
    "mixed"
    "low-limits"
    "cfq-shares"
    "bfq-shares"
    "complete"
    "bandwidth-latency"
    "equal-weights"
    "throughput"
    "elevator-cost"
    "fairness"
    "startup"
    "video"
    "iocost-weights"
    "iocost-vrate"
    "interleaved"
    "journal"
    "write-back"
    "services"
    "ring"
    "coalescing"
    "storm"
}

/// Returns a scenario that comes with Weir.
///
/// # Errors
/// No scenario has this name. The error contains the most similar name.
pub fn find(name: &str) -> Result<Script, UnknownScenario> {
    let Some(text) = source(name) else {
        return Err(UnknownScenario {
            name: name.to_owned(),
            nearest: nearest::name(name, names()),
        });
    };
    Ok(read(text, name).expect("what comes with Weir can be read, as its tests show"))
}

/// Reads a scenario's file. A file whose name ends in `.fio` is read as a job file of `fio`.
///
/// # Errors
/// Everything that is wrong with the file, in the order of the file, or the reason why it cannot be
/// read.
pub fn load(path: &Path) -> Result<Script, Vec<Problem>> {
    if path.extension().is_some_and(|e| e == "fio") {
        return fio::load(path);
    }
    let (file, text) = contents(path)?;
    read(&text, &file)
}

/// Reads a job file of `fio`, whatever its name ends in.
///
/// # Errors
/// The problems that [`load`] returns.
pub fn load_jobs(path: &Path) -> Result<Script, Vec<Problem>> {
    fio::load(path)
}

/// Reads the text of a scenario's file. `file` is its name in problems. If it ends in `.fio`, the
/// text is that of a job file.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(text: &str, file: &str) -> Result<Script, Vec<Problem>> {
    if Path::new(file).extension().is_some_and(|e| e == "fio") {
        return fio::read(text, file);
    }
    read(text, file)
}
