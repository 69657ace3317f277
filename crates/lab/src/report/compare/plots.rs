//! The plots of a comparison.

use super::{CompareReport, ComparedCell, ComparedDrive, ComparedFigure, ComparedOverTime};
use crate::report::policy::Looks;
use crate::report::split;
use crate::report::svg::{Along, Bar, Chart, ChartMark, DASHES, Ink, MarkShape, Scale};
use crate::report::table::{capital, named};
use weir_measure::number::duration;

/// The width and minimum height of plots that span the page.
const WHOLE: (f64, f64) = (760.0, 300.0);

/// The maximum number of rows in a plot. More are divided among one plot for each case.
const ROWS: usize = 24;

/// The caption of the plots of [`latency`].
pub(super) const LATENCY: &str = "Mean latency of the target. The error bars are one standard deviation to both sides, and end at the fastest request. The scale is \
                                  logarithmic: each gridline is ten times the one before.";

/// The smallest bandwidth that is drawn, in MB/s, because a log scale has no zero.
const FLOOR: f64 = 0.01;

/// Returns the names of all policies, in order of first occurrence.
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

/// Returns the looks of all policies of a page.
pub(super) fn looks(report: &CompareReport) -> Looks {
    Looks::of(policies(report))
}

/// Returns the first requirement of the scenario, with its name and unit, or `None` if no cell has
/// it.
pub(super) fn headline(report: &CompareReport) -> Option<&ComparedFigure> {
    let cells = report.drives.iter().flat_map(|d| &d.cells);
    cells.flat_map(|cell| &cell.headline).next()
}

/// Returns the plots of the first requirement of the scenario.
pub(super) fn asked(report: &CompareReport, drive: &ComparedDrive) -> Vec<Chart> {
    let Some(figure) = headline(report) else {
        return Vec::new();
    };
    let value = |cell: &ComparedCell| cell.headline.as_ref()?.value;
    let base = Chart {
        title: drive.name.clone(),
        ..of_figure(drive, figure, value)
    };
    let base = with_bounds(report, figure, base);
    if has_distribution(drive) {
        let base = Chart {
            scale: Scale::Linear,
            ..base
        };
        return marks(report, drive, &base, |cells| {
            MarkShape::Runs(
                cells
                    .iter()
                    .map(|c| c.map_or_else(Vec::new, |c| c.runs.clone()))
                    .collect(),
            )
        });
    }
    bars(report, drive, &base, |cell| value(cell).map(Bar::new))
}

/// Returns true if the runs of a cell are many and differ, so that their mean says little.
pub(super) fn has_distribution(drive: &ComparedDrive) -> bool {
    /// The number of runs from which on they show a distribution.
    const MANY: usize = 10;
    /// The factor between runs that is more than noise.
    const APART: f64 = 1.5;
    drive.cells.iter().any(|cell| {
        let ends = cell
            .runs
            .iter()
            .fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
        cell.runs.len() >= MANY && ends.1 > APART * ends.0
    })
}

/// Adds lines at the minimum and the maximum bandwidth of the target, if the plot is about it.
fn with_bounds(report: &CompareReport, figure: &ComparedFigure, base: Chart) -> Chart {
    if figure.name != format!("bandwidth of {}", named(&report.target)) {
        return base;
    }
    let bounds = [
        ("minimum", Ink::STRONG, true, report.minimum_mb_per_s),
        ("maximum", Ink::QUIET, false, report.maximum_mb_per_s),
    ];
    let rules = bounds.into_iter().filter_map(|(name, ink, dashed, value)| {
        Some(ChartMark {
            name: name.to_owned(),
            ink,
            shape: MarkShape::Rule {
                value: value?,
                dashed,
            },
        })
    });
    Chart {
        marks: rules.collect(),
        ..base
    }
}

/// Returns the plots of a drive's figures, except that of `shown`.
pub(super) fn figures(
    report: &CompareReport,
    drive: &ComparedDrive,
    shown: Option<&ComparedFigure>,
) -> Vec<Chart> {
    let first = drive.cells.first();
    let figures = first.into_iter().flat_map(|c| c.figures.iter().enumerate());
    let figures = figures.filter(|(_, figure)| shown.is_none_or(|s| s.name != figure.name));
    let all = figures.flat_map(|(at, figure)| {
        let value = move |cell: &ComparedCell| cell.figures.get(at)?.value;
        let base = of_figure(drive, figure, value);
        bars(report, drive, &base, move |cell| value(cell).map(Bar::new))
    });
    all.collect()
}

/// Returns a plot of a figure without marks. Values that differ by more than a factor of ten get a
/// log scale.
fn of_figure(
    drive: &ComparedDrive,
    figure: &ComparedFigure,
    value: impl Fn(&ComparedCell) -> Option<f64>,
) -> Chart {
    let values = drive.cells.iter().filter_map(value);
    let (least, most) = values.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
    Chart {
        title: capital(&figure.name),
        description: format!("{} by case and policy.", capital(&figure.name)),
        unit: figure.unit.clone(),
        // A log scale needs positive values.
        scale: if least > 0.0 && most > 10.0 * least {
            Scale::Log
        } else {
            Scale::Linear
        },
        ..Chart::default()
    }
}

/// Returns the plots of mean latency with standard deviation, under a title.
pub(super) fn latency(report: &CompareReport, drive: &ComparedDrive, title: &str) -> Vec<Chart> {
    let bar = |cell: &ComparedCell| {
        let latency = cell.latency_us?;
        // On a log scale, an error bar cannot reach below zero. It ends at the minimum, because no
        // request was faster.
        let low = (latency.mean - latency.sd).max(latency.min);
        Some(Bar {
            value: latency.mean,
            range: Some((low, latency.mean + latency.sd)),
        })
    };
    let target = named(&report.target);
    let base = Chart {
        title: title.to_owned(),
        description: format!("Mean latency of {target} by case and policy."),
        unit: "us".into(),
        scale: Scale::Log,
        ..Chart::default()
    };
    bars(report, drive, &base, bar)
}

/// Adds bars to a plot: one for each policy, in a group for each case.
fn bars(
    report: &CompareReport,
    drive: &ComparedDrive,
    base: &Chart,
    bar: impl Fn(&ComparedCell) -> Option<Bar>,
) -> Vec<Chart> {
    marks(report, drive, base, |cells| {
        MarkShape::Bars(cells.iter().map(|cell| bar((*cell)?)).collect())
    })
}

/// Adds marks to a plot: one for each policy, with a group for each case. If that gives too many
/// rows, there is a plot for each case, all with the same axis.
fn marks(
    report: &CompareReport,
    drive: &ComparedDrive,
    base: &Chart,
    shape: impl Fn(&[Option<&ComparedCell>]) -> MarkShape,
) -> Vec<Chart> {
    let (cases, names) = (drive.cases(), policies(report));
    let looks = looks(report);
    let of = |cases: &[&str], policy: &str| {
        let cells = &drive.cells;
        let of = |case: &&str| cells.iter().find(|c| c.case == *case && c.policy == policy);
        cases.iter().map(of).collect::<Vec<_>>()
    };
    let beside = |case: &str| match case {
        "" => String::new(),
        case => format!("beside {case}"),
    };
    let chart = |title: String, cases: &[&str], reach: Vec<f64>| {
        let mark = |policy: &&str| ChartMark {
            name: (*policy).to_owned(),
            ink: looks.ink(policy),
            shape: shape(&of(cases, policy)),
        };
        Chart {
            title,
            reach,
            along: Along::Rows(cases.iter().map(|c| (beside(c), String::new())).collect()),
            marks: base
                .marks
                .iter()
                .cloned()
                .chain(names.iter().map(mark))
                .collect(),
            ..base.clone()
        }
    };
    let whole = chart(base.title.clone(), &cases, Vec::new());
    if cases.len() == 1 || cases.len() * (names.len() + 1) <= ROWS {
        return vec![whole];
    }
    // All plots have the axis of the whole, so that bars can be compared across plots.
    let reach = whole.values();
    let each = cases.iter().map(|case| {
        // If there is only one drive, the heading of the page contains its name.
        let title = match (&report.drives[..], base.title == drive.name) {
            ([_], true) => capital(&beside(case)),
            (_, true) => format!("{}, {}", capital(&beside(case)), base.title),
            (_, false) => format!("{} {}", base.title, beside(case)),
        };
        chart(title, &[*case], reach.clone())
    });
    each.collect()
}

/// A series of cases: the word behind the number, and for each number the latency in microseconds.
type Series<'a> = (&'a str, Vec<(u32, f64)>);

/// Returns a plot of the decrease of the target's mean latency over a number, in percent, with a
/// line for each drive, if the cases are pairs such as `2-old` and `2-new` for several numbers.
/// The decrease is that of the second word relative to the first.
pub(super) fn gain(report: &CompareReport) -> Option<Chart> {
    let [policy] = policies(report)[..] else {
        return None;
    };
    let mut words = None;
    let lines = report
        .drives
        .iter()
        .enumerate()
        .filter_map(|(number, drive)| {
            let [(before, old), (since, new)] = series(drive, policy).try_into().ok()?;
            words = Some((before, since));
            let pairs = old.iter().filter_map(|(n, was)| {
                let now = new.iter().find(|(other, _)| other == n)?.1;
                Some((f64::from(*n), (1.0 - now / was) * 100.0))
            });
            let points: Vec<(f64, f64)> = pairs.collect();
            (points.len() >= FEWEST).then(|| ChartMark {
                name: drive.name.clone(),
                ink: Ink::policy(number % Ink::POLICIES),
                shape: MarkShape::Line {
                    points,
                    quiet: false,
                    dash: number % DASHES,
                },
            })
        });
    let marks: Vec<ChartMark> = lines.collect();
    let (before, since) = words.filter(|_| !marks.is_empty())?;
    Some(Chart {
        title: format!("Decrease of latency from {before} to {since}"),
        description: format!(
            "Decrease of the mean latency of {} by the number.",
            named(&report.target)
        ),
        unit: "%".into(),
        along: Along::Quantity("number in the name of the case".into(), None),
        marks,
        size: Some(WHOLE),
        ..Chart::default()
    })
}

/// The smallest number of points that make a line.
const FEWEST: usize = 3;

/// Returns the cases of a drive whose names are a number and a word, by word, in order of number.
fn series<'a>(drive: &'a ComparedDrive, policy: &str) -> Vec<Series<'a>> {
    let mut all: Vec<Series<'a>> = Vec::new();
    for cell in drive.cells.iter().filter(|cell| cell.policy == policy) {
        let parts = cell.case.split_once('-');
        let parts = parts.and_then(|(number, word)| Some((number.parse::<u32>().ok()?, word)));
        let (Some((number, word)), Some(latency)) = (parts, cell.latency_us) else {
            continue;
        };
        let point = (number, latency.mean);
        match all.iter_mut().find(|(other, _)| *other == word) {
            Some((_, points)) => points.push(point),
            None => all.push((word, vec![point])),
        }
    }
    // Words with few numbers, such as loads of another kind, are no series.
    all.retain(|(_, points)| points.len() >= FEWEST);
    all
}

/// Returns the plots of one case on one drive: the split of a request's time and, with `with_time`,
/// the course over time.
pub(super) fn case(
    report: &CompareReport,
    drive: &ComparedDrive,
    case: &str,
    with_time: bool,
) -> Vec<Chart> {
    let cells: Vec<&ComparedCell> = drive.of(case).collect();
    let split = time_split(report, &cells, |cell| &cell.policy);
    let over_time = if with_time {
        over_time(report, &cells)
    } else {
        Vec::new()
    };
    split.into_iter().chain(over_time).collect()
}

/// Returns the plot of a drive with one policy and many cases: the split of the mean request's time
/// in each case.
pub(super) fn cases(report: &CompareReport, drive: &ComparedDrive) -> Option<Chart> {
    let cells: Vec<&ComparedCell> = drive.cells.iter().collect();
    let chart = time_split(report, &cells, |cell| &cell.case)?;
    Some(Chart {
        size: Some(WHOLE),
        ..chart
    })
}

/// Returns the plot of the mean request's time by its parts.
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

/// A line for each cell: the suffix of the policy's name, whether it is drawn thin, and the
/// function of its points.
type LineOf = (&'static str, bool, fn(&ComparedOverTime) -> Vec<(f64, f64)>);

/// Returns plots of the cells over time, in the colours and patterns of their policies.
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
    let looks = looks(report);
    let chart = |title: &str, unit: &str, scale: Scale, lines: &[LineOf]| {
        let marks = over.iter().flat_map(|(cell, over)| {
            lines.iter().map(|(name, quiet, points)| ChartMark {
                name: format!("{}{name}", cell.policy),
                ink: looks.ink(&cell.policy),
                shape: MarkShape::Line {
                    points: points(over),
                    quiet: *quiet,
                    dash: looks.dash(&cell.policy),
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
            "us",
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

/// Returns latencies in microseconds as points. If only few requests completed, each is drawn from
/// its submission to its completion.
fn segments(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const FEW: usize = 25;
    if points.len() > FEW {
        return points.to_vec();
    }
    let all = points.iter();
    all.flat_map(|(t, us)| {
        let sent = (t - us / 1e6).max(0.0);
        // The gap separates the request from the next one.
        [(sent, *us), (*t, *us), (*t, f64::NAN)]
    })
    .collect()
}
