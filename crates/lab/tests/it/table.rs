//! Tests of terminal tables: golden text, and the width.

use crate::common::{assert_golden, sample};
use proptest::prelude::*;
use weir_lab::report::{Column, ReportTable, demo_table};

#[test]
fn the_demo_table_fits_eighty_columns() {
    let text = demo_table(&sample::report(15, 4), 80, false);
    assert!(text.lines().all(|l| l.len() <= 80));
    assert!(
        text.is_ascii() && !text.contains('\x1b'),
        "plain characters, no colour"
    );
    assert_golden("demo-80.txt", &text);
}

#[test]
fn a_narrow_demo_table_leaves_out_the_least_important_columns() {
    let text = demo_table(&sample::report(15, 4), 50, false);
    assert!(text.lines().all(|l| l.len() <= 50));
    assert_golden("demo-50.txt", &text);
}

#[test]
fn all_clients_are_shown_on_demand() {
    let text = demo_table(&sample::report(3, 4), 120, true);
    for client in ["target ", "reader-1 ", "reader-2 ", "reader-3 ", "total "] {
        let rows = text.lines().filter(|l| l.starts_with(client)).count();
        assert_eq!(rows, 3, "{client}: once under each policy");
    }
    assert_golden("demo-all.txt", &text);
}

#[test]
fn a_report_without_results_is_a_table_without_rows() {
    let text = demo_table(&weir_lab::report::DemoReport::default(), 80, false);
    assert!(text.starts_with("policy "), "{text}");
}

#[test]
fn cells_that_are_missing_are_empty_and_excess_ones_not_shown() {
    let mut table = ReportTable::new([Column::text("a"), Column::number("b")]);
    table.row(["1"]);
    table.row(["1", "2", "3"]);
    assert_eq!(table.text(80), "a  b\n- --\n1\n1  2\n");
}

proptest! {
    #[test]
    fn table_lines_fit_the_terminal(
        width in 30usize..160,
        columns in prop::collection::vec((any::<bool>(), 0u32..4, "[a-z ]{1,14}"), 1..7),
        rows in prop::collection::vec(prop::collection::vec("[a-z0-9 .]{0,40}", 0..8), 0..8),
    ) {
        let columns = columns.iter().map(|(number, order, title)| {
            let column = if *number { Column::number(title) } else { Column::text(title) };
            column.dropped(*order)
        });
        let mut table = ReportTable::new(columns);
        for row in rows {
            table.row(row);
        }
        let text = table.text(width);
        for line in text.lines() {
            prop_assert!(line.len() <= width, "{} > {}:\n{}", line.len(), width, text);
            prop_assert!(!line.ends_with(' '));
        }
    }
}
