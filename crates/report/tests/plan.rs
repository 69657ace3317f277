//! Plans: the table fits, the page is whole, and what is not known is a dash.

mod common;

use common::{golden, well_formed};
use weir_measure::Interval;
use weir_report::{Drives, PlanReport, PlanRow, plan_page, plan_table};

fn report() -> PlanReport {
    let interval = |mean: f64| {
        Some(Interval {
            mean,
            half: mean / 8.0,
        })
    };
    let row = |policy: &str, searches: &[Option<u64>]| {
        let drives = Drives::of(searches);
        let enough = drives.map(|d| d.enough as f64);
        PlanRow {
            policy: policy.into(),
            drives,
            utilization: enough.and_then(|d| interval(1.6 / d)),
            average_mbps: enough.and_then(|d| interval(d * 20.0)),
        }
    };
    PlanReport {
        scenario: "invented".into(),
        load: "Some <read>.".into(),
        drive: "disk: a disk that nobody has".into(),
        peak_mbps: 100.0,
        clients: 16,
        promised_mbps: 160.0,
        promised_iops: 500,
        rows: vec![
            row("a drive each", &[Some(16); 4]),
            row("none", &[Some(16), None, Some(15), Some(9)]),
            row("contract", &[Some(2), Some(1), Some(2), Some(2)]),
        ],
        notes: vec!["It was invented.".into()],
    }
}

#[test]
fn the_table_fits_and_says_where_nothing_is_known() {
    golden("plan.txt", &plan_table(&report(), 80));
    for width in [60, 80] {
        let table = plan_table(&report(), width);
        assert!(table.lines().all(|l| l.chars().count() <= width), "{table}");
    }
}

#[test]
fn the_page_is_whole() {
    let other = PlanReport {
        drive: "flash: another that nobody has".into(),
        ..report()
    };
    let page = plan_page(&[report(), other]);
    assert_eq!(well_formed(&page), Ok(()));
    assert_eq!(page.matches("<svg").count(), 2 * 2 * 2);
    assert!(page.contains("a disk that nobody has") && page.contains("another that nobody has"));
    assert!(!page.contains("<read>") && page.contains("8.0x"));
    assert_eq!(well_formed(&plan_page(&[PlanReport::default()])), Ok(()));
}
