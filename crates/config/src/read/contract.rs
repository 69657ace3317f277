//! `min`, `min_iops`, `share`, `max`, `class`, `latency`, `low`: the keys of volumes and tenants alike.

use crate::document::{Document, Entry, Table};
use crate::key::MAX;
use crate::low;
use weir_core::{Class, Contract, Knobs, Max, Span};

const IOPS_MAX: u64 = 1_000_000_000_000;
const BURST_MAX: Span = Span::from_secs(3600);
const LATENCY_MIN: Span = Span::from_micros(1);
const LATENCY_MAX: Span = Span::from_secs(60);

const CLASSES: &[(&str, Class)] = &[
    ("realtime", Class::Realtime),
    ("best-effort", Class::BestEffort),
    ("idle", Class::Idle),
];

/// What the table promises. Whether it can be kept is the core's to say.
pub(crate) fn contract<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Contract {
    let mut contract = Contract::DEFAULT;
    if let Some(min) = table.entry("min").and_then(|e| e.rate(doc)) {
        contract.min = min;
    }
    if let Some(min) = iops(doc, table, "min_iops") {
        contract.min_iops = min;
    }
    let share = table.entry("share");
    if let Some(share) = share.and_then(|e| e.integer(doc, 1..=10_000)) {
        contract.share = share as u16;
    }
    if let Some(entry) = table.entry("max") {
        contract.max = max(doc, &entry);
    }
    let class = table.entry("class");
    if let Some(class) = class.and_then(|e| e.choice(doc, CLASSES)) {
        contract.class = class;
    }
    contract
}

/// How the table sets controllers.
pub(crate) fn knobs<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Knobs {
    let mut knobs = Knobs::NONE;
    let latency = table.entry("latency");
    if let Some(latency) = latency.and_then(|e| e.time_in(doc, LATENCY_MIN..=LATENCY_MAX)) {
        knobs.latency = latency;
    }
    if let Some(entry) = table.entry("low")
        && let Some(line) = entry.text(
            doc,
            "a line as Linux has it",
            "\"rbps=10485760 idle=1000 latency=100\"",
        )
    {
        match low::read(line) {
            Ok(low) => knobs.low = low,
            Err((what, help)) => doc.report(&entry, what, &help),
        }
    }
    knobs
}

fn max<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Max {
    let mut max = Max::NONE;
    let before = doc.found();
    let Some(table) = entry.table(doc, &MAX) else {
        return max;
    };
    let mut bytes = |key| table.entry(key).and_then(|e| e.rate(doc)).unwrap_or(0);
    max.bandwidth = bytes("bandwidth");
    max.read_bandwidth = bytes("read_bandwidth");
    max.write_bandwidth = bytes("write_bandwidth");
    max.iops = iops(doc, &table, "iops").unwrap_or(0);
    max.read_iops = iops(doc, &table, "read_iops").unwrap_or(0);
    max.write_iops = iops(doc, &table, "write_iops").unwrap_or(0);
    let burst = table.entry("burst");
    if let Some(burst) = burst.and_then(|e| e.time_in(doc, Span::ZERO..=BURST_MAX)) {
        max.burst = burst;
    }
    if !max.is_limited() && doc.found() == before {
        let help = "give a rate as bandwidth = \"50MB/s\" or iops = 5000, or remove max";
        doc.report(entry, "limits nothing", help);
    }
    max
}

fn iops<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str) -> Option<u64> {
    table.entry(key).and_then(|e| e.integer(doc, 1..=IOPS_MAX))
}
