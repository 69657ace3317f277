//! Application of a case's differences to a scenario's tables.

use crate::document::{Document, TomlTable, TomlValue};
use crate::nearest;
use crate::text::quoted;
use toml::Spanned;

/// Applies the keys of `patch` to `base`. Tables are merged, and the elements of a list of tables
/// are appended. If `base` has a list where `patch` has a table, each key names an element of the
/// list, and its value changes that element. Any other value is replaced.
pub(super) fn put(doc: &mut Document<'_>, base: &mut TomlTable, patch: &TomlTable) {
    for (key, value) in patch {
        let Some(old) = base.get_mut(key.get_ref().as_str()) else {
            base.insert(key.clone(), value.clone());
            continue;
        };
        match (old.get_mut(), value.get_ref()) {
            (TomlValue::Table(old), TomlValue::Table(new)) => put(doc, old, new),
            (TomlValue::Array(old), TomlValue::Table(new)) => elements(doc, old, new),
            // Only lists of tables are extended. Other lists are replaced.
            (TomlValue::Array(old), TomlValue::Array(new))
                if has_tables(old) && has_tables(new) =>
            {
                old.extend_from_slice(new);
            }
            _ => *old = value.clone(),
        }
    }
}

/// Changes the elements of a list that the keys of `patch` name.
fn elements(doc: &mut Document<'_>, list: &mut [Spanned<TomlValue>], patch: &TomlTable) {
    for (key, value) in patch {
        let wanted = key.get_ref().as_str();
        let Some(change) = value.get_ref().as_table() else {
            let what = format!("{} must be a table", quoted(wanted));
            let help = format!("write {wanted}.KEY = VALUE for each difference");
            doc.report_span(&value.span(), wanted, what, &help);
            continue;
        };
        let names: Vec<String> = list.iter().filter_map(name).map(str::to_owned).collect();
        let mut found = list.iter_mut().filter(|e| name(e) == Some(wanted));
        let Some(TomlValue::Table(table)) = found.next().map(Spanned::get_mut) else {
            let what = format!("unknown client {}", quoted(wanted));
            let help = nearest::help(wanted, names.iter().map(String::as_str));
            doc.report_span(&key.span(), wanted, what, &help);
            continue;
        };
        let mut change = change.clone();
        // Later differences refer to the old name, so the new name is applied when all are merged.
        if let Some((_, renamed)) = change.remove_entry("name") {
            let key = Spanned::new(renamed.span(), RENAMED.into());
            change.insert(key, renamed);
        }
        put(doc, table, &change);
    }
}

/// Applies the new names of elements after all differences are merged.
pub(super) fn rename(base: &mut TomlTable) {
    for (_, value) in base.iter_mut() {
        let TomlValue::Array(list) = value.get_mut() else {
            continue;
        };
        for element in list.iter_mut() {
            if let TomlValue::Table(table) = element.get_mut()
                && let Some((_, name)) = table.remove_entry(RENAMED)
                && let Some(old) = table.get_mut("name")
            {
                *old = name;
            }
        }
    }
}

/// The key that keeps the new name of an element. No file can contain this key.
const RENAMED: &str = "\u{0}name";

/// Returns true if all elements of a list are tables.
fn has_tables(list: &[Spanned<TomlValue>]) -> bool {
    list.iter()
        .all(|element| element.get_ref().as_table().is_some())
}

/// Returns the name of a table in a list.
fn name(element: &Spanned<TomlValue>) -> Option<&str> {
    match element.get_ref().as_table()?.get("name")?.get_ref() {
        TomlValue::String(name) => Some(name),
        _ => None,
    }
}
