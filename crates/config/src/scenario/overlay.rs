//! A file with differences put in.

use crate::document::{Document, Map, Value};
use crate::nearest;
use crate::text::quoted;
use toml::Spanned;

/// Puts the keys of `patch` into `base`: tables into tables, further elements behind those of a list of tables, and into the element
/// of a list whose `name` a key is what that key says. Everything else takes the place of what was there.
pub(super) fn put(doc: &mut Document<'_>, base: &mut Map, patch: &Map) {
    for (key, value) in patch {
        let Some(old) = base.get_mut(key.get_ref().as_str()) else {
            base.insert(key.clone(), value.clone());
            continue;
        };
        match (old.get_mut(), value.get_ref()) {
            (Value::Table(old), Value::Table(new)) => put(doc, old, new),
            (Value::Array(old), Value::Table(new)) => elements(doc, old, new),
            (Value::Array(old), Value::Array(new)) if has_tables(old) && has_tables(new) => {
                old.extend_from_slice(new);
            }
            _ => *old = value.clone(),
        }
    }
}

/// Changes the elements that the keys of `patch` name.
fn elements(doc: &mut Document<'_>, list: &mut [Spanned<Value>], patch: &Map) {
    for (key, value) in patch {
        let wanted = key.get_ref().as_str();
        let Some(change) = value.get_ref().as_table() else {
            let what = format!("{} must be a table", quoted(wanted));
            let help = format!("write {wanted}.KEY = VALUE for each difference");
            doc.at(&value.span(), wanted, what, &help);
            continue;
        };
        let names: Vec<String> = list.iter().filter_map(name).map(str::to_owned).collect();
        let mut found = list.iter_mut().filter(|e| name(e) == Some(wanted));
        let Some(Value::Table(table)) = found.next().map(Spanned::get_mut) else {
            let what = format!("unknown client {}", quoted(wanted));
            let help = nearest::help(wanted, names.iter().map(String::as_str));
            doc.at(&key.span(), wanted, what, &help);
            continue;
        };
        let mut change = change.clone();
        // It goes by its old name until everything is put in.
        if let Some((_, renamed)) = change.remove_entry("name") {
            let key = Spanned::new(renamed.span(), RENAMED.into());
            change.insert(key, renamed);
        }
        put(doc, table, &change);
    }
}

/// Gives elements their new names, once everything is put in.
pub(super) fn rename(base: &mut Map) {
    for (_, value) in base.iter_mut() {
        let Value::Array(list) = value.get_mut() else {
            continue;
        };
        for element in list.iter_mut() {
            if let Value::Table(table) = element.get_mut()
                && let Some((_, name)) = table.remove_entry(RENAMED)
                && let Some(old) = table.get_mut("name")
            {
                *old = name;
            }
        }
    }
}

/// Where an element's new name is kept meanwhile: no key that a file can have.
const RENAMED: &str = "\u{0}name";

fn has_tables(list: &[Spanned<Value>]) -> bool {
    list.iter()
        .all(|element| element.get_ref().as_table().is_some())
}

/// The name of a table in a list.
fn name(element: &Spanned<Value>) -> Option<&str> {
    match element.get_ref().as_table()?.get("name")?.get_ref() {
        Value::String(name) => Some(name),
        _ => None,
    }
}
