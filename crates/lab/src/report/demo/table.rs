//! The tables of the demo, for a terminal.

use super::{DemoReport, rows};
use crate::report::table::wrap;

/// Prints the demo as tables of at most `width` columns. Unless `all` is set, clients that differ
/// only in their number share two rows, with the minimum and the maximum of each figure.
pub fn demo_table(report: &DemoReport, width: usize, all: bool) -> String {
    let mut out = String::new();
    for result in &report.policies {
        let heading = format!("{}: {}", result.policy, result.verdict);
        out += &wrap(&heading, width);
        out.push('\n');
        out.push_str(&rows::clients(report, result, all).text(width));
        out.push('\n');
    }
    out.push_str(&rows::policies(report).text(width));
    out.push('\n');
    for (what, value) in &report.best {
        out += &wrap(&format!("best possible: {what}: {value}"), width);
    }
    out + &wrap(UNITS, width)
}

const UNITS: &str = "Bandwidths in MB/s of 10^6 bytes. worst s: the worst second, over the part of it in which a \
                     request of the client waited; met: the part of the seconds in which it was owed something that \
                     kept it; drive busy: the part of the time in which at least one command was in the drive.";
