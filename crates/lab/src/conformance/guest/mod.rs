//! Comparison with Linux on drive models: an unmodified kernel runs rows in a guest, and the
//! simulator runs the same rows.

pub mod page;
pub mod play;
pub mod row;

use rayon::prelude::*;
use row::{GuestRow, Rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;

/// The results of a row on one side.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowFigures {
    /// The number of requests of the target.
    pub requests: u64,
    /// The mean latency of the target, in microseconds.
    pub latency_us: f64,
    /// The bandwidth of the target, in MB/s.
    pub target_mb: f64,
    /// The bandwidth of all clients, in MB/s.
    pub total_mb: f64,
}

/// The results of a row in Linux.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinuxResult {
    /// The results, without the time of the path to the server.
    pub figures: RowFigures,
    /// The time of the path, in microseconds.
    pub path_us: f64,
    /// The remaining error of the path in that boot, in microseconds.
    pub left_us: f64,
    /// The part of the time in which the guest's processor was busy, in per cent. `None` if it was
    /// not recorded.
    pub processor: Option<u64>,
}

impl LinuxResult {
    /// Returns true if the processor could carry the load that the drive can serve. In that case
    /// rates are those of the drive.
    pub fn is_carried(&self) -> bool {
        self.processor.is_none_or(|percent| percent < CARRIED)
    }
}

/// The processor load, in per cent, from which on a row is out of reach of the method. Requests
/// then wait for the processor and not for the drive.
pub const CARRIED: u64 = 75;

/// The name of the kernel Linux 6.1 built as a program, which runs rows in lockstep with the drive.
pub const PROGRAM: &str = "6.1-program";

/// The results in Linux by the names of the rows.
pub type StoredResults = BTreeMap<String, LinuxResult>;

/// Reads the rows of the comparison.
///
/// # Errors
/// Returns the error of [`Rows::read`].
pub fn rows() -> Result<Rows, String> {
    Rows::read(&crate::conformance::root().join("guest/rows.toml"))
}

fn file() -> PathBuf {
    crate::conformance::root().join("guest/linux.txt")
}

/// Reads the stored results in Linux, by the names of the rows.
///
/// # Errors
/// Returns the first line that is not a result.
pub fn stored() -> Result<StoredResults, String> {
    // A missing file means that no row has been measured.
    let text = fs::read_to_string(file()).unwrap_or_default();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| parse(l).ok_or_else(|| format!("not a row's figures: {l:?}")))
        .collect()
}

fn parse(line: &str) -> Option<(String, LinuxResult)> {
    let mut fields = line.split('|').map(str::trim);
    let name = fields.next()?.to_owned();
    let requests = fields.next()?.parse().ok()?;
    let mut number = || fields.next()?.parse().ok();
    let figures = RowFigures {
        requests,
        latency_us: number()?,
        target_mb: number()?,
        total_mb: number()?,
    };
    let (path_us, left_us) = (number()?, number()?);
    let processor = match fields.next()? {
        // Lockstep kernels have no processor time.
        "-" => None,
        percent => Some(percent.parse().ok()?),
    };
    let linux = LinuxResult {
        figures,
        path_us,
        left_us,
        processor,
    };
    fields.next().is_none().then_some((name, linux))
}

/// Runs all rows that have results in Linux in the simulator, and writes the page.
///
/// # Errors
/// Returns an error if a file cannot be read or a row cannot be run.
pub fn compare() -> Result<page::GuestPage, String> {
    let (rows, linux) = (rows()?, stored()?);
    let all = rows.all();
    let played: Vec<&GuestRow> = all
        .iter()
        .filter(|row| linux.contains_key(&row.name()))
        .collect();
    let weir = played
        .par_iter()
        .map(|row| Ok((row.name(), play::weir(row)?)));
    let weir: Result<BTreeMap<String, RowFigures>, String> = weir.collect();
    Ok(page::write(&rows, &linux, &weir?))
}

/// Runs rows without results in guests, with the program `weir`, and stores each result at once.
/// With words, only rows whose name contains one of them are run. Rows of [`PROGRAM`] are left out
/// if `program`, the file of that kernel, is not given.
///
/// # Errors
/// Returns the rows that could not be run, after the others have been run.
pub fn fill(weir: &Path, program: Option<&str>, which: &[&str]) -> Result<(), String> {
    let rows = rows()?.all();
    let there = stored()?;
    let missing = rows.iter().filter(|row| {
        let name = row.name();
        !there.contains_key(&name)
            && (program.is_some() || row.kernel != PROGRAM)
            && (which.is_empty() || which.iter().any(|w| name.contains(w)))
    });
    let missing: Vec<&GuestRow> = missing.collect();
    let mut labs = BTreeMap::new();
    for row in &missing {
        // A kernel is searched once for all its rows.
        if !labs.contains_key(&row.kernel) {
            let own = program.filter(|_| row.kernel == PROGRAM);
            let kernel = Kernel::find(own.unwrap_or(&row.kernel), |line| eprintln!("{line}"));
            let kernel = kernel.map_err(|e| e.to_string())?;
            labs.insert(row.kernel.clone(), Lab::new(kernel, weir.to_owned()));
        }
    }
    let figures = Mutex::new(there);
    let play = |row: &&GuestRow| match play::linux(row, &labs[&row.kernel]) {
        Ok(of_row) => {
            eprintln!("{}: {of_row:?}", row.name());
            // A panic in another row leaves the stored figures complete.
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

/// Writes the results in Linux in the order of the rows.
fn write(rows: &[GuestRow], figures: &StoredResults) -> Result<(), String> {
    let mut text = "# scenario: case: drive: policy: kernel | the target's requests | their mean latency in us | MB/s of the target | MB/s of all | \
                    what the path takes in us | what was left of it in that boot | per cent of the processor\n"
        .to_owned();
    for name in rows.iter().map(GuestRow::name) {
        if let Some(LinuxResult {
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
