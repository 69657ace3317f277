//! Linux's own code on Weir's models of drives: rows that an unmodified kernel plays in a guest, beside the simulator.

pub mod page;
pub mod play;
pub mod row;

use rayon::prelude::*;
use row::{Row, Rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;

/// What one side gave a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Requests of the target.
    pub requests: u64,
    /// The target's mean latency, microseconds.
    pub latency_us: f64,
    /// MB/s of the target.
    pub target_mb: f64,
    /// MB/s of all clients.
    pub total_mb: f64,
}

/// What Linux gave a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Linux {
    /// The figures, the path being taken off.
    pub figures: Figures,
    /// What the path takes, microseconds.
    pub path_us: f64,
    /// What was left of it in that boot, microseconds.
    pub left_us: f64,
    /// The part of the guest's processor's time in which it was busy, in per cent; `None`: not recorded.
    pub processor: Option<u64>,
}

impl Linux {
    /// The processor could carry what the drive could serve: rates are the drive's.
    pub fn is_carried(&self) -> bool {
        self.processor.is_none_or(|percent| percent < CARRIED)
    }
}

/// Per cent of the processor's time from which on a row is out of the lab's reach: requests wait for it, and not for the drive.
pub const CARRIED: u64 = 75;

/// The kernel of rows that are played by Linux 6.1 built as a program, in lockstep with the drive.
pub const PROGRAM: &str = "6.1-program";

/// Linux's figures by the names of the rows.
pub type Stored = BTreeMap<String, Linux>;

/// The rows.
///
/// # Errors
/// See [`Rows::read`].
pub fn rows() -> Result<Rows, String> {
    Rows::read(&crate::conformance::root().join("guest/rows.toml"))
}

fn file() -> PathBuf {
    crate::conformance::root().join("guest/linux.txt")
}

/// Linux's figures, by the names of the rows.
///
/// # Errors
/// A line that is none.
pub fn stored() -> Result<Stored, String> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| parse(l).ok_or_else(|| format!("not a row's figures: {l:?}")))
        .collect()
}

fn parse(line: &str) -> Option<(String, Linux)> {
    let mut fields = line.split('|').map(str::trim);
    let name = fields.next()?.to_owned();
    let requests = fields.next()?.parse().ok()?;
    let mut number = || fields.next()?.parse().ok();
    let figures = Figures {
        requests,
        latency_us: number()?,
        target_mb: number()?,
        total_mb: number()?,
    };
    let (path_us, left_us) = (number()?, number()?);
    let processor = match fields.next()? {
        "-" => None,
        percent => Some(percent.parse().ok()?),
    };
    let linux = Linux {
        figures,
        path_us,
        left_us,
        processor,
    };
    fields.next().is_none().then_some((name, linux))
}

/// Plays all rows that have figures of Linux in the simulator, and writes the page.
///
/// # Errors
/// A file that cannot be read, or a row that cannot be played.
pub fn compare() -> Result<page::Written, String> {
    let (rows, linux) = (rows()?, stored()?);
    let all = rows.all();
    let played: Vec<&Row> = all
        .iter()
        .filter(|row| linux.contains_key(&row.name()))
        .collect();
    let weir = played
        .par_iter()
        .map(|row| Ok((row.name(), play::weir(row)?)));
    let weir: Result<BTreeMap<String, Figures>, String> = weir.collect();
    Ok(page::write(&rows, &linux, &weir?))
}

/// Plays the rows whose figures are missing, or those of them that contain one of the words, in guests with the program `weir`, and stores each
/// as it comes. Rows of [`PROGRAM`] are left out if that kernel, a file, is not given.
///
/// # Errors
/// Rows that could not be played, when the others have been.
pub fn fill(weir: &Path, program: Option<&str>, which: &[&str]) -> Result<(), String> {
    let rows = rows()?.all();
    let there = stored()?;
    let missing = rows.iter().filter(|row| {
        let name = row.name();
        !there.contains_key(&name)
            && (program.is_some() || row.kernel != PROGRAM)
            && (which.is_empty() || which.iter().any(|w| name.contains(w)))
    });
    let missing: Vec<&Row> = missing.collect();
    let mut labs = BTreeMap::new();
    for row in &missing {
        if !labs.contains_key(&row.kernel) {
            let own = program.filter(|_| row.kernel == PROGRAM);
            let kernel = Kernel::find(own.unwrap_or(&row.kernel), |line| eprintln!("{line}"));
            let kernel = kernel.map_err(|e| e.to_string())?;
            labs.insert(row.kernel.clone(), Lab::new(kernel, weir.to_owned()));
        }
    }
    let figures = Mutex::new(there);
    let play = |row: &&Row| match play::linux(row, &labs[&row.kernel]) {
        Ok(of_row) => {
            eprintln!("{}: {of_row:?}", row.name());
            let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
            figures.insert(row.name(), of_row);
            write(&rows, &figures).err()
        }
        Err(problem) => {
            eprintln!("{problem}");
            Some(problem)
        }
    };
    let problems: Vec<String> = missing.par_iter().filter_map(play).collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n"))
    }
}

/// Writes Linux's figures in the order of the rows.
fn write(rows: &[Row], figures: &Stored) -> Result<(), String> {
    let mut text = "# scenario: case: drive: policy: kernel | the target's requests | their mean latency in us | MB/s of the target | MB/s of all | \
                    what the path takes in us | what was left of it in that boot | per cent of the processor\n"
        .to_owned();
    for name in rows.iter().map(Row::name) {
        if let Some(Linux {
            figures: f,
            path_us,
            left_us,
            processor,
        }) = figures.get(&name)
        {
            let processor = processor.map_or("-".to_owned(), |p| p.to_string());
            let _ = writeln!(
                text,
                "{name} | {} | {:.1} | {:.2} | {:.2} | {path_us:.1} | {left_us:.1} | {processor}",
                f.requests, f.latency_us, f.target_mb, f.total_mb
            );
        }
    }
    fs::write(file(), text).map_err(|e| format!("{}: {e}", file().display()))
}
