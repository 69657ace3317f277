//! Drive models: by name, or a kind with its parameters.

use crate::document::{Document, Entry, Table, quoted};
use crate::parameter::{KINDS, Kind, Parameter};
use crate::{nearest, profile};
use weir_drive::Config;

const EXAMPLE: &str = "{ kind = \"null\", service = \"30us\", tags = 32, link = \"250MB/s\" }";

/// A model by name or as an inline table, and its kind one that [`Drive::model`](crate::Drive::model) can be.
pub(super) fn model<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Config> {
    let model = any(doc, entry)?;
    if !matches!(model, Config::Null(_)) {
        let what = format!("the server cannot serve an {} model yet", model.name());
        doc.wrong(
            entry,
            what,
            "its volumes have no place on the drive; kind = \"null\" needs none",
        );
        return None;
    }
    Some(model)
}

/// A model by name or as a table.
fn any<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Config> {
    if entry.is_table() {
        let table = entry.map(doc)?;
        return drive(doc, &table, &[]);
    }
    let name = entry.text(doc, "a model's name or table", EXAMPLE)?;
    match profile::find(name) {
        Ok(profile) => Some(profile.drive),
        Err(unknown) => {
            let help = nearest::help(name, profile::names());
            doc.wrong(
                entry,
                format!("there is no drive {}", quoted(&unknown.name)),
                &help,
            );
            None
        }
    }
}

/// A drive from the table of its parameters, which may have these other keys `beside` them.
pub(crate) fn drive<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    beside: &[&str],
) -> Option<Config> {
    let kinds: Vec<_> = KINDS.iter().map(|k| (k.name, k)).collect();
    let names: Vec<_> = KINDS.iter().map(|k| format!("\"{}\"", k.name)).collect();
    let help = format!("there are kind = {}", names.join(", "));
    let kind = doc.required(table, "kind", &help)?;
    let kind = super::choice(doc, &kind, &kinds)?;
    let mut keys = beside.to_vec();
    keys.push("kind");
    keys.extend(kind.keys());
    let before = doc.found();
    doc.check_keys(table, kind.called, &keys);
    let unknown = doc.found() - before;
    let mut drive = (kind.generic)();
    let entries = values(doc, table, kind, &mut drive);
    // What is missing or no number at all cannot be held against the rest.
    if doc.found() == before + unknown {
        check(doc, table, &entries, drive.clone());
    }
    (doc.found() == before).then_some(drive)
}

/// Sets each parameter in `drive`. Returns where they stand.
fn values<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    kind: &Kind,
    drive: &mut Config,
) -> Vec<(&'static Parameter, Entry<'a>)> {
    let generic = (kind.generic)();
    let help = |p: &Parameter| format!("as {} = {}", p.key, p.toml(p.get(&generic)));
    let (mut entries, mut missing) = (Vec::new(), Vec::new());
    // The table that the last parameter with a dot in its key stood in.
    let mut last: Option<(&str, Option<Table<'a>>)> = None;
    for parameter in kind.parameters {
        let (outer, inner) = parameter.split();
        if inner.is_some() && last.as_ref().is_none_or(|l| l.0 != outer) {
            last = Some((outer, nested(doc, table, kind, outer, &help(parameter))));
        }
        let nested = last.as_ref().and_then(|l| l.1.as_ref());
        let table = if inner.is_some() { nested } else { Some(table) };
        // The table is missing, which was said.
        let Some(table) = table else { continue };
        let key = inner.unwrap_or(outer);
        let entry = table.entry(key);
        if let Some(usual) = parameter.usual {
            parameter.set(drive, usual);
        } else if entry.is_none() {
            missing.push((parameter, table.clone(), key));
        }
        let Some(entry) = entry else { continue };
        if let Some(value) = parameter.read(doc, &entry, &generic) {
            parameter.set(drive, value);
            if parameter.get(drive) == value {
                entries.push((parameter, entry));
            } else {
                // More than the model can hold of it.
                entry.not_permitted(doc, parameter.allowed(&generic));
            }
        }
    }
    if let [first, _, _, _, ..] = &missing[..] {
        let names: Vec<_> = missing.iter().map(|m| m.0.key).collect();
        let what = format!(
            "{} parameters are missing: {}",
            names.len(),
            names.join(", ")
        );
        let like = help(first.0);
        let help = format!("{like} and so on; `weir drives NAME` prints what to begin from");
        doc.at(&table.span, &table.path, what, &help);
    } else {
        for (parameter, table, key) in missing {
            doc.required(&table, key, &help(parameter));
        }
    }
    entries
}

/// The table of parameters whose keys have a dot.
fn nested<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    kind: &Kind,
    key: &str,
    help: &str,
) -> Option<Table<'a>> {
    let nested = doc.required(table, key, help)?.map(doc)?;
    let keys: Vec<_> = kind.parameters.iter().map(Parameter::split).collect();
    let keys = keys.iter().filter(|k| k.0 == key).filter_map(|k| k.1);
    let called = format!("{key} of {}", kind.called);
    doc.check_keys(&nested, &called, &keys.collect::<Vec<_>>());
    Some(nested)
}

/// Says everything that the model refuses. It says one thing at a time: what it refused is made right, and it is asked again.
fn check<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    entries: &[(&'static Parameter, Entry<'a>)],
    mut drive: Config,
) {
    let generic = KINDS.iter().find(|k| k.name == drive.name());
    let mut said = Vec::new();
    while let Err(error) = drive.validate() {
        if said.contains(&error.key) {
            return;
        }
        said.push(error.key);
        let Some((parameter, entry)) = entries.iter().find(|e| e.0.key == error.key) else {
            let what = format!(
                "{} is not permitted; it must be {}",
                error.value, error.allowed
            );
            let path = crate::document::join(&table.path, error.key);
            doc.at(&table.span, &path, what, "");
            return;
        };
        entry.not_permitted(doc, error.allowed);
        if let Some(kind) = generic {
            parameter.set(&mut drive, parameter.get(&(kind.generic)()));
        }
    }
}
