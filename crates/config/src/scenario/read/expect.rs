//! Reading of expectations and published figures.

use super::super::Scenario;
use super::super::expect::{
    Bounds, Expect, Figure, FigureOwner, FigureValue, Part, Published, Requirement,
};
use super::{list, named_client};
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::field::KeyField;
use crate::key::{EXPECT, PUBLISHED};
use crate::nearest;
use crate::policy;
use crate::text::quoted;

const HELP: &str =
    "set one of promise = \"all\", shares = \"5%\", max = \"2%\" and figure = \"p99\"";

pub(super) fn expects<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    scenario: &Scenario,
    cases: &[String],
) -> Vec<Expect> {
    let mut all = Vec::new();
    for (entry, table) in doc.tables(root, "expect", &EXPECT) {
        let policies = table.entry("policies").map(|e| policies(doc, &e));
        if let Some(asked) = asked(doc, &entry, &table, scenario, cases) {
            all.push(Expect {
                asked,
                policies: policies.unwrap_or_default(),
            });
        }
    }
    all
}

fn asked<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    table: &ShapedTable<'a>,
    scenario: &Scenario,
    cases: &[String],
) -> Option<Requirement> {
    let kinds = ["promise", "shares", "max", "figure"].map(|k| (k, table.entry(k)));
    let there: Vec<&(&str, Option<KeyEntry<'a>>)> =
        kinds.iter().filter(|k| k.1.is_some()).collect();
    let [(kind, Some(found))] = there[..] else {
        let what = match there[..] {
            [] => "contains no requirement".to_owned(),
            _ => format!("contains {} requirements; one is permitted", there.len()),
        };
        doc.report(entry, what, HELP);
        return None;
    };
    if *kind != "figure" {
        for key in ["client", "at_least", "at_most", "beside", "beside_case"] {
            let what = format!("cannot be combined with {kind}");
            table.refuse(doc, key, (true, what, "remove it; it belongs to a figure"));
        }
    }
    match *kind {
        "promise" => promise(doc, found, scenario),
        "shares" => percent(doc, found).map(Requirement::Shares),
        "max" => percent(doc, found).map(Requirement::Max),
        _ => bounds(doc, entry, table, scenario, cases).map(Requirement::Figure),
    }
}

fn promise<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    scenario: &Scenario,
) -> Option<Requirement> {
    if entry.as_text() == Some("all") {
        return Some(Requirement::Promise(None));
    }
    if entry.as_text().is_none() {
        let what = format!("{} is not a client's name", entry.quoted_value());
        doc.report(entry, what, "write promise = \"all\" for every client");
        return None;
    }
    named_client(doc, entry, scenario).map(|name| Requirement::Promise(Some(name)))
}

fn bounds<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    table: &ShapedTable<'a>,
    scenario: &Scenario,
    cases: &[String],
) -> Option<Bounds> {
    let figure = Figure::read(doc, &table.entry("figure")?)?;
    let beside = table.entry("beside").and_then(|e| policy(doc, &e));
    let entry_of_case = table.entry("beside_case");
    let beside_case = entry_of_case.as_ref().and_then(|e| case(doc, e, cases));
    refuse!(doc, table;
        "beside_case", beside.is_some(), "cannot be combined with beside", "remove one of the two";
    );
    // Relative bounds are percentages of another figure, and absolute bounds are values of the
    // figure itself.
    let is_part = beside.is_some() || entry_of_case.is_some();
    let mut bound = |key| {
        let entry = table.entry(key)?;
        if is_part {
            percent(doc, &entry).map(FigureValue::Part)
        } else {
            value(doc, &entry, figure)
        }
    };
    let (at_least, at_most) = (bound("at_least"), bound("at_most"));
    if table.entry("at_least").is_none() && table.entry("at_most").is_none() {
        let help = "set at_least or at_most";
        doc.report(entry, "at_least or at_most is missing", help);
    }
    Some(Bounds {
        figure,
        whose: whose(doc, table, scenario)?,
        at_least,
        at_most,
        beside,
        beside_case,
    })
}

fn whose<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    scenario: &Scenario,
) -> Option<FigureOwner> {
    let Some(entry) = table.entry("client") else {
        return Some(FigureOwner::Target);
    };
    match entry.as_text() {
        Some("total") => Some(FigureOwner::Total),
        Some("others") => Some(FigureOwner::Others),
        _ => named_client(doc, &entry, scenario).map(FigureOwner::Client),
    }
}

/// Reads the value of a figure in its unit.
fn value<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>, figure: Figure) -> Option<FigureValue> {
    match figure {
        Figure::Bandwidth | Figure::WorstSecond => entry.any_rate(doc).map(FigureValue::Rate),
        Figure::Iops | Figure::Late | Figure::Kicks | Figure::Calls | Figure::Wakeups => {
            entry.integer(doc, 0..=1 << 60).map(FigureValue::Count)
        }
        Figure::Busy | Figure::CallsPerRequest | Figure::GuestBusy | Figure::BackendBusy => {
            percent(doc, entry).map(FigureValue::Part)
        }
        Figure::Mean
        | Figure::Percentile(_)
        | Figure::Longest
        | Figure::Runtime
        | Figure::Backend => entry.any_time(doc).map(FigureValue::Time),
    }
}

/// Reads a percentage with at most four decimal places, in millionths.
fn percent<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Part> {
    let text = entry.text(doc, "a percentage", "\"5%\"")?;
    let number = text.strip_suffix('%').map(str::trim_end);
    let part = number.and_then(|n| {
        let (whole, fraction) = n.split_once('.').unwrap_or((n, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        // 13 digits always fit into 64 bits.
        let right = !whole.is_empty() && whole.len() <= 9 && fraction.len() <= 4;
        (right && digits(whole) && digits(fraction))
            .then(|| format!("{whole}{fraction:0<4}").parse().ok())
            .flatten()
    });
    if part.is_none() {
        let what = format!("{} is not a percentage", quoted(text));
        let help = "write a number with at most four decimal places and %, for example \"2.5%\"";
        doc.report(entry, what, help);
    }
    part.map(Part)
}

/// Reads the policies of an array.
pub(super) fn policies<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Vec<String> {
    list(doc, entry, "[\"none\", \"contract\"]", policy)
}

/// Reads a policy that comes with Weir, or the path of a policy's file.
fn policy<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<String> {
    let name = entry.text(doc, "a policy", "\"contract\"")?;
    known_policy(doc, entry, name);
    Some(name.to_owned())
}

/// Reports a policy that does not exist. Files are checked only when they are used.
pub(crate) fn known_policy(doc: &mut Document<'_>, entry: &KeyEntry<'_>, name: &str) {
    if policy::is_file(name) {
        return;
    }
    if let Err(unknown) = policy::find(name) {
        doc.report(entry, unknown.what, &unknown.help);
    }
}

pub(super) fn published<'a>(
    doc: &mut Document<'a>,
    root: &ShapedTable<'a>,
    scenario: &Scenario,
    cases: &[String],
) -> Vec<Published> {
    let tables = doc.tables(root, "published", &PUBLISHED).into_iter();
    tables
        .filter_map(|(_, table)| one(doc, &table, scenario, cases))
        .collect()
}

fn one<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    scenario: &Scenario,
    cases: &[String],
) -> Option<Published> {
    let policy = doc.required(table, "policy", "write policy = \"none\"");
    let policy = policy.and_then(|e| self::policy(doc, &e));
    let figure = doc.required(table, "figure", "write figure = \"mean\"");
    let figure = figure.and_then(|e| Figure::read(doc, &e));
    let value_entry = doc.required(table, "value", "write value = \"38.7ms\"");
    let value = figure.and_then(|f| value(doc, &value_entry?, f));
    doc.required(table, "source", "write source = \"a paper, page 7\"");
    let text =
        |doc: &mut Document<'a>, key| table.entry(key).and_then(|e| e.text(doc, "a text", ""));
    let drive = text(doc, "drive").map(str::to_owned);
    let case = table.entry("case").and_then(|e| case(doc, &e, cases));
    Some(Published {
        drive,
        case,
        policy: policy?,
        figure: figure?,
        whose: whose(doc, table, scenario)?,
        value: value?,
        source: text(doc, "source")?.to_owned(),
    })
}

/// Reads the name of a case.
fn case<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>, cases: &[String]) -> Option<String> {
    let case = entry.text(doc, "a case", "")?;
    if !cases.iter().any(|c| c == case) {
        let what = format!("unknown case {}", quoted(case));
        let help = nearest::help(case, cases.iter().map(String::as_str));
        doc.report(entry, what, &help);
    }
    Some(case.to_owned())
}
