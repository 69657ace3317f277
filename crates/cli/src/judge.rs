//! Compares the figures of a run with the requirements of its scenario, and states the result in
//! words. Whether a promise was kept in a second is decided in [`weir_measure::promise`].
//!
//! [`verdict`] judges all requirements of a run, and [`judge_requirement`] judges one of them.

mod figure;
pub(crate) mod promise;

pub(crate) use figure::{compare_with_published, figure_text, figure_value};

use weir_config::scenario::{Bounds, Figure, FigureOwner, Requirement, Script};
use weir_measure::number::{deviation, figure, percent, plain};
use weir_measure::promise::Fate;
use weir_measure::{Record, TOTAL};
use weir_sim::Scenario;

/// A run that is judged, together with the runs with which it can be compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgedRun<'a> {
    pub(crate) script: &'a Script,
    pub(crate) scenario: &'a Scenario,
    pub(crate) records: &'a [Record],
    /// The records of the same case under other policies, with the names of the policies.
    pub(crate) others: &'a [(&'a str, &'a [Record])],
    /// The records of the same policy in other cases, with the names of the cases.
    pub(crate) cases: &'a [(&'a str, &'a [Record])],
}

/// The result of one requirement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequirementResult {
    pub(crate) fate: Fate,
    /// The result in one sentence.
    pub(crate) text: String,
    /// The distance from the requirement. Among equal fates, the larger distance is worse.
    pub(crate) off: f64,
    /// The columns of the result in a table, each with its title and value.
    pub(crate) columns: Vec<(String, String)>,
}

/// Sets in the records of a run whether clients starve. `none` has the records of the same run
/// under the policy `none`, if they are known.
pub(crate) fn find_starved(records: &mut [Record], none: Option<&[Record]>) {
    for (client, record) in records.iter_mut().enumerate() {
        let before = none.and_then(|none| none.get(client));
        // The total is not a client.
        let is_client = record.client != TOTAL;
        record.starved = record.starves(before).filter(|_| is_client);
    }
}

/// Returns the worst fate of all requirements of a run's scenario, and a sentence for each of them.
pub(crate) fn verdict(run: JudgedRun<'_>) -> (Fate, String) {
    let expects = run.script.expects().iter();
    let findings: Vec<RequirementResult> =
        expects.map(|e| judge_requirement(run, &e.asked)).collect();
    let fates = findings.iter().map(|finding| finding.fate);
    let worst = fates.fold(Fate::NotAsked, Fate::worse);
    let mut texts: Vec<String> = findings.into_iter().map(|f| f.text).collect();
    if texts.is_empty() {
        texts.push("Nothing is asked of it.".into());
    }
    let busy = busy(run.records);
    texts.extend(busy.map(|busy| format!("The drive was busy for {} of the time.", percent(busy))));
    (worst, texts.join(" "))
}

/// Judges one requirement.
pub(crate) fn judge_requirement(run: JudgedRun<'_>, asked: &Requirement) -> RequirementResult {
    let clients: Vec<&Record> = run.records.iter().filter(|r| r.client != TOTAL).collect();
    match asked {
        Requirement::Promise(Some(name)) => {
            RequirementResult::promise(promise::target(&clients, name))
        }
        Requirement::Promise(None) => RequirementResult::promise(promise::everyone(&clients)),
        Requirement::Shares(within) => shares(run.scenario, &clients, within.fraction()),
        Requirement::Max(within) => limits(run.scenario, &clients, within.fraction()),
        Requirement::Figure(bounds) => bounded(run, bounds),
    }
}

impl RequirementResult {
    fn promise((fate, text): (Fate, String)) -> Self {
        Self {
            fate,
            text,
            // Runs are compared by the number of short seconds instead of a distance.
            off: 0.0,
            columns: Vec::new(),
        }
    }
}

/// Returns the fraction (0 to 1) of the time in which the drive was busy.
pub(crate) fn busy(records: &[Record]) -> Option<f64> {
    let total = records.iter().find(|r| r.client == TOTAL)?;
    total.drive_busy_percent.map(|busy| busy as f64 / 100.0)
}

/// Returns the fate of a requirement that is either met or not.
const fn kept(kept: bool) -> Fate {
    if kept { Fate::Kept } else { Fate::Broken }
}

/// Judges the distances of clients from their shares, over the run and in the worst second. The
/// clients of a group divide its share equally.
fn shares(scenario: &Scenario, clients: &[&Record], within: f64) -> RequirementResult {
    // A group's share belongs to all of its members together.
    let due: Vec<f64> = (0..scenario.clients.len())
        .map(|at| {
            let members = scenario.clients.iter();
            let group = scenario.clients[at].group;
            let members = members.filter(|c| c.group == group).count();
            f64::from(scenario.contract(at).share) / members as f64
        })
        .collect();
    let seconds = common_seconds(clients);
    let is_same_time = |pair: &[&Record]| {
        pair[0].begins_s == pair[1].begins_s && (pair[0].seconds - pair[1].seconds).abs() < 1e-6
    };
    let totals: Vec<f64> = if seconds.is_empty() || clients.windows(2).all(is_same_time) {
        clients.iter().map(|r| r.bandwidth_mb_per_s).collect()
    } else {
        // Bandwidths of different times cannot be compared.
        let of = |client: usize| seconds.iter().map(|s| s[client]).sum::<f64>();
        let count = seconds.len() as f64;
        (0..clients.len())
            .map(|client| of(client) / count)
            .collect()
    };
    let whole = off(&totals, &due);
    let each = seconds.iter().map(|second| off(second, &due));
    let worst = each.fold(0.0, f64::max);
    // Ratios are relative to the first client. The minimum avoids a division by zero if it got
    // nothing.
    let first = totals.first().copied().unwrap_or_default().max(1e-9);
    let ratios: Vec<String> = totals.iter().map(|t| figure(t / first)).collect();
    let text = format!(
        "Bandwidths are {}, {} off over the run{} and {} in the worst second.",
        ratios.join(" : "),
        deviation(whole),
        farthest(clients, &totals, &due)
            .filter(|_| whole > within)
            .unwrap_or_default(),
        deviation(worst)
    );
    let column = |title: &str, value| (title.to_owned(), value);
    RequirementResult {
        fate: kept(whole <= within),
        text,
        off: whole,
        columns: vec![
            column("shares", ratios.join(" : ")),
            column("off", deviation(whole)),
            column("worst s off", deviation(worst)),
        ],
    }
}

/// Returns the bandwidth of each client in each whole second in which all of them are measured.
/// Shares apply only while all clients are active.
fn common_seconds(clients: &[&Record]) -> Vec<Vec<f64>> {
    let seconds: Vec<Vec<f64>> = clients.iter().map(|r| by_second(r)).collect();
    let count = seconds.iter().map(Vec::len).min().unwrap_or(0);
    let (mut first, mut last) = (0, count);
    for record in clients {
        let begins = record.begins_s.unwrap_or(0.0);
        first = first.max(begins.ceil() as usize);
        // The tolerance keeps a rounding error from removing a whole second.
        last = last.min((begins + record.seconds + 1e-6) as usize);
    }
    let each = (first..last).map(|i| seconds.iter().map(|s| s[i]).collect());
    each.collect()
}

/// Returns the client that is furthest from its share, with its bandwidth and its share.
fn farthest(clients: &[&Record], bandwidths: &[f64], due: &[f64]) -> Option<String> {
    let (total, shares): (f64, f64) = (bandwidths.iter().sum(), due.iter().sum());
    let each = clients.iter().zip(bandwidths.iter().zip(due));
    let each = each.map(|(record, (got, share))| (record, *got, total * share / shares));
    let far = |got: f64, due: f64| (got - due).abs() / due;
    let farthest = each.max_by(|a, b| far(a.1, a.2).total_cmp(&far(b.1, b.2)));
    let (record, got, due) = farthest.filter(|_| total > 0.0)?;
    let (got, due) = (figure(got), figure(due));
    Some(format!(" ({} got {got} of {due} MB/s)", record.client))
}

/// Returns the largest distance of a bandwidth from its share of the total, as a fraction of that
/// share.
fn off(bandwidths: &[f64], due: &[f64]) -> f64 {
    let total: f64 = bandwidths.iter().sum();
    let shares: f64 = due.iter().sum();
    let each = bandwidths.iter().zip(due).map(|(b, due)| {
        let due = total * due / shares;
        (b - due).abs() / due
    });
    // In a run without any traffic, no share is kept.
    if total > 0.0 {
        each.fold(0.0, f64::max)
    } else {
        1.0
    }
}

/// Returns the bandwidth in each whole second, in the units of the record.
pub(super) fn by_second(record: &Record) -> Vec<f64> {
    let (Some(step), Some(series)) = (record.series_step_s, &record.series_mb_per_s) else {
        return Vec::new();
    };
    // Series have windows of a fixed part of a second. The part of a second at the end is dropped
    // by `chunks_exact`.
    let windows = (1.0 / step).round().max(1.0) as usize;
    let seconds = series.chunks_exact(windows);
    seconds
        .map(|s| s.iter().sum::<f64>() / windows as f64)
        .collect()
}

/// Judges the distances of clients from their max.
fn limits(scenario: &Scenario, clients: &[&Record], within: f64) -> RequirementResult {
    // Clients without a common max in bytes per second are ignored.
    let limited = clients.iter().filter_map(|r| {
        let at = scenario.clients.iter().position(|c| c.name == r.client)?;
        let limit = scenario.contract(at).max.bandwidth;
        (limit > 0).then(|| (limit as f64 / 1e6, r.bandwidth_mb_per_s, &r.client))
    });
    let limited: Vec<(f64, f64, &String)> = limited.collect();
    if limited.is_empty() {
        let text = "No client has a max in bytes per second.".to_owned();
        return RequirementResult::promise((Fate::Broken, text));
    }
    let each = limited
        .iter()
        .map(|(limit, got, _)| (got - limit).abs() / limit);
    let off = each.fold(0.0, f64::max);
    let each: Vec<String> = limited
        .iter()
        .map(|(limit, got, name)| format!("{name} {} of {}", figure(*got), plain(*limit)))
        .collect();
    let text = format!(
        "Got {} MB/s: at most {} off.",
        each.join(", "),
        deviation(off)
    );
    let got: Vec<String> = limited.iter().map(|(_, got, _)| figure(*got)).collect();
    let most: Vec<String> = limited.iter().map(|(limit, _, _)| plain(*limit)).collect();
    RequirementResult {
        fate: kept(off <= within),
        text,
        off,
        columns: vec![
            (format!("of max {}", most.join(", ")), got.join(", ")),
            ("off".to_owned(), deviation(off)),
        ],
    }
}

/// Returns the name of a figure with the client to which it belongs.
pub(crate) fn name(bounds: &Bounds, target: &str) -> String {
    let client = match &bounds.whose {
        FigureOwner::Target => target.to_owned(),
        other => other.to_string(),
    };
    format!("{} of {client}", bounds.figure.name())
}

/// Judges whether a figure is within its limits. A limit can be relative to the figure under
/// another policy or in another case.
fn bounded(run: JudgedRun<'_>, bounds: &Bounds) -> RequirementResult {
    let what = name(bounds, run.script.target());
    let mine = figure_value(
        bounds.figure,
        &bounds.whose,
        run.script.target(),
        run.records,
    );
    let (others, beside) = match (&bounds.beside, &bounds.beside_case) {
        (Some(policy), _) => (
            Some((run.others, policy)),
            format!(" of that under {policy}"),
        ),
        (None, Some(case)) => (Some((run.cases, case)), format!(" of that in case {case}")),
        (None, None) => (None, String::new()),
    };
    let theirs = others.map(|(others, name)| {
        let other = others.iter().find(|o| o.0 == name)?;
        figure_value(bounds.figure, &bounds.whose, run.script.target(), other.1)
    });
    let got = match (mine, theirs) {
        (Some(mine), None) => Some(mine),
        (Some(mine), Some(Some(theirs))) if theirs > 0.0 => Some(mine / theirs),
        _ => None,
    };
    let limits = [("at least", bounds.at_least), ("at most", bounds.at_most)];
    let limits = limits
        .into_iter()
        .filter_map(|(word, v)| Some(format!("{word} {}", v?)));
    let asked: Vec<String> = limits.collect();
    let asked = asked.join(" and ");
    // A program that did not complete has no run time. This is stated instead of a comparison.
    let is_endless = bounds.figure == Figure::Runtime && mine.is_none();
    let beside = if is_endless { String::new() } else { beside };
    let shown = match got {
        Some(got) if others.is_some() => percent(got),
        Some(got) => figure_text(bounds.figure, got),
        None if is_endless => "without an end".to_owned(),
        None => "not known".to_owned(),
    };
    let met = got.is_some_and(|got| {
        bounds.at_least.is_none_or(|v| got >= v.number())
            && bounds.at_most.is_none_or(|v| got <= v.number())
    });
    let word = if met { "as asked" } else { "not as asked" };
    let column = match &bounds.beside_case {
        Some(case) => format!("of {case}"),
        None => what.clone(),
    };
    RequirementResult {
        fate: kept(met),
        text: format!("The {what} is {shown}{beside}, {word} ({asked})."),
        // The distance grows with the factor by which the figure misses a limit. An unknown figure
        // is worse than any other.
        off: got.map_or(f64::INFINITY, |got| {
            let over = bounds.at_most.map_or(0.0, |most| got / most.number());
            let under = bounds.at_least.map_or(0.0, |least| least.number() / got);
            over.max(under)
        }),
        columns: vec![(column, shown)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::{PromiseSeconds, ShortRecord};

    /// Returns a client with ten promised seconds, of which `kept` were kept. The short second `n`
    /// (from 0) lacks `n` + 1 of 10 MB.
    fn client(name: &str, got: f64, kept: u64) -> Record {
        let short = 10 - kept;
        let at = |second| ShortRecord {
            second: second + 3,
            owed: 10_000_000,
            lacking: 1_000_000 * (second + 1),
            cause: "neighbour".into(),
            neighbour: None,
        };
        Record {
            client: name.into(),
            bandwidth_mb_per_s: got,
            promised_mb_per_s: Some(10.0),
            worst_second_mb_per_s: Some(got * 0.9),
            promise: Some(if short > 0 { Fate::Broken } else { Fate::Kept }),
            promise_seconds: Some(PromiseSeconds {
                promised: 10,
                kept,
                short,
                short_by: [("neighbour".to_owned(), short)].into(),
                short_at: (0..short).map(at).collect(),
                ..PromiseSeconds::default()
            }),
            ..Record::default()
        }
    }

    /// Returns the verdict on these records in a built-in scenario.
    fn judged(name: &str, records: &[Record]) -> (Fate, String) {
        let script = weir_config::scenario::find(name).unwrap();
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let choice = weir_config::scenario::Choice::new(&drive, None, "none");
        let scenario = script.scenario(&choice).unwrap();
        verdict(JudgedRun {
            script: &script,
            scenario: &scenario,
            records,
            others: &[],
            cases: &[],
        })
    }

    #[test]
    fn the_target_comes_first_in_the_verdict() {
        let verdict = |target: f64, kept: u64, others: u64| {
            let total = Record {
                drive_busy_percent: Some(50),
                ..client(TOTAL, 1.0, 0)
            };
            let records = [
                client("target", target, kept),
                client("reader-01", 12.0, others),
                total,
            ];
            judged("contract", &records)
        };
        let mut quiet = client("quiet", 0.04, 10);
        let seconds = quiet.promise_seconds.as_mut().unwrap();
        (seconds.unasked, seconds.outstanding_ms) = (10, Some(200));
        // Outstanding for 200 ms of 10 s is 2 %, so the client was idle for 98 % of the time.
        let (fate, text) = judged("contract", &[client("target", 11.0, 10), quiet]);
        assert!(
            fate == Fate::Kept
                && text.ends_with("quiet had nothing outstanding for 98% of the time."),
            "{text}"
        );
        let busy = "The drive was busy for 50% of the time.";
        let all = "Kept: everyone got what was promised in every second.";
        assert_eq!(verdict(11.0, 10, 10), (Fate::Kept, format!("{all} {busy}")));
        // With five short seconds, the worst one lacks 5 of 10 MB and is second 4 + 3, counted from
        // 0.
        let (fate, text) = verdict(11.0, 10, 5);
        assert!(
            fate == Fate::Kept
                && text.contains(
                    "reader-01 got 12.00 of 10 MB/s promised and fell short in 5 of 10 s, at worst 50% of what it was owed (second 8), \
                     because of a neighbour."
                ),
            "{text}"
        );
        let (fate, text) = verdict(11.0, 5, 10);
        assert!(
            fate == Fate::Broken
                && text.starts_with(
                    "The target got 11.00 of 10 MB/s promised and fell short in 5 of 10 s"
                ),
            "{text}"
        );
        let (fate, text) = verdict(0.9, 0, 10);
        assert!(
            fate == Fate::Broken && text.contains("(second 13), because of a neighbour."),
            "{text}"
        );
    }

    #[test]
    fn a_promise_above_the_bandwidth_without_contention_is_out_of_reach() {
        let target = Record {
            alone_mb_per_s: Some(0.72),
            promise: Some(Fate::OutOfReach),
            ..client("target", 0.64, 0)
        };
        let (fate, text) = judged("contract", &[target]);
        assert_eq!(fate, Fate::OutOfReach);
        let said = "The target got 0.64 of 10 MB/s promised; alone it gets 0.72 MB/s";
        assert!(text.starts_with(said), "{text}");
    }

    #[test]
    fn flushes_do_not_count_for_a_promise() {
        // 20 of the 30 requests in one second are not flushes.
        let flushes = weir_measure::KindRecord {
            requests: 10,
            ..weir_measure::KindRecord::default()
        };
        let log = Record {
            promised_mb_per_s: None,
            promised_iops: Some(40),
            requests: 30,
            seconds: 1.0,
            flushes: Some(flushes),
            ..client("log", 1.0, 4)
        };
        let (_, text) = promise::everyone(&[&log]);
        assert!(
            text.contains("log got 20 of 40 requests/s promised"),
            "{text}"
        );
    }

    #[test]
    fn clients_without_promises_are_ignored_and_short_clients_are_named() {
        let free = Record {
            client: "scan".into(),
            ..Record::default()
        };
        let (fate, text) = promise::everyone(&[&client("log", 11.0, 10), &free]);
        assert_eq!(fate, Fate::Kept, "{text}");
        let (fate, text) = promise::everyone(&[&client("log", 8.0, 4), &free]);
        let said = "0 of 1 promises were kept. log got 8.00 of 10 MB/s promised and fell short in 6 of 10 s, at worst 40% of what it was \
                    owed (second 9), because of a neighbour.";
        assert_eq!((fate, text.as_str()), (Fate::Broken, said));
        let (fate, text) = promise::everyone(&[&free]);
        assert_eq!(
            (fate, text.as_str()),
            (Fate::NotAsked, "Nothing is promised to anyone.")
        );
    }

    #[test]
    fn shares_are_judged_over_the_run_and_in_the_worst_second() {
        let client = |share: u32, second: [f64; 2]| Record {
            client: format!("share-{share}"),
            bandwidth_mb_per_s: second.iter().sum::<f64>() / 2.0,
            seconds: 2.0,
            series_step_s: Some(0.5),
            series_mb_per_s: Some(second.iter().flat_map(|s| [*s, *s]).collect()),
            ..Record::default()
        };
        // In the first second, the client with the share 1 gets 9 of 150 MB/s instead of 10, which
        // is 10 % too little. Over the run, all shares are exact.
        let records = [
            client(1, [9.0, 11.0]),
            client(2, [20.0, 20.0]),
            client(4, [41.0, 39.0]),
            client(8, [80.0, 80.0]),
        ];
        let (fate, text) = judged("shares", &records);
        assert_eq!(fate, Fate::Kept);
        assert_eq!(
            text,
            "Bandwidths are 1.00 : 2.00 : 4.00 : 8.00, 0.00% off over the run and 10.0% in the worst second."
        );
        assert!(off(&[0.0; 4], &[1.0; 4]) > 0.05);
    }

    #[test]
    fn shares_are_judged_over_the_time_that_all_clients_have() {
        // The client with the share 8 begins after a second, in which the others have all of the
        // bandwidth.
        let client = |share: u32, second: [f64; 3], begins: f64| Record {
            client: format!("share-{share}"),
            bandwidth_mb_per_s: second.iter().sum::<f64>() / (3.0 - begins),
            begins_s: Some(begins),
            seconds: 3.0 - begins,
            series_step_s: Some(1.0),
            series_mb_per_s: Some(second.to_vec()),
            ..Record::default()
        };
        let records = [
            client(1, [20.0, 10.0, 10.0], 0.0),
            client(2, [40.0, 20.0, 20.0], 0.0),
            client(4, [90.0, 40.0, 40.0], 0.0),
            client(8, [0.0, 80.0, 80.0], 1.0),
        ];
        let (fate, text) = judged("shares", &records);
        assert_eq!(fate, Fate::Kept, "{text}");
    }

    #[test]
    fn limits_are_judged_by_the_contracts_of_the_clients() {
        // 10.3 MB/s exceed the max of 10 MB/s by 3 %, more than the scenario permits.
        let records = [
            client("limit-5", 4.95, 10),
            client("limit-10", 10.3, 10),
            client("unlimited", 99.0, 10),
        ];
        let (fate, text) = judged("max", &records);
        assert_eq!(fate, Fate::Broken);
        let said = "Got limit-5 4.95 of 5, limit-10 10.30 of 10 MB/s: at most 3.00% off.";
        assert_eq!(text, said);
        let (fate, text) = judged("max", &[client("unlimited", 99.0, 10)]);
        assert_eq!(fate, Fate::Broken, "{text}");
    }
}
