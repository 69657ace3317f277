//! `min`, `min_iops`, `share`, `max`, `class`, `latency`, `low`: the keys of volumes and tenants alike.

use crate::document::{Document, Entry, Table};
use crate::key::MAX;
use crate::low;
use weir_core::{Class, Contract, Knobs, Max};

/// What the table promises. Whether it can be kept is the core's to say.
pub(crate) fn contract<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Contract {
    let classes = [Class::Realtime, Class::BestEffort, Class::Idle];
    Contract {
        min: table.rate(doc, "min").unwrap_or(0),
        min_iops: table.count_if_any(doc, "min_iops").unwrap_or(0),
        share: table.count(doc, "share"),
        max: (table.entry("max")).map_or(Max::NONE, |e| max(doc, &e)),
        class: table.word(doc, "class", classes),
    }
}

/// How the table sets controllers.
pub(crate) fn knobs<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Knobs {
    let mut knobs = Knobs::NONE;
    if let Some(latency) = table.time_if_any(doc, "latency") {
        knobs.latency = latency;
    }
    if let Some(entry) = table.entry("low")
        && let Some(line) = entry.text(
            doc,
            "a line of settings in the form of Linux",
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

/// The limits; a rate alone is that of reads and writes together.
fn max<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Max {
    if entry.is_text() {
        let bandwidth = entry.any_rate(doc).unwrap_or(0);
        return Max {
            bandwidth,
            ..Max::NONE
        };
    }
    let before = doc.found();
    let Some(table) = entry.table(doc, &MAX) else {
        return Max::NONE;
    };
    let max = Max {
        bandwidth: table.rate(doc, "bandwidth").unwrap_or(0),
        read_bandwidth: table.rate(doc, "read_bandwidth").unwrap_or(0),
        write_bandwidth: table.rate(doc, "write_bandwidth").unwrap_or(0),
        iops: table.count_if_any(doc, "iops").unwrap_or(0),
        read_iops: table.count_if_any(doc, "read_iops").unwrap_or(0),
        write_iops: table.count_if_any(doc, "write_iops").unwrap_or(0),
        iops_size: table.size_if_any(doc, "iops_size").unwrap_or(0),
        burst: table.time(doc, "burst"),
    };
    if max.iops_size > 0
        && max.iops | max.read_iops | max.write_iops == 0
        && let Some(entry) = table.entry("iops_size")
    {
        let help = "add iops, read_iops or write_iops, or remove iops_size";
        doc.report(&entry, "requires a limit on requests", help);
    }
    if !max.is_limited() && doc.found() == before {
        let help = "set for example bandwidth = \"50MB/s\" or iops = 5000, or remove max";
        doc.report(entry, "must have at least one limit", help);
    }
    max
}
