//! The tables of a comparison, for a terminal.

use super::{CompareReport, clients, rows};
use crate::report::table::wrap;

/// Prints a comparison as tables of at most `width` columns, one for each drive, with the reasons
/// below it.
pub fn compare_table(report: &CompareReport, width: usize) -> String {
    let mut out = String::new();
    for drive in &report.drives {
        let about = format!("{}: {}", drive.name, drive.about);
        out += &wrap(&about, width);
        out.push('\n');
        if report.clients {
            out += &clients::text(report, drive, width);
        } else {
            out += &rows::drive(drive, report.latency).text(width);
            out.push('\n');
        }
        for why in &drive.why {
            out += &wrap(why, width);
        }
        out.push('\n');
    }
    for note in &report.notes {
        out += &wrap(note, width);
    }
    out
}
