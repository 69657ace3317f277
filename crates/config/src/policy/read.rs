//! Reading of a policy's file.

use super::ClassEffect;
use super::cost;
use super::{Budget, ContractMapping, MaxEffect, MinEffect, PolicyController};
use super::{LatencyEffect, Policy, ShareEffect, named};
use crate::document::{Document, KeyEntry, ShapedTable};
use crate::file::read_name_and_about;
use crate::key::{BUDGET, COST, DERIVED, IO_MAX, KNOBS, LOW, POLICY, Shape};
use crate::nearest;
use crate::text::quoted;
use crate::tunable;
use crate::value;
use crate::words::Words;
use weir_core::control::cost::Config as CostConfig;
use weir_core::elevator::{self, ElevatorKind};
use weir_core::tunable::Tuned;

/// Reads a policy from its outermost table.
pub(super) fn policy<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<Policy> {
    let keys = tunable::and_tables(POLICY.names());
    let table = &table.shaped(&POLICY);
    doc.check_keys(table, POLICY.name, &keys);
    let (name, about) = read_name_and_about(doc, table, "policy", "what it does");
    let help = "write elevator = \"bfq\", or another";
    let kind = doc.required(table, "elevator", help);
    let kind = kind.and_then(|e| elevator(doc, &e));
    let controllers = table.entry("controllers");
    let controllers = match &controllers {
        Some(entry) => controllers_of(doc, entry),
        None => Some(Vec::new()),
    };
    // All other tables are checked against the elevator and the controllers, so reading ends here
    // if one of the two is wrong.
    let (kind, controllers) = (kind?, controllers?);
    let mapping = mapping(doc, table, kind, &controllers);
    let elevator = tunables(doc, table, kind);
    let budget = derived(doc, table, kind);
    let own = |controller| controllers.contains(&controller);
    let slices = controller_tunables(doc, table, ("max", &IO_MAX), own(PolicyController::Slices));
    let low = controller_tunables(doc, table, ("low", &LOW), own(PolicyController::Low));
    let cost = cost_tunables(doc, table, own(PolicyController::Cost));
    Some(Policy {
        word: name?.to_owned(),
        name: name?.to_owned(),
        about: about?.to_owned(),
        elevator,
        controllers,
        slices,
        low,
        cost,
        mapping,
        budget,
    })
}

/// Reports a policy that has the name of a policy that comes with Weir but differs from it.
pub(super) fn name_is_free(doc: &mut Document<'_>, table: &ShapedTable<'_>, policy: &Policy) {
    let Some(entry) = table.entry("name") else {
        return;
    };
    let same = |other: &Policy| {
        (&other.elevator, &other.controllers) == (&policy.elevator, &policy.controllers)
            && (other.mapping, other.budget) == (policy.mapping, policy.budget)
            && (other.slices, other.low, &other.cost) == (policy.slices, policy.low, &policy.cost)
    };
    if named(&policy.name).is_some_and(|other| !same(&other)) {
        let what = format!(
            "{} is the name of a different policy, which comes with Weir",
            quoted(&policy.name)
        );
        doc.report(&entry, what, "use another name");
    }
}

fn elevator<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<&'static ElevatorKind> {
    let name = entry.text(doc, "an elevator", "\"bfq\"")?;
    if let Some(kind) = elevator::find(name) {
        return Some(kind);
    }
    let names = elevator::KINDS.iter().map(|kind| kind.name);
    let help = nearest::help(name, names);
    doc.report(entry, format!("unknown elevator {}", quoted(name)), &help);
    None
}

fn controllers_of<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
) -> Option<Vec<PolicyController>> {
    let before = doc.problem_count();
    let mut controllers = Vec::new();
    for entry in entry.array(doc, "[\"max\"]")? {
        let Some(name) = entry.text(doc, "a controller", "\"max\"") else {
            continue;
        };
        let found = PolicyController::ALL.into_iter().find(|c| c.name() == name);
        match found {
            Some(controller) if controllers.contains(&controller) => {
                let what = format!("{} is listed twice", quoted(name));
                doc.report(&entry, what, "remove one of the two");
            }
            Some(controller)
                if controller
                    .replaced_controllers()
                    .any(|c| controllers.contains(&c)) =>
            {
                let what = "\"max\" and \"io.max\" cannot be combined, because they enforce the same limits";
                doc.report(&entry, what.to_owned(), "remove one of the two");
            }
            Some(controller) => controllers.push(controller),
            None => {
                let names = PolicyController::ALL.map(PolicyController::name);
                let what = format!("unknown controller {}", quoted(name));
                doc.report(&entry, what, &nearest::help(name, names));
            }
        }
    }
    // Requests pass controllers in a fixed order, however the file lists them.
    controllers.sort_unstable();
    (doc.problem_count() == before).then_some(controllers)
}

/// Reads the effects of contracts. A part that the file does not state has the strongest effect
/// that the elevator and the controllers can give it.
fn mapping<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    kind: &ElevatorKind,
    controllers: &[PolicyController],
) -> ContractMapping {
    let mut mapping = ContractMapping::all(kind, controllers);
    let entry = table.entry("knobs");
    let Some(table) = entry.and_then(|e| e.table(doc, &KNOBS)) else {
        return mapping;
    };
    let has = |controller| controllers.contains(&controller);
    // Either the elevator has weights, or `io.cost` does.
    let weights = kind.share_max.is_some() || has(PolicyController::Cost);
    let elevator = |what: &str| format!("elevator \"{}\" {what}", kind.name);
    let limits = has(PolicyController::Max) || has(PolicyController::Slices);
    let no_limits = || "the controllers include neither max nor io.max".to_owned();
    knob(doc, &table, "min", &mut mapping.min, |min| match min {
        MinEffect::Kept if !kind.keeps_min => Some(elevator("cannot guarantee a minimum")),
        MinEffect::Weight if !weights => Some(elevator("has no weights")),
        MinEffect::Limit if !limits => Some(no_limits()),
        MinEffect::Low if !has(PolicyController::Low) => {
            Some("the controllers do not include io.low".to_owned())
        }
        _ => None,
    });
    knob(doc, &table, "share", &mut mapping.share, |share| {
        (share == ShareEffect::Weight && !weights).then(|| elevator("has no weights"))
    });
    knob(doc, &table, "max", &mut mapping.max, |max| {
        (max == MaxEffect::Limit && !limits).then(no_limits)
    });
    knob(doc, &table, "class", &mut mapping.class, |class| {
        (class == ClassEffect::Kept && !kind.keeps_class).then(|| elevator("has no classes"))
    });
    knob(doc, &table, "latency", &mut mapping.latency, |latency| {
        (latency == LatencyEffect::Target && !has(PolicyController::Latency))
            .then(|| "the controllers do not include io.latency".to_owned())
    });
    mapping
}

/// Reads one of a knob's words. `senseless` returns the reason why a word is impossible under this
/// policy.
fn knob<'a, T: Words>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    key: &str,
    knob: &mut T,
    senseless: impl Fn(T) -> Option<String>,
) {
    let Some(entry) = table.entry(key) else {
        return;
    };
    let Some(value) = entry.word(doc, T::WORDS.iter().map(|w| w.1)) else {
        return;
    };
    match senseless(value) {
        None => *knob = value,
        Some(why) => {
            let possible = T::WORDS.iter().filter(|w| senseless(w.1).is_none());
            let possible: Vec<String> = possible.map(|w| quoted(w.0)).collect();
            let what = format!("cannot be {}: {why}", quoted(value.word()));
            let help = format!("write {}", possible.join(" or "));
            doc.report(&entry, what, &help);
        }
    }
}

/// Reads the tunables of the elevator. A table with tunables of another elevator is reported.
fn tunables<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    kind: &ElevatorKind,
) -> elevator::Config {
    let mut config = (kind.default)();
    for (other, entry, table) in value::tunable_tables(doc, table) {
        if other.name != kind.name {
            let what = format!("has no effect with elevator \"{}\"", kind.name);
            let help = "remove it, or set the elevator to which it belongs";
            doc.report(&entry, what, help);
        } else if let Some(tuned) = config.tuned_mut() {
            value::tunables(doc, &table, tuned);
        }
    }
    config
}

/// Reads the tunables of a controller from the table of this name. `is_there` is true if the policy
/// has the controller.
fn controller_tunables<'a, T: Tuned + Default>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    (key, shape): (&str, &'static Shape),
    is_there: bool,
) -> T {
    let mut config = T::default();
    if let Some(table) = controller_table(doc, table, (key, shape), is_there) {
        value::tunables(doc, &table, &mut config);
    }
    config
}

/// Returns the table of a controller's tunables, and reports it if the policy does not have the
/// controller.
fn controller_table<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    (key, shape): (&str, &'static Shape),
    is_there: bool,
) -> Option<ShapedTable<'a>> {
    let own = table.entry(key)?.table(doc, shape)?;
    let what = format!("has no effect, because the controllers do not include io.{key}");
    let help = format!("remove it, or add \"io.{key}\" to the controllers");
    table.refuse(doc, key, (!is_there, what, &help));
    Some(own)
}

/// Reads the tunables of `io.cost`.
fn cost_tunables<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    is_there: bool,
) -> CostConfig {
    let mut config = CostConfig::default();
    let Some(table) = controller_table(doc, table, ("cost", &COST), is_there) else {
        return config;
    };
    for (key, file) in [
        ("qos", cost::CostFile::Qos),
        ("model", cost::CostFile::Model),
    ] {
        if let Some(entry) = table.entry(key) {
            cost::set(doc, &entry, file, &mut config);
        }
    }
    value::tunables_at(doc, &table, cost::own_places(), &mut config);
    config
}

fn derived<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    kind: &ElevatorKind,
) -> Option<Budget> {
    let derived = table.entry("derived")?.table(doc, &DERIVED)?;
    let entry = derived.entry(Budget::TUNABLE)?;
    if !tunable::of(kind).iter().any(|t| t.name == Budget::TUNABLE) {
        let what = format!("elevator \"{}\" has no such tunable", kind.name);
        doc.report(&entry, what, "remove it");
        return None;
    }
    // The table of tunables has the name of an elevator, which the policy's shape does not declare.
    let stated = table
        .undeclared()
        .entry(kind.name)
        .filter(KeyEntry::is_table);
    let stated = stated.and_then(|e| e.map(doc)?.entry(Budget::TUNABLE));
    if stated.is_some() {
        let what = format!("is set in [{}] as well", kind.name);
        doc.report(&entry, what, "remove one of the two");
    }
    let budget = entry.table(doc, &BUDGET)?;
    let window = doc.required(&budget, "window", "write window = \"1s\"")?;
    let window = window.time(doc);
    let percent = doc.required(&budget, "percent", "write percent = 10")?;
    let percent = percent.count(doc);
    Some(Budget {
        window: window?,
        percent: percent?,
    })
}
