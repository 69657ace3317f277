//! Linux's own code on Weir's models of drives: rows that an unmodified kernel plays in a guest, beside the simulator.

pub mod boot;
pub mod page;
pub mod play;
pub mod row;

use row::{Row, Rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What one side gave a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// The target's mean latency, microseconds.
    pub latency_us: f64,
    /// MB/s of all clients.
    pub total_mb: f64,
}

/// The rows.
///
/// # Errors
/// See [`Rows::read`].
pub fn rows() -> Result<Rows, String> {
    Rows::read(&crate::root().join("guest/rows.toml"))
}

fn file() -> PathBuf {
    crate::root().join("guest/linux.txt")
}

/// Linux's figures, by the names of the rows.
///
/// # Errors
/// A line that is none.
pub fn stored() -> Result<BTreeMap<String, Figures>, String> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| parse(l).ok_or_else(|| format!("not a row's figures: {l:?}")))
        .collect()
}

fn parse(line: &str) -> Option<(String, Figures)> {
    let mut fields = line.split('|').map(str::trim);
    let name = fields.next()?.to_owned();
    let mut number = || fields.next()?.parse().ok();
    let figures = Figures {
        latency_us: number()?,
        total_mb: number()?,
    };
    fields.next().is_none().then_some((name, figures))
}

/// Plays all rows that have figures of Linux in the simulator, and writes the page.
///
/// # Errors
/// A file that cannot be read, or a row that cannot be played.
pub fn compare() -> Result<String, String> {
    let (rows, linux) = (rows()?, stored()?);
    let played = rows
        .row
        .iter()
        .filter(|row| linux.contains_key(&row.name()));
    let weir: Result<_, String> = played
        .map(|row| Ok((row.name(), play::play(&rows, row)?)))
        .collect();
    Ok(page::write(&rows, &linux, &weir?))
}

/// Plays the rows whose figures are missing, or those of them that contain one of the words, in the lab, and stores each as it comes.
///
/// # Errors
/// A row that could not be played, when the others have been.
pub fn fill(lab: &Path, weir: &Path, scratch: &Path, which: &[&str]) -> Result<(), String> {
    let rows = rows()?;
    let mut problems = Vec::new();
    for row in &rows.row {
        let name = row.name();
        let mut figures = stored()?;
        if figures.contains_key(&name)
            || !(which.is_empty() || which.iter().any(|w| name.contains(w)))
        {
            continue;
        }
        match boot::play(lab, weir, scratch, &rows, row) {
            Ok(of_row) => {
                eprintln!("{name}: {of_row:?}");
                figures.insert(name, of_row);
                write(&rows.row, &figures)?;
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n"))
    }
}

/// Writes Linux's figures in the order of the rows.
fn write(rows: &[Row], figures: &BTreeMap<String, Figures>) -> Result<(), String> {
    let mut text = "# drive: policy: job | target's mean latency in us | MB/s of all\n".to_owned();
    for name in rows.iter().map(Row::name) {
        if let Some(Figures {
            latency_us,
            total_mb,
        }) = figures.get(&name)
        {
            let _ = writeln!(text, "{name} | {latency_us:.1} | {total_mb:.1}");
        }
    }
    fs::write(file(), text).map_err(|e| format!("{}: {e}", file().display()))
}
