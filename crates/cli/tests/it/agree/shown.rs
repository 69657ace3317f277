//! Derives the expected tables, page and exit status from the records, and checks them.

use crate::agree::draw::{ClientGroup, RandomScenario};
use crate::agree::faults::Faults;
use crate::agree::page::{self, MatrixCell};
use crate::agree::records::{
    JsonRecord, RunRecords, count, fate, is_failure, longest_us, name, number,
};
use crate::agree::table::{PrintedTable, shows, tables, value};
use serde_json::Value;

/// A client in all runs of one policy.
struct ClientAcrossRuns<'a> {
    runs: Vec<&'a Value>,
}

/// The figures of a client: its bandwidth in all runs, with its interval and its worst second, and
/// its latency (mean, 99th percentile, longest).
struct ExpectedFigures {
    /// The mean bandwidth, which flushes do not have.
    got: Option<f64>,
    half: Option<f64>,
    worst: Option<f64>,
    mean: Option<f64>,
    p99: Option<f64>,
    longest: Option<f64>,
}

impl<'a> ClientAcrossRuns<'a> {
    fn new(name_of: &str, runs: &'a [RunRecords]) -> Self {
        let of = |run: &'a RunRecords| run.iter().find(|record| name(record) == name_of);
        Self {
            runs: runs.iter().map(|run| of(run).expect("a record")).collect(),
        }
    }

    /// Returns the worst fate of the client's promise in any run.
    fn fate(&self) -> Option<&'a str> {
        const WORSE: [&str; 5] = ["excused", "kept", "not judged", "out of reach", "broken"];
        let rank = |fate: &&str| WORSE.iter().position(|known| known == fate);
        self.runs.iter().filter_map(|r| fate(r)).max_by_key(rank)
    }

    fn is_kept(&self) -> bool {
        self.fate().is_some_and(|fate| !is_failure(fate))
    }

    /// Returns the reason why the client has no time in the measurement, if it has none.
    fn absence(&self) -> Option<&'static str> {
        let absent = self.runs.iter().all(|r| number(&r["seconds"]) == 0.0);
        let begins = self.runs.first().and_then(|r| r.get("begins_s"));
        absent.then_some(match begins {
            Some(_) => "did not begin",
            None => "ended in the warm-up",
        })
    }

    fn starves(&self) -> bool {
        self.runs.iter().any(|r| r["starved"].is_string())
    }

    fn short(&self) -> (u64, u64) {
        let each = self.runs.iter().map(|r| &r["promise_seconds"]);
        each.fold((0, 0), |(short, all), s| {
            let (more, kept) = (count(&s["short"]), count(&s["kept"]));
            (short + more, all + more + kept)
        })
    }

    /// Returns the figures of all requests, or of one kind.
    fn figures(&self, kind: Option<&str>) -> ExpectedFigures {
        let runs = self.runs.iter().map(|r| kind.map_or(*r, |kind| &r[kind]));
        let runs: Vec<&Value> = runs.collect();
        let got: Vec<f64> = runs
            .iter()
            .map(|r| number(&r["bandwidth_mb_per_s"]))
            .collect();
        let requests: f64 = runs.iter().map(|r| number(&r["requests"])).sum();
        let of = |key: &'static str| {
            let latencies = runs.iter().map(|r| &r["latency_us"]);
            latencies.filter_map(move |latency| latency[key].as_f64())
        };
        let sum = runs
            .iter()
            .map(|r| number(&r["latency_us"]["mean"]) * number(&r["requests"]));
        let own = self.runs.iter().filter(|_| kind.is_none());
        let worst = own
            .clone()
            .filter_map(|r| r["worst_second_mb_per_s"].as_f64());
        // The half-width of the 95 % interval with two runs: Student's t with one degree of freedom
        // is 12.706, and the standard error of two values is half of their difference.
        let half = match got[..] {
            [a, b] if kind.is_none() && self.absence().is_none() => {
                Some(12.706 * (a - b).abs() / 2.0)
            }
            _ => None,
        };
        ExpectedFigures {
            got: (kind != Some("flushes") && self.absence().is_none())
                .then(|| got.iter().sum::<f64>() / got.len() as f64),
            half,
            worst: worst.reduce(f64::min),
            mean: (requests > 0.0).then(|| sum.sum::<f64>() / requests),
            // A percentile of several runs is the highest one, because percentiles cannot be
            // averaged.
            p99: of("p99").reduce(f64::max),
            longest: match kind {
                None => own.filter_map(|r| longest_us(r)).reduce(f64::max),
                Some(_) => of("max").reduce(f64::max),
            },
        }
    }
}

/// The output of a comparison besides its records.
pub(crate) struct ComparisonOutput<'a> {
    pub(crate) out: &'a str,
    pub(crate) err: &'a str,
    pub(crate) status: Option<i32>,
    pub(crate) page: &'a str,
}

/// Checks all output about the runs of each policy.
pub(crate) fn check(
    drawn: &RandomScenario,
    cells: &[(String, Vec<RunRecords>)],
    written: &ComparisonOutput<'_>,
    faults: &mut Faults,
) {
    for (what, text) in [("page", written.page), ("table", written.out)] {
        // NaN would be the result of a division of zero by zero.
        faults.check(!text.contains("NaN"), || format!("NaN in the {what}"));
    }
    let tables = tables(written.out);
    let matrix = page::matrix(written.page);
    let mut failed = Vec::new();
    for (at, (policy, runs)) in cells.iter().enumerate() {
        faults.within(policy, |faults| {
            let members = |group: &ClientGroup| -> Vec<ClientAcrossRuns<'_>> {
                let names = group.members();
                names
                    .iter()
                    .map(|name| ClientAcrossRuns::new(name, runs))
                    .collect()
            };
            let groups: Vec<_> = drawn.groups.iter().map(|g| (g, members(g))).collect();
            summary(&tables[0].rows[at], policy, &groups, runs, faults);
            let table = tables.iter().find(|table| table.title == *policy);
            let table = table.expect("a table of each policy");
            let mut rows = table.rows.iter().peekable();
            for (row, (group, members)) in groups.iter().enumerate() {
                let head = group.shown();
                faults.within(&head, |faults| {
                    let first = rows.peek().map(|row| (**row).clone()).unwrap_or_default();
                    figures(group, members, table, &mut rows, faults);
                    let (standing, tone) = standing(members, &first, faults);
                    let cell = matrix.get(row).and_then(|row| row.get(at + 2));
                    in_matrix(cell, table, &first, (&standing, tone), faults);
                });
            }
            faults.check(rows.next().is_none(), || "rows of nobody".into());
            failed.push((&policy[..], named(&groups)));
        });
    }
    exit(drawn, &failed, written, faults);
}

/// Checks the row of a policy in the summary.
fn summary(
    row: &[String],
    policy: &str,
    groups: &[(&ClientGroup, Vec<ClientAcrossRuns<'_>>)],
    runs: &[RunRecords],
    faults: &mut Faults,
) {
    let members = || groups.iter().flat_map(|(_, members)| members);
    let kept = members().filter(|m| m.is_kept()).count();
    let promised = members().filter(|m| m.fate().is_some()).count();
    let promises = match promised {
        0 => "-".to_owned(),
        _ => format!("{kept} of {promised}"),
    };
    let starved = members().filter(|m| m.starves()).count().to_string();
    faults.same("policy", &row[0][..], policy);
    faults.same("promises kept", &row[1], &promises);
    faults.same("clients that starve", &row[2], &starved);
    let totals = runs.iter().map(|run| &run[run.len() - 1]);
    let mean = |key: &str| {
        let values = totals.clone().map(|total| total[key].as_f64());
        let sum = values.sum::<Option<f64>>();
        sum.map(|sum| sum / runs.len() as f64)
    };
    let total = mean("bandwidth_mb_per_s");
    faults.check(shows(&row[3], total, 0.001), || {
        format!("total of {}, not {total:?}", row[3])
    });
    let busy = mean("drive_busy_percent");
    faults.check(shows(&row[4], busy, 1.0), || {
        format!("busy for {}, not {busy:?} %", row[4])
    });
    // The first client with a problem is named, and the others are only counted.
    let troubles = groups.iter().flat_map(|(group, members)| {
        let is_short = members.iter().any(|m| m.fate().is_some_and(is_failure));
        let starves = members.iter().any(ClientAcrossRuns::starves);
        [is_short, starves].map(|is| is.then(|| group.shown()))
    });
    let troubles: Vec<String> = troubles.flatten().collect();
    let others = match troubles.len() {
        0 | 1 => String::new(),
        all => format!("; and {} more", all - 1),
    };
    let is_named = troubles.iter().any(|name| row[5].contains(name));
    let said = is_named && row[5].ends_with(&others);
    let said = said || troubles.is_empty() && row[5] == "-";
    faults.check(said, || {
        format!("short or starving: {}, not {troubles:?}", row[5])
    });
}

/// Checks the rows of clients that are shown together: those of all requests, and those of each
/// kind.
fn figures<'a>(
    group: &ClientGroup,
    members: &[ClientAcrossRuns<'_>],
    table: &PrintedTable,
    rows: &mut impl Iterator<Item = &'a Vec<String>>,
    faults: &mut Faults,
) {
    let has_half = table.head.contains("+-");
    let kinds = ["reads", "writes", "flushes"].into_iter();
    let kinds = kinds.filter(|kind| members[0].runs[0].get(kind).is_some());
    for kind in [None].into_iter().chain(kinds.map(Some)) {
        let all: Vec<ExpectedFigures> = members.iter().map(|m| m.figures(kind)).collect();
        let (head, label) = match kind {
            None => (group.shown(), String::new()),
            Some(kind) => (format!("  {kind}"), ",".to_owned()),
        };
        let Some(row) = rows.next() else {
            return faults.check(false, || format!("no row of {head}"));
        };
        if row[0] == head {
            for figures in &all {
                faults.within(&head, |faults| one(row, has_half, figures, faults));
            }
            continue;
        }
        faults.same("client", &row[0], &format!("{head}{label} worst"));
        let worst = joined(&all, f64::min, f64::max, true);
        faults.within(&row[0], |faults| one(row, has_half, &worst, faults));
        let Some(row) = rows.next() else {
            return faults.check(false, || format!("no best row of {head}"));
        };
        let best = kind.map_or_else(|| "  best".into(), |kind| format!("  {kind}, best"));
        faults.same("client", &row[0], &best);
        let best = joined(&all, f64::max, f64::min, false);
        faults.within(&row[0], |faults| one(row, has_half, &best, faults));
    }
}

/// Returns the worst or the best figures of similar clients. A client without completed requests
/// has the worst latency.
fn joined(
    all: &[ExpectedFigures],
    rate: fn(f64, f64) -> f64,
    time: fn(f64, f64) -> f64,
    is_worst: bool,
) -> ExpectedFigures {
    let of = |get: fn(&ExpectedFigures) -> Option<f64>, pick: fn(f64, f64) -> f64| {
        all.iter().filter_map(get).reduce(pick)
    };
    let answered = |get: fn(&ExpectedFigures) -> Option<f64>| {
        let unknown = is_worst && all.iter().any(|figures| get(figures).is_none());
        of(get, time).filter(|_| !unknown)
    };
    ExpectedFigures {
        got: of(|f| f.got, rate),
        half: of(|f| f.half, f64::max),
        worst: of(|f| f.worst, rate),
        mean: answered(|f| f.mean),
        p99: answered(|f| f.p99),
        longest: of(|f| f.longest, time),
    }
}

/// Checks the bandwidths and latencies in a row.
fn one(row: &[String], has_half: bool, wanted: &ExpectedFigures, faults: &mut Faults) {
    let after = usize::from(has_half);
    let cells = [
        ("got", &row[2], wanted.got),
        ("worst second", &row[3 + after], wanted.worst),
        ("mean", &row[4 + after], wanted.mean),
        ("p99", &row[5 + after], wanted.p99),
        ("longest", &row[6 + after], wanted.longest),
    ];
    for (what, cell, wanted) in cells {
        faults.check(shows(cell, wanted, 0.001), || {
            format!("{what}: {cell}, not {wanted:?}")
        });
    }
    let shown = Some(&row[3]).filter(|cell| has_half && !cell.is_empty());
    // An interval of less than 1 % is not shown, and each figure is known to three digits.
    let half = wanted.half.unwrap_or_default();
    let same = match shown {
        Some(cell) => shows(cell, Some(half), 0.015),
        None => half < 0.02,
    };
    faults.check(same, || format!("interval: {shown:?}, not {half}"));
}

/// Returns the fraction of the time in which a client had nothing outstanding, if it got less than
/// its min for this reason.
fn idle(record: &JsonRecord) -> Option<f64> {
    let seconds = &record["promise_seconds"];
    let outstanding = seconds["outstanding_ms"].as_f64()? / 1e3;
    Some(1.0 - outstanding / number(&seconds["promised"]))
}

/// Returns the state of clients that are shown together, in words and as a class on the page.
/// Checks that the row shows it.
fn standing(
    members: &[ClientAcrossRuns<'_>],
    row: &[String],
    faults: &mut Faults,
) -> (String, &'static str) {
    const WORSE: [&str; 5] = ["excused", "kept", "not judged", "out of reach", "broken"];
    let rank = |fate: &&str| WORSE.iter().position(|known| known == fate);
    let fate = members
        .iter()
        .filter_map(ClientAcrossRuns::fate)
        .max_by_key(rank);
    let kept = members.iter().filter(|m| m.is_kept()).count();
    let starved = members.iter().filter(|m| m.starves()).count();
    let (all, mut parts) = (members.len(), Vec::new());
    if members.iter().all(|m| m.absence().is_some()) {
        parts.extend(members[0].absence().map(str::to_owned));
    }
    match fate {
        None => {}
        Some(fate) if is_failure(fate) && all > 1 && kept > 0 => {
            // If some of the clients met their promises, these are counted.
            parts.push(format!("{kept} of {all} kept"));
        }
        Some("broken") => {
            let short = members.iter().map(ClientAcrossRuns::short).max();
            let (short, all) = short.unwrap_or_default();
            parts.push(format!("short {short} of {all} s"));
        }
        Some(fate) => parts.push(fate.to_owned()),
    }
    let idle = members.iter().flat_map(|m| &m.runs).filter_map(|r| idle(r));
    if let Some(idle) = idle.reduce(f64::max) {
        let shown = row.last().map_or("", String::as_str);
        let said = shown.split(", ").find(|part| part.starts_with("idle for "));
        let said = said.unwrap_or("-");
        let percent = said.trim_start_matches("idle for ").trim_end_matches('%');
        let near = percent
            .parse::<f64>()
            .is_ok_and(|p| (p - 100.0 * idle).abs() <= 1.0);
        faults.check(near, || format!("{said}, not idle for {idle}"));
        parts.push(said.to_owned());
    }
    match (starved, all) {
        (0, _) => {}
        (_, 1) => parts.push("starves".into()),
        _ => parts.push(format!("{starved} of {all} starve")),
    }
    let shown = row.last().map_or("", String::as_str);
    let runs = members.iter().flat_map(|m| &m.runs);
    let took = runs.filter_map(|r| r["runtime_s"].as_f64());
    if let Some(took) = took.reduce(f64::max) {
        let done = shown.rsplit_once("done in ").map_or("-", |(_, done)| done);
        faults.check(shows(done, Some(took * 1e6), 500.1), || {
            format!("done in {done}, not {took} s")
        });
        parts.push(format!("done in {done}"));
    }
    if parts.is_empty() {
        parts.push("-".to_owned());
    }
    let text = parts.join(", ");
    faults.same("standing", shown, &text);
    let promised = match (
        members[0].runs[0]["promised_mb_per_s"].as_f64(),
        members[0].runs[0]["promised_iops"].as_u64(),
    ) {
        (_, Some(iops)) => row[1] == format!("{iops} IOPS"),
        (mb_per_s, None) => shows(&row[1], mb_per_s, 0.001),
    };
    faults.check(promised, || format!("promised: {}", row[1]));
    let tone = match (fate, starved) {
        (_, 1..) | (Some("broken" | "not judged"), _) => "bad",
        (Some("kept"), 0) => "good",
        _ => "",
    };
    (text, tone)
}

/// Checks a cell of the page's matrix against the first row of the table.
fn in_matrix(
    cell: Option<&MatrixCell>,
    table: &PrintedTable,
    row: &[String],
    (standing, tone): (&str, &str),
    faults: &mut Faults,
) {
    let sign = match tone {
        "good" => "\u{2713} ",
        "bad" => "\u{2717} ",
        _ => "",
    };
    let mean = &row[4 + usize::from(table.head.contains("+-"))];
    let mean = value(mean).map_or_else(String::new, |_| format!(", {mean}"));
    let wanted = format!("{sign}{standing} ({} MB/s{mean})", row[2]);
    faults.same("page", cell.cloned(), Some((tone.to_owned(), wanted)));
}

/// Returns the clients whose promise failed, and the number of clients with a promise.
fn named(groups: &[(&ClientGroup, Vec<ClientAcrossRuns<'_>>)]) -> (Vec<String>, usize) {
    let members = || groups.iter().flat_map(|(_, members)| members);
    let failed = members().filter(|m| m.fate().is_some_and(is_failure));
    let failed = failed.map(|m| name(m.runs[0]).to_owned());
    let promised = members().filter(|m| m.fate().is_some()).count();
    (failed.collect(), promised)
}

/// Checks the exit status, and the clients that are named: the first four, and the number of the
/// others.
fn exit(
    drawn: &RandomScenario,
    policies: &[(&str, (Vec<String>, usize))],
    written: &ComparisonOutput<'_>,
    faults: &mut Faults,
) {
    let is_met = |(_, (failed, promised)): &&(&str, (Vec<String>, usize))| {
        failed.is_empty() && *promised > 0
    };
    let met = policies.iter().filter(is_met).count();
    let all = policies.len();
    faults.same("exit status", written.status, Some(i32::from(met < all)));
    for (policy, (failed, promised)) in policies {
        let head = format!("  {}, {policy}: ", drawn.drive);
        let line = written.err.lines().find(|line| line.starts_with(&head));
        let line = line.unwrap_or_default();
        if failed.is_empty() && *promised > 0 {
            faults.same("what did not come out", line, "");
            continue;
        }
        let some = format!(
            "{} of {promised} promises were kept. ",
            promised - failed.len()
        );
        let said = match (failed.len(), promised) {
            (_, 0) => line.contains("Nothing is promised to anyone."),
            (n @ 5.., _) => {
                line.contains(&some) && line.contains(&format!("So did {} more.", n - 4))
            }
            _ => line.contains(&some),
        };
        faults.check(said, || format!("{some:?} is not said: {line:?}"));
        for name in failed.iter().take(4) {
            faults.check(line.contains(&format!(" {name} ")), || {
                format!("{name} is not named: {line:?}")
            });
        }
    }
    if met < all {
        let count = format!("error: {} of {all} requirements are not met:", all - met);
        faults.check(written.err.contains(&count), || {
            format!("{count:?} is not said")
        });
    }
}
