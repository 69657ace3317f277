//! The tables of clients: the throughput of every client under every policy, the fate of its
//! promise, and whether it starves.

use super::asked;
use super::spread::RunSpread;
use super::work::{Cell, CellRuns, ComparisonPlan, RunOutcome};
use crate::judge;
use weir_lab::report::{ComparedClient, ComparedRow, alike};
use weir_measure::number::{deviation, duration, figure, plain};
use weir_measure::promise::Fate;
use weir_measure::{
    Absence, KindRecord, LatencyRecord, MeasuredKind, PromiseSeconds, Record, StarvationKind,
};
use weir_sim::ClientSpec;

/// Decides in every record whether its client starves, compared with the same run under
/// `none` if that was played.
pub(super) fn find_starved(plan: &ComparisonPlan, cells: &mut [CellRuns]) {
    for at in 0..cells.len() {
        // The cell under `none` is not compared with itself.
        let none = cell_under_none(plan, cells, cells[at].0).filter(|none| *none != at);
        for run in 0..cells[at].1.len() {
            let repetition = cells[at].1[run].run.repeat;
            let before = none.and_then(|none| asked::outcome_of(&cells[none].1, repetition));
            let before = before.map(|outcome| outcome.records.clone());
            judge::find_starved(&mut cells[at].1[run].records, before.as_deref());
        }
    }
}

/// Returns a note on promises to groups of several clients, because the seconds of such promises
/// are not judged.
pub(super) fn shared_promises(cells: &[CellRuns]) -> Option<String> {
    let scenario = &cells.iter().find_map(|(_, runs)| runs.first())?.scenario;
    let members = |group| scenario.clients.iter().filter(move |c| c.group == group);
    let places = scenario.clients.iter().enumerate();
    let shared = places.filter(|(at, client)| {
        let contract = scenario.contract(*at);
        // Each group is named once, at its first member.
        let first = members(client.group).next().map(|c| &c.name);
        contract.min + contract.min_iops > 0
            && first == Some(&client.name)
            && members(client.group).count() > 1
    });
    let names = shared.map(|(_, first)| {
        let names = members(first.group).map(|c| c.name.as_str());
        names.collect::<Vec<_>>().join(" and ")
    });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| {
        let names = names.join("; ");
        format!("A promise to several clients together is not judged here: that to {names}.")
    })
}

/// Returns notes on clients that are not measured in any run, each with a remedy.
pub(super) fn absent(cells: &[CellRuns]) -> Vec<String> {
    let Some(first) = cells.iter().find_map(|(_, runs)| runs.first()) else {
        return Vec::new();
    };
    let all = cells.iter().flat_map(|(_, runs)| runs);
    let of = |absence| {
        let names = first.scenario.clients.iter().map(|c| c.name.as_str());
        let is_absent = |record: &Record| record.absence() == Some(absence);
        let names = names.enumerate().filter(|(at, _)| {
            let mut records = all.clone().filter_map(|o| o.records.get(*at));
            records.all(is_absent)
        });
        let names: Vec<&str> = names.map(|(_, name)| name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let warm_up = duration(first.scenario.warm_up.as_nanos() as f64 / 1e3);
    let ended = of(Absence::Ended).map(|names| {
        format!(
            "Not measured: {names}. The measurement begins after a warm-up of {warm_up}, and their last request was before that. Leave out \
             the warm-up (warm_up in a scenario's file, ramp_time in a job file), or let them run longer (time_based=1 in a job file)."
        )
    });
    let not_begun = of(Absence::NotBegun).map(|names| {
        format!("Not measured: {names}. They begin after the measurement ends. Start them earlier, or choose a longer run with --seconds.")
    });
    ended.into_iter().chain(not_begun).collect()
}

/// Returns the index of the cell of the same drive, case and place under `none`, if that
/// cell has a run.
pub(super) fn cell_under_none(
    plan: &ComparisonPlan,
    cells: &[CellRuns],
    cell: Cell,
) -> Option<usize> {
    cells.iter().position(|(c, runs)| {
        (c.drive, c.case, c.on) == (cell.drive, cell.case, cell.on)
            && crate::policies::is_none(plan.policy(*c))
            && !runs.is_empty()
    })
}

/// Returns the clients of a cell, and sentences on those that miss a promise or starve.
///
/// Identical clients share an entry. The sentences are sorted by the fraction of short seconds, the
/// largest first. `none` has the outcomes of the same case under `none`.
pub(super) fn clients(
    outcomes: &[RunOutcome],
    none: Option<&[RunOutcome]>,
) -> (Vec<ComparedClient>, Vec<String>) {
    let scenario = &outcomes[0].scenario;
    let specs: Vec<(usize, &ClientSpec)> = scenario.clients.iter().enumerate().collect();
    // Only clients with equal contracts and equal programs can share an entry, because the entry
    // shows the contract once.
    let same = |(a, one): &(usize, &ClientSpec), (b, other): &(usize, &ClientSpec)| {
        scenario.contract(*a) == scenario.contract(*b)
            && one.program == other.program
            && one.trace == other.trace
            && one.buffered == other.buffered
    };
    let groups = alike(&specs, |(_, spec)| &spec.name, same);
    let (mut clients, mut trouble) = (Vec::new(), Vec::new());
    for (name, of) in groups {
        let members: Vec<ClientRuns<'_>> =
            of.map(|at| ClientRuns::new(outcomes, none, at)).collect();
        trouble.extend(troubles(&name, &members));
        clients.push(shown(name, &members));
    }
    // The largest problem comes first.
    trouble.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let trouble = trouble.into_iter().map(|(_, text)| text);
    (clients, trouble.collect())
}

/// The records of one client in all repetitions.
struct ClientRuns<'a> {
    runs: Vec<&'a Record>,
    /// The precision of the client's figures.
    spread: RunSpread,
    /// The client's mean bandwidth under `none`, in MB/s.
    none_mb_per_s: Option<f64>,
}

impl<'a> ClientRuns<'a> {
    fn new(outcomes: &'a [RunOutcome], none: Option<&[RunOutcome]>, at: usize) -> Self {
        let none = none.filter(|none| !none.is_empty());
        Self {
            runs: outcomes.iter().map(|o| &o.records[at]).collect(),
            spread: RunSpread::of(outcomes, &outcomes[0].records[at].client),
            none_mb_per_s: none.map(|none| mean_mb_per_s(none.iter().map(|o| &o.records[at]))),
        }
    }

    /// Returns the worst fate of the client's promise in all runs.
    fn fate(&self) -> Fate {
        let fates = self.runs.iter().map(|r| r.fate());
        fates.fold(Fate::NotAsked, Fate::worse)
    }

    /// Returns the client's mean bandwidth, in MB/s.
    fn mb_per_s(&self) -> f64 {
        mean_mb_per_s(self.runs.iter().copied())
    }

    /// Returns true if the client has a promise that was not broken. It was kept, or it applied in
    /// no second.
    fn is_kept(&self) -> bool {
        let fate = self.fate();
        fate != Fate::NotAsked && !fate.is_failure()
    }

    /// Returns the reason why no run has a measurement of the client, or `None` if a run has one.
    fn absence(&self) -> Option<Absence> {
        absence(self.runs.iter().map(|r| r.absence()))
    }

    fn starved(&self) -> Option<StarvationKind> {
        self.runs.iter().find_map(|r| r.starved)
    }

    /// Returns the number of short seconds of the promise, and the number of seconds in which the
    /// promise applied.
    fn short(&self) -> (u64, u64) {
        let all = self.runs.iter().filter_map(|r| r.promise_seconds.as_ref());
        all.fold((0, 0), |(short, all), s| {
            (short + s.short, all + s.short + s.kept)
        })
    }

    /// Returns the fraction of the time in which the client had no request outstanding, if that is
    /// the reason why it got less than its min.
    fn idle(&self) -> Option<f64> {
        let all = self.runs.iter().filter_map(|r| r.promise_seconds.as_ref());
        all.filter_map(PromiseSeconds::idle).reduce(f64::max)
    }

    /// Returns the figures of all operations of the client.
    fn row(&self) -> ComparedRow {
        let worst = self.runs.iter().filter_map(|r| r.worst_second_mb_per_s);
        let figures = figures(self.runs.iter().map(|r| RunFigures::of(r)));
        let interval = self.spread.mb_per_s.filter(|_| self.absence().is_none());
        ComparedRow {
            got_mb_per_s: figures.got_mb_per_s.filter(|_| self.absence().is_none()),
            got_half: interval.map(|interval| interval.half),
            worst_mb_per_s: worst.reduce(f64::min),
            longest_us: self
                .runs
                .iter()
                .filter_map(|r| r.longest_us())
                .reduce(f64::max),
            ..figures
        }
    }

    /// Returns the label and the figures of each kind of operations that the client has.
    fn kinds(&self) -> Vec<(&'static str, ComparedRow)> {
        let kinds = self.runs[0].kinds().map(|(kind, _)| kind);
        let row = |kind: MeasuredKind| {
            let of = self.runs.iter().flat_map(|r| r.kinds());
            let of = of
                .filter(|(k, _)| *k == kind)
                .map(|(_, of)| RunFigures::of_kind(of));
            let row = figures(of);
            // A flush transfers no data, so a bandwidth of 0 would be misleading.
            let got_mb_per_s = row
                .got_mb_per_s
                .filter(|_| kind != MeasuredKind::Flush && self.absence().is_none());
            (
                kind.name(),
                ComparedRow {
                    got_mb_per_s,
                    ..row
                },
            )
        };
        kinds.map(row).collect()
    }
}

/// Returns the reason of the first if none of these is measured, and `None` if at least one is.
fn absence(mut each: impl Iterator<Item = Option<Absence>>) -> Option<Absence> {
    let first = each.next()??;
    each.all(|other| other.is_some()).then_some(first)
}

/// Returns the mean bandwidth of at least one run, in MB/s.
fn mean_mb_per_s<'a>(runs: impl ExactSizeIterator<Item = &'a Record>) -> f64 {
    let count = runs.len() as f64;
    runs.map(|r| r.bandwidth_mb_per_s).sum::<f64>() / count
}

/// The figures of one run, of all its operations or of one kind.
struct RunFigures {
    mb_per_s: f64,
    requests: u64,
    latency: Option<LatencyRecord>,
}

impl RunFigures {
    fn of(record: &Record) -> Self {
        Self {
            mb_per_s: record.bandwidth_mb_per_s,
            requests: record.requests,
            latency: record.latency_us,
        }
    }

    fn of_kind(record: &KindRecord) -> Self {
        Self {
            mb_per_s: record.bandwidth_mb_per_s,
            requests: record.requests,
            latency: record.latency_us,
        }
    }
}

/// Returns the figures over all repetitions: the mean bandwidth, the mean latency of all requests,
/// and the highest of the runs' p99.
fn figures(runs: impl Iterator<Item = RunFigures>) -> ComparedRow {
    let (mut mb_per_s, mut count, mut requests, mut sum) = (0.0, 0.0, 0.0, 0.0);
    let (mut p99, mut longest) = (None::<f64>, None::<f64>);
    for run in runs {
        mb_per_s += run.mb_per_s;
        count += 1.0;
        // A run in which no request was answered has no latency, but its bandwidth of 0 counts.
        let Some(latency) = run.latency else { continue };
        requests += run.requests as f64;
        // Each request counts once, so the mean latency of a run is weighted by the number of its
        // requests.
        sum += latency.mean * run.requests as f64;
        p99 = Some(p99.map_or(latency.p99, |p| p.max(latency.p99)));
        longest = Some(longest.map_or(latency.max, |l| l.max(latency.max)));
    }
    ComparedRow {
        label: String::new(),
        got_mb_per_s: Some(mb_per_s / f64::max(count, 1.0)),
        got_half: None,
        worst_mb_per_s: None,
        mean_us: (requests > 0.0).then(|| sum / requests),
        p99_us: p99,
        longest_us: longest,
    }
}

/// Returns the entry of a set of identical clients.
fn shown(name: String, members: &[ClientRuns<'_>]) -> ComparedClient {
    let fates = members.iter().map(ClientRuns::fate);
    let record = members[0].runs[0];
    let iops = record.promised_iops.map(|n| format!("{n} IOPS"));
    let short = members.iter().map(ClientRuns::short);
    let took = members.iter().flat_map(|m| &m.runs);
    let took = took.filter_map(|r| r.runtime_s);
    ComparedClient {
        name,
        count: members.len(),
        promised: record.promised_mb_per_s.map(plain).or(iops),
        fate: fates.fold(Fate::NotAsked, Fate::worse),
        kept: members.iter().filter(|m| m.is_kept()).count(),
        short: short.max().unwrap_or_default(),
        idle: members.iter().filter_map(ClientRuns::idle).reduce(f64::max),
        starved: members.iter().filter(|m| m.starved().is_some()).count(),
        absence: absence(members.iter().map(ClientRuns::absence)),
        took_s: took.reduce(f64::max),
        rows: rows(members),
    }
}

/// Returns the rows of an entry. If identical clients differ, they have one row with the worst and
/// one with the best of each figure.
fn rows(members: &[ClientRuns<'_>]) -> Vec<ComparedRow> {
    let kinds: Vec<_> = members.iter().map(ClientRuns::kinds).collect();
    let mut rows = spread("", &members.iter().map(ClientRuns::row).collect::<Vec<_>>());
    for (at, (kind, _)) in kinds[0].iter().enumerate() {
        let each = kinds.iter().filter_map(|of| Some(of.get(at)?.1.clone()));
        rows.extend(spread(kind, &each.collect::<Vec<_>>()));
    }
    rows
}

/// Returns one row if all rows are equal, and otherwise the worst and the best value of each
/// figure.
fn spread(what: &str, all: &[ComparedRow]) -> Vec<ComparedRow> {
    let label = |end: &str| {
        let parts = [what, end].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    };
    let first = &all[0];
    if all.iter().all(|row| row == first) {
        return vec![ComparedRow {
            label: label(""),
            ..first.clone()
        }];
    }
    let less: fn(f64, f64) -> f64 = f64::min;
    let more: fn(f64, f64) -> f64 = f64::max;
    let row = |end: &str, rate: fn(f64, f64) -> f64, time: fn(f64, f64) -> f64| {
        let of = |get: fn(&ComparedRow) -> Option<f64>, pick: fn(f64, f64) -> f64| {
            all.iter().filter_map(get).reduce(pick)
        };
        // A client of which no request was answered has no latency, but it is worse off than any
        // other. So the row of the worst has no latency either.
        let answered = |get: fn(&ComparedRow) -> Option<f64>| {
            let served = end == "best" || all.iter().all(|row| get(row).is_some());
            of(get, time).filter(|_| served)
        };
        ComparedRow {
            label: label(end),
            got_mb_per_s: of(|r| r.got_mb_per_s, rate),
            got_half: of(|r| r.got_half, f64::max),
            worst_mb_per_s: of(|r| r.worst_mb_per_s, rate),
            mean_us: answered(|r| r.mean_us),
            p99_us: answered(|r| r.p99_us),
            longest_us: of(|r| r.longest_us, time),
        }
    };
    vec![row("worst", less, more), row("best", more, less)]
}

/// Returns sentences on members that miss a promise, and on members that starve. The number in
/// front of a sentence is the fraction of short seconds, by which sentences are sorted.
fn troubles(name: &str, members: &[ClientRuns<'_>]) -> Vec<(f64, String)> {
    let (mut troubles, all) = (Vec::new(), members.len());
    let of = |some: usize| match all {
        1 => name.to_owned(),
        all => format!("{some} of {all} {name}"),
    };
    let failed = |m: &&ClientRuns<'_>| m.fate().is_failure();
    let failed: Vec<&ClientRuns<'_>> = members.iter().filter(failed).collect();
    // Of identical clients, only the worst one is described.
    let worst = failed.iter().max_by_key(|m| m.short());
    if let Some(worst) = worst {
        let runs = worst.runs.iter().filter(|r| r.fate().is_failure());
        let record = runs.max_by_key(|r| r.promise_seconds.as_ref().map_or(0, |s| s.short));
        let record = record.copied().unwrap_or(worst.runs[0]);
        let (short, promised) = worst.short();
        let how = judge::promise::describe_broken(record, (short, promised));
        let part = short as f64 / promised.max(1) as f64;
        troubles.push((part, format!("{} {how}", of(failed.len()))));
    }
    let starved: Vec<&ClientRuns<'_>> = members.iter().filter(|m| m.starved().is_some()).collect();
    if let Some(worst) = starved.iter().max_by(|a, b| waits(a).total_cmp(&waits(b))) {
        let many = starved.len() > 1;
        let verb = |one: &str, many_do: &str| if many { many_do } else { one }.to_owned();
        let how = match (worst.starved(), worst.none_mb_per_s) {
            (Some(StarvationKind::Bandwidth), Some(none)) => {
                let (got, none_mb_per_s) = (worst.mb_per_s(), figure(none));
                if got > 0.0 {
                    format!(
                        "{} at {} MB/s, {} of {none_mb_per_s} under none",
                        verb("starves", "starve"),
                        figure(got),
                        deviation(got / none),
                    )
                } else {
                    let gets = verb("gets", "get");
                    format!("{gets} nothing, and {none_mb_per_s} MB/s under none")
                }
            }
            _ => format!(
                "{} up to {} for a request",
                verb("waits", "wait"),
                duration(waits(worst))
            ),
        };
        troubles.push((0.0, format!("{} {how}", of(starved.len()))));
    }
    troubles
}

/// Returns the longest wait of a request of this client, in microseconds.
fn waits(client: &ClientRuns<'_>) -> f64 {
    client.row().longest_us.unwrap_or(0.0)
}
