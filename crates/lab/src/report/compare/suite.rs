//! The page of several comparisons, as one self-contained file, with the plots of the S suite.

use super::plots::looks;
use super::{CompareReport, ComparedCell, ComparedDrive, plots, rows, scores};
use crate::report::html::{HtmlPage, PageBlock, PageSection};
use crate::report::svg::{Along, Chart, ChartMark, Ink, MarkShape};
use crate::report::table::named;

/// Comparisons that belong together.
#[derive(Debug, Clone, Default)]
pub struct SuiteReport {
    /// The name of the suite.
    pub name: String,
    /// The purpose of the suite, in a line.
    pub about: String,
    /// The results of each comparison.
    pub parts: Vec<CompareReport>,
    /// True if the suite has scores, which then come first on the page.
    pub scored: bool,
}

/// Returns the scores of a suite as text of at most `width` columns. `None` for a suite without
/// scores.
pub fn suite_scores(report: &SuiteReport, width: usize) -> Option<String> {
    report.scored.then(|| scores::text(&report.parts, width))
}

/// Writes all comparisons on one self-contained HTML page, with stacked bars of bandwidth and the
/// load of each.
pub fn suite_page(report: &SuiteReport) -> String {
    let loads = report.parts.iter();
    let loads = loads.map(|part| (part.scenario.clone(), part.load.clone()));
    let played = vec![PageBlock::Terms(loads.collect())];
    let mut sections = if report.scored {
        scores::sections(&report.parts)
    } else {
        Vec::new()
    };
    sections.push(PageSection::new("What is played", played));
    let mut notes: Vec<String> = Vec::new();
    for part in &report.parts {
        sections.extend(part.drives.iter().map(|on| drive(part, on)));
        for note in &part.notes {
            // Comparisons of a suite share most of their notes.
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    sections.push(PageSection::reading(&notes));
    let page = HtmlPage {
        title: format!("{}: {}", report.name, report.about),
        lead: String::new(),
        intro: vec![READING.into()],
        sections,
        command: "weir compare".into(),
    };
    page.html()
}

const READING: &str = "Stacked bars: the target's bandwidth, and behind it that of all others together; the number is their sum. The line is the bandwidth of all clients together without control (none). The dashed line is the least bandwidth that the target is to get.";

/// Returns the section of one comparison on one drive.
fn drive(report: &CompareReport, drive: &ComparedDrive) -> PageSection {
    let figures = plots::figures(report, drive, None);
    // A figure with a plot of its own replaces latency.
    let latency = report.latency && figures.is_empty();
    let cases = drive.cases();
    let pictures = cases.iter().map(|case| columns(report, drive, case));
    let pictures: Vec<Chart> = pictures.collect();
    let rows = [figures].into_iter();
    let rows = rows.chain(pictures.chunks(2).map(<[Chart]>::to_vec));
    let mut blocks: Vec<PageBlock> = rows
        .map(|row| PageBlock::Plots(row, String::new()))
        .collect();
    if latency {
        let bars = plots::latency(report, drive, "Latency");
        blocks.push(PageBlock::Plots(bars, plots::LATENCY.into()));
    }
    blocks.push(PageBlock::Details(
        format!("All figures on {}", drive.name),
        vec![
            PageBlock::Text(drive.about.clone()),
            PageBlock::Table(rows::drive(drive, report.latency)),
        ],
    ));
    PageSection::new(format!("{} on {}", report.scenario, drive.name), blocks)
}

/// Returns the plot of the bandwidth of the target and of the others under each policy.
fn columns(report: &CompareReport, drive: &ComparedDrive, case: &str) -> Chart {
    let cells: Vec<&ComparedCell> = drive.of(case).collect();
    let part = |name: &str, ink: Ink, of: fn(&ComparedCell) -> f64| ChartMark {
        name: name.to_owned(),
        ink,
        shape: MarkShape::Parts(cells.iter().map(|cell| of(cell)).collect()),
    };
    let rule = |name: &str, ink: Ink, value: f64, dashed: bool| ChartMark {
        name: name.to_owned(),
        ink,
        shape: MarkShape::Rule { value, dashed },
    };
    let mut marks = vec![
        part(&report.target, Ink::PARTS[4], |cell| cell.target_mb_per_s),
        part("others", Ink::QUIET, |cell| {
            cell.total_mb_per_s - cell.target_mb_per_s
        }),
    ];
    let none = cells.iter().find(|c| c.policy == "none");
    marks.extend(none.map(|c| {
        rule(
            "total under none",
            looks(report).ink("none"),
            c.total_mb_per_s,
            false,
        )
    }));
    let least = report.minimum_mb_per_s;
    marks.extend(least.map(|least| rule("minimum", Ink::STRONG, least, true)));
    let said = cells.iter().map(|c| {
        let (mine, all) = (c.target_mb_per_s, c.total_mb_per_s);
        format!("{}: {mine:.1} of {all:.1}", c.policy)
    });
    let said: Vec<String> = said.collect();
    Chart {
        title: match case {
            "" => report.scenario.clone(),
            case => case.to_owned(),
        },
        description: format!(
            "MB/s of {} and of all: {}.",
            named(&report.target),
            said.join(", ")
        ),
        unit: "MB/s".into(),
        along: Along::Rows(
            cells
                .iter()
                .map(|c| (c.policy.clone(), String::new()))
                .collect(),
        ),
        marks,
        ..Chart::default()
    }
}
