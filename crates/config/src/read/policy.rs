//! `policy` and the tunables of each.

use super::choice;
use crate::document::{Document, Entry, Table, quoted};
use crate::key::{BFQ, CONTRACT};
use crate::nearest;
use crate::server::Policy;
use weir_core::Span;
use weir_core::elevator::{bfq, contract};

/// Elevators: the design's, and whether there is code for them.
const ELEVATORS: &[(&str, bool)] = &[
    ("contract", true),
    ("none", true),
    ("bfq", true),
    ("mq-deadline", false),
    ("kyber", false),
    ("cfq", false),
];

/// Controllers that the design names; they are written behind an elevator, as `"kyber + io.max"`.
const CONTROLLERS: &[&str] = &["io.max", "io.low", "io.latency", "io.cost"];

const IMPLEMENTED: &str = "there are \"contract\", \"none\", \"bfq\"";

/// The policy of a drive with its tunables; the default where it is not given or cannot be read.
pub(super) fn policy<'a>(doc: &mut Document<'a>, drive: &Table<'a>) -> Policy {
    let name = match drive.entry("policy") {
        Some(entry) => elevator(doc, &entry),
        None => Some("contract"),
    };
    let mut policy = match name {
        Some("none") => Policy::None,
        Some("bfq") => Policy::Bfq(bfq::Config::default()),
        _ => Policy::default(),
    };
    for (key, shape) in [("bfq", &BFQ), ("contract", &CONTRACT)] {
        let Some(entry) = drive.entry(key) else {
            continue;
        };
        let Some(table) = entry.table(doc, shape) else {
            continue;
        };
        match &mut policy {
            Policy::Bfq(config) if key == "bfq" => bfq_tunables(doc, &table, config),
            Policy::Contract(config) if key == "contract" => contract_tunables(doc, &table, config),
            // Which policy was meant is not known.
            _ if name.is_none() => {}
            other => {
                let what = format!("has no effect under policy \"{}\"", other.name());
                doc.wrong(&entry, what, "remove it, or choose the policy it is for");
            }
        }
    }
    policy
}

/// The elevator's name out of a policy such as `"kyber + io.max"`, if all of it exists.
fn elevator<'a>(doc: &mut Document<'_>, entry: &Entry<'a>) -> Option<&'a str> {
    let text = entry.text(doc, "a policy", "\"contract\"")?;
    let parts: Vec<&str> = text.split('+').map(str::trim).collect();
    let known = || {
        ELEVATORS
            .iter()
            .map(|e| e.0)
            .chain(CONTROLLERS.iter().copied())
    };
    if let Some(unknown) = parts.iter().find(|p| !known().any(|k| k == **p)) {
        let help = match nearest::name(unknown, known()) {
            Some(near) => format!("did you mean \"{near}\"? {IMPLEMENTED}"),
            None => IMPLEMENTED.to_owned(),
        };
        doc.wrong(
            entry,
            format!("there is no policy {}", quoted(unknown)),
            &help,
        );
        return None;
    }
    let elevators: Vec<&str> = parts
        .iter()
        .copied()
        .filter(|p| !CONTROLLERS.contains(p))
        .collect();
    let [elevator] = elevators[..] else {
        let what = format!(
            "{} must name one elevator, and names {}",
            quoted(text),
            elevators.len()
        );
        doc.wrong(entry, what, IMPLEMENTED);
        return None;
    };
    let implemented = ELEVATORS.contains(&(elevator, true));
    if implemented && parts.len() == 1 {
        return Some(elevator);
    }
    let help = if implemented {
        format!(
            "write \"{elevator}\": the max of each contract is kept under every policy, other controllers are to come"
        )
    } else {
        IMPLEMENTED.to_owned()
    };
    doc.wrong(
        entry,
        format!("{} is not implemented yet", quoted(text)),
        &help,
    );
    None
}

pub(crate) fn bfq_tunables<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    config: &mut bfq::Config,
) {
    const KIB: u64 = 1024;
    const SECTOR: u64 = 512;
    let before = doc.found();
    time(doc, table, "fifo_expire_sync", &mut config.fifo_expire_sync);
    time(
        doc,
        table,
        "fifo_expire_async",
        &mut config.fifo_expire_async,
    );
    time(doc, table, "slice_idle", &mut config.slice_idle);
    time(doc, table, "timeout_sync", &mut config.timeout_sync);
    size(doc, table, "back_seek_max", KIB, &mut config.back_seek_max);
    size(doc, table, "max_budget", SECTOR, &mut config.max_budget);
    count(
        doc,
        table,
        "back_seek_penalty",
        &mut config.back_seek_penalty,
    );
    count(
        doc,
        table,
        "async_charge_factor",
        &mut config.async_charge_factor,
    );
    count(doc, table, "seeky_threshold", &mut config.seeky_threshold);
    flag(
        doc,
        table,
        "strict_guarantees",
        &mut config.strict_guarantees,
    );
    flag(doc, table, "low_latency", &mut config.low_latency);
    flag(doc, table, "injection", &mut config.injection);
    flag(doc, table, "merge", &mut config.merge);
    flag(doc, table, "stable_merge", &mut config.stable_merge);
    let charges = [
        ("linux", bfq::Charge::Linux),
        ("service", bfq::Charge::Service),
    ];
    if let Some(charge) = table
        .entry("charge")
        .and_then(|e| choice(doc, &e, &charges))
    {
        config.charge = charge;
    }
    if doc.found() > before {
        return;
    }
    if config.strict_guarantees && table.entry("slice_idle").is_none() {
        // Linux's rule: strict guarantees idle for 8 ms at least, which is the default.
        config.slice_idle = bfq::Config::default().slice_idle;
    }
    if let Err(error) = config.validate() {
        outside(doc, table, error);
    }
}

pub(crate) fn contract_tunables<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    config: &mut contract::Config,
) {
    let excess = [
        ("time", contract::Excess::Time),
        ("bytes", contract::Excess::Bytes),
    ];
    if let Some(excess) = table.entry("excess").and_then(|e| choice(doc, &e, &excess)) {
        config.excess = excess;
    }
    // The core's bounds are stated with its fields.
    let times = [
        ("catch_up", 10, &mut config.catch_up),
        ("forget", 10, &mut config.forget),
        ("idle_class_timeout", 3600, &mut config.idle_class_timeout),
    ];
    for (key, most, value) in times {
        let time = table.entry(key);
        let range = Span::ZERO..=Span::from_secs(most);
        if let Some(time) = time.and_then(|e| e.time_in(doc, range)) {
            *value = time;
        }
    }
    flag(doc, table, "bound_in_flight", &mut config.bound_in_flight);
}

/// Keeps the problem that a tunable is outside its bounds.
fn outside(doc: &mut Document<'_>, table: &Table<'_>, error: weir_core::ConfigError) {
    let Some(entry) = table.entry(error.field) else {
        return doc.at(&table.span, &table.path, error, "");
    };
    let what = format!(
        "{} is not permitted; it must be {}",
        entry.shown(),
        error.allowed
    );
    doc.wrong(&entry, what, "");
}

fn time<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str, value: &mut Span) {
    if let Some(time) = table.entry(key).and_then(|e| e.time(doc)) {
        *value = time;
    }
}

/// A size in units of `unit` bytes.
fn size<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str, unit: u64, value: &mut u32) {
    let most = u64::from(u32::MAX) * unit;
    let size = table
        .entry(key)
        .and_then(|e| e.size_in(doc, 0..=most, unit));
    if let Some(size) = size {
        *value = (size / unit) as u32;
    }
}

fn count<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str, value: &mut u32) {
    let count = table.entry(key);
    if let Some(count) = count.and_then(|e| e.integer(doc, 0..=u64::from(u32::MAX))) {
        *value = count as u32;
    }
}

fn flag<'a>(doc: &mut Document<'a>, table: &Table<'a>, key: &str, value: &mut bool) {
    if let Some(flag) = table.entry(key).and_then(|e| e.boolean(doc)) {
        *value = flag;
    }
}
