//! The plots of a comparison.

use super::{CompareReport, ComparedCell, ComparedDrive, ComparedOverTime};
use crate::number::duration;
use crate::svg::{Along, Bar, Chart, Ink, Mark, Scale, Shape};
use crate::table::named;
use crate::{policy, split};

/// Plots over the width of the page.
const WHOLE: (f64, f64) = (1060.0, 330.0);

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

/// The figures of a drive that have plots of their own.
pub(super) fn figures(report: &CompareReport, drive: &ComparedDrive) -> Vec<Chart> {
    let first = drive.cells.first();
    let figures = first.into_iter().flat_map(|c| c.figures.iter().enumerate());
    let chart = |(at, figure): (usize, &super::ComparedFigure)| {
        let value = |cell: &ComparedCell| cell.figures.get(at)?.value;
        let values = drive.cells.iter().filter_map(value);
        let (least, most) = values.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        Chart {
            title: figure.name.clone(),
            description: format!("{} by case and policy.", figure.name),
            unit: figure.unit.clone(),
            scale: if least > 0.0 && most > 10.0 * least {
                Scale::Log
            } else {
                Scale::Linear
            },
            size: Some(WHOLE),
            ..bars(report, drive, "", |cell| value(cell).map(Bar::new))
        }
    };
    figures.map(chart).collect()
}

/// Mean latency with standard deviation.
pub(super) fn latency(report: &CompareReport, drive: &ComparedDrive) -> Chart {
    let bar = |cell: &ComparedCell| {
        let latency = cell.latency_us?;
        let ms = |us: f64| us / 1e3;
        // On a log scale an error bar cannot reach below zero; no request was faster than the minimum.
        let low = (latency.mean - latency.sd).max(latency.min);
        Some(Bar {
            value: ms(latency.mean),
            range: Some((ms(low), ms(latency.mean + latency.sd))),
        })
    };
    let target = named(&report.target);
    // Several plots in a row have little room for many bars.
    let dense = !matches!(report.drives.len(), 1 | 2 | 4) && policies(report).len() > 3;
    Chart {
        title: drive.name.clone(),
        description: format!("Mean latency of {target} by case and policy."),
        unit: "ms".into(),
        scale: Scale::Log,
        size: dense.then_some((440.0, 330.0)),
        ..bars(report, drive, "beside ", bar)
    }
}

/// As [`latency`], over the width of the page.
pub(super) fn wide_latency(report: &CompareReport, drive: &ComparedDrive) -> Chart {
    Chart {
        title: format!("Latency of {}", named(&report.target)),
        size: Some(WHOLE),
        ..latency(report, drive)
    }
}

/// A group for each case, called by its name after `beside`, and a bar for each policy.
fn bars(
    report: &CompareReport,
    drive: &ComparedDrive,
    beside: &str,
    bar: impl Fn(&ComparedCell) -> Option<Bar>,
) -> Chart {
    let cases = drive.cases();
    let name = |case: &&str| match *case {
        "" => report.target.clone(),
        case => format!("{beside}{case}"),
    };
    let of = |case: &str, policy: &str| bar(drive.of(case).find(|c| c.policy == policy)?);
    let mark = |policy: &str| Mark {
        name: policy.to_owned(),
        ink: policy::ink(policy),
        shape: Shape::Bars(cases.iter().map(|case| of(case, policy)).collect()),
    };
    Chart {
        along: Along::Groups(cases.iter().map(name).collect()),
        marks: policies(report).into_iter().map(mark).collect(),
        ..Chart::default()
    }
}

/// The plots of one case on one drive.
pub(super) fn case(report: &CompareReport, drive: &ComparedDrive, case: &str) -> Vec<Chart> {
    let cells: Vec<&ComparedCell> = drive.of(case).collect();
    let split = time_split(report, &cells, |cell| &cell.policy);
    split.into_iter().chain(over_time(report, &cells)).collect()
}

/// The plot of a drive with one policy and many cases: where the mean request of each spent its time.
pub(super) fn cases(report: &CompareReport, drive: &ComparedDrive) -> Option<Chart> {
    let cells: Vec<&ComparedCell> = drive.cells.iter().collect();
    let height = 90.0 + 22.0 * cells.len() as f64;
    let chart = time_split(report, &cells, |cell| &cell.case)?;
    let size = Some((WHOLE.0, height));
    Some(Chart { size, ..chart })
}

/// Where the mean request spent its time.
fn time_split(
    report: &CompareReport,
    cells: &[&ComparedCell],
    name: impl Fn(&ComparedCell) -> &String,
) -> Option<Chart> {
    let inks = Ink::PARTS.into_iter().chain(std::iter::repeat(Ink::QUIET));
    let parts = report.parts.iter().map(String::as_str).zip(inks);
    let rows = cells.iter().filter_map(|cell| {
        let mean = cell.latency_us?.mean;
        Some((name(cell).clone(), mean, cell.parts_us.clone()))
    });
    split::chart(&report.target, &parts.collect::<Vec<_>>(), rows.collect())
}

/// A line for each cell: the suffix to the policy's name, whether it is drawn thin, its points.
type LineOf = (&'static str, bool, fn(&ComparedOverTime) -> Vec<(f64, f64)>);

/// How the cells went over time, in the colours and patterns of their policies.
fn over_time(report: &CompareReport, cells: &[&ComparedCell]) -> Vec<Chart> {
    let over = cells
        .iter()
        .filter_map(|c| Some((*c, c.over_time.as_ref()?)));
    let over: Vec<(&ComparedCell, &ComparedOverTime)> = over.collect();
    if over.is_empty() {
        return Vec::new();
    }
    let ends = over.iter();
    let ends = ends.flat_map(|(_, o)| o.depth.iter().chain(&o.latency_us).map(|p| p.0));
    let ends = ends.reduce(f64::max).map(|end| (0.0, end));
    let means = cells.iter().filter_map(|cell| {
        let mean = cell.latency_us?.mean;
        Some(format!("{} {}", cell.policy, duration(mean)))
    });
    let means: Vec<String> = means.collect();
    let chart = |title: &str, unit: &str, scale: Scale, lines: &[LineOf]| {
        let marks = over.iter().flat_map(|(cell, over)| {
            lines.iter().map(|(name, quiet, points)| Mark {
                name: format!("{}{name}", cell.policy),
                ink: policy::ink(&cell.policy),
                shape: Shape::Line {
                    points: points(over),
                    quiet: *quiet,
                    dash: policy::dash(&cell.policy),
                },
            })
        });
        Chart {
            title: title.to_owned(),
            description: format!("Mean latencies: {}.", means.join(", ")),
            unit: unit.to_owned(),
            scale,
            along: Along::Quantity("seconds".into(), ends),
            marks: marks.collect(),
            ..Chart::default()
        }
    };
    let latency = format!("Latency of {} over time", named(&report.target));
    let bandwidth = "Bandwidth, target and all others";
    let both: [LineOf; 2] = [
        (", target", false, |over| raised(&over.target_mb_per_s)),
        (", others", true, |over| raised(&over.others_mb_per_s)),
    ];
    vec![
        chart(
            &latency,
            "ms",
            Scale::Log,
            &[("", false, |over| segments(&over.latency_us))],
        ),
        chart(bandwidth, "MB/s", Scale::Log, &both),
        chart(
            "Commands in the drive",
            "",
            Scale::Linear,
            &[("", false, |over| over.depth.clone())],
        ),
    ]
}

fn raised(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().map(|(t, v)| (*t, v.max(FLOOR))).collect()
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
