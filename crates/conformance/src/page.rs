//! The page, which sums up and shows what differs, and the table of every row, Linux beside Weir.

use crate::experiment::{Case, Experiment};
use crate::verdict::{Figure, Row, TOLERANCE, Verdict};
use std::fmt::Write as _;
use weir_measure::Interval;

/// Cases with their rows, in the order of the page.
pub type Compared<'a> = Vec<(&'a Experiment, Vec<(&'a Case, Vec<Row>)>)>;

/// What a comparison is written as.
#[derive(Clone, Debug)]
pub struct Written {
    /// `docs/conformance.md`: counts, what was played, and the rows that differ.
    pub page: String,
    /// `docs/conformance.csv`: every row.
    pub rows: String,
}

/// Writes a comparison of `runs` samples of `seconds` seconds on each side.
pub fn write(compared: &Compared<'_>, runs: u32, seconds: u32) -> Written {
    let mut page = head(runs, seconds);
    counts(&mut page, compared);
    page += "\n## What was played\n\n";
    for (experiment, _) in compared {
        played(&mut page, experiment);
    }
    page += "\n## Rows that differ\n\n| experiment: case | job | figure | Linux | Weir | difference |\n|---|---|---|---|---|---|\n";
    let mut rows = "experiment,case,policy,job,figure,linux,linux_half_width,weir,weir_half_width,difference_percent,verdict\n".to_owned();
    for (experiment, cases) in compared {
        for (case, of_case) in cases {
            for row in of_case {
                rows += &record(experiment, case, row);
                if row.verdict() == Verdict::Differs {
                    page += &line(experiment, case, row);
                }
            }
        }
    }
    Written { page, rows }
}

fn counts(text: &mut String, compared: &Compared<'_>) {
    let rows = || {
        compared
            .iter()
            .flat_map(|(_, cases)| cases)
            .flat_map(|(_, rows)| rows)
    };
    let count = |verdict| rows().filter(|r| r.verdict() == verdict).count();
    let (agree, differ) = (count(Verdict::Agrees), count(Verdict::Differs));
    let _ = writeln!(
        text,
        "\n{} rows: {agree} agree, {differ} differ, {} are inconclusive. Of the conclusive rows {:.1} % agree.\n",
        rows().count(),
        count(Verdict::Inconclusive),
        100.0 * agree as f64 / ((agree + differ).max(1)) as f64
    );
    *text += "| experiment | case | policy | rows | agree | differ | inconclusive |\n|---|---|---|---|---|---|---|\n";
    for (experiment, cases) in compared {
        for (case, rows) in cases {
            let count = |verdict| rows.iter().filter(|r| r.verdict() == verdict).count();
            let counts = [Verdict::Agrees, Verdict::Differs, Verdict::Inconclusive].map(count);
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
        "- **{}**: {}. The drive: {} tags, {} us",
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
        "# Weir beside Linux

The same experiments in Linux 6.1 (its block layer as a process in virtual time, `null_blk` as the drive, fio 3.33) and in the simulator,
from the same job files of fio (`crates/conformance/experiments`), {runs} samples of {seconds} seconds on each side. A sample has random
numbers of its own and begins its clients up to a millisecond apart. Figures are means of the samples with half of the width of their
95 % confidence intervals. A row *agrees* if the intervals overlap or the means are within {:.0} %; where Linux's own half-width is more than
that, it is *inconclusive*. Cases without rows have no samples of Linux yet. Latencies are from the call to its end, in microseconds;
where a job runs in several groups, they are the means of
the groups' figures. Every row is in [conformance.csv](conformance.csv). Causes of what differs are in
[evidence/deviations.md](evidence/deviations.md#differences-in-measured-results). What Linux's own code does on Weir's models of drives is in
[conformance-guest.md](conformance-guest.md).

Only `sequential.fio`, in whose cases with rows nobody waits for long, leaves out a beginning (`ramp_time`). In fio the beginning of a
process ends when its first request after that time is over, so a process that waits for seconds is measured later than the others, and
in part after they have ended.

Page and table are generated: `WEIR_BLESS=1 cargo test -p weir-conformance` (`cargo run --release -p weir-conformance -- page` prints the page). Linux's samples are stored (`crates/conformance/linux`);
`cargo run --release -p weir-conformance -- linux LAB` makes those that are missing (`src/main.rs` says more, `src/lab.rs` what a lab is).
",
        100.0 * TOLERANCE
    )
}

/// Tunables that are stated.
fn tunables(case: &Case) -> String {
    let mut text = String::new();
    for (name, value) in case.iosched.iter().chain(&case.weir) {
        let _ = write!(text, ", `{name}` {value}");
    }
    text
}

/// A row that differs, for the page.
fn line(experiment: &Experiment, case: &Case, row: &Row) -> String {
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

/// A row of the table. Names of cases hold commas, and no quotes.
fn record(experiment: &Experiment, case: &Case, row: &Row) -> String {
    let (name, unit) = unit(row.figure);
    let verdict = match row.verdict() {
        Verdict::Agrees => "agrees",
        Verdict::Differs => "differs",
        Verdict::Inconclusive => "inconclusive",
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

/// What a figure is called, and what it is multiplied by to be printed.
fn unit(figure: Figure) -> (&'static str, f64) {
    match figure {
        Figure::Total => ("MB/s", 1e-6),
        Figure::Share => ("share %", 100.0),
        Figure::Mean => ("mean us", 1.0),
        Figure::P50 => ("p50 us", 1.0),
        Figure::P99 => ("p99 us", 1.0),
    }
}

/// A number with about three digits.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
