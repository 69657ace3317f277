//! Readers for values that are declared in tables: parameters of drive models, and tunables of
//! elevators.

use crate::document::{Document, KeyEntry, ShapedTable};
use crate::key::KeyKind;
use crate::parameter::{Parameter, ParameterUnit};
use crate::tunable;
use std::ops::Range;
use weir_core::elevator;
use weir_core::tunable::{Tunable, Tuned};
use weir_core::{ConfigError, Span};
use weir_model::drive::DriveConfig;

/// Reads the value of a drive parameter by its unit. The model checks later whether it permits the
/// value.
pub(crate) fn parameter(
    parameter: &Parameter,
    doc: &mut Document<'_>,
    entry: &KeyEntry<'_>,
    drive: &DriveConfig,
) -> Option<u64> {
    match parameter.unit {
        ParameterUnit::Bytes => entry.any_size(doc),
        ParameterUnit::Rate => entry.any_rate(doc),
        ParameterUnit::Time => entry.any_time(doc).map(Span::as_nanos),
        ParameterUnit::Bool => entry.boolean(doc).map(u64::from),
        ParameterUnit::Count
        | ParameterUnit::PerMinute
        | ParameterUnit::Pages
        | ParameterUnit::PerMille
        | ParameterUnit::Percent => entry.whole_number(doc, || parameter.allowed(drive)),
    }
}

/// Reads the table of an elevator's tunables, and checks its keys.
fn tunable_table<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    kind: &elevator::ElevatorKind,
) -> Option<ShapedTable<'a>> {
    let tunables = tunable::of(kind);
    if !entry.is_table() {
        // Only elevators that have tunables are read here.
        let first = &tunables[0];
        let help = format!(
            "write it as {} = {{ {} = {} }}",
            kind.name,
            first.name,
            tunable::toml(first, first.default)
        );
        let what = format!("{} is not a table", entry.quoted_value());
        doc.report(entry, what, &help);
        return None;
    }
    let table = entry.map(doc)?;
    doc.check_keys(&table, &tunable::called(kind), &tunable::names(tunables));
    Some(table)
}

/// Returns each table of tunables that a table contains, with its elevator and entry. The keys of
/// these tables are checked.
pub(crate) fn tunable_tables<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
) -> Vec<(
    &'static elevator::ElevatorKind,
    KeyEntry<'a>,
    ShapedTable<'a>,
)> {
    let (stated, mut all) = (table.undeclared(), Vec::new());
    for (kind, _) in tunable::tables() {
        if let Some(entry) = stated.entry(kind.name) {
            let table = tunable_table(doc, &entry, kind);
            all.extend(table.map(|table| (kind, entry, table)));
        }
    }
    all
}

/// Sets the tunables that a table contains. A tunable with a wrong value is reported and keeps its
/// previous value.
pub(crate) fn tunables<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>, tuned: &mut dyn Tuned) {
    tunables_at(doc, table, 0..tuned.tunables().len(), tuned);
}

/// Sets the tunables at these indices in the same way as [`tunables`].
pub(crate) fn tunables_at<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    places: Range<usize>,
    tuned: &mut dyn Tuned,
) {
    let before = doc.problem_count();
    for place in places {
        let tunable = &tuned.tunables()[place];
        let entry = table.entry(tunable.name);
        if let Some(value) = entry.and_then(|e| tunable_value(doc, &e, tunable)) {
            tuned.set(place, value);
        }
    }
    // A rule between tunables is judged only if all values could be read. Otherwise the user would
    // get a second problem for the same mistake.
    if doc.problem_count() > before {
        return;
    }
    if let Err(error) = tuned.validate() {
        outside(doc, table, error);
    }
}

/// Reads the value of a tunable within its bounds, in the core's unit.
fn tunable_value<'a>(
    doc: &mut Document<'a>,
    entry: &KeyEntry<'a>,
    tunable: &Tunable,
) -> Option<u64> {
    match KeyKind::of(tunable) {
        KeyKind::Size(least, most, unit) => {
            let size = entry.size_in(doc, least..=most, unit);
            // The core counts in units such as sectors, while files state bytes.
            size.map(|size| size / unit)
        }
        KeyKind::Time(least, most) => entry.time_in(doc, least..=most).map(Span::as_nanos),
        KeyKind::Word(words) => entry.choice(doc, words).map(|place| place as u64),
        KeyKind::Count(least, most) => entry.integer(doc, least..=most),
        _ => entry.boolean(doc).map(u64::from),
    }
}

/// Reports that tunables break a rule that holds between them.
fn outside(doc: &mut Document<'_>, table: &ShapedTable<'_>, error: ConfigError) {
    let Some(entry) = table.entry(error.field) else {
        return doc.report_span(&table.span, &table.path, error, "");
    };
    entry.not_permitted(doc, error.allowed);
}
