//! Formats drive models for a terminal.

use crate::failure::Failure;
use crate::output;
use weir_config::profile::{self, DriveProfile};
use weir_config::{parameter, sheet};
use weir_lab::fit::{DriveFigure, FigureRow, compare};
use weir_lab::report::{Column, NO_TERMINAL, ReportTable, wrap};
use weir_model::drive::DriveConfig;

/// Runs `weir drives`, which prints a line for each model. On a terminal, lines are clipped to its
/// width.
pub(super) fn list() -> Result<(), Failure> {
    let width = if output::is_terminal() {
        output::width()
    } else {
        NO_TERMINAL
    };
    let name = |n: &str| n.len();
    let wide = profile::names().map(name).max().unwrap_or(0);
    let mut text = String::new();
    for name in profile::names() {
        let profile = super::find(name)?;
        let line = format!(
            "{name:wide$}  {:4}  {}",
            profile.drive.name(),
            profile.summary()
        );
        match line.char_indices().nth(width) {
            // The ellipsis takes three of the columns.
            Some(_) => text.extend(line.chars().take(width - 3).chain("...".chars())),
            None => text += &line,
        }
        text.push('\n');
    }
    output::print(&text)
}

/// Runs `weir drives figures`, which lists the figures of sheets.
pub(super) fn figures() -> Result<(), Failure> {
    let names = DriveFigure::all().map(|figure| figure.name() + "\n");
    output::print(&names.collect::<String>())
}

/// Runs `weir drives NAME`, which prints the description of a model, its parameters, and its
/// figures next to the published ones.
pub(super) fn drive(profile: &DriveProfile) -> Result<(), Failure> {
    let width = output::width();
    let about = profile.about.split_once('\n').map_or("", |about| about.1);
    let mut text = wrap(&format!("{}: {}", profile.name, profile.summary()), width);
    if !about.trim().is_empty() {
        text += &wrap(about, width);
    }
    text.push('\n');
    text += &parameters(profile);
    if let Some(sheet) = sheet::find(&profile.name).filter(|s| !s.figures.is_empty()) {
        let rows = compare(&sheet, &profile.drive).map_err(Failure::run)?;
        text.push('\n');
        text += &published(&rows);
        let note =
            "fitted: a parameter was chosen so that this figure comes out. predicted: nothing was.";
        text += &wrap(note, width);
    }
    output::print(&text)
}

fn parameters(profile: &DriveProfile) -> String {
    let mut table = ReportTable::new([
        Column::text("parameter"),
        Column::number("value"),
        Column::text("").dropped(1),
    ]);
    for parameter in parameter::parameters(&profile.drive) {
        let value = parameter.text(parameter.get(&profile.drive));
        table.row([parameter.key, &value, parameter.about]);
    }
    if let DriveConfig::Volume(volume) = &profile.drive {
        for (number, member) in (1..).zip(&volume.members) {
            let name = profile::name_of(member).unwrap_or_else(|| member.name());
            table.row([&format!("member {number}"), name, ""]);
        }
    }
    table.text(output::width())
}

/// Returns a table of the published figures next to those of the model.
pub(crate) fn published(rows: &[FigureRow]) -> String {
    let mut table = ReportTable::new([
        Column::text("figure"),
        Column::number("published").dropped(1),
        Column::number("model"),
        Column::number("off").dropped(2),
        Column::text("").dropped(3),
        Column::text("source").dropped(4),
    ]);
    for row in rows {
        let measure = row.figure.measure();
        let how = match row.is_within_tolerance() {
            Some(true) => "fitted",
            Some(false) => "fitted, TOO FAR OFF",
            None => "predicted",
        };
        table.row([
            row.figure.name(),
            measure.text(row.published.value),
            measure.text(row.model),
            format!("{:+.0}%", row.relative_error() * 100.0),
            how.to_owned(),
            row.published.source.clone(),
        ]);
    }
    table.text(output::width())
}
