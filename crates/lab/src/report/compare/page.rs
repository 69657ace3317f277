//! The page of a comparison, as one self-contained file.

use super::{
    CompareReport, ComparedCell, ComparedDrive, ComparedFigure, clients, plots, rows, states,
};
use crate::report::html::{HtmlPage, PageBlock, PageSection};
use crate::report::table::{capital, named};
use weir_measure::number::{duration, figure};

/// Writes a comparison as one self-contained HTML page: the figures that the scenario requires
/// under each policy, and the reasons.
///
/// The page has at most [`PAGE_BYTES`] if leaving out details can achieve that. A note on the page
/// lists the omitted details.
pub fn compare_page(report: &CompareReport) -> String {
    let pages = Detail::ALL.map(|detail| move || page(report, detail));
    // The least detailed page is written even if it is still too large.
    let (last, others) = pages.split_last().expect("there are several");
    let mut pages = others.iter().map(|page| page());
    let small = pages.find(|page| page.len() <= PAGE_BYTES);
    small.unwrap_or_else(last)
}

/// The size limit of a page, in bytes. A browser on a phone opens such a page at once, and a
/// message can carry it.
pub const PAGE_BYTES: usize = 2_000_000;

/// The amount of detail on a page, which is reduced if the page would be too large.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Only tables and means, without figures of clients.
    Means,
    /// Only tables and means.
    Clients,
    /// In addition, latency, bandwidth and the drive's queue over time.
    Time,
    /// In addition, the states of controllers and the elevator over time.
    States,
}

impl Detail {
    /// All levels, the most detailed first.
    const ALL: [Self; 4] = [Self::States, Self::Time, Self::Clients, Self::Means];

    /// Returns a sentence about the details that are left out.
    fn note(self) -> Option<String> {
        let out = match self {
            Self::States => return None,
            Self::Time => "what controllers were doing over time",
            Self::Clients => "everything over time",
            Self::Means => "everything over time, and the figures of single clients",
        };
        Some(format!(
            "Left out so that this page has less than 2 MB: {out}. Choose fewer cases, drives or policies (--case, --drive, --policy) to see it."
        ))
    }
}

fn page(report: &CompareReport, detail: Detail) -> String {
    let drives = report.drives.iter().map(|d| drive(report, d, detail));
    let mut sections: Vec<PageSection> = figures(report);
    let plots = sections.len();
    sections.extend(drives);
    if report.clients {
        // The results of all clients come before the figures of one.
        sections.rotate_left(plots);
    }
    let notes: Vec<String> = detail
        .note()
        .into_iter()
        .chain(report.notes.iter().cloned())
        .collect();
    sections.push(PageSection::reading(&notes));
    let drives = match &report.drives[..] {
        [one] => one.name.clone(),
        all => format!("{} drives", all.len()),
    };
    let shows = match (report.about.as_str(), plots::headline(report)) {
        ("", _) if report.clients => "what each client gets".to_owned(),
        ("", Some(figure)) => figure.name.clone(),
        ("", None) => format!("how long {} waits", named(&report.target)),
        (about, _) => about.to_owned(),
    };
    let page = HtmlPage {
        title: format!("{} on {drives}: {shows}", report.scenario),
        lead: lead(report).unwrap_or_default(),
        intro: vec![report.load.clone()],
        sections,
        command: "weir compare".into(),
    };
    page.html()
}

/// Returns a sentence about the first requirement of the scenario, for the drive and case in which
/// policies differ most. If the scenario requires nothing else of a target, the sentence is about
/// latency.
fn lead(report: &CompareReport) -> Option<String> {
    let latency = ComparedFigure {
        name: format!("mean latency of {}", named(&report.target)),
        unit: "us".into(),
        value: None,
    };
    let shows_latency = report.latency && !report.clients;
    let asked = plots::headline(report);
    let figure = asked.or_else(|| shows_latency.then_some(&latency))?;
    let value = |cell: &ComparedCell| match asked {
        Some(_) => cell.headline.as_ref()?.value,
        None => cell.latency_us.map(|latency| latency.mean),
    };
    let groups = report.drives.iter();
    let groups = groups.flat_map(|d| d.cases().into_iter().map(move |case| (d, case)));
    let groups = groups.filter_map(|(drive, case)| {
        let values = drive.of(case);
        let values = values.filter_map(|c| Some((c.policy.as_str(), value(c)?)));
        let values: Vec<(&str, f64)> = values.collect();
        let least = values.iter().map(|v| v.1).reduce(f64::min)?;
        let most = values.iter().map(|v| v.1).reduce(f64::max)?;
        // If one policy leaves nothing, the difference is the largest possible.
        let apart = if most > 0.0 { 1.0 - least / most } else { 0.0 };
        Some((drive, case, values, apart))
    });
    let (drive, case, values, _) = groups.reduce(|a, b| if b.3 > a.3 { b } else { a })?;
    let place = match case {
        "" => drive.name.clone(),
        case => format!("{} beside {case}", drive.name),
    };
    Some(format!(
        "On {place} the {} is {}.",
        figure.name,
        under(&figure.unit, values)
    ))
}

/// Lists values by policy: all of them, or the first and the extremes if there are many.
fn under(unit: &str, mut values: Vec<(&str, f64)>) -> String {
    const FEW: usize = 4;
    let said =
        |(policy, value): &(&str, f64)| format!("{} under {policy}", with_unit(*value, unit));
    if values.len() > FEW {
        let first = said(&values[0]);
        values.remove(0);
        // The first policy stays the point of reference, and the others are shown as a range.
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (low, high) = (&values[0], &values[values.len() - 1]);
        return format!("{first}, and from {} to {}", said(low), said(high));
    }
    let mut all: Vec<String> = values.iter().map(said).collect();
    let last = all.pop().unwrap_or_default();
    match all.len() {
        0 => last,
        _ => format!("{}, and {last}", all.join(", ")),
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "us" => duration(value),
        _ if value.fract() == 0.0 => format!("{value:.0} {unit}").trim_end().to_owned(),
        _ => format!("{} {unit}", figure(value)).trim_end().to_owned(),
    }
}

/// The number of cases of one policy beyond which they are shown next to each other instead of one
/// by one.
const MANY: usize = 8;

/// Returns true if there is one policy, and many cases are compared under it.
fn is_sweep(report: &CompareReport) -> bool {
    let many = report.drives.iter().any(|d| d.cases().len() > MANY);
    many && plots::policies(report).len() == 1
}

/// Returns the sections of the first requirement of the scenario and of the target's latency.
fn figures(report: &CompareReport) -> Vec<PageSection> {
    // A sweep has one bar per case, which its own plot shows.
    let drives = || report.drives.iter().filter(|_| !is_sweep(report));
    let mut sections = Vec::new();
    if let Some(figure) = plots::headline(report) {
        let plots = drives().flat_map(|d| plots::asked(report, d)).collect();
        let runs = report.drives.iter().any(plots::has_distribution);
        let caption = if runs { RUNS } else { FIGURES };
        let blocks = vec![PageBlock::Plots(plots, caption.into())];
        sections.push(PageSection::new(capital(&figure.name), blocks));
    }
    if let Some(chart) = plots::gain(report) {
        let blocks = vec![PageBlock::Plots(vec![chart], GAIN.into())];
        sections.push(PageSection::new("Gain by number".to_owned(), blocks));
    }
    if report.latency {
        let plots = drives()
            .flat_map(|d| plots::latency(report, d, &d.name))
            .collect();
        let heading = format!("Latency of {}", named(&report.target));
        let blocks = vec![PageBlock::Plots(plots, plots::LATENCY.into())];
        sections.push(PageSection::new(heading, blocks));
    }
    sections
}

fn drive(report: &CompareReport, drive: &ComparedDrive, detail: Detail) -> PageSection {
    let mut blocks = vec![PageBlock::Text(drive.about.clone())];
    if report.clients {
        blocks.extend(every_client(report, drive, detail));
        let target = format!("Requests of {}", named(&report.target));
        blocks.push(PageBlock::Heading(target, None));
    }
    blocks.push(PageBlock::Table(rows::drive(drive, report.latency)));
    let figures = plots::figures(report, drive, plots::headline(report));
    blocks.push(PageBlock::Plots(figures, FIGURES.into()));
    if is_sweep(report) {
        let plot = plots::cases(report, drive).into_iter().collect();
        let caption = "Where a mean request of each case spent its time.";
        blocks.push(PageBlock::Plots(plot, caption.into()));
        return PageSection::new(&drive.name, blocks);
    }
    for case in drive.cases() {
        if !case.is_empty() {
            blocks.push(PageBlock::Heading(format!("Beside {case}"), None));
        }
        let why = drive.of(case).map(|c| (c.policy.clone(), c.why.clone()));
        blocks.push(PageBlock::Terms(why.collect()));
        let plots = plots::case(report, drive, case, detail >= Detail::Time);
        blocks.push(PageBlock::Plots(plots, CAPTION.into()));
        let cells = drive.of(case).filter(|_| detail >= Detail::States);
        blocks.extend(cells.filter_map(|cell| states::block(report, drive, cell)));
    }
    PageSection::new(&drive.name, blocks)
}

/// Returns the results of every client: first the verdicts, and then all figures.
fn every_client(report: &CompareReport, drive: &ComparedDrive, detail: Detail) -> Vec<PageBlock> {
    let looks = plots::looks(report);
    let mut blocks = Vec::new();
    for case in drive.cases() {
        let cells: Vec<&ComparedCell> = drive.of(case).collect();
        if !case.is_empty() {
            blocks.push(PageBlock::Heading(
                format!("Case {case}: every client"),
                None,
            ));
        }
        blocks.push(PageBlock::Table(clients::policies(&cells)));
        if detail < Detail::Clients {
            continue;
        }
        blocks.push(PageBlock::Table(clients::matrix(&cells)));
        let each = cells.iter().flat_map(|cell| {
            let ink = Some(looks.ink(&cell.policy));
            let heading = PageBlock::Heading(cell.policy.clone(), ink);
            [heading, PageBlock::Table(clients::clients(cell))]
        });
        blocks.push(PageBlock::Details(
            "Every client's figures, by policy".into(),
            each.collect(),
        ));
    }
    blocks
}

const FIGURES: &str = "Means of all repetitions. A dash: the figure is not known in all of them.";

const GAIN: &str = "Decrease of the target's mean latency from the first to the second of each pair of cases, by the number in their names, for example requests in flight.";

const RUNS: &str = "A tick for each repetition, and a dot with the number at their median, because the repetitions differ.";

const CAPTION: &str = "Time split: mean of all repetitions. Over time: the first repetition, from the beginning of the measurement on; each policy has a colour and a pattern of its own, so that lines which lie on each other are told apart. On the logarithmic scales each gridline is ten times the one below; bandwidths below 0.01 MB/s are drawn at 0.01 MB/s.";
