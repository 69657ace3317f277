//! Prints a single second, as tables or as JSON.

use super::drives::budget_text;
use super::figure::{percent, rate, requests};
use super::look::{NAME_MIN, clipped};
use super::row::{RowKind, TopColumn};
use super::state::TopState;
use crate::failure::Failure;
use serde::Serialize;
use weir_manage::api::Status;

/// Returns the status as a line of JSON, with the time of the second if `at_ms` has one.
pub(super) fn json(status: &Status, at_ms: Option<u64>) -> Result<String, Failure> {
    /// The object that is printed: the status, and the time of the second in front of it.
    #[derive(Serialize)]
    struct SecondLine<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
        #[serde(flatten)]
        status: &'a Status,
    }
    let line = serde_json::to_string(&SecondLine { at_ms, status }).map_err(Failure::run)?;
    Ok(line + "\n")
}

/// Returns two lines for each drive, and tables of tenants and volumes, at most `width` columns
/// wide.
pub(super) fn tables(state: &TopState, width: usize) -> String {
    let mut text = String::new();
    for drive in &state.status().drives {
        let now = &drive.now;
        let (busy, bytes) = (percent(now.busy), rate(now.bytes_per_second));
        let each = requests(now.requests_per_second);
        let lines = [
            format!("drive {}: {busy} busy, {bytes}, {each}\n", drive.name),
            budget_text(drive.budget.as_ref()) + "\n",
        ];
        text.extend(lines);
    }
    for (kind, title) in [(RowKind::Tenants, "TENANT"), (RowKind::Volumes, "VOLUME")] {
        let rows = state.rows_of(kind);
        if rows.is_empty() {
            continue;
        }
        let columns = TopColumn::shown(u16::try_from(width).unwrap_or(u16::MAX));
        let title = columns.iter().map(|column| match column {
            TopColumn::Name => title.to_owned(),
            _ => column.look().0.to_owned(),
        });
        let cells = rows
            .iter()
            .map(|row| columns.iter().map(|column| row.cell(*column)).collect());
        text += "\n";
        let lines = [title.collect()].into_iter().chain(cells).collect();
        text += &table(lines, &columns, width);
    }
    text
}

/// Formats rows as lines. Each column is as wide as its widest cell, and names are clipped to the
/// rest of `width`.
fn table(mut rows: Vec<Vec<String>>, columns: &[TopColumn], width: usize) -> String {
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let mut widths: Vec<usize> = (0..columns.len())
        .map(|column| widest(column).unwrap_or(0))
        .collect();
    let others = widths.iter().skip(1).map(|width| width + 1).sum();
    let left = width.saturating_sub(others).max(usize::from(NAME_MIN));
    // Only names are clipped, because clipped numbers would be wrong.
    widths[0] = widths[0].min(left);
    let mut text = String::new();
    for row in &mut rows {
        row[0] = clipped(&row[0], u16::try_from(widths[0]).unwrap_or(u16::MAX));
        let cells = columns.iter().zip(&*row).zip(&widths);
        let cells = cells.map(|((column, cell), width)| {
            if column.is_text() {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        let line = cells.collect::<Vec<_>>().join(" ");
        text += line.trim_end();
        text += "\n";
    }
    text
}
