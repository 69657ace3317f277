//! The demo's plots.

use weir_measure::{Record, median};

use super::{DemoReport, PolicyResult};
use crate::number::{duration, figure, plain};
use crate::policy;
use crate::svg::{
    Band, Bar, BarChart, BarGroup, Ink, Line, LineChart, Mark, Scale, StackChart, StackRow,
};
use crate::table::named;

/// The target's bandwidth over time, a line for each policy; `None` if no record has a series.
pub(super) fn target_over_time(report: &DemoReport) -> Option<String> {
    let mut lines = Vec::new();
    for result in &report.policies {
        let series = result.client(&report.target).and_then(points);
        lines.extend(series.map(|points| Line {
            name: result.policy.clone(),
            ink: policy::ink(&result.policy),
            quiet: false,
            dash: policy::dash(&result.policy),
            points,
        }));
    }
    if lines.is_empty() {
        return None;
    }
    let means = report.policies.iter().filter_map(|p| {
        let mean = p.client(&report.target)?.throughput_mbps;
        Some(format!("{} {} MB/s", p.policy, figure(mean)))
    });
    let means: Vec<String> = means.collect();
    let chart = LineChart {
        title: format!("Bandwidth of {}", named(&report.target)),
        description: format!("Mean over the run: {}.", means.join(", ")),
        x_name: "seconds".into(),
        y_unit: "MB/s".into(),
        x_range: range(report),
        size: (520.0, 300.0),
        lines,
        marks: promise(report).into_iter().collect(),
        ..LineChart::default()
    };
    Some(chart.html())
}

/// One plot for each policy: target, the others as a band, and the total, all on the same axis.
pub(super) fn everyone_over_time(report: &DemoReport) -> Vec<String> {
    let reach: Vec<f64> = report
        .policies
        .iter()
        .flat_map(|p| &p.records)
        .filter_map(|r| r.series_mbps.as_ref())
        .flatten()
        .map(|v| v.max(FLOOR))
        .collect();
    let plots = report.policies.iter();
    let plots = plots.filter_map(|result| everyone(report, result, &reach));
    plots.collect()
}

fn everyone(report: &DemoReport, result: &PolicyResult, reach: &[f64]) -> Option<String> {
    let others: Vec<Vec<(f64, f64)>> = result.others(&report.target).filter_map(points).collect();
    let mut lines = Vec::new();
    let target = result.client(&report.target).and_then(points);
    lines.extend(target.map(|points| Line {
        name: report.target.clone(),
        ink: policy::ink(&result.policy),
        quiet: false,
        dash: 0,
        points,
    }));
    let total = result.total().and_then(points);
    lines.extend(total.map(|points| Line {
        name: "all together".into(),
        ink: Ink::STRONG,
        quiet: true,
        dash: 0,
        points,
    }));
    if lines.is_empty() {
        return None;
    }
    let bands = (!others.is_empty()).then(|| Band {
        name: "the others".into(),
        ink: Ink::QUIET,
        points: band(&others),
    });
    let chart = LineChart {
        title: result.policy.clone(),
        description: result.verdict.clone(),
        x_name: "seconds".into(),
        y_unit: "MB/s".into(),
        scale: Scale::Log,
        reach: reach.to_vec(),
        x_range: range(report),
        size: match report.policies.len() {
            // Two side by side.
            1 | 2 | 4 => (520.0, 280.0),
            _ => (330.0, 280.0),
        },
        bands: bands.into_iter().collect(),
        lines,
        marks: promise(report).into_iter().collect(),
    };
    Some(chart.html())
}

/// Where the mean request spent its time, in per cent, a bar for each policy; `None` if no split is known. Times differ by
/// orders of magnitude: on a common scale only the longest bar would show its parts.
pub(super) fn time_split(report: &DemoReport) -> Option<String> {
    let rows = report.policies.iter().filter_map(|result| {
        let record = result.client(&report.target)?;
        let split = record.split_us?;
        let mean = record.latency_us?.mean;
        let rest = (mean - split.total()).max(0.0);
        let parts = [split.limit, split.elevator, split.drive, rest];
        let all: f64 = parts.iter().sum();
        Some(StackRow {
            name: result.policy.clone(),
            sum: duration(mean),
            values: parts.map(|part| part * 100.0 / all).to_vec(),
        })
    });
    let rows: Vec<StackRow> = rows.collect();
    let part = |name: &str, ink| (name.to_owned(), ink);
    let chart = StackChart {
        title: format!("Time of a request of {}", named(&report.target)),
        description: describe(&rows),
        unit: "%".into(),
        size: (520.0, 300.0),
        parts: vec![
            part("limit", Ink::PARTS[0]),
            part("elevator", Ink::PARTS[1]),
            part("drive", Ink::PARTS[4]),
            part("link and client", Ink::QUIET),
        ],
        rows,
    };
    (!chart.rows.is_empty()).then(|| chart.html())
}

/// Mean and p99 latency of the target under each policy.
pub(super) fn latency(report: &DemoReport) -> String {
    let groups = report.policies.iter().map(|result| {
        let latency = result.client(&report.target).and_then(|r| r.latency_us);
        BarGroup {
            name: result.policy.clone(),
            bars: vec![
                latency.map(|l| Bar::new(l.mean)),
                latency.map(|l| Bar::new(l.p99)),
            ],
        }
    });
    let chart = BarChart {
        title: format!("Latency of {}", named(&report.target)),
        description: "Mean and 99th percentile under each policy.".into(),
        unit: "us".into(),
        scale: Scale::Log,
        size: (520.0, 280.0),
        series: vec![("mean".into(), Ink::STRONG), ("p99".into(), Ink::QUIET)],
        groups: groups.collect(),
    };
    chart.html()
}

/// Bandwidth of target and others under each policy.
pub(super) fn bandwidth(report: &DemoReport) -> String {
    let groups = report.policies.iter().map(|result| {
        let target = result.client(&report.target);
        let others: Vec<f64> = result
            .others(&report.target)
            .map(|r| r.throughput_mbps)
            .collect();
        let least = others.iter().copied().reduce(f64::min);
        let most = others.iter().copied().reduce(f64::max);
        BarGroup {
            name: result.policy.clone(),
            bars: vec![
                target.map(|r| Bar::new(r.throughput_mbps)),
                median(&others).map(|value| Bar {
                    range: least.zip(most),
                    ..Bar::new(value)
                }),
            ],
        }
    });
    let chart = BarChart {
        title: "Bandwidth of each client".into(),
        description: "The target and the median of the others under each policy.".into(),
        unit: "MB/s".into(),
        scale: Scale::Linear,
        size: (520.0, 280.0),
        series: vec![
            (report.target.clone(), Ink::STRONG),
            ("the others".into(), Ink::QUIET),
        ],
        groups: groups.collect(),
    };
    chart.html()
}

/// The target's promise.
fn promise(report: &DemoReport) -> Option<Mark> {
    let mut records = report
        .policies
        .iter()
        .filter_map(|p| p.client(&report.target));
    let promised = records.find_map(|r| r.promised_mbps)?;
    Some(Mark {
        name: format!("promised {} MB/s", plain(promised)),
        value: promised,
    })
}

/// A record's series as points at the middle of each window.
fn points(record: &Record) -> Option<Vec<(f64, f64)>> {
    let step = record.series_step_s?;
    let values = record.series_mbps.as_ref()?.iter().enumerate();
    Some(values.map(|(i, v)| ((i as f64 + 0.5) * step, *v)).collect())
}

/// The time that all plots show: from the start to the end of the longest series.
fn range(report: &DemoReport) -> Option<(f64, f64)> {
    let records = report.policies.iter().flat_map(|p| &p.records);
    let ends =
        records.filter_map(|r| Some(r.series_step_s? * r.series_mbps.as_ref()?.len() as f64));
    Some((0.0, ends.reduce(f64::max)?))
}

/// The minimum and maximum of several series, up to the end of the shortest.
fn band(series: &[Vec<(f64, f64)>]) -> Vec<(f64, f64, f64)> {
    let length = series.iter().map(Vec::len).min().unwrap_or(0);
    let at = |i: usize| {
        let values = series.iter().map(|s| s[i].1);
        let (low, high) = values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| {
            (low.min(v), high.max(v))
        });
        (series[0][i].0, low, high)
    };
    (0..length).map(at).collect()
}

fn describe(rows: &[StackRow]) -> String {
    let sums = rows.iter().map(|r| format!("{} {}", r.name, r.sum));
    let sums: Vec<String> = sums.collect();
    format!("Mean time of a request: {}.", sums.join(", "))
}

/// The lower end of a log scale in MB/s: a window without requests would otherwise stretch it without limit.
const FLOOR: f64 = 0.1;
