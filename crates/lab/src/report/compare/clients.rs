//! The clients of a comparison, under every policy.

use super::{CompareReport, ComparedCell, ComparedDrive};
use crate::report::html::Tone;
use crate::report::{Column, ReportTable};
use weir_measure::Absence;
use weir_measure::number::{duration, figure, percent};
use weir_measure::promise::Fate;

/// A client, or several alike ones, under a policy, over all repetitions.
#[derive(Debug, Clone, Default)]
pub struct ComparedClient {
    /// The name of the client, or for example `reader 1-15` for alike ones.
    pub name: String,
    /// The number of alike clients.
    pub count: usize,
    /// The promise to each, in MB/s, or in requests per second with their unit. `None` without a
    /// promise.
    pub promised: Option<String>,
    /// The fate of the promise, which is the worst of alike clients.
    pub fate: Fate,
    /// The number of alike clients whose promise did not fail: it was kept, or applied in no
    /// second.
    pub kept: usize,
    /// The number of seconds in which the promise was short, and of those in which it applied. The
    /// worst of alike clients.
    pub short: (u64, u64),
    /// The part (0 to 1) of the time in which it had nothing outstanding, if it got less than its
    /// promise for that reason. The largest of alike clients.
    pub idle: Option<f64>,
    /// The number of alike clients that starve.
    pub starved: usize,
    /// The reason why it has no time of its own in the measurement, if it has none.
    pub absence: Option<Absence>,
    /// The duration of its program, the longest of all, if the program ended.
    pub took_s: Option<f64>,
    /// The figures of the client. Alike clients have a row for the worst and one for the best.
    /// Further rows are of reads, writes and flushes, if the client has several kinds.
    pub rows: Vec<ComparedRow>,
}

/// A row of a client's figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparedRow {
    /// The text after the client's name: empty, `worst`, `reads`, or `reads, best`.
    pub label: String,
    /// The mean bandwidth in MB/s. `None` for flushes, which move no data, and for a client that is
    /// not measured.
    pub got_mb_per_s: Option<f64>,
    /// Half the 95 % interval of that mean over the runs, in MB/s. `None` if it is not known.
    pub got_half: Option<f64>,
    /// The bandwidth in the worst second of all runs, in MB/s.
    pub worst_mb_per_s: Option<f64>,
    /// The mean latency in microseconds. `None` without a completed request.
    pub mean_us: Option<f64>,
    /// The 99th percentile in the run in which it was highest, in microseconds.
    pub p99_us: Option<f64>,
    /// The longest wait of all runs, in microseconds, including waits for completions that did not
    /// arrive.
    pub longest_us: Option<f64>,
}

impl ComparedClient {
    /// Returns the client's result in a few words, and whether it is good.
    pub fn standing(&self) -> (String, Tone) {
        let starves = match (self.starved, self.count) {
            (0, _) => None,
            (1, 1) => Some("starves".to_owned()),
            (some, all) => Some(format!("{some} of {all} starve")),
        };
        let promise = match self.fate {
            Fate::NotAsked => None,
            fate if self.count > 1 && self.kept > 0 && fate.is_failure() => {
                Some(format!("{} of {} kept", self.kept, self.count))
            }
            Fate::Broken => {
                let (short, all) = self.short;
                Some(format!("short {short} of {all} s"))
            }
            fate => Some(fate.name().to_owned()),
        };
        let idle = self.idle.map(|idle| format!("idle for {}", percent(idle)));
        // A client that starves is bad even if its promise was kept.
        let tone = match (self.fate, &starves) {
            (Fate::Broken | Fate::NotJudged, _) | (_, Some(_)) => Tone::Bad,
            (Fate::Kept, None) => Tone::Good,
            _ => Tone::Plain,
        };
        let took = (self.took_s).map(|s| format!("done in {}", duration(s * 1e6)));
        let absence = self.absence.map(|absence| absence.words().to_owned());
        let parts = absence
            .into_iter()
            .chain(promise)
            .chain(idle)
            .chain(starves)
            .chain(took);
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            return ("-".to_owned(), tone);
        }
        (parts.join(", "), tone)
    }
}

/// Returns a row for each policy of a case: the kept promises, the clients that starve, and the
/// total bandwidth.
pub(super) fn policies(cells: &[&ComparedCell]) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("policy"),
        Column::number("promises\nkept"),
        Column::number("starve\nclients"),
        Column::number("total\nMB/s"),
        Column::number("drive\nbusy").dropped(1),
        Column::text("short of a promise, or starving"),
    ]);
    for cell in cells {
        let clients = || cell.clients.iter();
        let kept: usize = clients().map(|c| c.kept).sum();
        let promised = clients().filter(|c| c.promised.is_some());
        let promised: usize = promised.map(|c| c.count).sum();
        let starved: usize = clients().map(|c| c.starved).sum();
        let bad = |is: bool| if is { Tone::Bad } else { Tone::Good };
        // Without promises there is nothing to keep.
        let promises = match promised {
            0 => ("-".to_owned(), Tone::Plain),
            all => (format!("{kept} of {all}"), bad(kept < all)),
        };
        let trouble = match &cell.trouble[..] {
            [] => "-".to_owned(),
            [one] => one.clone(),
            // The tables of clients contain the others.
            [worst, others @ ..] => format!("{worst}; and {} more", others.len()),
        };
        table.toned_row([
            (cell.policy.clone(), Tone::Plain),
            promises,
            (starved.to_string(), bad(starved > 0)),
            (figure(cell.total_mb_per_s), Tone::Plain),
            (cell.busy.map_or_else(|| "-".into(), percent), Tone::Plain),
            (trouble, Tone::Plain),
        ]);
    }
    table
}

/// Returns the table of every client under one policy.
pub(super) fn clients(cell: &ComparedCell) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("client"),
        Column::number("promised\nMB/s"),
        Column::number("got\nMB/s"),
        Column::number("+-\nMB/s").dropped(3),
        Column::number("worst s\nMB/s").dropped(2),
        Column::number("mean\nlatency"),
        Column::number("\np99"),
        Column::number("\nlongest").dropped(1),
        Column::text("\nstanding"),
    ]);
    let time = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), duration);
    for client in &cell.clients {
        let (standing, tone) = client.standing();
        for (at, row) in client.rows.iter().enumerate() {
            let promised = client.promised.clone().unwrap_or_else(|| "-".into());
            let first = |text: String| if at == 0 { text } else { String::new() };
            let name = match (at, row.label.as_str()) {
                (0, "") => client.name.clone(),
                (0, label) => format!("{} {label}", client.name),
                (_, label) => format!("  {label}"),
            };
            // Differences between runs that would be printed as zero are left out.
            let half = row.got_half.filter(|half| *half >= 0.005);
            let plain = [
                name,
                first(promised),
                row.got_mb_per_s.map_or_else(|| "-".into(), figure),
                half.map_or_else(String::new, figure),
                row.worst_mb_per_s.map_or_else(|| "-".into(), figure),
                time(row.mean_us),
                time(row.p99_us),
                time(row.longest_us),
            ];
            let plain = plain.into_iter().map(|text| (text, Tone::Plain));
            // Only the first row of a client shows its verdict.
            let tone = if at == 0 { tone } else { Tone::Plain };
            table.toned_row(plain.chain([(first(standing.clone()), tone)]));
        }
    }
    table
}

/// Returns the table of each client's result under each policy: pass or fail, and the bandwidth.
pub(super) fn matrix(cells: &[&ComparedCell]) -> ReportTable {
    let policies = cells.iter().map(|c| Column::text(&c.policy));
    let head = [Column::text("client"), Column::number("promised MB/s")];
    let mut table = ReportTable::new(head.into_iter().chain(policies));
    let first = cells.first().map_or(&[][..], |cell| &cell.clients[..]);
    for (at, client) in first.iter().enumerate() {
        let each = cells.iter().map(|cell| match cell.clients.get(at) {
            Some(of) => {
                let (standing, tone) = of.standing();
                let got = of.rows.first().map_or_else(String::new, got);
                (format!("{standing} ({got})"), tone)
            }
            None => ("-".into(), Tone::Plain),
        });
        let promised = client.promised.clone().unwrap_or_else(|| "-".into());
        let head = [client.name.clone(), promised].map(|text| (text, Tone::Plain));
        table.toned_row(head.into_iter().chain(each));
    }
    table
}

fn got(row: &ComparedRow) -> String {
    let mean = row.mean_us.map(|us| format!(", {}", duration(us)));
    format!(
        "{} MB/s{}",
        row.got_mb_per_s.map_or_else(|| "-".into(), figure),
        mean.unwrap_or_default()
    )
}

/// Returns a drive's results for a terminal.
pub(super) fn text(report: &CompareReport, drive: &ComparedDrive, width: usize) -> String {
    let mut out = String::new();
    for case in drive.cases() {
        let cells: Vec<&ComparedCell> = drive.of(case).collect();
        if !case.is_empty() {
            out.extend(["Case ", case, ":\n"]);
        }
        out += &policies(&cells).text(width);
        out.push('\n');
        for cell in cells {
            out.extend([&cell.policy, ":\n"]);
            out += &clients(cell).text(width);
            out.push('\n');
        }
    }
    let asked = super::rows::asked(drive);
    if !asked.is_empty() || report.latency && drive.cells.iter().any(|c| c.rings.is_some()) {
        out += &super::rows::drive(drive, report.latency).text(width);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(fate: Fate, kept: usize, count: usize, starved: usize) -> ComparedClient {
        ComparedClient {
            fate,
            kept,
            count,
            starved,
            short: (3, 30),
            ..ComparedClient::default()
        }
    }

    #[test]
    fn a_client_that_starves_or_falls_short_is_marked_bad() {
        let said = |client: ComparedClient| client.standing();
        let idle = ComparedClient {
            idle: Some(0.97),
            ..client(Fate::Kept, 1, 1, 0)
        };
        assert_eq!(said(idle), ("kept, idle for 97%".into(), Tone::Good));
        let bad = |text: &str| (text.to_owned(), Tone::Bad);
        assert_eq!(
            said(client(Fate::Kept, 1, 1, 0)),
            ("kept".into(), Tone::Good)
        );
        assert_eq!(said(client(Fate::Kept, 1, 1, 1)), bad("kept, starves"));
        assert_eq!(said(client(Fate::Broken, 0, 1, 0)), bad("short 3 of 30 s"));
        assert_eq!(
            // Of 15 alike clients, one failed its promise and two starve.
            said(client(Fate::Broken, 14, 15, 2)),
            bad("14 of 15 kept, 2 of 15 starve")
        );
        assert_eq!(
            said(client(Fate::NotAsked, 0, 1, 0)),
            ("-".into(), Tone::Plain)
        );
        let unreached = ("out of reach".to_owned(), Tone::Plain);
        assert_eq!(said(client(Fate::OutOfReach, 0, 1, 0)), unreached);
    }
}
