//! Profiles: drive models under a name, with a description of the drive.
//!
//! A profile is a TOML file with a name, a description, a kind, and the parameters of that kind:
//!
//! ```toml
#![doc = include_str!("../../profiles/scsi-debug.toml")]
//! ```

mod model;

pub(crate) use model::model;

use crate::document::{Document, KeyEntry, ShapedTable};
use crate::file::{parse_whole, read_name_and_about, text};
use crate::key::PROFILE;
use crate::parameter::parameters;
use crate::problem::Problem;
use crate::text::{Quoted, block};
use crate::{nearest, parameter};
use std::fmt::Write as _;
use std::path::Path;
use weir_model::drive::DriveConfig;

/// A drive model under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveProfile {
    /// The name: letters, digits, dots and dashes.
    pub name: String,
    /// The description. Its first line names the drive, and the other lines state known facts and
    /// their sources.
    pub about: String,
    /// The timing model of the drive.
    pub drive: DriveConfig,
}

impl DriveProfile {
    /// Returns the first line of the description.
    pub fn summary(&self) -> &str {
        self.about.lines().next().unwrap_or_default()
    }
}

/// The error for a name that no profile has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown drive {name:?}{}", nearest.map_or(String::new(), |n| format!("; did you mean {n:?}?")))]
pub struct UnknownProfile {
    /// The name that was not found.
    pub name: String,
    /// The most similar name of a profile.
    pub nearest: Option<&'static str>,
}

built_in! { "profile" in "profiles":
    "demo"
    "samsung-970-pro"
    "plextor-px-256m5s"
    "hitachi-hts72755"
    "samsung-860-500gb"
    "wd-wd10jpvx"
    "toshiba-mq04abf1"
    "seagate-st3808110as"
    "seagate-no-ncq"
    "stripe-2"
    "stripe-4"
    "stripe-8"
    "scsi-debug"
    "iscsi-1ms"
    "iscsi-1ms-each"
    "iscsi-memory"
}

/// Returns a profile that comes with Weir.
///
/// # Errors
/// No profile has this name.
pub fn find(name: &str) -> Result<DriveProfile, UnknownProfile> {
    let Some(text) = source(name) else {
        // A part of a name, of at least three characters, also leads to a suggestion.
        let part = |whole: &&str| name.len() >= 3 && whole.contains(&name.to_lowercase());
        return Err(UnknownProfile {
            name: name.to_owned(),
            nearest: nearest::name(name, names()).or_else(|| names().find(part)),
        });
    };
    Ok(read(text, name).expect("what comes with Weir can be read, as its tests show"))
}

/// Reads the text of a profile. `file` is its name in problems and may be empty.
///
/// # Errors
/// Everything that is wrong with the text, in the order of the file. An unknown key comes with the
/// nearest known key, and a wrong value with the values that the model permits.
pub fn read(text: &str, file: &str) -> Result<DriveProfile, Vec<Problem>> {
    parse_whole(text, file, |doc, table| profile(doc, table, &[]))
}

/// Reads a model from an inline table, `{ kind = "null", ... }`. The name of the resulting profile
/// is that of its kind. With `{ profile = "NAME", ... }`, it is `NAME-variant`.
///
/// # Errors
/// The problems that [`read`] returns.
pub fn read_inline(text: &str) -> Result<DriveProfile, Vec<Problem>> {
    parse_whole(&format!("drive = {text}"), "", |doc, table| {
        let entry = table.entry("drive")?;
        let drive = model(doc, &entry)?;
        let base = entry.is_table().then(|| entry.map(doc)).flatten();
        let base = base.and_then(|table| table.entry(model::PROFILE)?.text(doc, "", ""));
        let (name, about) = match base {
            Some(base) => (format!("{base}-variant"), format!("a variant of {base}")),
            None => (drive.name().to_owned(), "a model without a profile".into()),
        };
        Some(DriveProfile { name, about, drive })
    })
}

/// Reads a profile's file.
///
/// # Errors
/// The problems that [`read`] returns, or the reason why the file cannot be read.
pub fn load(path: &Path) -> Result<DriveProfile, Vec<Problem>> {
    let (file, text) = text(path)?;
    read(&text, &file)
}

/// Reads a profile from its table. `beside` are further keys that the table may have.
pub(crate) fn profile<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    beside: &[&str],
) -> Option<DriveProfile> {
    let (name, about) = read_name_and_about(doc, table, "drive", "what it stands for");
    let keys = [&PROFILE.names(), beside].concat();
    let drive = model::drive(doc, table, &keys);
    Some(DriveProfile {
        name: name?.to_owned(),
        about: about?.to_owned(),
        drive: drive?,
    })
}

/// Prints a profile as a file that reads back as an equal profile, in a fixed order and in the
/// shortest units.
pub fn print(profile: &DriveProfile) -> String {
    let DriveProfile { name, about, drive } = profile;
    let mut text = format!("name = {}\nabout = {}\n", Quoted(name), block(about));
    for (key, value) in keys(drive) {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

/// Returns a model as an inline table, as in the server's file.
pub fn inline(drive: &DriveConfig) -> String {
    let keys: Vec<_> = keys(drive).map(|(k, v)| format!("{k} = {v}")).collect();
    format!("{{ {} }}", keys.join(", "))
}

/// Returns the model of an inline table in that form: with all its parameters, or with those that
/// differ from the profile that the table names.
pub(crate) fn inline_as_stated<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<String> {
    let drive = model(doc, entry)?;
    let Some(base) = entry.map(doc)?.entry(model::PROFILE) else {
        return Some(inline(&drive));
    };
    let name = base.text(doc, "", "")?;
    let base = find(name).ok()?.drive;
    let differs = |p: &&parameter::Parameter| p.get(&drive) != p.get(&base);
    let mut keys = vec![format!("{} = {}", model::PROFILE, Quoted(name))];
    for p in parameters(&drive).iter().filter(differs) {
        keys.push(format!("{} = {}", p.key, p.toml(p.get(&drive))));
    }
    Some(format!("{{ {} }}", keys.join(", ")))
}

/// Iterates over the kind, the parameters and the members with their values in TOML. Parameters
/// that are zero and whose default is zero are left out.
fn keys(drive: &DriveConfig) -> impl Iterator<Item = (&'static str, String)> {
    let kind = ("kind", format!("\"{}\"", drive.name()));
    let said = |p: &&parameter::Parameter| p.default != Some(0) || p.get(drive) != 0;
    let parameters = parameters(drive).iter().filter(said);
    let members = match drive {
        DriveConfig::Volume(volume) => {
            let members: Vec<_> = volume.members.iter().map(word).collect();
            Some(("members", format!("[{}]", members.join(", "))))
        }
        _ => None,
    };
    std::iter::once(kind)
        .chain(parameters.map(|p| (p.key, p.toml(p.get(drive)))))
        .chain(members)
}

/// Returns the name of the profile that comes with Weir and has exactly this drive.
pub fn name_of(drive: &DriveConfig) -> Option<&'static str> {
    names().find(|name| find(name).is_ok_and(|p| p.drive == *drive))
}

/// Returns the name of the drive's profile in quotes, or an inline table if there is none.
pub fn word(drive: &DriveConfig) -> String {
    match name_of(drive) {
        Some(name) => Quoted(name).to_string(),
        None => inline(drive),
    }
}
