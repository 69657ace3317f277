//! Sheets: what was published of a drive, and which parameters of its model are to be found from it.
//!
//! A sheet is a [profile](crate::profile) whose parameters come from data sheets or were chosen before anything was fitted, with three
//! more kinds of tables: `[fit]` ties a parameter to the figure that shows it, `[plausible]` says between what a parameter may lie that
//! no figure shows, and each `[[figure]]` is something that was published.
//!
//! ```toml
#![doc = include_str!("../sheets/plextor-px-256m5s.toml")]
//! ```

use crate::document::{Document, Entry, Table};
use crate::file::{text, whole};
use crate::key::{FIGURE, FIT, PLAUSIBLE, SHEET};
use crate::parameter::{self, Parameter};
use crate::problem::Problem;
use crate::profile::{self, Profile};
use crate::text::quoted;
use crate::units::{Rate, Time};
use crate::value;
use std::path::Path;
use weir_model::drive::Config;

/// What was published of a drive.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The drive as far as it is known, and values to begin with for the rest.
    pub profile: Profile,
    /// The parameters to be found, in the order of the table in the file.
    pub fit: Vec<Fit>,
    /// The parameters that nothing published shows.
    pub plausible: Vec<Range>,
    /// What was published.
    pub figures: Vec<Published>,
}

/// A range of a parameter's values, in its unit.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Which parameter.
    pub parameter: &'static Parameter,
    /// The least, at least 1.
    pub from: u64,
    /// The most.
    pub to: u64,
}

/// A parameter that is to make a figure come out.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Where it is looked for.
    pub range: Range,
    /// The figure that shows it.
    pub figure: String,
}

/// A figure that was published.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// What was measured: a name that the fitting program knows.
    pub figure: String,
    /// Bytes a second, or nanoseconds.
    pub value: f64,
    /// Whether it is a time.
    pub is_time: bool,
    /// How far off a fitted figure may be, per cent. `None`: it is not fitted to.
    pub within: Option<u8>,
    /// Where it was published.
    pub source: String,
    /// Why a model may give another one, in a sentence or more.
    pub note: Option<String>,
}

built_in! { "sheet" in "sheets":
    "samsung-970-pro"
    "plextor-px-256m5s"
    "hitachi-hts72755"
    "samsung-860-500gb"
    "wd-wd10jpvx"
    "toshiba-mq04abf1"
    "seagate-st3808110as"
    "scsi-debug"
    "iscsi-1ms"
}

/// The sheet of a drive that comes with Weir, if it has one: a profile may be all that there is.
pub fn find(name: &str) -> Option<Sheet> {
    let text = source(name)?;
    Some(read(text, name).expect("what comes with Weir can be read, as its tests show"))
}

/// Reads the text of a sheet. `file` is its name in problems and may be empty.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn read(text: &str, file: &str) -> Result<Sheet, Vec<Problem>> {
    whole(text, file, sheet)
}

/// Reads a sheet's file.
///
/// # Errors
/// As [`read`], or it cannot be read at all.
pub fn load(path: &Path) -> Result<Sheet, Vec<Problem>> {
    let (file, text) = text(path)?;
    read(&text, &file)
}

fn sheet<'a>(doc: &mut Document<'a>, table: &Table<'a>) -> Option<Sheet> {
    let profile = profile::profile(doc, table, &SHEET.names())?;
    let drive = &profile.drive;
    let mut fit = Vec::new();
    for (parameter, entry) in parameters(doc, table, "fit", drive) {
        let Some(table) = entry.table(doc, &FIT) else {
            continue;
        };
        let figure = doc.required(&table, "figure", "write figure = \"sequential-read\"");
        let figure = figure.and_then(|e| e.text(doc, "a figure's name", "\"sequential-read\""));
        if let (Some(range), Some(figure)) = (range(doc, &table, parameter, drive), figure) {
            let figure = figure.to_owned();
            fit.push(Fit { range, figure });
        }
    }
    let mut plausible = Vec::new();
    for (parameter, entry) in parameters(doc, table, "plausible", drive) {
        let Some(table) = entry.table(doc, &PLAUSIBLE) else {
            continue;
        };
        plausible.extend(range(doc, &table, parameter, drive));
    }
    let entries = table
        .entry("figure")
        .and_then(|e| e.array(doc, "[[figure]]"));
    let figures = entries.into_iter().flatten();
    let figures: Vec<_> = figures.filter_map(|e| published(doc, &e)).collect();
    // In the order of the file: what is tied first is found first.
    fit.sort_by_key(|f: &Fit| {
        doc.places
            .keys
            .get(&format!("fit.{}", f.range.parameter.key))
            .copied()
    });
    Some(Sheet {
        profile,
        fit,
        plausible,
        figures,
    })
}

/// The entries of a table whose keys are parameters.
fn parameters<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    key: &str,
    drive: &Config,
) -> Vec<(&'static Parameter, Entry<'a>)> {
    let Some(table) = table.entry(key).and_then(|e| e.map(doc)) else {
        return Vec::new();
    };
    let known: Vec<_> = parameter::parameters(drive).iter().map(|p| p.key).collect();
    doc.check_keys(&table, &format!("[{key}]"), &known);
    let entries = table.entries();
    entries
        .filter_map(|(key, entry)| Some((parameter::find(drive, key.get_ref())?, entry)))
        .collect()
}

fn range<'a>(
    doc: &mut Document<'a>,
    table: &Table<'a>,
    parameter: &'static Parameter,
    drive: &Config,
) -> Option<Range> {
    let mut end = |key| {
        let help = format!("write {key} = {}", parameter.toml(parameter.get(drive)));
        let entry = doc.required(table, key, &help)?;
        let value = value::parameter(parameter, doc, &entry, drive)?;
        let mut tried = drive.clone();
        parameter.set(&mut tried, value);
        match tried.validate() {
            Err(error) if error.field == parameter.key => {
                entry.not_permitted(doc, error.allowed);
                None
            }
            _ => Some((entry, value)),
        }
    };
    let (from, to) = (end("from"), end("to"));
    let ((_, from), (last, to)) = (from?, to?);
    if from == 0 || to < from {
        let what = format!(
            "the range from {} to {} is empty",
            parameter.text(from),
            parameter.text(to)
        );
        doc.report(&last, what, "set from above zero, and to above from");
        return None;
    }
    Some(Range {
        parameter,
        from,
        to,
    })
}

fn published<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Published> {
    let table = entry.table(doc, &FIGURE)?;
    let mut text = |key, example: &str| {
        let entry = doc.required(&table, key, &format!("write {key} = {example}"))?;
        let text = entry.text(doc, "a text", example)?;
        Some((entry, text))
    };
    let name = text("name", "\"sequential-read\"");
    let value = text("value", "\"515MB/s\" or \"39ms\"");
    let source = text("source", "\"data sheet\"");
    let note = table
        .entry("note")
        .and_then(|e| e.text(doc, "a text", "\"because\""));
    let within = table.field(doc, "within");
    let (entry, value) = value?;
    let rate = value.parse().map(|Rate(rate)| (rate as f64, false));
    let time = value
        .parse()
        .map(|Time(time)| (time.as_nanos() as f64, true));
    let Some((value, is_time)) = rate.ok().or_else(|| time.ok()).filter(|v| v.0 > 0.0) else {
        let what = format!("{} is neither a rate nor a time", quoted(value));
        doc.report(&entry, what, "write it as \"515MB/s\" or \"39ms\"");
        return None;
    };
    Some(Published {
        figure: name?.1.to_owned(),
        value,
        is_time,
        within,
        source: source?.1.to_owned(),
        note: note.map(str::to_owned),
    })
}
