//! Formats results for a terminal.

use super::lines;
use crate::output;
use std::fmt::Write;
use weir_config::units::ByteSize;
use weir_core::Span;
use weir_lab::calibrate::{
    Calibration, CalibrationPlan, CapacityFigure, MeasuredCapacity, StepResult, cost,
};
use weir_lab::report::{Column, ReportTable, wrap};
use weir_measure::number::figure as digits;

/// The half-width of a 95 % confidence interval, as a fraction, from which on a figure counts as
/// imprecise.
const UNSURE: f64 = 0.1;
/// The amount of data in bytes below which reads may have been served by a cache.
const CACHES: u64 = 4 << 30;
/// The fraction of the time spent waiting for a processor from which on the host counts as busy.
const BUSY: f64 = 0.05;

/// Returns the complete report: tables, remarks, and lines to copy.
pub(super) fn text(known: &Calibration) -> String {
    let width = output::width();
    let mut text = head(known);
    text += &figures(&MeasuredCapacity::of(known)).text(width);
    text.push('\n');
    text += &steps(known).text(width);
    let remarks = remarks(known);
    if !remarks.is_empty() {
        text.push('\n');
    }
    for remark in remarks {
        text += &wrap(&remark, width);
    }
    text + &paste(known)
}

fn head(known: &Calibration) -> String {
    let target = &known.target;
    let kind = if known.is_rotating() {
        "a rotating disk"
    } else {
        "not a rotating disk"
    };
    let seconds = (known.steps.iter()).fold(0.0, |sum, found| sum + found.seconds);
    let how = if target.write {
        "reads and writes"
    } else {
        "reads"
    };
    format!(
        "{}\n{}, {kind}; {} steps of {how} in {seconds:.0} s\n\n",
        target.path,
        ByteSize(target.size),
        known.steps.len()
    )
}

/// Returns the table of the capacity's figures.
fn figures(capacity: &MeasuredCapacity) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("figure"),
        Column::number("at the least"),
        Column::number("at the most"),
        Column::number("95%").dropped(1),
        Column::text("steady").dropped(2),
    ]);
    let rows: [(&str, Option<CapacityFigure>, FigureUnit); 5] = [
        ("read in sequence", capacity.read, FigureUnit::Bytes),
        ("written in sequence", capacity.write, FigureUnit::Bytes),
        (
            "reads of 4 KiB at random",
            capacity.read_iops,
            FigureUnit::Requests,
        ),
        (
            "writes of 4 KiB at random",
            capacity.write_iops,
            FigureUnit::Requests,
        ),
        (
            "7 such reads to 3 writes",
            capacity.mixed_iops,
            FigureUnit::Requests,
        ),
    ];
    for (name, figure, unit) in rows {
        let Some(figure) = figure else {
            table.row([name, "not measured", "", "", ""]);
            continue;
        };
        table.row([
            name.to_owned(),
            unit.text(figure.least),
            unit.text(figure.most),
            uncertainty(figure.uncertainty),
            yes_or_no(figure.steady),
        ]);
    }
    table
}

/// Returns the table of all measured steps.
fn steps(known: &Calibration) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("step"),
        Column::number("depth").dropped(4),
        Column::number("MB/s"),
        Column::number("requests/s"),
        Column::number("95%").dropped(1),
        Column::number("p50 us").dropped(3),
        Column::number("p99 us").dropped(2),
        Column::text("steady").dropped(5),
    ]);
    for found in &known.steps {
        let latency = |of: fn(&weir_lab::calibrate::StepLatency) -> f64| {
            let latency = found.latency_us.as_ref().map(of);
            latency.map_or_else(String::new, |us| format!("{us:.0}"))
        };
        table.row([
            found.name.clone(),
            found.load.depth.to_string(),
            digits(found.bytes_per_second / 1e6),
            digits(found.requests_per_second()),
            uncertainty(found.uncertainty()),
            latency(|l| l.p50),
            latency(|l| l.p99),
            yes_or_no(found.steady),
        ]);
    }
    table
}

/// Returns remarks on the reliability of the figures.
fn remarks(known: &Calibration) -> Vec<String> {
    let mut all = Vec::new();
    let is_unsure = |f: &&StepResult| !f.steady || f.uncertainty().is_none_or(|part| part > UNSURE);
    let unsure: Vec<&str> = (known.steps.iter().filter(is_unsure))
        .map(|found| found.name.as_str())
        .collect();
    if !unsure.is_empty() {
        all.push(format!(
            "Not steady, or known to no better than 10 %: {}. More --time may help.",
            unsure.join(", ")
        ));
    }
    let waits = known.steps.iter().filter_map(|f| f.processor_wait);
    let wait = waits.fold(0.0, f64::max);
    if wait > BUSY {
        all.push(format!(
            "The host was busy: in a step, measuring waited for a processor for {:.0} % of the time. The drive may do more.",
            wait * 100.0
        ));
    }
    let target = &known.target;
    if target.rotational && !known.is_rotating() {
        all.push(
            "The kernel states that this is a rotating disk, and no rotating disk reads at random places as fast. \
             What was measured decides: it is treated as flash."
                .to_owned(),
        );
    }
    let wrote: u64 = (known.steps.iter())
        .filter(|found| found.load.writes == 100)
        .map(StepResult::bytes)
        .sum();
    // A flash drive reaches its steady state after it was written once or twice
    // (docs/calibrate.md).
    if target.write && target.sparse && wrote < 2 * target.size {
        let part = wrote as f64 * 100.0 / target.size as f64;
        all.push(format!(
            "{:.3} GB were written, {part:.0} % of the size: a flash drive may become slower once it was written as a whole, twice.",
            wrote as f64 / 1e9
        ));
    }
    // With `--write`, only the part that was written before is read.
    if target.write && target.sparse && known.written < CACHES.min(target.size) {
        all.push(format!(
            "Reads were of {:.0} MB that had been written before, which a cache may hold: with more --time it is more.",
            known.written as f64 / 1e6
        ));
    }
    if CalibrationPlan::new(target)
        .next(known, Span::from_secs(1))
        .is_some()
    {
        all.push("Steps are missing: the same command goes on with them, and takes as long again at most.".into());
    }
    all
}

/// Returns the lines for a configuration of Weir and for Linux's `io.cost`.
fn paste(known: &Calibration) -> String {
    let mut text = String::from("\nIn [drive.NAME] of a configuration:\n\n");
    text += &indented(&lines::drive(known));
    let cost = [("model", cost::model(known)), ("qos", cost::qos(known))];
    for (file, line) in cost {
        if let Some(line) = line {
            let _ = write!(text, "\nFor Linux's io.cost.{file} and resctl-bench:\n\n");
            text += &indented(&line);
        }
    }
    text
}

fn indented(lines: &str) -> String {
    lines.lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "    {line}");
        text
    })
}

#[derive(Clone, Copy)]
enum FigureUnit {
    Bytes,
    Requests,
}

impl FigureUnit {
    fn text(self, figure: f64) -> String {
        match self {
            Self::Bytes => format!("{} MB/s", digits(figure / 1e6)),
            Self::Requests => format!("{}/s", digits(figure)),
        }
    }
}

fn uncertainty(part: Option<f64>) -> String {
    part.map_or_else(
        || "unknown".into(),
        |part| format!("+-{:.1}%", part * 100.0),
    )
}

fn yes_or_no(steady: bool) -> String {
    if steady { "yes" } else { "no" }.to_owned()
}
