//! The tables that `weir ctl` prints: the state of the server, its drives, tenants and volumes, and
//! the results of changes.

use crate::output;
use weir_config::rounded;
use weir_config::units::{ByteSize, BytesPerSecond};
use weir_lab::report::{Column, ReportTable};
use weir_manage::api::{Budget, Change, Contract, Drive, Outcome, Status, Tenant, Volume};

/// Returns the state of the server, with tables of its drives and tenants.
pub(super) fn status(status: &Status) -> String {
    let ready = if status.ready {
        "ready"
    } else {
        "NOT READY: a shard does not respond"
    };
    let up = time(status.uptime_seconds);
    let mut lines = vec![format!("Weir {}, up {up}, {ready}", status.version)];
    if let Some(file) = &status.file {
        let state = if status.unsaved {
            "; some changes are kept in memory only"
        } else {
            ""
        };
        lines.push(format!("configuration: {file}{state}"));
    }
    if let Some(change) = &status.last_change {
        lines.push(format!("last change: {}", one_line(change)));
    }
    let connections: u32 = status.volumes.iter().map(|v| v.now.connections).sum();
    let volumes = status.volumes.len();
    lines.push(format!("volumes: {volumes}, connections: {connections}\n"));
    lines.push(drives(&status.drives));
    if !status.tenants.is_empty() {
        lines.push(tenants(&status.tenants));
    }
    lines.join("\n")
}

pub(super) fn drives(drives: &[Drive]) -> String {
    // The columns that are dropped on a narrow terminal are numbered in the order in which they are
    // dropped.
    let mut table = ReportTable::new([
        Column::text("drive"),
        Column::text("policy").dropped(2),
        Column::number("capacity").dropped(1),
        Column::number("promised"),
        Column::number("left"),
        Column::number("got"),
        Column::number("busy"),
        Column::number("queue").dropped(3),
    ]);
    for drive in drives {
        let [capacity, promised, left] = sums(drive.budget.as_ref());
        table.row([
            drive.name.clone(),
            drive.policy.clone(),
            capacity,
            promised,
            left,
            rate(drive.now.bytes_per_second),
            format!("{:.0} %", drive.now.busy * 100.0),
            drive.now.queue.to_string(),
        ]);
    }
    table.text(output::width())
}

pub(super) fn tenants(tenants: &[Tenant]) -> String {
    let mut table = ReportTable::new([
        Column::text("tenant"),
        Column::number("min"),
        Column::number("to volumes").dropped(2),
        Column::number("left").dropped(1),
        Column::number("share"),
        Column::number("max"),
        Column::number("got"),
        Column::number("short s"),
    ]);
    for tenant in tenants {
        let [_, promised, left] = sums(tenant.budget.as_ref());
        table.row([
            tenant.name.clone(),
            min(&tenant.contract),
            promised,
            left,
            tenant.contract.share.to_string(),
            max(&tenant.contract),
            rate(tenant.now.bytes_per_second),
            tenant.seconds.all_short().to_string(),
        ]);
    }
    table.text(output::width())
}

pub(super) fn volumes(volumes: &[Volume]) -> String {
    let mut columns = vec![
        Column::text("volume"),
        Column::text("drive").dropped(5),
        Column::text("tenant").dropped(4),
        Column::number("size").dropped(3),
        Column::number("min"),
        Column::number("share"),
        Column::number("max"),
        Column::number("got"),
        Column::number("latency").dropped(1),
        Column::number("clients").dropped(2),
        Column::number("short s"),
    ];
    if volumes.iter().any(|volume| volume.block_device.is_some()) {
        columns.push(Column::text("block device").dropped(6));
    }
    // Only volumes whose min is shared by several servers have a part of it.
    let is_shared = volumes.iter().any(|volume| volume.now.part.is_some());
    if is_shared {
        columns.insert(5, Column::number("part"));
    }
    let mut table = ReportTable::new(columns);
    for volume in volumes {
        let mut row = vec![
            volume.name.clone(),
            volume.drive.clone(),
            volume.tenant.clone().unwrap_or_default(),
            ByteSize(volume.size_bytes).to_string(),
            min(&volume.contract),
            volume.contract.share.to_string(),
            max(&volume.contract),
            rate(volume.now.bytes_per_second),
            (volume.now.latency).map_or_else(String::new, |l| latency(l.total_us())),
            volume.now.connections.to_string(),
            volume.seconds.all_short().to_string(),
            volume.block_device.clone().unwrap_or_default(),
        ];
        if is_shared {
            let part = volume.now.part.map(|part| format!("{:.1} %", 100.0 * part));
            row.insert(5, part.unwrap_or_default());
        }
        table.row(row);
    }
    table.text(output::width())
}

/// Returns the result of a change, one line for each difference.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let change = &outcome.change;
    let mut lines = change.lines.clone();
    if lines.is_empty() {
        lines.push("no difference to the active configuration".to_owned());
    }
    lines.extend(outcome.promised.iter().cloned());
    match (outcome.dry_run, change.number) {
        (true, _) => lines.push("dry run: no change was made".to_owned()),
        (false, 0) => {}
        (false, number) if change.saved => lines.push(format!("change {number}, saved")),
        (false, number) => lines.push(format!("change {number}, kept in memory only")),
    }
    lines.join("\n") + "\n"
}

/// Returns the changes, one line for each, the most recent one first.
pub(super) fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "no change since the start\n".to_owned();
    }
    let lines: Vec<String> = changes.iter().map(one_line).collect();
    lines.join("\n") + "\n"
}

/// Returns a change as one line.
pub(super) fn one_line(change: &Change) -> String {
    let lines = match &change.lines[..] {
        [] => "only the text of the file".to_owned(),
        [line] => line.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    };
    let undoes = change
        .undoes
        .map_or_else(String::new, |n| format!(" undoes {n},"));
    // A reload by SIGHUP reads the file, so there is nothing to save.
    let saved = if change.saved || change.by == "SIGHUP" {
        ""
    } else {
        ", in memory only"
    };
    format!(
        "{} {} by {},{undoes} {lines}{saved}",
        change.number,
        clock(change.at_ms),
        change.by
    )
}

/// Returns the total, the promised and the remaining capacity of a drive or tenant.
fn sums(budget: Option<&Budget>) -> [String; 3] {
    let Some(budget) = budget else {
        return ["unknown".to_owned(), String::new(), String::new()];
    };
    let both = |bytes: u64, requests: u64| match (bytes, requests) {
        (0, 0) => "0".to_owned(),
        (0, requests) => format!("{requests}/s"),
        (bytes, 0) => rate(bytes),
        (bytes, requests) => format!("{}, {requests}/s", rate(bytes)),
    };
    [
        both(budget.bytes_per_second, budget.requests_per_second),
        both(
            budget.promised_bytes_per_second,
            budget.promised_requests_per_second,
        ),
        rate(budget.left_bytes_per_second),
    ]
}

fn min(contract: &Contract) -> String {
    match (
        contract.min_bytes_per_second,
        contract.min_requests_per_second,
    ) {
        (0, 0) if contract.class == "realtime" => "its max".to_owned(),
        (0, 0) => String::new(),
        (0, requests) => format!("{requests}/s"),
        (bytes, _) => rate(bytes),
    }
}

fn max(contract: &Contract) -> String {
    match (
        contract.max_bytes_per_second,
        contract.max_requests_per_second,
    ) {
        (0, 0) => String::new(),
        (0, requests) => format!("{requests}/s"),
        (bytes, 0) => rate(bytes),
        (bytes, requests) => format!("{}, {requests}/s", rate(bytes)),
    }
}

/// Returns a rate with three digits.
fn rate(bytes: u64) -> String {
    BytesPerSecond(rounded(bytes)).to_string()
}

fn latency(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

fn time(seconds: u64) -> String {
    match seconds {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {} s", s / 60, s % 60),
        s if s < 86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        s => format!("{} days {} h", s / 86_400, s / 3600 % 24),
    }
}

/// Returns the time of day in UTC.
fn clock(ms: u64) -> String {
    let seconds = ms / 1000 % 86_400;
    let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
    format!("{hour:02}:{minute:02}:{:02}Z", seconds % 60)
}
