//! The plots of a comparison.

use super::{CompareReport, ComparedCell, ComparedDrive, ComparedOverTime};
use crate::number::duration;
use crate::policy;
use crate::svg::{Bar, BarChart, BarGroup, Ink, Line, LineChart, Scale, StackChart, StackRow};
use crate::table::named;

/// Sizes of plots two in a row.
pub(super) const HALF: (f64, f64) = (520.0, 270.0);

/// Lower bandwidths are drawn here, since a log scale has no zero.
const FLOOR: f64 = 0.01;

/// The names of all policies, in order of first occurrence.
pub(super) fn policies(report: &CompareReport) -> Vec<&str> {
    let cells = report.drives.iter().flat_map(|d| &d.cells);
    let mut names = Vec::new();
    for cell in cells {
        if !names.contains(&cell.policy.as_str()) {
            names.push(cell.policy.as_str());
        }
    }
    names
}

/// Plots over the width of the page.
const WHOLE: (f64, f64) = (1060.0, 330.0);

/// The figures of a drive that have plots of their own: a group for each case, a bar for each policy.
pub(super) fn figures(report: &CompareReport, drive: &ComparedDrive) -> Vec<String> {
    let first = drive.cells.first();
    let figures = first.into_iter().flat_map(|c| c.figures.iter().enumerate());
    figures
        .map(|(at, figure)| {
            let value = |cell: &ComparedCell| {
                let value = cell.figures.get(at)?.value;
                value.map(Bar::new)
            };
            let values = drive.cells.iter().filter_map(|c| c.figures.get(at)?.value);
            let (least, most) = values.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
            BarChart {
                title: figure.name.clone(),
                description: format!("{} by case and policy.", figure.name),
                unit: figure.unit.clone(),
                scale: if least > 0.0 && most > 10.0 * least {
                    Scale::Log
                } else {
                    Scale::Linear
                },
                size: WHOLE,
                series: series(report),
                groups: groups(report, drive, value, str::to_owned),
            }
            .html()
        })
        .collect()
}

/// As [`bars`], over the width of the page.
pub(super) fn latencies(report: &CompareReport, drive: &ComparedDrive) -> String {
    let chart = BarChart {
        size: WHOLE,
        title: format!("Latency of {}", named(&report.target)),
        ..latency(report, drive)
    };
    chart.html()
}

/// A group for each case, a bar for each policy.
fn groups(
    report: &CompareReport,
    drive: &ComparedDrive,
    bar: impl Fn(&ComparedCell) -> Option<Bar>,
    name: impl Fn(&str) -> String,
) -> Vec<BarGroup> {
    let policies = policies(report);
    let group = |case: &str| BarGroup {
        name: if case.is_empty() {
            report.target.clone()
        } else {
            name(case)
        },
        bars: (policies.iter())
            .map(|policy| bar(drive.of(case).find(|c| c.policy == *policy)?))
            .collect(),
    };
    drive.cases().into_iter().map(group).collect()
}

fn series(report: &CompareReport) -> Vec<(String, Ink)> {
    let policies = policies(report).into_iter();
    policies.map(|p| (p.to_owned(), policy::ink(p))).collect()
}

/// Mean latency with standard deviation: a group for each case, a bar for each policy.
pub(super) fn bars(report: &CompareReport, drive: &ComparedDrive) -> String {
    latency(report, drive).html()
}

fn latency(report: &CompareReport, drive: &ComparedDrive) -> BarChart {
    BarChart {
        title: drive.name.clone(),
        description: format!(
            "Mean latency of {} by case and policy.",
            named(&report.target)
        ),
        unit: "ms".into(),
        scale: Scale::Log,
        size: match report.drives.len() {
            1 | 2 | 4 => HALF,
            _ if policies(report).len() > 3 => (440.0, 330.0),
            _ => (340.0, 290.0),
        },
        series: series(report),
        groups: groups(report, drive, bar, |case| format!("beside {case}")),
    }
}

fn bar(cell: &ComparedCell) -> Option<Bar> {
    let latency = cell.latency_us?;
    let ms = |us: f64| us / 1e3;
    // On a log scale an error bar cannot reach below zero; no request was faster than the minimum.
    let low = (latency.mean - latency.sd).max(latency.min);
    Some(Bar {
        value: ms(latency.mean),
        range: Some((ms(low), ms(latency.mean + latency.sd))),
    })
}

/// The plots of one case on one drive.
pub(super) fn case(report: &CompareReport, drive: &ComparedDrive, case: &str) -> Vec<String> {
    let cells: Vec<&ComparedCell> = drive.of(case).collect();
    let over_time = Over {
        report,
        cells: &cells,
    };
    let plots = [
        time_split(report, &cells),
        over_time.latency(),
        over_time.bandwidth(),
        over_time.depth(),
    ];
    plots.into_iter().flatten().collect()
}

/// The plot of a drive with one policy and many cases: where the mean request of each spent its time.
pub(super) fn cases(report: &CompareReport, drive: &ComparedDrive) -> Option<String> {
    let cells: Vec<&ComparedCell> = drive.cells.iter().collect();
    let height = 90.0 + 22.0 * cells.len() as f64;
    split_of(report, &cells, (2.0 * HALF.0, height), |cell| &cell.case)
}

/// Where the mean request spent its time, by policy.
fn time_split(report: &CompareReport, cells: &[&ComparedCell]) -> Option<String> {
    split_of(report, cells, HALF, |cell| &cell.policy)
}

/// Where the mean request spent its time, in per cent, since times differ by orders of magnitude.
fn split_of(
    report: &CompareReport,
    cells: &[&ComparedCell],
    size: (f64, f64),
    name: impl Fn(&ComparedCell) -> &String,
) -> Option<String> {
    let rows = cells.iter().filter_map(|cell| {
        let all: f64 = cell.parts_us.iter().sum();
        let mean = cell.latency_us?.mean;
        (all > 0.0).then(|| StackRow {
            name: name(cell).clone(),
            sum: duration(mean),
            values: cell.parts_us.iter().map(|p| p * 100.0 / all).collect(),
        })
    });
    let rows: Vec<StackRow> = rows.collect();
    let sums: Vec<String> = rows
        .iter()
        .map(|r| format!("{} {}", r.name, r.sum))
        .collect();
    let inks = Ink::PARTS.iter().chain(std::iter::repeat(&Ink::QUIET));
    let chart = StackChart {
        title: format!("Time of a request of {}", named(&report.target)),
        description: format!("Mean time of a request: {}.", sums.join(", ")),
        unit: "%".into(),
        size,
        parts: report.parts.iter().cloned().zip(inks.copied()).collect(),
        rows,
    };
    (!chart.rows.is_empty()).then(|| chart.html())
}

/// Cells shown over time, in the colours and patterns of their policies.
struct Over<'a> {
    report: &'a CompareReport,
    cells: &'a [&'a ComparedCell],
}

impl Over<'_> {
    fn latency(&self) -> Option<String> {
        let lines = self.lines(|_, over| {
            let points = segments(&over.latency_us);
            vec![(String::new(), false, points)]
        });
        self.chart(
            &format!("Latency of {} over time", named(&self.report.target)),
            "ms",
            Scale::Log,
            lines,
        )
    }

    fn bandwidth(&self) -> Option<String> {
        let raised =
            |points: &[(f64, f64)]| points.iter().map(|(t, v)| (*t, v.max(FLOOR))).collect();
        let lines = self.lines(|_, over| {
            vec![
                (", target".into(), false, raised(&over.target_mbps)),
                (", others".into(), true, raised(&over.others_mbps)),
            ]
        });
        self.chart(
            "Bandwidth, target and all others",
            "MB/s",
            Scale::Log,
            lines,
        )
    }

    fn depth(&self) -> Option<String> {
        let lines = self.lines(|_, over| vec![(String::new(), false, over.depth.clone())]);
        self.chart("Commands in the drive", "", Scale::Linear, lines)
    }

    /// Lines of each such cell: the suffix to the policy's name, whether it is drawn thin, its points.
    fn lines(
        &self,
        of: impl Fn(&ComparedCell, &ComparedOverTime) -> Vec<(String, bool, Vec<(f64, f64)>)>,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        for cell in self.cells {
            let Some(over) = &cell.over_time else {
                continue;
            };
            for (name, quiet, points) in of(cell, over) {
                lines.push(Line {
                    name: format!("{}{name}", cell.policy),
                    ink: policy::ink(&cell.policy),
                    quiet,
                    dash: policy::dash(&cell.policy),
                    points,
                });
            }
        }
        lines
    }

    fn chart(&self, title: &str, unit: &str, scale: Scale, lines: Vec<Line>) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        let cells = self.cells.iter().filter_map(|c| c.over_time.as_ref());
        let ends = cells.flat_map(|o| o.depth.iter().chain(&o.latency_us).map(|p| p.0));
        let means = self.cells.iter().filter_map(|cell| {
            let mean = cell.latency_us?.mean;
            Some(format!("{} {}", cell.policy, duration(mean)))
        });
        let means: Vec<String> = means.collect();
        let chart = LineChart {
            title: title.to_owned(),
            description: format!("Mean latencies: {}.", means.join(", ")),
            x_name: "seconds".into(),
            y_unit: unit.to_owned(),
            scale,
            x_range: ends.reduce(f64::max).map(|end| (0.0, end)),
            size: HALF,
            lines,
            ..LineChart::default()
        };
        Some(chart.html())
    }
}

/// Latencies in ms. If only few requests completed, each is drawn from its submission to its completion.
fn segments(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const FEW: usize = 25;
    let all = points.iter();
    if points.len() > FEW {
        return all.map(|(t, us)| (*t, us / 1e3)).collect();
    }
    all.flat_map(|(t, us)| {
        let sent = (t - us / 1e6).max(0.0);
        [(sent, us / 1e3), (*t, us / 1e3), (*t, f64::NAN)]
    })
    .collect()
}
