//! The demo's tables, for both terminal and page.

use weir_measure::{LimitedBy, Record};

use super::{DemoReport, PolicyResult};
use crate::number::{figure, percent, short};
use crate::{Column, Table};

/// Clients that differ only in the number at the end of their name.
pub(super) struct Fold<'a> {
    /// `reader 1-15`, or the client's own name.
    pub(super) label: String,
    pub(super) records: Vec<&'a Record>,
}

/// Groups adjacent clients that differ only in their number; the target is always alone.
pub(super) fn fold<'a>(report: &DemoReport, result: &'a PolicyResult) -> Vec<Fold<'a>> {
    let target = &report.target;
    let mut folds: Vec<(&str, Vec<&Record>)> = Vec::new();
    for record in result.clients() {
        let stem = stem(&record.client);
        match folds.last_mut() {
            Some((last, records))
                if *last == stem
                    && stem != record.client
                    && record.client != *target
                    && records[0].client != *target
                    && records[0].promised_mbps == record.promised_mbps
                    && report.contract(&records[0].client) == report.contract(&record.client) =>
            {
                records.push(record);
            }
            _ => folds.push((stem, vec![record])),
        }
    }
    let folds = folds.into_iter().map(|(stem, records)| {
        let (first, last) = (&records[0].client, &records[records.len() - 1].client);
        let label = if records.len() == 1 {
            first.clone()
        } else {
            let stem_end = stem.trim_end_matches(['-', '_', ' ', '.']);
            format!(
                "{stem_end} {}-{}",
                &first[stem.len()..],
                &last[stem.len()..]
            )
        };
        Fold { label, records }
    });
    folds.collect()
}

/// A name without the digits at its end.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The clients of one policy, and their total. Unless `all` is set, similar clients share two rows.
pub(super) fn clients(report: &DemoReport, result: &PolicyResult, all: bool) -> Table {
    let mut table = Table::new([
        Column::text("client"),
        Column::number("promised").dropped(3),
        Column::number("got"),
        Column::number("worst s").dropped(1),
        Column::number("mean us").dropped(4),
        Column::number("p99 us"),
        Column::number("met").dropped(2),
        Column::text("limited by").dropped(5),
    ]);
    for fold in fold(report, result) {
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
            table.row(row(&label("max"), &fold.records, f64::max, ""));
        }
    }
    if let Some(total) = result.total() {
        table.row(row("total", &[total], f64::min, ""));
    }
    table
}

/// The policies side by side, from the target's point of view.
pub(super) fn policies(report: &DemoReport) -> Table {
    let mut table = Table::new([
        Column::text("policy"),
        Column::number("target"),
        Column::number("worst s").dropped(2),
        Column::number("mean us").dropped(3),
        Column::number("p99 us").dropped(1),
        Column::number("total"),
        Column::number("drive busy").dropped(4),
        Column::text("promise"),
    ]);
    for result in &report.policies {
        let target = result.client(&report.target);
        let of = |get: fn(&Record) -> f64, text: fn(f64) -> String| {
            target.map(|r| text(get(r))).unwrap_or_default()
        };
        let worst = target.and_then(|r| r.worst_second_mbps);
        let row = [
            result.policy.clone(),
            of(|r| r.throughput_mbps, figure),
            worst.map(figure).unwrap_or_default(),
            of(|r| r.latency_us.mean, short),
            of(|r| r.latency_us.p99, short),
            result
                .total()
                .map(|r| figure(r.throughput_mbps))
                .unwrap_or_default(),
            result.drive_busy.map(percent).unwrap_or_default(),
            result.fate.name().to_owned(),
        ];
        table.row(row);
    }
    table
}

/// One row: the minimum or maximum of each figure over all records.
fn row(label: &str, records: &[&Record], pick: fn(f64, f64) -> f64, limited: &str) -> [String; 8] {
    let of = |get: fn(&Record) -> Option<f64>, text: fn(f64) -> String| {
        let values = records.iter().filter_map(|r| get(r));
        values.reduce(pick).map(text).unwrap_or_default()
    };
    [
        label.to_owned(),
        of(|r| r.promised_mbps, figure),
        of(|r| Some(r.throughput_mbps), figure),
        of(|r| r.worst_second_mbps, figure),
        of(|r| Some(r.latency_us.mean), short),
        of(|r| Some(r.latency_us.p99), short),
        of(|r| r.windows_met, percent),
        limited.to_owned(),
    ]
}

/// What limited the clients, if it was the same for all.
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

    fn labels(names: &[&str]) -> Vec<String> {
        labels_of(names, |_| "the same")
    }

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

    #[test]
    fn only_neighbours_alike_but_for_a_number_are_folded() {
        let names = [
            "reader-1", "reader-2", "reader-3", "reader-4", "reader-5", "total",
        ];
        assert_eq!(labels(&names), ["reader 1-2", "reader-3", "reader 4-5"]);
        assert_eq!(labels(&["a", "a", "b2", "b 3"]), ["a", "a", "b2", "b 3"]);
        assert_eq!(labels(&["1", "2"]), [" 1-2"]);
        assert_eq!(labels(&[]), [] as [&str; 0]);
    }

    /// `share-2` and `share-4` differ only in their number, and it matters.
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
