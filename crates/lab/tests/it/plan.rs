//! Tests of plans: the table fits, the page is well formed, and unknown values are dashes.

use crate::common::{assert_fits, assert_golden, assert_self_contained};
use weir_lab::report::{PlanReport, PlanRow, plan_page, plan_table};
use weir_measure::{Interval, Need, NeedLimit};

fn report() -> PlanReport {
    let row = |policy: &str, searches: &[Option<u64>], enough: Option<u64>, needed_in| {
        let used = enough.map(|drives| Interval {
            mean: 1.6 / drives as f64,
            half: 0.2 / drives as f64,
        });
        let need = Need {
            scenario: "invented".into(),
            drive: "disk".into(),
            case: "invented".into(),
            policy: policy.into(),
            clients: 16,
            promised_mb_per_s: 160.0,
            promised_iops: 500,
            keep: 99,
            searches: searches.to_vec(),
            drives: enough,
            needed_in,
            used: used.map(|used| used.mean),
            average_mb_per_s: enough.map(|drives| drives as f64 * 20.0),
            average_asked_mb_per_s: None,
            limited_by: None,
        };
        PlanRow {
            need,
            used,
            why: None,
        }
    };
    let contract = [Some(2), Some(1), Some(2), Some(2)];
    PlanReport {
        load: "Some <read>.".into(),
        drive: "disk: a disk that nobody has".into(),
        rows: vec![
            row("a drive each", &[Some(16); 4], Some(16), Some(4)),
            row("none", &[Some(16), None, Some(15), Some(9)], None, None),
            row("contract", &contract, Some(2), Some(3)),
        ],
        notes: vec!["It was invented.".into()],
    }
}

#[test]
fn the_table_fits_and_says_where_nothing_is_known() {
    assert_golden("plan.txt", &plan_table(&report(), 80));
    assert_fits(&[60, 80], |width| plan_table(&report(), width));
}

#[test]
fn a_plan_with_an_average_shows_what_limits_each_policy() {
    let mut report = report();
    let limits = [None, Some(NeedLimit::Average), Some(NeedLimit::Min)];
    for (row, limit) in report.rows.iter_mut().zip(limits) {
        row.need.average_asked_mb_per_s = Some(50.0);
        row.need.limited_by = limit;
    }
    let text = plan_table(&report, 90);
    let ends = |policy: &str| text.lines().find(|l| l.starts_with(policy)).unwrap();
    assert!(text.contains("limited by"), "{text}");
    assert!(ends("a drive each").trim_end().ends_with('-'), "{text}");
    assert!(ends("none").trim_end().ends_with("average"), "{text}");
    assert!(ends("contract").trim_end().ends_with("min"), "{text}");
}

#[test]
fn the_plan_page_has_every_plot_and_is_self_contained() {
    let other = PlanReport {
        drive: "flash: another that nobody has".into(),
        ..report()
    };
    let page = plan_page(&[report(), other]);
    assert_self_contained(&page);
    // Two plots for each of two kinds of drives, each in two sizes.
    assert_eq!(page.matches("<svg").count(), 2 * 2 * 2);
    assert!(page.contains("a disk that nobody has") && page.contains("another that nobody has"));
    // 16 drives for 16 clients, of which the policy `contract` needs 2: a factor of 8.
    assert!(!page.contains("<read>") && page.contains("8.0x"));
    assert_self_contained(&plan_page(&[PlanReport::default()]));
}
