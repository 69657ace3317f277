//! The demo's tables, for both terminal and page.

use weir_measure::{LatencyRecord, LimitedBy, Record};

use super::{DemoReport, PolicyResult};
use crate::report::{Column, ReportTable, alike};
use weir_measure::number::{figure, percent, short};

/// Clients that differ only in the number at the end of their name.
pub(super) struct Fold<'a> {
    /// The label of the row, for example `reader 1-15`, or the client's own name.
    pub(super) label: String,
    pub(super) records: Vec<&'a Record>,
}

/// Groups adjacent clients that differ only in their number. The target is always in a group of its
/// own.
pub(super) fn fold<'a>(report: &DemoReport, result: &'a PolicyResult) -> Vec<Fold<'a>> {
    let target = &report.target;
    let records: Vec<&Record> = result.clients().collect();
    let same = |a: &&Record, b: &&Record| {
        // The target is compared with the others, so that it has a row of its own.
        a.client != *target
            && b.client != *target
            && a.promised_mb_per_s == b.promised_mb_per_s
            && report.contract(&a.client) == report.contract(&b.client)
    };
    let alike = alike(&records, |r| &r.client, same).into_iter();
    let folds = alike.map(|(label, of)| Fold {
        label,
        records: records[of].to_vec(),
    });
    folds.collect()
}

/// Returns the table of the clients of one policy, with their total. Unless `all` is set, similar
/// clients share two rows.
pub(super) fn clients(report: &DemoReport, result: &PolicyResult, all: bool) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("client"),
        Column::number("promised\nMB/s").dropped(3),
        Column::number("got\nMB/s"),
        Column::number("worst s\nMB/s").dropped(1),
        Column::number("mean us").dropped(4),
        Column::number("p99 us"),
        Column::number("met").dropped(2),
        Column::text("limited by").dropped(5),
    ]);
    for fold in fold(report, result) {
        // A single client has no range.
        if all || fold.records.len() == 1 {
            for record in fold.records {
                let row = row(&record.client, &[record], f64::min, limit(&[record]));
                if record.client == report.target {
                    table.strong_row(row);
                } else {
                    table.row(row);
                }
            }
        } else {
            let label = |end| format!("{} {end}", fold.label);
            let limited = limit(&fold.records);
            table.row(row(&label("min"), &fold.records, f64::min, limited));
            // The limit of all is shown once, in the row above.
            table.row(row(&label("max"), &fold.records, f64::max, ""));
        }
    }
    if let Some(total) = result.total() {
        table.row(row("total", &[total], f64::min, ""));
    }
    table
}

/// Returns the table of the policies, from the target's point of view.
pub(super) fn policies(report: &DemoReport) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("policy"),
        Column::number("target\nMB/s"),
        Column::number("worst s\nMB/s").dropped(2),
        Column::number("mean us").dropped(3),
        Column::number("p99 us").dropped(1),
        Column::number("total\nMB/s"),
        Column::number("busy").dropped(4),
        Column::text("promise"),
    ]);
    for result in &report.policies {
        let target = result.client(&report.target);
        let of = |get: fn(&Record) -> Option<f64>, text: fn(f64) -> String| {
            let value = target.and_then(get);
            value.map_or_else(|| "-".to_owned(), text)
        };
        let worst = target.and_then(|r| r.worst_second_mb_per_s);
        let row = [
            result.policy.clone(),
            of(|r| Some(r.bandwidth_mb_per_s), figure),
            worst.map(figure).unwrap_or_default(),
            of(|r| r.latency_us.map(|l| l.mean), short),
            of(|r| r.latency_us.map(|l| l.p99), short),
            result
                .total()
                .map(|r| figure(r.bandwidth_mb_per_s))
                .unwrap_or_default(),
            result.drive_busy.map(percent).unwrap_or_default(),
            result.fate.name().to_owned(),
        ];
        table.row(row);
    }
    table
}

/// Returns one row with the minimum or maximum of each figure over all records.
fn row(label: &str, records: &[&Record], pick: fn(f64, f64) -> f64, limited: &str) -> [String; 8] {
    let of = |get: fn(&Record) -> Option<f64>, text: fn(f64) -> String| {
        let values = records.iter().filter_map(|r| get(r));
        values.reduce(pick).map(text).unwrap_or_default()
    };
    let time = |get: fn(&LatencyRecord) -> f64| {
        let values = records
            .iter()
            .filter_map(|r| r.latency_us.as_ref().map(get));
        values.reduce(pick).map_or_else(|| "-".to_owned(), short)
    };
    [
        label.to_owned(),
        of(|r| r.promised_mb_per_s, figure),
        of(|r| Some(r.bandwidth_mb_per_s), figure),
        of(|r| r.worst_second_mb_per_s, figure),
        time(|l| l.mean),
        time(|l| l.p99),
        of(|r| r.windows_met, percent),
        limited.to_owned(),
    ]
}

/// Returns the limit of the clients, if it was the same for all.
fn limit(records: &[&Record]) -> &'static str {
    let first = records.first().and_then(|r| r.limited_by);
    if records.iter().all(|r| r.limited_by == first) {
        first.map_or("", LimitedBy::name)
    } else {
        "mixed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(names: &[&str], contract: impl Fn(&str) -> &'static str) -> Vec<String> {
        let report = DemoReport {
            target: "reader-3".into(),
            contracts: names
                .iter()
                .map(|n| ((*n).into(), contract(n).into()))
                .collect(),
            ..DemoReport::default()
        };
        let records = names.iter().map(|n| Record {
            client: (*n).to_owned(),
            ..Record::default()
        });
        let result = PolicyResult {
            records: records.collect(),
            ..PolicyResult::default()
        };
        fold(&report, &result)
            .into_iter()
            .map(|f| f.label)
            .collect()
    }

    /// The numbers of `share-2` and `share-4` stand for different contracts.
    #[test]
    fn clients_with_different_contracts_are_never_folded() {
        let contract = |name: &str| match name {
            "share-2" => "share 2",
            "share-4" => "share 4",
            _ => "share 8",
        };
        let names = ["share-2", "share-4", "share-8", "share-9"];
        assert_eq!(
            labels_of(&names, contract),
            ["share-2", "share-4", "share 8-9"]
        );
    }
}
