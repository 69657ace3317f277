//! The page of the demo, as one self-contained file.

use weir_measure::promise::Fate;
use weir_measure::{LatencyRecord, Record, median};

use super::{DemoReport, PolicyResult, plots, rows};
use crate::report::html::{Card, Gauge, HtmlPage, PageBlock, PageSection, Tone};
use crate::report::table::{capital, named};
use weir_measure::number::{duration, figure, percent, plain};

/// Writes the demo as one self-contained HTML page: the effect of each policy on the target and on
/// all other clients.
pub fn demo_page(report: &DemoReport) -> String {
    let clients = report.policies.first().map_or(0, |p| p.clients().count());
    let page = HtmlPage {
        title: format!("One drive, {clients} clients: before and after"),
        lead: lead(report).unwrap_or_default(),
        intro: vec![report.load.clone(), report.drive.clone()],
        sections: vec![
            at_a_glance(report),
            target(report),
            everyone(report),
            figures(report),
            best(report),
            PageSection::reading(&report.notes),
        ],
        command: "weir demo".into(),
    };
    page.html()
}

/// Returns a sentence that compares the first policy with the last.
fn lead(report: &DemoReport) -> Option<String> {
    // One policy has nothing to be compared with.
    let [before, .., after] = &report.policies[..] else {
        return None;
    };
    let of = |p: &PolicyResult| {
        p.client(&report.target)
            .map(|r| plain(r.bandwidth_mb_per_s))
    };
    let promised = before.client(&report.target)?.promised_mb_per_s?;
    let (first, last) = (
        before.total()?.bandwidth_mb_per_s,
        after.total()?.bandwidth_mb_per_s,
    );
    Some(format!(
        "Under {} {} gets {} of the {} MB/s it was promised. Under {} it gets {}, while all clients together still get {} \
         of {} MB/s.",
        before.policy,
        named(&report.target),
        of(before)?,
        plain(promised),
        after.policy,
        of(after)?,
        plain(last),
        plain(first),
    ))
}

fn at_a_glance(report: &DemoReport) -> PageSection {
    let cards = report.policies.iter().map(|result| card(report, result));
    PageSection::new("", vec![PageBlock::Cards(cards.collect())])
}

fn card(report: &DemoReport, result: &PolicyResult) -> Card {
    let target = result.client(&report.target);
    let mut card = Card {
        title: result.policy.clone(),
        ink: Some(report.looks().ink(&result.policy)),
        note: result.about.clone(),
        figure: target.map_or_else(|| "-".into(), |r| figure(r.bandwidth_mb_per_s)),
        unit: format!("MB/s for {}", named(&report.target)),
        tone: match result.fate {
            Fate::Kept => Tone::Good,
            Fate::Broken => Tone::Bad,
            _ => Tone::Plain,
        },
        badge: format!("promise {}", result.fate.name()),
        text: result.verdict.clone(),
        ..Card::default()
    };
    if let Some(record) = target {
        card.gauges.extend(promise_gauge(record));
        let worst = record
            .worst_second_mb_per_s
            .map(|w| format!("{} MB/s", figure(w)));
        card.rows.extend(worst.map(|w| ("worst second".into(), w)));
        let met = record.windows_met.map(percent);
        card.rows.extend(met.map(|m| ("seconds kept".into(), m)));
        let time = |of: fn(&LatencyRecord) -> f64| {
            (record.latency_us.as_ref()).map_or_else(|| "-".into(), |l| duration(of(l)))
        };
        card.rows.push(("mean latency".into(), time(|l| l.mean)));
        card.rows.push(("p99 latency".into(), time(|l| l.p99)));
    }
    card.gauges.extend(result.drive_busy.map(|busy| Gauge {
        name: "drive busy".into(),
        value: percent(busy),
        part: busy,
        mark: None,
    }));
    let others: Vec<f64> = result
        .others(&report.target)
        .map(|r| r.bandwidth_mb_per_s)
        .collect();
    // The median is not affected by a single client that starves.
    if let Some(middle) = median(&others) {
        card.rows
            .push(("others' median".into(), format!("{} MB/s", figure(middle))));
    }
    if let Some(total) = result.total() {
        let total = format!("{} MB/s", figure(total.bandwidth_mb_per_s));
        card.rows.push(("all together".into(), total));
    }
    card
}

/// Returns the gauge of bandwidth relative to the promise, which is at two thirds of the bar.
fn promise_gauge(record: &Record) -> Option<Gauge> {
    let promised = record.promised_mb_per_s.filter(|p| *p > 0.0)?;
    let part = record.bandwidth_mb_per_s / promised;
    Some(Gauge {
        name: format!("of {} MB/s promised", plain(promised)),
        value: percent(part),
        // The mark is at two thirds, so that the bar also shows 50 % more than the promise.
        part: part * 2.0 / 3.0,
        mark: Some(2.0 / 3.0),
    })
}

fn target(report: &DemoReport) -> PageSection {
    let over_time = [plots::target_over_time(report), plots::time_split(report)];
    let over_time = over_time.into_iter().flatten().collect();
    let bars = vec![plots::latency(report), plots::bandwidth(report)];
    let caption =
        "The bar of the others is their median; its ends are the slowest and the fastest of them.";
    PageSection::new(
        capital(&format!("{}, before and after", named(&report.target))),
        vec![
            PageBlock::Plots(over_time, SPLIT.into()),
            PageBlock::Plots(bars, caption.into()),
        ],
    )
}

fn everyone(report: &DemoReport) -> PageSection {
    let plots = plots::everyone_over_time(report);
    let caption = "The same run, with everyone in it. The grey area reaches from the slowest to the fastest of the others. \
                   The scale is logarithmic: each gridline is ten times the one below, and bandwidths below 0.1 MB/s are drawn at 0.1 MB/s.";
    let blocks = vec![PageBlock::Plots(plots, caption.into())];
    PageSection::new("What everyone got", blocks)
}

fn figures(report: &DemoReport) -> PageSection {
    let mut blocks = vec![PageBlock::Text(
        "Bandwidths in MB/s of 10^6 bytes, latencies in microseconds. \"worst s\" is the worst second, over the part of \
         it in which a request of the client waited; \"met\" the part of the seconds in which it was owed something that kept it."
            .into(),
    )];
    for result in &report.policies {
        let ink = report.looks().ink(&result.policy);
        blocks.push(PageBlock::Heading(result.policy.clone(), Some(ink)));
        blocks.push(PageBlock::Table(rows::clients(report, result, false)));
        if rows::fold(report, result)
            .iter()
            .any(|f| f.records.len() > 1)
        {
            let all = PageBlock::Table(rows::clients(report, result, true));
            blocks.push(PageBlock::Details("every client".into(), vec![all]));
        }
    }
    PageSection::new("Every figure", blocks)
}

fn best(report: &DemoReport) -> PageSection {
    let mut blocks = Vec::new();
    if !report.best.is_empty() {
        blocks.push(PageBlock::Terms(report.best.clone()));
        blocks.push(PageBlock::Table(rows::policies(report)));
    }
    PageSection::new("What the best possible schedule would give", blocks)
}

const SPLIT: &str = "Time of a request: where it went in the mean, from sending to answer, and how long that was: limit, \
                     held by its own maximum; elevator, waiting for its turn among the others; drive, being served; link and client, \
                     everything outside the server's core.";
