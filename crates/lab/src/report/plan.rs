//! The report of `weir plan`: the number of drives that clients need.

use crate::report::html::{HtmlPage, PageBlock, PageSection};
use crate::report::policy::Looks;
use crate::report::svg::{Along, Bar, Chart, ChartMark, Ink, MarkShape};
use crate::report::table::{Column, ReportTable, wrap};
use weir_measure::number::figure;
use weir_measure::{Interval, Need};

/// The number of drives of one kind that clients need under each policy.
#[derive(Debug, Clone, Default)]
pub struct PlanReport {
    /// The load of the clients, in a sentence or two.
    pub load: String,
    /// A description of the drive, in a line.
    pub drive: String,
    /// The results under each policy. The first row is a drive for each client, and contains the
    /// values that apply to all.
    pub rows: Vec<PlanRow>,
    /// Explanations of the figures, one per line.
    pub notes: Vec<String>,
}

/// The number of drives that clients need under a policy.
#[derive(Debug, Clone)]
pub struct PlanRow {
    /// The result of the search.
    pub need: Need,
    /// The part of the drives that is used, from 0 to 1.
    pub used: Option<Interval>,
    /// A sentence about the client whose promise fails with one drive less. `None` if one drive is
    /// enough.
    pub why: Option<String>,
}

/// Prints the report as text of at most `width` columns.
pub fn plan_table(report: &PlanReport, width: usize) -> String {
    let mut text = wrap(&head(report), width);
    text += "\n";
    text += &wrap(&format!("{}.", report.drive.trim_end_matches('.')), width);
    text += "\n\n";
    text += &table(report).text(width);
    text += "\n";
    for why in report.rows.iter().filter_map(|row| row.why.as_ref()) {
        text += &wrap(why, width);
        text += "\n";
    }
    for note in &report.notes {
        text += &wrap(note, width);
        text += "\n";
    }
    text
}

/// Writes the reports of the same clients on several kinds of drives as one self-contained HTML
/// page, with a section for each kind. The values that apply to all are taken from the first
/// report.
pub fn plan_page(reports: &[PlanReport]) -> String {
    let Some((first, row)) = reports.first().and_then(|r| Some((r, r.rows.first()?))) else {
        return String::new();
    };
    let mut sections: Vec<PageSection> = reports.iter().map(section).collect();
    sections.push(PageSection::reading(&first.notes));
    let page = HtmlPage {
        title: format!(
            "{}: drives for {} clients",
            row.need.scenario, row.need.clients
        ),
        lead: head(first),
        intro: vec![first.load.clone()],
        sections,
        command: "weir plan".into(),
    };
    page.html()
}

/// Returns the section of one kind of drive, with the number that each policy needs.
fn section(report: &PlanReport) -> PageSection {
    let drives = |row: &PlanRow| {
        let enough = row.need.drives? as f64;
        // The range shows how much the searches differ.
        let least = row.need.searches.iter().flatten().min();
        let range = least.map(|least| (*least as f64, enough));
        let value = enough;
        Some(Bar { value, range })
    };
    let used = |row: &PlanRow| {
        let Interval { mean, half } = row.used?;
        let (mean, half) = (mean * 100.0, half * 100.0);
        let range = (half.is_finite()).then(|| ((mean - half).max(0.0), mean + half));
        Some(Bar { value: mean, range })
    };
    let plots = vec![
        bars(report, "Drives needed", "", drives),
        bars(report, "Used of what they could give", "%", used),
    ];
    let caption = "Drives: the number that was enough in every search, and down to the least that was in one. Used: the mean of the searches, \
                   with its 95 % confidence interval. A policy with a dash does not keep the promises however many drives there are.";
    let whys = report.rows.iter().filter_map(|row| row.why.clone());
    let blocks = [
        PageBlock::Plots(plots, caption.into()),
        PageBlock::Table(table(report)),
    ];
    let blocks = blocks.into_iter().chain(whys.map(PageBlock::Text));
    PageSection::new(
        format!("What each policy needs of {}", report.drive),
        blocks.collect(),
    )
}

fn head(report: &PlanReport) -> String {
    let Some(PlanRow { need, .. }) = report.rows.first() else {
        return String::new();
    };
    let bytes = format!("{} MB/s", figure(need.promised_mb_per_s));
    let promised = match need.promised_iops {
        0 => bytes,
        iops if need.promised_mb_per_s > 0.0 => format!("{bytes} and {iops} requests/s"),
        iops => format!("{iops} requests/s"),
    };
    format!(
        "{} clients with {promised} promised together.",
        need.clients
    )
}

fn table(report: &PlanReport) -> ReportTable {
    // A plan that counts only promises has only one possible limit.
    let is_limited = |row: &PlanRow| row.need.average_asked_mb_per_s.is_some();
    let limit = report
        .rows
        .iter()
        .any(is_limited)
        .then(|| Column::text("limited by"));
    let columns = [
        Column::text("policy"),
        Column::number("drives"),
        Column::number("needed in").dropped(1),
        Column::number("clients a drive").dropped(2),
        Column::number("used"),
        Column::number("average MB/s"),
        Column::number("of the least"),
    ];
    let mut table = ReportTable::new(columns.into_iter().chain(limit.clone()));
    let needs = || report.rows.iter().map(|row| &row.need);
    let least = needs().filter_map(|need| need.drives).min();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for need in needs() {
        let drives = need.drives.map(|d| d as f64);
        let sure = need.needed_in;
        let times = drives.zip(least).map(|(mine, least)| mine / least as f64);
        let row = [
            need.policy.clone(),
            or_dash(need.drives.map(|d| d.to_string())),
            or_dash(sure.map(|n| format!("{n} of {}", need.searches.len()))),
            or_dash(drives.map(|d| figure(need.clients as f64 / d))),
            or_dash(need.used.map(|used| format!("{:.0}%", used * 100.0))),
            or_dash(need.average_mb_per_s.map(figure)),
            or_dash(times.map(|t| format!("{t:.1}x"))),
        ];
        let limited = need.limited_by.map(|limit| limit.word().to_owned());
        table.row(
            row.into_iter()
                .chain(limit.iter().map(|_| or_dash(limited.clone()))),
        );
    }
    table
}

/// Returns a plot with a bar for each policy.
fn bars(
    report: &PlanReport,
    title: &str,
    unit: &str,
    of: impl Fn(&PlanRow) -> Option<Bar>,
) -> Chart {
    // The first row is a drive for each client, which needs no colour.
    let policies = report.rows.iter().skip(1);
    let looks = Looks::of(policies.map(|row| row.need.policy.as_str()));
    let rows = report.rows.iter().enumerate();
    let marks = rows.map(|(at, row)| ChartMark {
        name: row.need.policy.clone(),
        // A drive for each client is not a policy and therefore grey.
        ink: match at {
            0 => Ink::QUIET,
            _ => looks.ink(&row.need.policy),
        },
        shape: MarkShape::Bars(vec![of(row)]),
    });
    let clients = report.rows.first().map_or(0, |row| row.need.clients);
    Chart {
        title: title.into(),
        description: format!("{title}, by policy."),
        unit: unit.into(),
        along: Along::Rows(vec![(format!("{clients} clients"), String::new())]),
        marks: marks.collect(),
        ..Chart::default()
    }
}
