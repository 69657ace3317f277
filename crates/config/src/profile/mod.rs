//! Profiles: drives by name, with what is known of them.
//!
//! A profile is a TOML file with a name, some text, a kind and every parameter of it:
//!
//! ```toml
#![doc = include_str!("../../profiles/scsi-debug.toml")]
//! ```

mod model;

pub(crate) use model::model;

use crate::document::{Document, Table};
use crate::file::{head, text, whole};
use crate::key::PROFILE;
use crate::parameter::parameters;
use crate::problem::Problem;
use crate::text::{Quoted, block};
use crate::{nearest, parameter};
use std::fmt::Write as _;
use std::path::Path;
use weir_model::drive::Config;

/// A drive with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name: letters, digits, dots and dashes.
    pub name: String,
    /// What it stands for in its first line; behind that what is known of it and from where.
    pub about: String,
    /// The model.
    pub drive: Config,
}

impl Profile {
    /// What it stands for, in a line.
    pub fn summary(&self) -> &str {
        self.about.lines().next().unwrap_or_default()
    }
}

/// There is no profile of that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown drive {name:?}{}", nearest.map_or(String::new(), |n| format!("; did you mean {n:?}?")))]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// The name of a profile that is near to it.
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

/// A profile that comes with Weir.
///
/// # Errors
/// There is none of that name.
pub fn find(name: &str) -> Result<Profile, Unknown> {
    let Some(text) = source(name) else {
        // A part of a name is as good as a name with a wrong letter.
        let part = |whole: &&str| name.len() >= 3 && whole.contains(&name.to_lowercase());
        return Err(Unknown {
            name: name.to_owned(),
            nearest: nearest::name(name, names()).or_else(|| names().find(part)),
        });
    };
    Ok(read(text, name).expect("what comes with Weir can be read, as its tests show"))
}

/// Reads the text of a profile. `file` is its name in problems and may be empty.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file: an unknown key with the nearest known one, a value that the model does
/// not permit with what it does permit.
pub fn read(text: &str, file: &str) -> Result<Profile, Vec<Problem>> {
    whole(text, file, |doc, table| profile(doc, table, &[]))
}

/// Reads a model as an inline table, `{ kind = "null", ... }`. It is called as its kind.
///
/// # Errors
/// As [`read`].
pub fn read_inline(text: &str) -> Result<Profile, Vec<Problem>> {
    whole(&format!("drive = {text}"), "", |doc, table| {
        let drive = model(doc, &table.entry("drive")?)?;
        Some(Profile {
            name: drive.name().to_owned(),
            about: "a model without a profile".to_owned(),
            drive,
        })
    })
}

/// Reads a profile's file.
///
/// # Errors
/// As [`read`], or it cannot be read at all.
pub fn load(path: &Path) -> Result<Profile, Vec<Problem>> {
    let (file, text) = text(path)?;
    read(&text, &file)
}

/// A profile from its table, which may have these other keys `beside` its own.
pub(crate) fn profile<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    beside: &[&str],
) -> Option<Profile> {
    let (name, about) = head(doc, table, "drive", "what it stands for");
    let keys = [&PROFILE.names(), beside].concat();
    let drive = model::drive(doc, table, &keys);
    Some(Profile {
        name: name?.to_owned(),
        about: about?.to_owned(),
        drive: drive?,
    })
}

/// Prints a profile so that it reads back as an equal one: in one order and in the shortest units.
pub fn print(profile: &Profile) -> String {
    let Profile { name, about, drive } = profile;
    let mut text = format!("name = {}\nabout = {}\n", Quoted(name), block(about));
    for (key, value) in keys(drive) {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

/// A model as an inline table, as a server's file has it.
pub fn inline(drive: &Config) -> String {
    let keys: Vec<_> = keys(drive).map(|(k, v)| format!("{k} = {v}")).collect();
    format!("{{ {} }}", keys.join(", "))
}

/// Its kind, its parameters and its members, with their values in TOML. A number that is zero and usually is zero is left out.
fn keys(drive: &Config) -> impl Iterator<Item = (&'static str, String)> {
    let kind = ("kind", format!("\"{}\"", drive.name()));
    let said = |p: &&parameter::Parameter| p.default != Some(0) || p.get(drive) != 0;
    let parameters = parameters(drive).iter().filter(said);
    let members = match drive {
        Config::Volume(volume) => {
            let members: Vec<_> = volume.members.iter().map(word).collect();
            Some(("members", format!("[{}]", members.join(", "))))
        }
        _ => None,
    };
    std::iter::once(kind)
        .chain(parameters.map(|p| (p.key, p.toml(p.get(drive)))))
        .chain(members)
}

/// The profile that comes with Weir and is of that very drive.
pub fn name_of(drive: &Config) -> Option<&'static str> {
    names().find(|name| find(name).is_ok_and(|p| p.drive == *drive))
}

/// A model by the name of the profile that is of it, in quotes, else as an inline table.
pub fn word(drive: &Config) -> String {
    match name_of(drive) {
        Some(name) => Quoted(name).to_string(),
        None => inline(drive),
    }
}
