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
    /// What they are promised together in bytes, in MB/s.
    pub promised_mbps: f64,
    /// What they are promised together in requests a second.
    pub promised_iops: u64,
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
    pub drives: Option<Drives>,
    /// What is used of them, 0 to 1.
    pub utilization: Option<Interval>,
    /// What a client gets while it is active, in MB/s.
    pub average_mbps: Option<Interval>,
}

/// The drives that several searches found to be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drives {
    /// The number that was enough in every search.
    pub enough: u64,
    /// The number that was enough in one search at least.
    pub least: u64,
    /// The searches in which fewer than [`Self::enough`] were not.
    pub needed_in: usize,
    /// All searches.
    pub searches: usize,
}

impl Drives {
    /// Of what each search found: `None` without any, or where one of them found no number to be enough.
    pub fn of(searches: &[Option<u64>]) -> Option<Self> {
        let found: Option<Vec<u64>> = searches.iter().copied().collect();
        let found = found?;
        let (enough, least) = (*found.iter().max()?, *found.iter().min()?);
        Some(Self {
            enough,
            least,
            needed_in: found.iter().filter(|drives| **drives == enough).count(),
            searches: found.len(),
        })
    }
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

/// The same clients on drives of several kinds as one self-contained HTML page: a section for each kind. The first report says what holds
/// for all.
pub fn plan_page(reports: &[PlanReport]) -> String {
    let Some(first) = reports.first() else {
        return String::new();
    };
    let mut sections: Vec<Section> = reports.iter().map(section).collect();
    sections.push(Section {
        heading: "How to read this".into(),
        blocks: first.notes.iter().cloned().map(Block::Text).collect(),
    });
    let page = Page {
        title: format!("{}: drives for {} clients", first.scenario, first.clients),
        lead: head(first) + ".",
        intro: vec![first.load.clone()],
        sections,
        footer: "Written by `weir plan`. This page needs no network and no other file.".into(),
    };
    page.html()
}

/// What each policy needs of one kind of drive.
fn section(report: &PlanReport) -> Section {
    let drives = |row: &PlanRow| {
        let drives = row.drives?;
        Some(Bar {
            value: drives.enough as f64,
            range: Some((drives.least as f64, drives.enough as f64)),
        })
    };
    let used = |row: &PlanRow| {
        let Interval { mean, half } = row.utilization?;
        let (mean, half) = (mean * 100.0, half * 100.0);
        let range = (half.is_finite()).then(|| ((mean - half).max(0.0), mean + half));
        Some(Bar { value: mean, range })
    };
    let plots = vec![
        bars(report, "Drives needed", "", &drives),
        bars(report, "Used of what they could give", "%", &used),
    ];
    let caption = "Drives: the number that was enough in every search, and down to the least that was in one. Used: the mean of the searches, \
                   with its 95 % confidence interval. A policy without a bar does not keep the promises however many drives there are.";
    Section {
        heading: format!("What each policy needs of {}", report.drive),
        blocks: vec![
            Block::Plots(plots, caption.into()),
            Block::Table(table(report)),
        ],
    }
}

fn head(report: &PlanReport) -> String {
    let bytes = format!("{} MB/s", figure(report.promised_mbps));
    let promised = match report.promised_iops {
        0 => bytes,
        iops if report.promised_mbps > 0.0 => format!("{bytes} and {iops} requests/s"),
        iops => format!("{iops} requests/s"),
    };
    format!(
        "{} clients with {promised} promised together",
        report.clients
    )
}

fn table(report: &PlanReport) -> Table {
    let mut table = Table::new([
        Column::text("policy"),
        Column::number("drives"),
        Column::number("needed in").dropped(1),
        Column::number("clients a drive").dropped(2),
        Column::number("used"),
        Column::number("average MB/s"),
        Column::number("of the least"),
    ]);
    let least = report
        .rows
        .iter()
        .filter_map(|row| row.drives.map(|d| d.enough as f64));
    let least = least.reduce(f64::min);
    for row in &report.rows {
        let drives = row.drives.map(|d| d.enough as f64);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let sure = (row.drives).map(|d| format!("{} of {}", d.needed_in, d.searches));
        let times = drives.zip(least).map(|(mine, least)| mine / least);
        table.row([
            row.policy.clone(),
            or_dash(row.drives.map(|d| d.enough.to_string())),
            or_dash(sure),
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
    of: &dyn Fn(&PlanRow) -> Option<Bar>,
) -> String {
    // A drive for each client is no policy: it is grey.
    let ink = |at: usize, row: &PlanRow| match at {
        0 => Ink::QUIET,
        _ => policy::ink(&row.policy),
    };
    let rows = || report.rows.iter().enumerate();
    let bars = rows().map(|(_, row)| of(row));
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
