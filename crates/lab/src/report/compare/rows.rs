//! A drive's results as a table.

use super::{ComparedCell, ComparedDrive};
use crate::report::{Column, ReportTable};
use weir_measure::number::{duration, figure, percent, short};

/// Returns a table with a row for each case and policy.
pub(super) fn drive(drive: &ComparedDrive, latency: bool) -> ReportTable {
    let cases = drive.cells.iter().any(|c| !c.case.is_empty());
    let case = cases.then(|| Column::text("case"));
    let policy = Column::text("policy");
    let asked = asked(drive).iter();
    let asked = asked.map(|(title, _)| Column::number(title));
    let times = [
        Column::number("mean"),
        Column::number("+- sd").dropped(3),
        Column::number("n").dropped(5),
        Column::number("of none").dropped(1),
        Column::number("p99").dropped(4),
    ];
    let beside = has_others(drive);
    let times = times.into_iter().enumerate();
    // Without another policy, the column relative to `none` would be 1 throughout.
    let times = times.filter(|(at, _)| latency && (*at != OF_NONE || beside));
    let times = times.map(|(_, column)| column);
    let all = [
        Column::number("total\nMB/s"),
        Column::number("busy").dropped(2),
    ];
    let has_rings = drive.cells.iter().any(|c| c.rings.is_some());
    let rings = [
        Column::number("back end"),
        Column::number("kicks/s"),
        Column::number("calls/s"),
        Column::number("wakes/s").dropped(6),
        Column::number("guest cpu").dropped(7),
        Column::number("back cpu"),
    ];
    let rings = rings.into_iter().filter(|_| has_rings);
    let head = case.into_iter().chain([policy]);
    let columns = head.chain(asked).chain(times).chain(rings).chain(all);
    let mut table = ReportTable::new(columns).grouped(cases);
    let mut last = "";
    for cell in &drive.cells {
        // A case is named in its first row only.
        let name = (cell.case != last).then_some(cell.case.as_str());
        last = &cell.case;
        let name = cases.then(|| name.unwrap_or_default().to_owned());
        table.row(
            name.into_iter()
                .chain(row(cell, latency, beside, has_rings)),
        );
    }
    table
}

/// Returns the requirements of the scenario, each of which has a column.
pub(super) fn asked(drive: &ComparedDrive) -> &[(String, String)] {
    drive.cells.first().map_or(&[], |cell| &cell.asked)
}

/// The index of the column with the latency relative to that without control.
const OF_NONE: usize = 3;

/// Returns true if there are several policies that can be compared.
fn has_others(drive: &ComparedDrive) -> bool {
    let mut policies = drive.cells.iter().map(|c| &c.policy);
    let first = policies.next();
    policies.any(|policy| Some(policy) != first)
}

fn row(cell: &ComparedCell, latency: bool, beside: bool, has_rings: bool) -> Vec<String> {
    let time = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), duration);
    let mut row = vec![cell.policy.clone()];
    row.extend(cell.asked.iter().map(|(_, value)| value.clone()));
    if latency {
        let of = cell.latency_us;
        row.extend([
            time(of.map(|l| l.mean)),
            time(of.map(|l| l.sd)),
            cell.requests.to_string(),
        ]);
        row.extend(beside.then(|| cell.of_none.map_or_else(|| "-".into(), factor)));
        row.push(time(of.map(|l| l.p99)));
    }
    if has_rings {
        let rings = cell.rings.unwrap_or_default();
        row.extend([
            time(cell.backend_us),
            short(rings.kicks),
            short(rings.calls),
            short(rings.wakeups),
            percent(rings.guest_percent / 100.0),
            percent(rings.backend_percent / 100.0),
        ]);
    }
    row.extend([
        figure(cell.total_mb_per_s),
        cell.busy.map_or_else(|| "-".into(), percent),
    ]);
    row
}

/// Formats a factor with three digits, for example `1.46x`, `0.062x` or `0.0046x`.
pub(super) fn factor(value: f64) -> String {
    match value {
        // The bounds are those at which rounding gives another digit.
        v if v > 0.0 && v < 0.00995 => format!("{v:.4}x"),
        v if v > 0.0 && v < 0.0995 => format!("{v:.3}x"),
        v => format!("{}x", short(v)),
    }
}

#[cfg(test)]
mod tests {
    use super::factor;

    #[test]
    fn factors_have_at_least_two_significant_digits() {
        let factors = [1.0, 1.464, 0.82, 0.25, 1.0 / 53.2, 1.0 / 420.0, 217.0].map(factor);
        assert_eq!(
            factors,
            [
                "1.00x", "1.46x", "0.82x", "0.25x", "0.019x", "0.0024x", "217x"
            ]
        );
    }
}
