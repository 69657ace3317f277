//! Reading of drive models: by name, by a kind with its parameters, or by a profile with the
//! parameters that differ from it.

use crate::document::{Document, KeyEntry, ShapedTable};
use crate::parameter::{KINDS, ModelKind, Parameter};
use crate::text::{join, quoted};
use crate::{nearest, value};
use weir_model::drive::DriveConfig;
use weir_model::drive::volume::{self, Layout};

const EXAMPLE: &str = "{ kind = \"null\", service = \"30us\", tags = 32, link = \"250MB/s\" }";
/// The key of the profile whose parameters a table changes.
pub(super) const PROFILE: &str = "profile";
const MEMBERS: &str = "[\"wd-wd10jpvx\", \"wd-wd10jpvx\"]";

/// Reads a model that is given by name or as a table.
pub(crate) fn model<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<DriveConfig> {
    if entry.is_table() {
        let table = entry.map(doc)?;
        return drive(doc, &table, &[]);
    }
    let name = entry.text(doc, "a model's name or table", EXAMPLE)?;
    named(doc, entry, name)
}

/// Returns the drive of the profile with this name, or reports that there is none.
fn named<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>, name: &str) -> Option<DriveConfig> {
    match super::find(name) {
        Ok(profile) => Some(profile.drive),
        Err(unknown) => {
            let help = match unknown.nearest {
                Some(near) => format!("did you mean {}?", quoted(near)),
                None => nearest::help(name, super::names()),
            };
            doc.report(
                entry,
                format!("unknown model {}", quoted(&unknown.name)),
                &help,
            );
            None
        }
    }
}

/// Reads a drive from the table of its parameters. `beside` are further keys that the table may
/// have.
pub(crate) fn drive<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    beside: &[&str],
) -> Option<DriveConfig> {
    let base = base(doc, table)?;
    let kind = base.kind;
    let mut keys = beside.to_vec();
    keys.push(if base.is_profile { PROFILE } else { "kind" });
    keys.extend(kind.keys());
    // The members of a profile's volume are its own.
    keys.retain(|key| !base.is_profile || *key != "members");
    let before = doc.problem_count();
    doc.check_keys(table, kind.called, &keys);
    let mut drive = base.drive.clone();
    let values = values(doc, table, &base, &mut drive);
    let mut complete = values.complete;
    if let DriveConfig::Volume(volume) = &mut drive
        && !base.is_profile
    {
        complete &= members(doc, table, volume);
    }
    // The rules of the model relate parameters to each other, so they are checked only if all
    // parameters could be read.
    if complete {
        check(doc, table, &values.entries, drive.clone());
    }
    (doc.problem_count() == before).then_some(drive)
}

/// The drive into which the parameters of a table are set.
#[derive(Debug)]
struct BaseDrive {
    kind: &'static ModelKind,
    /// The profile's drive. Without a profile, it is the generic drive, which supplies valid values
    /// for parameters that cannot be read.
    drive: DriveConfig,
    /// True if the table names a profile, so that parameters that it does not set are the
    /// profile's.
    is_profile: bool,
}

/// Reads the profile or the kind of a drive.
fn base<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<BaseDrive> {
    if let Some(entry) = table.entry(PROFILE) {
        let name = entry.text(doc, "a profile's name", "\"plextor-px-256m5s\"")?;
        let drive = named(doc, &entry, name)?;
        return Some(BaseDrive {
            kind: KINDS.iter().find(|k| k.name == drive.name())?,
            drive,
            is_profile: true,
        });
    }
    let kinds: Vec<_> = KINDS.iter().map(|k| k.name).collect();
    let names: Vec<_> = KINDS.iter().map(|k| format!("\"{}\"", k.name)).collect();
    let help = format!("set one of kind = {}", names.join(", "));
    let kind = doc.required(table, "kind", &help)?;
    let kind = &KINDS[kind.choice(doc, &kinds)?];
    Some(BaseDrive {
        kind,
        drive: (kind.generic)(),
        is_profile: false,
    })
}

/// The result of reading the parameters in a table.
#[derive(Debug)]
struct ParameterValues<'a> {
    /// The entry of each parameter that the table sets.
    entries: Vec<(&'static Parameter, KeyEntry<'a>)>,
    /// True if no parameter was missing or unreadable.
    complete: bool,
}

/// Reads each parameter into `drive`.
fn values<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    base: &BaseDrive,
    drive: &mut DriveConfig,
) -> ParameterValues<'a> {
    let kind = base.kind;
    let generic = (kind.generic)();
    let mut values = ParameterValues {
        entries: Vec::new(),
        complete: true,
    };
    let mut missing = Vec::new();
    // The nested table of the previous parameter with a dot in its key. Such parameters follow each
    // other in the list, so each nested table is read only once.
    let mut last: Option<(&str, Option<ShapedTable<'a>>)> = None;
    for parameter in kind.parameters {
        let (outer, inner) = parameter.split();
        if inner.is_some() && last.as_ref().is_none_or(|l| l.0 != outer) {
            let is_stated = !base.is_profile || table.entry(outer).is_some();
            let nested = is_stated.then(|| nested(doc, table, kind, parameter));
            values.complete &= nested.as_ref().is_none_or(Option::is_some);
            let nested = nested.flatten();
            last = Some((outer, nested));
        }
        let nested = last.as_ref().and_then(|l| l.1.as_ref());
        let table = if inner.is_some() { nested } else { Some(table) };
        // A missing table was already reported, unless a profile has its parameters.
        let Some(table) = table else { continue };
        let key = inner.unwrap_or(outer);
        let entry = table.entry(key);
        if !base.is_profile {
            if let Some(default) = parameter.default {
                parameter.set(drive, default);
            } else if entry.is_none() {
                missing.push((parameter, table.clone(), key));
            }
        }
        let Some(entry) = entry else { continue };
        let Some(value) = value::parameter(parameter, doc, &entry, &generic) else {
            values.complete = false;
            continue;
        };
        parameter.set(drive, value);
        // The setter reduces a value that is too large for the field, so another value is read
        // back.
        if parameter.get(drive) == value {
            values.entries.push((parameter, entry));
        } else {
            // The value is too large for the field. It is replaced by a valid one, so that the
            // model's rules for the other parameters can be checked.
            parameter.set(drive, parameter.get(&generic));
            entry.not_permitted(doc, parameter.allowed(&generic));
        }
    }
    values.complete &= missing.is_empty();
    say_missing(doc, table, kind, missing);
    values
}

/// Returns the help that shows a parameter with a valid value.
fn example(kind: &ModelKind, parameter: &Parameter) -> String {
    let value = parameter.get(&(kind.generic)());
    format!("write {} = {}", parameter.key, parameter.toml(value))
}

/// Reports missing parameters: up to three one by one, and more in a single problem.
fn say_missing<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    kind: &ModelKind,
    missing: Vec<(&'static Parameter, ShapedTable<'a>, &str)>,
) {
    // A new profile lacks most of its parameters, and one problem for each would hide the others.
    let [(first, ..), _, _, _, ..] = &missing[..] else {
        for (parameter, table, key) in missing {
            doc.required(&table, key, &example(kind, parameter));
        }
        return;
    };
    let names: Vec<_> = missing.iter().map(|m| m.0.key).collect();
    let count = names.len();
    let what = format!("{count} parameters are missing: {}", names.join(", "));
    let like = example(kind, first);
    let help = format!("{like} and so on; `weir drives fit NAME` prints a profile to start from");
    doc.report_span(&table.span, &table.path, what, &help);
}

/// Reads the members of a volume. Returns true if all of them could be read.
fn members<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    volume: &mut volume::VolumeConfig,
) -> bool {
    let before = doc.problem_count();
    let help = format!("write members = {MEMBERS}");
    let entry = doc.required(table, "members", &help);
    let entries = entry.and_then(|e| e.array(doc, MEMBERS));
    let entries = entries.unwrap_or_default();
    for (number, entry) in (1..).zip(&entries) {
        let Some(member) = model(doc, entry) else {
            continue;
        };
        // In a linear volume, the position of a member is the sum of the sizes before it.
        if volume.layout == Layout::Linear && number < entries.len() && member.size().is_none() {
            let what = format!(
                "a {} model has no end, so that no other model can follow it",
                member.name()
            );
            doc.report(entry, what, "put it last, or use kind = \"stripe\"");
        }
        volume.members.push(member);
    }
    doc.problem_count() == before
}

/// Reads the nested table of a parameter whose key has a dot, and checks the keys of this table.
fn nested<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    kind: &ModelKind,
    parameter: &Parameter,
) -> Option<ShapedTable<'a>> {
    let key = parameter.split().0;
    let help = example(kind, parameter);
    let nested = doc.required(table, key, &help)?.map(doc)?;
    let keys: Vec<_> = kind.parameters.iter().map(Parameter::split).collect();
    let keys = keys.iter().filter(|k| k.0 == key).filter_map(|k| k.1);
    let called = format!("{key} of {}", kind.called);
    doc.check_keys(&nested, &called, &keys.collect::<Vec<_>>());
    Some(nested)
}

/// Reports every rule of the model that the values break. The model returns one error at a time, so
/// each wrong value is replaced by a valid one before the next attempt.
fn check<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    entries: &[(&'static Parameter, KeyEntry<'a>)],
    mut drive: DriveConfig,
) {
    let generic = KINDS.iter().find(|k| k.name == drive.name());
    let mut said = Vec::new();
    while let Err(error) = drive.validate() {
        // The model refuses the same parameter again although its value was replaced. Further
        // attempts would not end.
        if said.contains(&error.field) {
            return;
        }
        said.push(error.field);
        let Some((parameter, entry)) = entries.iter().find(|e| e.0.key == error.field) else {
            let what = format!(
                "{} is not permitted; it must be {}",
                error.value, error.allowed
            );
            let span = table.span_of(error.field);
            doc.report_span(&span, &join(&table.path, error.field), what, "");
            return;
        };
        entry.not_permitted(doc, error.allowed);
        if let Some(kind) = generic {
            parameter.set(&mut drive, parameter.get(&(kind.generic)()));
        }
    }
}
