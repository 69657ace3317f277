//! The page: every row, Linux beside Weir.

use crate::experiment::{Case, Experiment};
use crate::verdict::{Figure, Row, TOLERANCE, Verdict};
use std::fmt::Write as _;
use weir_measure::Interval;

/// Cases with their rows, in the order of the page.
pub type Compared<'a> = Vec<(&'a Experiment, Vec<(&'a Case, Vec<Row>)>)>;

/// The page as Markdown.
pub fn page(compared: &Compared<'_>, runs: u32, seconds: u32) -> String {
    let mut text = head(runs, seconds);
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
    text +=
        "| experiment | case | rows | agree | differ | inconclusive |\n|---|---|---|---|---|---|\n";
    for (experiment, cases) in compared {
        for (case, rows) in cases {
            let count = |verdict| rows.iter().filter(|r| r.verdict() == verdict).count();
            let counts = [Verdict::Agrees, Verdict::Differs, Verdict::Inconclusive].map(count);
            let [agree, differ, open] = counts;
            let _ = writeln!(
                text,
                "| {} | {} | {} | {agree} | {differ} | {open} |",
                experiment.name,
                case.name,
                rows.len()
            );
        }
    }
    for (experiment, cases) in compared {
        let drive = experiment.setting.drive;
        let _ = write!(
            text,
            "\n## {}\n\n{}. The drive: {} tags, {} us",
            experiment.name,
            sentence(&experiment.setting.about),
            drive.tags,
            drive.service_us
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
        for (case, rows) in cases.iter().filter(|(_, rows)| !rows.is_empty()) {
            let _ = writeln!(
                text,
                "\n### {}\n\nPolicy `{}`{}, `nr_requests` {}.\n",
                case.name,
                case.policy,
                tunables(case),
                case.nr_requests
            );
            text += "| job | figure | Linux | Weir | difference | |\n|---|---|---|---|---|---|\n";
            for row in rows {
                line(&mut text, row);
            }
        }
    }
    text
}

fn head(runs: u32, seconds: u32) -> String {
    format!(
        "# Weir beside Linux

The same experiments in Linux 6.1 (its block layer as a process in virtual time, `null_blk` as the drive, fio 3.33) and in the simulator,
from the same job files of fio (`crates/conformance/experiments`), {runs} samples of {seconds} seconds on each side. A sample has random
numbers of its own and begins its clients up to a millisecond apart. Figures are means of the samples with half of the width of their
95 % confidence intervals. A row *agrees* if the intervals overlap or the means are within {:.0} %; where Linux's own half-width is more than
that, it is *inconclusive*. Cases without rows have no samples of Linux yet. Latencies are from the call to its end, in microseconds; where a job runs in several groups, they are the means of
the groups' figures. Causes of what differs are in [deviations.md](deviations.md#held-against-linux).

Only `sequential.fio`, in whose cases with rows nobody waits for long, leaves out a beginning (`ramp_time`): fio ends that for each process when its first request after that time is over, so that
one that waits for seconds is measured later than the others, and in part after they have ended.

This page is generated: `cargo run --release -p weir-conformance -- page`. Linux's samples are stored (`crates/conformance/linux`);
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

/// A line as the beginning of a paragraph.
fn sentence(about: &str) -> String {
    let mut letters = about.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn line(text: &mut String, row: &Row) {
    let (name, unit) = match row.figure {
        Figure::Total => ("MB/s", 1e-6),
        Figure::Share => ("share, %", 100.0),
        Figure::Mean => ("mean, us", 1.0),
        Figure::P50 => ("p50, us", 1.0),
        Figure::P99 => ("p99, us", 1.0),
    };
    let verdict = match row.verdict() {
        Verdict::Agrees => "agrees",
        Verdict::Differs => "**differs**",
        Verdict::Inconclusive => "inconclusive",
    };
    let shown = |i: Interval| format!("{} ± {}", figure(i.mean * unit), figure(i.half * unit));
    let _ = writeln!(
        text,
        "| {} | {name} | {} | {} | {:+.1} % | {verdict} |",
        row.player,
        shown(row.linux),
        shown(row.weir),
        100.0 * row.difference()
    );
}

/// A number with about three digits.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
