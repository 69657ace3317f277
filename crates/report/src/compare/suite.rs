//! Several comparisons as one self-contained page, in the pictures of the S suite.

use super::{CompareReport, ComparedCell, ComparedDrive, plots, rows};
use crate::html::{Block, Page, Section};
use crate::policy;
use crate::svg::{ColumnChart, Ink};
use crate::table::named;

/// Comparisons that belong together.
#[derive(Debug, Clone, Default)]
pub struct SuiteReport {
    /// Their name.
    pub name: String,
    /// What they show, in a line.
    pub about: String,
    /// Each of them.
    pub parts: Vec<CompareReport>,
}

/// All comparisons on one self-contained HTML page: stacked bars of bandwidth, and what each is about.
pub fn suite_page(report: &SuiteReport) -> String {
    let loads = report.parts.iter();
    let loads = loads.map(|part| (part.scenario.clone(), part.load.clone()));
    let mut sections = vec![Section {
        heading: "What is played".into(),
        blocks: vec![Block::Terms(loads.collect())],
    }];
    for part in &report.parts {
        sections.extend(part.drives.iter().map(|on| drive(part, on)));
    }
    let mut notes: Vec<String> = Vec::new();
    for note in report.parts.iter().flat_map(|part| &part.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    sections.push(Section {
        heading: "How to read this".into(),
        blocks: notes.into_iter().map(Block::Text).collect(),
    });
    let page = Page {
        title: format!("{}: {}", report.name, report.about),
        lead: String::new(),
        intro: vec![READING.into()],
        sections,
        footer: "Written by `weir compare`. This page needs no network and no other file.".into(),
    };
    page.html()
}

const READING: &str = "Stacked bars: the target's bandwidth, and above it that of all others together; the number is their sum. The line is what all get together without control (none), the dashed one what the target is to get at least.";

/// One comparison on one drive.
fn drive(report: &CompareReport, drive: &ComparedDrive) -> Section {
    let mut blocks = Vec::new();
    let figures = plots::figures(report, drive);
    let latency = report.latency && figures.is_empty();
    if !figures.is_empty() {
        blocks.push(Block::Plots(figures, String::new()));
    }
    let cases = drive.cases();
    let pictures = cases.iter().map(|case| columns(report, drive, case));
    let pictures: Vec<String> = pictures.collect();
    let rows = pictures.chunks(2);
    blocks.extend(rows.map(|row| Block::Plots(row.to_vec(), String::new())));
    if latency {
        let bars = vec![plots::latencies(report, drive)];
        let caption =
            "Mean latency of the target; the error bars are one standard deviation to both sides.";
        blocks.push(Block::Plots(bars, caption.into()));
    }
    blocks.push(Block::Details(
        format!("All figures on {}", drive.name),
        vec![
            Block::Text(drive.about.clone()),
            Block::Table(rows::drive(drive, report.latency)),
        ],
    ));
    Section {
        heading: format!("{} on {}", report.scenario, drive.name),
        blocks,
    }
}

/// Bandwidth of the target and of the others under each policy.
fn columns(report: &CompareReport, drive: &ComparedDrive, case: &str) -> String {
    let cells: Vec<&ComparedCell> = drive.of(case).collect();
    let column = |cell: &&ComparedCell| {
        let others = cell.total_mbps - cell.target_mbps;
        (cell.policy.clone(), vec![cell.target_mbps, others])
    };
    let none = cells.iter().find(|c| c.policy == "none");
    let total = none.map(|c| {
        (
            "total under none".to_owned(),
            Some(policy::ink("none")),
            c.total_mbps,
        )
    });
    let least = report.minimum_mbps.map(|m| ("minimum".to_owned(), None, m));
    let title = if case.is_empty() {
        &report.scenario
    } else {
        case
    };
    let said = cells.iter().map(|c| {
        let (mine, all) = (c.target_mbps, c.total_mbps);
        format!("{}: {mine:.1} of {all:.1}", c.policy)
    });
    let said: Vec<String> = said.collect();
    let chart = ColumnChart {
        title: title.to_owned(),
        description: format!(
            "MB/s of {} and of all: {}.",
            named(&report.target),
            said.join(", ")
        ),
        unit: "MB/s".into(),
        size: plots::HALF,
        parts: vec![
            (report.target.clone(), Ink::PARTS[4]),
            ("others".into(), Ink::QUIET),
        ],
        columns: cells.iter().map(column).collect(),
        lines: total.into_iter().chain(least).collect(),
    };
    chart.html()
}
