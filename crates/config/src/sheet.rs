//! Sheets: published measurements of a drive, and the parameters of its model that are fitted to
//! them.
//!
//! A sheet is a [profile](crate::profile) with starting values and three more kinds of tables.
//! `[fit]` names the figure that determines a parameter. `[plausible]` has the range of a parameter
//! that no figure determines. Each `[[figure]]` is a published measurement.
//!
//! ```toml
#![doc = include_str!("../sheets/plextor-px-256m5s.toml")]
//! ```

use crate::document::{Document, KeyEntry, ShapedTable};
use crate::file::{parse_whole, text};
use crate::key::{FIGURE, FIT, PLAUSIBLE, SHEET};
use crate::parameter::{self, Parameter};
use crate::problem::Problem;
use crate::profile::{self, DriveProfile};
use crate::text::quoted;
use crate::units::{BytesPerSecond, Time};
use crate::value;
use std::path::Path;
use weir_model::drive::DriveConfig;

/// The published measurements of a drive, and the parameters to fit.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The drive with known parameters, and with starting values for the others.
    pub profile: DriveProfile,
    /// The parameters to fit, in the order of the file.
    pub fit: Vec<Fit>,
    /// The parameters that no published figure determines.
    pub plausible: Vec<ParameterRange>,
    /// The published figures of the drive.
    pub figures: Vec<PublishedFigure>,
}

/// A range of a parameter's values, in the parameter's unit.
#[derive(Clone, Copy, Debug)]
pub struct ParameterRange {
    /// The parameter that the range belongs to.
    pub parameter: &'static Parameter,
    /// The lower end, at least 1.
    pub from: u64,
    /// The upper end of the range.
    pub to: u64,
}

/// A parameter that is adjusted until the model reproduces a figure.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The range of the search.
    pub range: ParameterRange,
    /// The name of the figure that determines the parameter.
    pub figure: String,
}

/// A published figure of a drive.
#[derive(Clone, PartialEq, Debug)]
pub struct PublishedFigure {
    /// The name of the measured quantity, which the fitting program knows.
    pub figure: String,
    /// The published value, in bytes per second or in nanoseconds.
    pub value: f64,
    /// True if the value is a time.
    pub is_time: bool,
    /// The permitted deviation of a fitted figure in per cent. `None` if no parameter is fitted to
    /// the figure.
    pub within: Option<u8>,
    /// The publication that states the value.
    pub source: String,
    /// The reasons why a model can differ from the figure.
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

/// Returns the sheet of a drive that comes with Weir. Some profiles have no sheet.
pub fn find(name: &str) -> Option<Sheet> {
    let text = source(name)?;
    Some(read(text, name).expect("what comes with Weir can be read, as its tests show"))
}

/// Reads the text of a sheet. `file` is its name in problems and may be empty.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn read(text: &str, file: &str) -> Result<Sheet, Vec<Problem>> {
    parse_whole(text, file, sheet)
}

/// Reads a sheet's file.
///
/// # Errors
/// The problems that [`read`] returns, or the reason why the file cannot be read.
pub fn load(path: &Path) -> Result<Sheet, Vec<Problem>> {
    let (file, text) = text(path)?;
    read(&text, &file)
}

fn sheet<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Option<Sheet> {
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
    // Parameters are fitted one after the other, and the result depends on the order. A table does
    // not preserve it, so it is restored from the places in the file.
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

/// Returns the entries of a table whose keys are parameters of the drive.
fn parameters<'a>(
    doc: &mut Document<'a>,
    table: &ShapedTable<'a>,
    key: &str,
    drive: &DriveConfig,
) -> Vec<(&'static Parameter, KeyEntry<'a>)> {
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
    table: &ShapedTable<'a>,
    parameter: &'static Parameter,
    drive: &DriveConfig,
) -> Option<ParameterRange> {
    let mut end = |key| {
        let help = format!("write {key} = {}", parameter.toml(parameter.get(drive)));
        let entry = doc.required(table, key, &help)?;
        let value = value::parameter(parameter, doc, &entry, drive)?;
        // Only the rule for this parameter counts here, because the starting values of the others
        // can be wrong.
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
    Some(ParameterRange {
        parameter,
        from,
        to,
    })
}

fn published<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<PublishedFigure> {
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
    let rate = value
        .parse()
        .map(|BytesPerSecond(rate)| (rate as f64, false));
    let time = value
        .parse()
        .map(|Time(time)| (time.as_nanos() as f64, true));
    // The permitted deviation is in per cent of the value, so the value must not be zero.
    let Some((value, is_time)) = rate.ok().or_else(|| time.ok()).filter(|v| v.0 > 0.0) else {
        let what = format!("{} is neither a rate nor a time", quoted(value));
        doc.report(&entry, what, "write it as \"515MB/s\" or \"39ms\"");
        return None;
    };
    Some(PublishedFigure {
        figure: name?.1.to_owned(),
        value,
        is_time,
        within,
        source: source?.1.to_owned(),
        note: note.map(str::to_owned),
    })
}
