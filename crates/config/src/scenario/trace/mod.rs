//! Recorded loads that clients play: iologs of `fio`, and traces of `blktrace`.
//!
//! The files are read as streams, so that the memory depends on the number of requests that are
//! played and not on the size of a file. The options are those of `fio` (its HOWTO, section
//! "Replay").

mod blktrace;
mod builder;
mod iolog;

use crate::file;
use crate::os_error;
use crate::problem::Problem;
use builder::TraceBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use weir_core::Op;
use weir_model::load::Trace;

/// The end of the name of a trace for one processor, followed by the number of the processor.
const PER_PROCESSOR: &str = ".blktrace.";

/// The options for the playing of a recorded load.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TraceOptions {
    /// True to ignore the recorded times (`replay_no_stall`).
    pub(super) fast: bool,
    /// The speed in percent of the recorded speed (`replay_time_scale`): at least 1.
    pub(super) speed: u64,
    /// The divisor of offsets (`replay_scale`): at least 1.
    pub(super) scale: u64,
    /// The power of two to which offsets are rounded down (`replay_align`).
    pub(super) align: u64,
    /// True if all files and devices of the trace count as the same one (`replay_redirect`).
    pub(super) together: bool,
    /// The kinds of requests that are left out (`replay_skip`).
    pub(super) skip: Vec<TraceKind>,
}

impl TraceOptions {
    /// The options in job files of fio and the keys of a client. They require `read_iolog`.
    pub(super) const KEYS: [&str; 6] = [
        "replay_no_stall",
        "replay_time_scale",
        "replay_scale",
        "replay_align",
        "replay_redirect",
        "replay_skip",
    ];
}

/// A kind of request in a recorded load, by its word in `replay_skip`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TraceKind {
    Read,
    Write,
    Trim,
    Sync,
}

impl TraceKind {
    const WORDS: [(&'static str, Self, Op); 4] = [
        ("read", Self::Read, Op::Read),
        ("write", Self::Write, Op::Write),
        ("trim", Self::Trim, Op::Discard),
        ("sync", Self::Sync, Op::Flush),
    ];

    /// Reads a list such as `write,trim`. `None` if a word is unknown.
    pub(super) fn list(text: &str) -> Option<Vec<Self>> {
        let kind = |word: &str| Self::WORDS.iter().find(|w| w.0 == word.trim());
        text.split(',')
            .map(|word| kind(word).map(|w| w.1))
            .collect()
    }

    /// Returns the words for a list of kinds.
    pub(super) fn words(kinds: &[Self]) -> String {
        let words = Self::WORDS.iter().filter(|w| kinds.contains(&w.1));
        words.map(|w| w.0).collect::<Vec<_>>().join(",")
    }

    fn op(self) -> Op {
        let word = Self::WORDS.iter().find(|w| w.1 == self);
        word.map_or(Op::Read, |w| w.2)
    }
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            fast: false,
            speed: 100,
            scale: 1,
            align: 1,
            together: false,
            skip: Vec::new(),
        }
    }
}

/// The recorded loads of a scenario's file, each of which is read once for all cases and runs.
#[derive(Debug, Default)]
pub(crate) struct TraceFiles {
    known: Mutex<BTreeMap<(PathBuf, TraceOptions), Arc<Trace>>>,
}

impl TraceFiles {
    /// Returns the recorded load in the file `name`, which is relative to the working directory, or
    /// else to the directory of the file `from` that names it.
    ///
    /// # Errors
    /// The file cannot be read, or it is damaged, too long, or of another format.
    pub(super) fn get(
        &self,
        name: &str,
        from: &str,
        options: &TraceOptions,
    ) -> Result<Arc<Trace>, Problem> {
        let is_there = |path: &Path| path.exists() || !of_processors(path).is_empty();
        let path = file::beside(name, Path::new(from), is_there);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path, options.clone());
        if let Some(trace) = known.get(&key) {
            return Ok(trace.clone());
        }
        let trace = Arc::new(load(&key.0, options)?);
        known.insert(key, trace.clone());
        Ok(trace)
    }
}

/// Reads a recorded load.
fn load(path: &Path, options: &TraceOptions) -> Result<Trace, Problem> {
    let mut builder = TraceBuilder::new(options);
    let parts = parts(path)?;
    for part in &parts {
        let opened = file::open(part).map_err(|problems| {
            let first = problems.into_iter().next();
            first.expect("a file that cannot be opened has a problem")
        })?;
        builder.file = part.display().to_string();
        let mut input = BufReader::with_capacity(1 << 20, opened);
        read(&mut builder, &mut input)?;
    }
    builder.file = path.display().to_string();
    builder.finish()
}

/// Returns the files of a recorded load: the file itself, or the traces of all processors.
fn parts(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let name = path.to_string_lossy();
    let processor = name.rsplit_once(PER_PROCESSOR);
    if let Some((all, number)) = processor
        && number.parse::<u32>().is_ok()
        && of_processors(Path::new(all)).len() > 1
    {
        let what = "is the trace of one processor, and others exist".to_owned();
        let help = format!("write {all} to play the traces of all processors");
        return Err(Problem::new(&name, (0, 0), "", what, &help));
    }
    let all = of_processors(path);
    if path.exists() || all.is_empty() {
        return Ok(vec![path.to_owned()]);
    }
    Ok(all)
}

/// Returns the traces of all processors, in the order of the processors. Numbers can be missing,
/// because `blktrace` writes no file for a processor that is offline.
fn of_processors(path: &Path) -> Vec<PathBuf> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let entries = fs::read_dir(directory.unwrap_or_else(|| Path::new("."))).into_iter();
    let mut start = path.file_name().unwrap_or_default().to_owned();
    start.push(PER_PROCESSOR);
    let number = |entry: &fs::DirEntry| -> Option<u32> {
        let name = entry.file_name();
        let number = name.as_bytes().strip_prefix(start.as_bytes())?;
        str::from_utf8(number).ok()?.parse().ok()
    };
    let numbers = entries.flatten().flatten().filter_map(|e| number(&e));
    let numbers: BTreeSet<u32> = numbers.collect();
    let all = numbers.into_iter().map(|n| of_processor(path, n));
    all.filter(|path| path.exists()).collect()
}

/// Returns the name of the trace of one processor, as `blktrace` writes it.
fn of_processor(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{PER_PROCESSOR}{number}"));
    PathBuf::from(name)
}

/// Reads one file, whose first bytes determine its format.
fn read(builder: &mut TraceBuilder, input: &mut impl BufRead) -> Result<(), Problem> {
    let first = input.fill_buf().map_err(|error| failure(builder, &error))?;
    // The trace of a processor that had no events is empty.
    if first.is_empty() && builder.file.contains(PER_PROCESSOR) {
        return Ok(());
    }
    if first.starts_with(iolog::START) {
        return iolog::read(builder, input);
    }
    if let Some(order) = blktrace::order(first) {
        return blktrace::read(builder, input, order);
    }
    let help = "name an iolog that fio wrote with write_iolog, or a trace of blktrace";
    let what = "is neither an iolog of fio (version 2 or 3) nor a trace of blktrace (version 7)";
    Err(builder.problem(0, what, help))
}

fn failure(builder: &TraceBuilder, error: &io::Error) -> Problem {
    let what = format!("cannot read the file: {}", os_error::message(error));
    builder.problem(0, &what, "")
}

#[cfg(test)]
mod tests;
