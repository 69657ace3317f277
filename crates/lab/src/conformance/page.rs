//! Writes the page, which summarises the comparison and shows the rows that differ, and the table
//! of all rows.

use crate::conformance::experiment::{ConformanceCase, Experiment};
use crate::conformance::verdict::{ConformanceRow, RowFigure, RowVerdict, TOLERANCE};
use std::fmt::Write as _;
use weir_measure::Interval;

/// The cases of each experiment with their rows, in the order of the page.
pub type ComparedExperiments<'a> = Vec<(
    &'a Experiment,
    Vec<(&'a ConformanceCase, Vec<ConformanceRow>)>,
)>;

/// The output of a comparison.
#[derive(Clone, Debug)]
pub struct ConformancePage {
    /// The text of `docs/conformance.md`: counts, experiments, and the rows that differ.
    pub page: String,
    /// The text of `docs/conformance.csv`: every row.
    pub rows: String,
}

/// Writes a comparison of `runs` samples of `seconds` seconds on each side.
pub fn write(compared: &ComparedExperiments<'_>, runs: u32, seconds: u32) -> ConformancePage {
    let mut page = head(runs, seconds);
    counts(&mut page, compared);
    page += "\n## Experiments\n\n";
    for (experiment, _) in compared {
        played(&mut page, experiment);
    }
    page += "\n## Rows that differ\n\n| Experiment: case | Job | Figure | Linux | Weir | Difference |\n|---|---|---|---|---|---|\n";
    let mut rows = "experiment,case,policy,job,figure,linux,linux_half_width,weir,weir_half_width,difference_percent,verdict\n".to_owned();
    for (experiment, cases) in compared {
        for (case, of_case) in cases {
            for row in of_case {
                rows += &record(experiment, case, row);
                // The page shows only differences, and the table has every row.
                if row.verdict() == RowVerdict::Differs {
                    page += &line(experiment, case, row);
                }
            }
        }
    }
    ConformancePage { page, rows }
}

fn counts(text: &mut String, compared: &ComparedExperiments<'_>) {
    let rows = || {
        compared
            .iter()
            .flat_map(|(_, cases)| cases)
            .flat_map(|(_, rows)| rows)
    };
    let count = |verdict| rows().filter(|r| r.verdict() == verdict).count();
    let (agree, differ) = (count(RowVerdict::Agrees), count(RowVerdict::Differs));
    let _ = writeln!(
        text,
        "\nOf {} rows, {agree} agree, {differ} differ and {} are inconclusive. {:.1} % of the conclusive rows agree.\n",
        rows().count(),
        count(RowVerdict::Inconclusive),
        // Inconclusive rows are left out of the percentage.
        100.0 * agree as f64 / ((agree + differ).max(1)) as f64
    );
    *text += "| Experiment | Case | Policy | Rows | Agree | Differ | Inconclusive |\n|---|---|---|---|---|---|---|\n";
    for (experiment, cases) in compared {
        for (case, rows) in cases {
            let count = |verdict| rows.iter().filter(|r| r.verdict() == verdict).count();
            let counts = [
                RowVerdict::Agrees,
                RowVerdict::Differs,
                RowVerdict::Inconclusive,
            ]
            .map(count);
            let [agree, differ, open] = counts;
            let _ = writeln!(
                text,
                "| {} | {} | `{}`{}, `nr_requests` {} | {} | {agree} | {differ} | {open} |",
                experiment.name,
                case.name,
                case.policy,
                tunables(case),
                case.nr_requests,
                rows.len()
            );
        }
    }
}

fn played(text: &mut String, experiment: &Experiment) {
    let drive = experiment.setting.drive;
    let _ = write!(
        text,
        "- **{}**: {}. Drive: tags {}, service time {} us",
        experiment.name, experiment.setting.about, drive.tags, drive.service_us
    );
    if drive.mbps > 0 {
        let _ = write!(text, ", `mbps={}`", drive.mbps);
    }
    let jobs = experiment
        .jobs
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let _ = writeln!(text, ". Jobs: `{jobs}`.");
}

fn head(runs: u32, seconds: u32) -> String {
    format!(
        "# Conformance with Linux

This page shows how far the simulator agrees with Linux 6.1 when both run the same fio jobs on the same simple drive. [Conformance with Linux on drive
models](conformance-guest.md) compares Linux's own code with the simulator on Weir's models of drives.

To repeat Weir's side, run `cargo run --release -p weir-lab --bin conformance -- page`, which prints this page. `WEIR_BLESS=1 cargo test -p weir-lab` writes the
page and the table of all rows, [conformance.csv](conformance.csv). Linux's samples are stored in `crates/lab/linux`.
`cargo run --release -p weir-lab --bin conformance -- linux LAB` measures those that are missing. The head of `crates/lab/src/bin/conformance.rs` describes the command,
and the head of `crates/lab/src/conformance/lab.rs` describes a lab.

## Method

- On the side of Linux, the block layer of Linux 6.1 runs as a process in virtual time. `null_blk` is the drive, and fio 3.33 is the client.
- Both sides use the same job files of fio (`crates/lab/experiments`), with {runs} samples of {seconds} seconds each. Each sample has its own
  random numbers, and its clients begin up to one millisecond apart.
- Figures are means of the samples, together with half of the width of their 95 % confidence intervals.
- Latencies are from the call to its completion, in microseconds. If a job runs in several groups, its latencies are the means of the groups' figures.

A row *agrees* if the intervals overlap, or if the means are within {:.0} % of each other. If Linux's own half-width exceeds that, the row is
*inconclusive*. Otherwise, the row *differs*. Cases without rows have no samples of Linux yet. [Differences
from Linux in detail](evidence/deviations.md#differences-in-measured-results) describes their causes.

Only `sequential.fio` omits the beginning of each run (`ramp_time`), because no client in its cases with rows waits for long. In fio, the beginning of a
process ends when its first request after that time completes. A process that waits for seconds is therefore measured later than the others, and in
part after they have ended.

## Agreement by case
",
        100.0 * TOLERANCE
    )
}

/// Returns the tunables that a case states.
fn tunables(case: &ConformanceCase) -> String {
    let mut text = String::new();
    for (name, value) in case.iosched.iter().chain(&case.weir) {
        let _ = write!(text, ", `{name}` {value}");
    }
    text
}

/// Returns a row that differs as a line of the page.
fn line(experiment: &Experiment, case: &ConformanceCase, row: &ConformanceRow) -> String {
    let (name, unit) = unit(row.figure);
    let shown = |i: Interval| format!("{} ± {}", figure(i.mean * unit), figure(i.half * unit));
    format!(
        "| {}: {} | {} | {name} | {} | {} | {:+.1} % |\n",
        experiment.name,
        case.name,
        row.player,
        shown(row.linux),
        shown(row.weir),
        100.0 * row.difference()
    )
}

/// Returns a row as a line of the table. The name of the case is quoted, because it contains
/// commas. It contains no quotes.
fn record(experiment: &Experiment, case: &ConformanceCase, row: &ConformanceRow) -> String {
    let (name, unit) = unit(row.figure);
    let verdict = match row.verdict() {
        RowVerdict::Agrees => "agrees",
        RowVerdict::Differs => "differs",
        RowVerdict::Inconclusive => "inconclusive",
    };
    let shown = |i: Interval| format!("{},{}", figure(i.mean * unit), figure(i.half * unit));
    format!(
        "{},\"{}\",{},{},{name},{},{},{:+.1},{verdict}\n",
        experiment.name,
        case.name,
        case.policy,
        row.player,
        shown(row.linux),
        shown(row.weir),
        100.0 * row.difference()
    )
}

/// Returns the name of a figure, and the factor by which it is multiplied for printing.
fn unit(figure: RowFigure) -> (&'static str, f64) {
    match figure {
        RowFigure::Total => ("MB/s", 1e-6),
        RowFigure::Share => ("share %", 100.0),
        RowFigure::Mean => ("mean us", 1.0),
        RowFigure::P50 => ("p50 us", 1.0),
        RowFigure::P99 => ("p99 us", 1.0),
    }
}

/// Formats a number with about three digits.
fn figure(value: f64) -> String {
    match value {
        // Large numbers need no decimals.
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
