//! A comparison as one self-contained page.

use super::{CompareReport, ComparedCell, ComparedDrive, clients, plots, rows, states};
use crate::html::{Block, Page, Section};
use crate::number::duration;
use crate::policy;
use crate::svg::Chart;
use crate::table::named;

/// A comparison as one self-contained HTML page: the target's latency under each policy, and the reasons.
pub fn compare_page(report: &CompareReport) -> String {
    let drives = report.drives.iter().map(|d| drive(report, d));
    let mut sections: Vec<Section> = [figures(report)].into_iter().chain(drives).collect();
    if report.clients {
        // What became of all comes before the target's latency.
        sections.rotate_left(1);
    }
    sections.push(Section::reading(&report.notes));
    let drives = match &report.drives[..] {
        [one] => one.name.clone(),
        all => format!("{} drives", all.len()),
    };
    let shows = if report.clients {
        "what each client gets".to_owned()
    } else {
        format!("how long {} waits", named(&report.target))
    };
    let page = Page {
        title: format!("{}: {shows}, on {drives}", report.scenario),
        lead: lead(report).filter(|_| !report.clients).unwrap_or_default(),
        intro: vec![report.load.clone()],
        sections,
        command: "weir compare".into(),
    };
    page.html()
}

/// The largest difference, as a sentence.
fn lead(report: &CompareReport) -> Option<String> {
    let cells = report
        .drives
        .iter()
        .flat_map(|d| d.cells.iter().map(move |c| (d, c)));
    let least = cells.filter_map(|(d, c)| Some((d, c, c.of_none?)));
    let (drive, cell, of_none) = least.min_by(|a, b| a.2.total_cmp(&b.2))?;
    let mine = cell.latency_us?.mean;
    let place = if cell.case.is_empty() {
        String::new()
    } else {
        format!(" beside {}", cell.case)
    };
    let others = drive.of(&cell.case).filter(|c| c.policy != cell.policy);
    let others = others.filter_map(|c| Some(format!("{} under {}", mean(c)?, c.policy)));
    let others: Vec<String> = others.collect();
    (of_none < 1.0).then(|| {
        format!(
            "On {}{place} a request of {} takes {}, and {} under {}.",
            drive.name,
            named(&report.target),
            others.join(", "),
            duration(mine),
            cell.policy
        )
    })
}

fn mean(cell: &ComparedCell) -> Option<String> {
    Some(duration(cell.latency_us?.mean))
}

/// Cases of one policy beyond this many are told beside each other, not each for itself.
const MANY: usize = 8;

/// There is one policy, and many cases are compared under it.
fn is_sweep(report: &CompareReport) -> bool {
    let many = report.drives.iter().any(|d| d.cases().len() > MANY);
    many && plots::policies(report).len() == 1
}

fn figures(report: &CompareReport) -> Section {
    let bars = report.drives.iter().filter(|_| !is_sweep(report));
    let bars: Vec<Chart> = bars.map(|d| plots::latency(report, d)).collect();
    let caption = "Mean latency; the error bars are one standard deviation to both sides. The scale is logarithmic: each gridline is \
                   ten times the one below.";
    let heading = format!("Latency of {}", named(&report.target));
    let blocks = vec![Block::Plots(bars, caption.into())];
    Section::new(heading, blocks)
}

fn drive(report: &CompareReport, drive: &ComparedDrive) -> Section {
    let mut blocks = vec![Block::Text(drive.about.clone())];
    if report.clients {
        blocks.extend(every_client(drive));
        let target = format!("Requests of {}", named(&report.target));
        blocks.push(Block::Heading(target, None));
    }
    blocks.push(Block::Table(rows::drive(drive, report.latency)));
    blocks.push(Block::Plots(plots::figures(report, drive), FIGURES.into()));
    if is_sweep(report) {
        let plot = plots::cases(report, drive).into_iter().collect();
        let caption = "Where a mean request of each case spent its time.";
        blocks.push(Block::Plots(plot, caption.into()));
        return Section::new(&drive.name, blocks);
    }
    for case in drive.cases() {
        if !case.is_empty() {
            blocks.push(Block::Heading(format!("Beside {case}"), None));
        }
        let why = drive.of(case).map(|c| (c.policy.clone(), c.why.clone()));
        blocks.push(Block::Terms(why.collect()));
        let plots = plots::case(report, drive, case);
        blocks.push(Block::Plots(plots, CAPTION.into()));
        let cells = drive.of(case);
        blocks.extend(cells.filter_map(|cell| states::block(report, cell)));
    }
    Section::new(&drive.name, blocks)
}

/// What became of every client: at a glance, and then in figures.
fn every_client(drive: &ComparedDrive) -> Vec<Block> {
    let mut blocks = Vec::new();
    for case in drive.cases() {
        let cells: Vec<&ComparedCell> = drive.of(case).collect();
        if !case.is_empty() {
            blocks.push(Block::Heading(format!("Case {case}: every client"), None));
        }
        blocks.push(Block::Table(clients::policies(&cells)));
        blocks.push(Block::Table(clients::matrix(&cells)));
        let each = cells.iter().flat_map(|cell| {
            let ink = Some(policy::ink(&cell.policy));
            let heading = Block::Heading(cell.policy.clone(), ink);
            [heading, Block::Table(clients::clients(cell))]
        });
        blocks.push(Block::Details(
            "Every client's figures, by policy".into(),
            each.collect(),
        ));
    }
    blocks
}

const FIGURES: &str =
    "Means of all repetitions; where a bar is missing, it was not known in all of them.";

const CAPTION: &str = "Time split: mean of all repetitions. Over time: the first repetition, from the beginning of the measurement on; each policy has a colour and a pattern of its own, so that lines which lie on each other are told apart. On the logarithmic scales each gridline is ten times the one below.";
