//! How many drives clients need: the report of `weir plan`.

use crate::html::{Block, Page, Section};
use crate::number::figure;
use crate::policy;
use crate::svg::{Bar, BarChart, BarGroup, Ink, Scale};
use crate::table::{Column, Table, wrap};
use weir_measure::Interval;

/// How many drives clients need under each policy.
#[derive(Debug, Clone, Default)]
pub struct PlanReport {
    /// The scenario's name.
    pub scenario: String,
    /// What the clients do, in a sentence or two.
    pub load: String,
    /// The drive, in a line.
    pub drive: String,
    /// What one sequential reader gets of one, in MB/s.
    pub peak_mbps: f64,
    /// How many clients there are.
    pub clients: usize,
    /// What they are promised together, in MB/s.
    pub promised_mbps: f64,
    /// The policies; the first row is a drive for each client.
    pub rows: Vec<PlanRow>,
    /// How to read the figures.
    pub notes: Vec<String>,
}

/// What clients need under a policy. `None`: the promises are not kept
/// however many drives there are.
#[derive(Debug, Clone, Default)]
pub struct PlanRow {
    /// The policy.
    pub policy: String,
    /// Drives.
    pub drives: Option<Interval>,
    /// What is used of them, 0 to 1.
    pub utilization: Option<Interval>,
    /// What a client gets while it is active, in MB/s.
    pub average_mbps: Option<Interval>,
}

/// The report as text of at most `width` columns.
pub fn plan_table(report: &PlanReport, width: usize) -> String {
    let mut text = wrap(&format!("{}.", head(report)), width);
    text += "\n";
    text += &wrap(&format!("{}.", report.drive.trim_end_matches('.')), width);
    text += "\n\n";
    text += &table(report).text(width);
    text += "\n";
    for note in &report.notes {
        text += &wrap(note, width);
        text += "\n";
    }
    text
}

/// The report as one self-contained HTML page.
pub fn plan_page(report: &PlanReport) -> String {
    let plots = [
        bars(report, "Drives needed", "", &|row| row.drives),
        bars(report, "Used of what they could give", "%", &|row| {
            let Interval { mean, half } = row.utilization?;
            Some(Interval {
                mean: mean * 100.0,
                half: half * 100.0,
            })
        }),
    ];
    let caption = "Means, with the 95 % confidence interval. A policy without a bar does not keep the promises however many drives there are.";
    let notes = report.notes.iter().cloned().map(Block::Text);
    let page = Page {
        title: format!("{}: drives for {} clients", report.scenario, report.clients),
        lead: head(report) + ".",
        intro: vec![report.load.clone()],
        sections: vec![
            Section {
                heading: "What each policy needs".into(),
                blocks: vec![Block::Plots(plots.to_vec(), caption.into())],
            },
            Section {
                heading: "In numbers".into(),
                blocks: vec![
                    Block::Text(report.drive.clone()),
                    Block::Table(table(report)),
                ],
            },
            Section {
                heading: "How to read this".into(),
                blocks: notes.collect(),
            },
        ],
        footer: "Written by `weir plan`. This page needs no network and no other file.".into(),
    };
    page.html()
}

fn head(report: &PlanReport) -> String {
    format!(
        "{} clients with {} MB/s promised together",
        report.clients,
        figure(report.promised_mbps)
    )
}

fn table(report: &PlanReport) -> Table {
    let mut table = Table::new([
        Column::text("policy"),
        Column::number("drives"),
        Column::number("+-").dropped(2),
        Column::number("clients a drive").dropped(1),
        Column::number("used"),
        Column::number("average MB/s"),
        Column::number("of the least"),
    ]);
    let least = report
        .rows
        .iter()
        .filter_map(|row| row.drives.map(|d| d.mean));
    let least = least.reduce(f64::min);
    for row in &report.rows {
        let drives = row.drives.map(|d| d.mean);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let sure = row.drives.map(|d| d.half).filter(|half| half.is_finite());
        let times = drives.zip(least).map(|(mine, least)| mine / least);
        table.row([
            row.policy.clone(),
            or_dash(drives.map(figure)),
            or_dash(sure.map(figure)),
            or_dash(drives.map(|d| figure(report.clients as f64 / d))),
            or_dash(row.utilization.map(|u| format!("{:.0}%", u.mean * 100.0))),
            or_dash(row.average_mbps.map(|a| figure(a.mean))),
            or_dash(times.map(|t| format!("{t:.1}x"))),
        ]);
    }
    table
}

fn bars(
    report: &PlanReport,
    title: &str,
    unit: &str,
    of: &dyn Fn(&PlanRow) -> Option<Interval>,
) -> String {
    // A drive for each client is no policy: it is grey.
    let ink = |at: usize, row: &PlanRow| match at {
        0 => Ink::QUIET,
        _ => policy::ink(&row.policy),
    };
    let rows = || report.rows.iter().enumerate();
    let bars = rows().map(|(_, row)| {
        let Interval { mean, half } = of(row)?;
        let range = half
            .is_finite()
            .then(|| ((mean - half).max(0.0), mean + half));
        Some(Bar { value: mean, range })
    });
    let chart = BarChart {
        title: title.into(),
        description: format!("{title}, by policy."),
        unit: unit.into(),
        scale: Scale::Linear,
        size: (520.0, 290.0),
        series: rows()
            .map(|(at, row)| (row.policy.clone(), ink(at, row)))
            .collect(),
        groups: vec![BarGroup {
            name: format!("{} clients", report.clients),
            bars: bars.collect(),
        }],
    };
    chart.html()
}
