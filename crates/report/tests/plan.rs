//! Plans: the table fits, the page is whole, and what is not known is a dash.

mod common;

use common::{golden, well_formed};
use weir_measure::Interval;
use weir_report::{PlanReport, PlanRow, plan_page, plan_table};

fn report() -> PlanReport {
    let interval = |mean: f64| {
        Some(Interval {
            mean,
            half: mean / 8.0,
        })
    };
    let row = |policy: &str, drives: Option<Interval>| PlanRow {
        policy: policy.into(),
        drives,
        utilization: drives.and_then(|d| interval(1.6 / d.mean)),
        average_mbps: drives.and_then(|d| interval(d.mean * 20.0)),
    };
    PlanReport {
        scenario: "invented".into(),
        load: "Some <read>.".into(),
        drive: "disk: a disk that nobody has".into(),
        peak_mbps: 100.0,
        clients: 16,
        promised_mbps: 160.0,
        rows: vec![
            row("a drive each", interval(16.0)),
            row("none", None),
            row("contract", interval(2.0)),
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
    let page = plan_page(&report());
    assert_eq!(well_formed(&page), Ok(()));
    assert_eq!(page.matches("<svg").count(), 2 * 2);
    assert!(!page.contains("<read>") && page.contains("8.0x"));
    assert_eq!(well_formed(&plan_page(&PlanReport::default())), Ok(()));
}
