//! The demo's plots.

use weir_measure::{Record, median};

use super::{DemoReport, PolicyResult};
use crate::report::split;
use crate::report::svg::{Along, Bar, Chart, ChartMark, Ink, MarkShape, Scale};
use crate::report::table::named;
use weir_measure::number::{figure, plain};

/// Returns the plot of the target's bandwidth over time, with a line for each policy, or `None` if
/// no record has a series.
pub(super) fn target_over_time(report: &DemoReport) -> Option<Chart> {
    let looks = report.looks();
    let lines = report.policies.iter().filter_map(|result| {
        let series = points(result.client(&report.target)?)?;
        let dash = looks.dash(&result.policy);
        Some(line(
            &result.policy,
            looks.ink(&result.policy),
            false,
            dash,
            series,
        ))
    });
    let lines: Vec<ChartMark> = lines.collect();
    let means = report.policies.iter().filter_map(|p| {
        let mean = p.client(&report.target)?.bandwidth_mb_per_s;
        Some(format!("{} {} MB/s", p.policy, figure(mean)))
    });
    let means: Vec<String> = means.collect();
    (!lines.is_empty()).then(|| Chart {
        title: format!("Bandwidth of {}", named(&report.target)),
        description: format!("Mean over the run: {}.", means.join(", ")),
        marks: lines.into_iter().chain(promise(report)).collect(),
        ..over_time(report)
    })
}

/// Returns one plot for each policy: the target, the others as a band, and the total. All plots
/// have the same axis.
pub(super) fn everyone_over_time(report: &DemoReport) -> Vec<Chart> {
    let records = report.policies.iter().flat_map(|p| &p.records);
    let values = records.filter_map(|r| r.series_mb_per_s.as_ref()).flatten();
    // All plots have the same axis, so that policies can be compared across plots.
    let reach: Vec<f64> = values.map(|v| v.max(FLOOR)).collect();
    let plots = report.policies.iter();
    let plots = plots.filter_map(|result| everyone(report, result, &reach));
    plots.collect()
}

fn everyone(report: &DemoReport, result: &PolicyResult, reach: &[f64]) -> Option<Chart> {
    let target = result.client(&report.target).and_then(points);
    let total = result.total().and_then(points);
    let (name, ink) = (&report.target, report.looks().ink(&result.policy));
    let target = target.map(|points| line(name, ink, false, 0, points));
    let total = total.map(|points| line("all together", Ink::STRONG, true, 0, points));
    let lines: Vec<ChartMark> = target.into_iter().chain(total).collect();
    let others: Vec<Vec<(f64, f64)>> = result.others(&report.target).filter_map(points).collect();
    let others = (!others.is_empty()).then(|| ChartMark {
        name: "the others".into(),
        ink: Ink::QUIET,
        shape: MarkShape::Band(band(&others)),
    });
    let marks = |lines: Vec<ChartMark>| lines.into_iter().chain(others).chain(promise(report));
    (!lines.is_empty()).then(|| Chart {
        title: result.policy.clone(),
        description: result.verdict.clone(),
        scale: Scale::Log,
        reach: reach.to_vec(),
        marks: marks(lines).collect(),
        ..over_time(report)
    })
}

fn line(name: &str, ink: Ink, quiet: bool, dash: usize, points: Vec<(f64, f64)>) -> ChartMark {
    let shape = MarkShape::Line {
        points,
        quiet,
        dash,
    };
    let name = name.to_owned();
    ChartMark { name, ink, shape }
}

/// Returns an empty plot of bandwidth over the time that all plots show, from the start to the end
/// of the longest series.
fn over_time(report: &DemoReport) -> Chart {
    let records = report.policies.iter().flat_map(|p| &p.records);
    let ends =
        records.filter_map(|r| Some(r.series_step_s? * r.series_mb_per_s.as_ref()?.len() as f64));
    let ends = ends.reduce(f64::max).map(|end| (0.0, end));
    Chart {
        unit: "MB/s".into(),
        along: Along::Quantity("seconds".into(), ends),
        ..Chart::default()
    }
}

/// Returns the plot of the mean request's time by its parts, with a bar for each policy, or `None`
/// if no split is known.
pub(super) fn time_split(report: &DemoReport) -> Option<Chart> {
    let rows = report.policies.iter().filter_map(|result| {
        let record = result.client(&report.target)?;
        let split = record.split_us?;
        let mean = record.latency_us?.mean;
        // Rounding may make the parts larger than the mean.
        let rest = (mean - split.total()).max(0.0);
        let parts = vec![split.limit, split.elevator, split.drive, rest];
        Some((result.policy.clone(), mean, parts))
    });
    let parts = [
        ("limit", Ink::PARTS[0]),
        ("elevator", Ink::PARTS[1]),
        ("drive", Ink::PARTS[4]),
        ("link and client", Ink::QUIET),
    ];
    split::chart(&report.target, &parts, rows.collect())
}

/// Returns the plot of the target's mean and p99 latency under each policy.
pub(super) fn latency(report: &DemoReport) -> Chart {
    let of = |result: &PolicyResult| result.client(&report.target)?.latency_us;
    let mean = bars(report, "mean", Ink::STRONG, |p| Some(Bar::new(of(p)?.mean)));
    let p99 = bars(report, "p99", Ink::QUIET, |p| Some(Bar::new(of(p)?.p99)));
    Chart {
        title: format!("Latency of {}", named(&report.target)),
        description: "Mean and 99th percentile under each policy.".into(),
        unit: "us".into(),
        scale: Scale::Log,
        ..by_policy(report, vec![mean, p99])
    }
}

/// Returns the plot of the bandwidth of the target and the others under each policy.
pub(super) fn bandwidth(report: &DemoReport) -> Chart {
    let target = bars(report, &report.target, Ink::STRONG, |result| {
        let target = result.client(&report.target);
        target.map(|r| Bar::new(r.bandwidth_mb_per_s))
    });
    let others = bars(report, "the others", Ink::QUIET, |result| {
        let others = result.others(&report.target);
        let others: Vec<f64> = others.map(|r| r.bandwidth_mb_per_s).collect();
        let least = others.iter().copied().reduce(f64::min);
        let most = others.iter().copied().reduce(f64::max);
        median(&others).map(|value| Bar {
            value,
            range: least.zip(most),
        })
    });
    Chart {
        title: "Bandwidth of each client".into(),
        description: "The target and the median of the others under each policy.".into(),
        unit: "MB/s".into(),
        ..by_policy(report, vec![target, others])
    }
}

/// Returns a mark with a bar for each policy.
fn bars(
    report: &DemoReport,
    name: &str,
    ink: Ink,
    bar: impl Fn(&PolicyResult) -> Option<Bar>,
) -> ChartMark {
    let shape = MarkShape::Bars(report.policies.iter().map(bar).collect());
    let name = name.to_owned();
    ChartMark { name, ink, shape }
}

fn by_policy(report: &DemoReport, marks: Vec<ChartMark>) -> Chart {
    let names = report.policies.iter();
    let names = names.map(|p| (p.policy.clone(), String::new()));
    Chart {
        along: Along::Rows(names.collect()),
        marks,
        ..Chart::default()
    }
}

/// Returns the mark of the target's promise.
fn promise(report: &DemoReport) -> Option<ChartMark> {
    let policies = report.policies.iter();
    // The promise is the same under each policy, so that the first one found is taken.
    let mut records = policies.filter_map(|p| p.client(&report.target));
    let value = records.find_map(|r| r.promised_mb_per_s)?;
    Some(ChartMark {
        name: format!("promised {} MB/s", plain(value)),
        ink: Ink::STRONG,
        shape: MarkShape::Rule {
            value,
            dashed: true,
        },
    })
}

/// Returns a record's series, if it has one.
fn points(record: &Record) -> Option<Vec<(f64, f64)>> {
    record.series_mb_per_s.is_some().then(|| record.series())
}

/// Returns the minimum and maximum of several series, up to the end of the shortest.
fn band(series: &[Vec<(f64, f64)>]) -> Vec<(f64, f64, f64)> {
    // A client that ended earlier has no values any more.
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

/// The lower end of a log scale in MB/s. Without it, a window without requests would stretch the
/// scale without limit.
const FLOOR: f64 = 0.1;
