//! The demo as one self-contained page.

use super::DemoReport;

/// The demo as one self-contained HTML page: what each policy did to the target, and to everyone else.
pub fn demo_page(report: &DemoReport) -> String {
    report.drive.clone()
}
