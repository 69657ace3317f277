//! The table of many cases, and the worst cases of each failure.

use crate::search::case::KINDS;
use crate::search::trial::{RealtimeService, TrialOutcome};
use std::fmt::Write as _;

listed! {
    /// The kinds of failures that the search looks for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum SearchFailure {
        /// A feasible promise is not kept.
        Broken = "promise",
        /// A feasible promise is not kept, although BFQ keeps all of them.
        BfqKeeps = "bfq-keeps",
        /// Fewer promises are kept than under `none`.
        FewerKept = "none-keeps",
        /// The total service is less than 80 % (disks) to 95 % (position-independent drives) of
        /// that under `none`.
        Total = "total",
        /// `contract` and BFQ keep every promise, and the total is less than 90 % of that under
        /// BFQ.
        BfqTotal = "bfq-total",
        /// A realtime client gets less than 90 % of its service alone. Without the clients that
        /// have no promise, it gets at least 90 %.
        Realtime = "realtime",
        /// A realtime client has a p99 latency of more than 4 (position-independent drives) to 10
        /// (disks) times that alone.
        Latency = "latency",
        /// Clients do not get service in proportion to their shares, with an error of more than 10
        /// %.
        Share = "share",
        /// The idle class waits longer than 400 ms.
        Idle = "idle",
        /// An auditor found a violation.
        Finding = "finding",
        /// A panic, or an unexpected error.
        Panic = "panic",
    }
}

/// The largest relative error of shares that does not count as a failure.
const SHARE_OFF: f64 = 0.1;

/// The smallest total, relative to that under BFQ, that does not count as a failure.
const BFQ_TOTAL: f64 = 0.9;

/// The longest wait of the idle class that does not count as a failure, in milliseconds.
const IDLE_WAIT: f64 = 400.0;

impl SearchFailure {
    /// Returns the failure with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Returns how badly an outcome fails, where larger is worse, or `None` if it does not fail in
    /// this way.
    pub fn badness(self, outcome: &TrialOutcome) -> Option<f64> {
        let kind = outcome.kind;
        let broken = outcome.feasible && !outcome.kept();
        let rt = worst_latency(outcome);
        match self {
            Self::Broken => broken.then_some(1.0 - outcome.worst),
            Self::BfqKeeps => (broken && outcome.bfq_keeps).then_some(1.0 - outcome.worst),
            Self::FewerKept => {
                let fewer = outcome.kept_by_none.saturating_sub(outcome.promises_kept);
                (fewer > 0).then_some(fewer as f64)
            }
            Self::Total => {
                // The bounds of position-independent drives, flash and disks. Promises cost most on
                // disks.
                let total = outcome.total.filter(|t| *t < [0.95, 0.9, 0.8][kind]);
                total.map(|t| 1.0 - t)
            }
            Self::BfqTotal => {
                let total = beside_bfq(outcome).filter(|t| *t < BFQ_TOTAL);
                total.map(|t| 1.0 - t)
            }
            Self::Realtime => least_served(outcome).map(|part| 1.0 - part),
            // The bounds of position-independent drives, flash and disks, as factors of the latency
            // alone.
            Self::Latency => rt.filter(|r| *r > [4.0, 8.0, 10.0][kind]),
            Self::Share => outcome.share_off.filter(|off| *off > SHARE_OFF),
            Self::Idle => outcome.idle_wait.filter(|ms| *ms > IDLE_WAIT),
            Self::Finding => (outcome.findings.0 > 0).then_some(outcome.findings.0 as f64),
            Self::Panic => outcome.broken.as_ref().map(|_| 1.0),
        }
    }

    /// Describes the failure of an outcome in a line.
    pub fn line(self, outcome: &TrialOutcome) -> String {
        let title = &outcome.title;
        let (second, group) = outcome.worst_at;
        let broken = format!(
            "group {group} got {:.3} of what it was owed in second {second}",
            outcome.worst
        );
        let what = match self {
            Self::Broken if outcome.realtime => format!("{broken} (beside a realtime client)"),
            Self::Broken | Self::BfqKeeps => broken,
            Self::FewerKept => format!(
                "{} promises are kept, and {} under none",
                outcome.promises_kept, outcome.kept_by_none
            ),
            Self::Total => format!("all got {:.3} of none", outcome.total.unwrap_or_default()),
            Self::BfqTotal => format!(
                "all got {:.3} of bfq",
                outcome.total_bfq.unwrap_or_default()
            ),
            Self::Realtime => format!(
                "a realtime client got {:.3} of what it gets alone",
                least_served(outcome).unwrap_or_default()
            ),
            Self::Latency => format!(
                "realtime p99 {:.1} times alone",
                worst_latency(outcome).unwrap_or_default()
            ),
            Self::Share => format!(
                "shares off by {:.0} %",
                outcome.share_off.unwrap_or_default() * 100.0
            ),
            Self::Idle => format!(
                "idle waited {:.0} ms",
                outcome.idle_wait.unwrap_or_default()
            ),
            Self::Finding => format!(
                "{} findings, first: {}",
                outcome.findings.0, outcome.findings.1
            ),
            Self::Panic => outcome.broken.clone().unwrap_or_default(),
        };
        format!("{title}: {what}")
    }
}

fn worst_latency(outcome: &TrialOutcome) -> Option<f64> {
    outcome.latency.iter().copied().reduce(f64::max)
}

/// Returns the total relative to that under BFQ, if both policies keep all promises and these are
/// feasible.
fn beside_bfq(outcome: &TrialOutcome) -> Option<f64> {
    let kept = outcome.feasible && outcome.kept() && outcome.bfq_keeps;
    outcome.total_bfq.filter(|_| kept)
}

/// Returns the smallest part of its service without contention that a realtime client gets, among
/// clients that should get more.
fn least_served(outcome: &TrialOutcome) -> Option<f64> {
    let served = outcome.served.iter();
    let short = served.filter(|s| s.is_feasible() && s.is_short());
    short.map(|s| s.among_all).reduce(f64::min)
}

/// Returns the quantile of values at this many thousandths by the nearest rank, or `None` without
/// values.
pub fn quantile(mut values: Vec<f64>, thousandths: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    // The nearest rank counts from 1.
    let rank = (values.len() * thousandths).div_ceil(1000).max(1);
    values.get(rank - 1).copied()
}

/// A row of the table: its label, its goal for each kind of drives, and the function of its figure.
struct TallyRow(
    &'static str,
    [&'static str; 3],
    fn(&[&TrialOutcome]) -> String,
);

/// The goal of figures that must be no worse than in previous results.
const NOT_WORSE: &str = "not worse";
const NO_GOAL: [&str; 3] = [""; 3];
const NONE: [&str; 3] = ["0"; 3];

const ROWS: &[TallyRow] = &[
    TallyRow("runs", NO_GOAL, |all| all.len().to_string()),
    TallyRow("feasible runs", NO_GOAL, |all| {
        feasible(all).len().to_string()
    }),
    TallyRow(
        "kept, % of feasible",
        ["99.9, 100", "99.9, 100", NOT_WORSE],
        |all| kept(&feasible(all)),
    ),
    TallyRow("kept, % without realtime", ["99.8", "99.5", "98"], |all| {
        let mut some = feasible(all);
        some.retain(|o| !o.realtime);
        // Realtime clients compete with promises, so that runs without them have goals of their
        // own.
        kept(&some)
    }),
    TallyRow("kept under bfq, % of feasible", NO_GOAL, |all| {
        let some = feasible(all);
        per_cent(some.iter().filter(|o| o.bfq_keeps).count(), some.len())
    }),
    TallyRow(
        "promised seconds with >= 90 % of min, %",
        ["99.99", "99.95", NOT_WORSE],
        |all| {
            let seconds = feasible(all).into_iter().map(|o| o.nearly);
            // Seconds of all runs are added up, so that long runs weigh more than short ones.
            let (near, of) = seconds.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
            per_cent(near, of)
        },
    ),
    TallyRow("worst second / min, 1st percentile", [">= .9"; 3], |all| {
        least(all, 10)
    }),
    TallyRow("worst second / min, 5th percentile", [">= .99"; 3], |all| {
        least(all, 50)
    }),
    TallyRow("bfq keeps and contract breaks", NONE, |all| {
        count(all, SearchFailure::BfqKeeps)
    }),
    TallyRow("fewer promises kept than under none", NONE, |all| {
        count(all, SearchFailure::FewerKept)
    }),
    TallyRow("total / none, 5th percentile", [".95", ".9", ".8"], |all| {
        total(all, 50)
    }),
    TallyRow("total / none, median", ["1.0"; 3], |all| total(all, 500)),
    TallyRow(
        "total / bfq, 1st percentile",
        [".9", ".9", NOT_WORSE],
        |all| total_bfq(all, 10),
    ),
    TallyRow(
        "total / bfq, 5th percentile",
        [".97", ".97", NOT_WORSE],
        |all| total_bfq(all, 50),
    ),
    TallyRow("total / bfq, median", ["1.05", "1.05", NOT_WORSE], |all| {
        total_bfq(all, 500)
    }),
    TallyRow("realtime short, of", ["0", "0", NOT_WORSE], |all| {
        short(all, RealtimeService::is_feasible)
    }),
    TallyRow("realtime short of alone, of", NO_GOAL, |all| {
        short(all, |_| true)
    }),
    TallyRow("realtime p99 / alone, median", ["2", "3", "3"], |all| {
        latency(all, |o| &o.latency, 500)
    }),
    TallyRow(
        "realtime p99 / alone, 90th percentile",
        ["4", "8", "10"],
        |all| latency(all, |o| &o.latency, 900),
    ),
    TallyRow("p99 / max(alone, far), median", NO_GOAL, |all| {
        latency(all, |o| &o.latency_far, 500)
    }),
    TallyRow(
        "p99 / max(alone, far), 90th percentile",
        ["3", "3", NOT_WORSE],
        |all| latency(all, |o| &o.latency_far, 900),
    ),
    TallyRow(
        "shares off by > 10 %, of",
        ["1 in 100", "1 in 100", NOT_WORSE],
        |all| {
            let of = all.iter().filter(|o| o.share_off.is_some()).count();
            format!("{} of {of}", count(all, SearchFailure::Share))
        },
    ),
    TallyRow("idle waited > 400 ms, of", ["1 in 500"; 3], |all| {
        let of = all.iter().filter(|o| o.idle_wait.is_some()).count();
        format!("{} of {of}", count(all, SearchFailure::Idle))
    }),
    TallyRow("panics and errors", NONE, |all| {
        count(all, SearchFailure::Panic)
    }),
    TallyRow("runs with auditors' findings", NONE, |all| {
        // Without auditors, zero findings would be misleading.
        if !all.iter().any(|o| o.audited) {
            return "-".into();
        }
        count(all, SearchFailure::Finding)
    }),
];

fn feasible<'a>(all: &[&'a TrialOutcome]) -> Vec<&'a TrialOutcome> {
    all.iter().copied().filter(|o| o.feasible).collect()
}

fn kept(of: &[&TrialOutcome]) -> String {
    per_cent(of.iter().filter(|o| o.kept()).count(), of.len())
}

fn per_cent(part: usize, of: usize) -> String {
    if of == 0 {
        return "-".into();
    }
    format!("{:.2}", part as f64 * 100.0 / of as f64)
}

/// Counts realtime clients that get too little, among those for which `counts` returns true.
fn short(all: &[&TrialOutcome], counts: fn(&RealtimeService) -> bool) -> String {
    let served = all.iter().flat_map(|o| &o.served);
    let counted: Vec<&RealtimeService> = served.filter(|s| counts(s)).collect();
    let short = counted.iter().filter(|s| s.is_short()).count();
    format!("{short} of {}", counted.len())
}

fn count(all: &[&TrialOutcome], failure: SearchFailure) -> String {
    all.iter()
        .filter(|o| failure.badness(o).is_some())
        .count()
        .to_string()
}

fn figure(values: Vec<f64>, thousandths: usize) -> String {
    quantile(values, thousandths).map_or_else(|| "-".into(), |v| format!("{v:.3}"))
}

fn least(all: &[&TrialOutcome], thousandths: usize) -> String {
    figure(feasible(all).iter().map(|o| o.worst).collect(), thousandths)
}

fn total(all: &[&TrialOutcome], thousandths: usize) -> String {
    figure(all.iter().filter_map(|o| o.total).collect(), thousandths)
}

fn total_bfq(all: &[&TrialOutcome], thousandths: usize) -> String {
    let totals = all.iter().filter_map(|o| beside_bfq(o));
    figure(totals.collect(), thousandths)
}

fn latency(all: &[&TrialOutcome], of: fn(&TrialOutcome) -> &[f64], thousandths: usize) -> String {
    figure(
        all.iter().flat_map(|o| of(o).iter().copied()).collect(),
        thousandths,
    )
}

/// The columns, with the largest part of the drive's time that is promised in each. A run is in the
/// first column into which it fits.
const PARTS: [(&str, f64); 4] = [
    ("<= .5", 0.5),
    ("<= .7", 0.7),
    ("<= .9", 0.9),
    ("more", f64::INFINITY),
];

/// Prints the table: a block for each kind of drives, with columns by the part of the drive's time
/// that is promised, and the goals next to them.
pub fn table(outcomes: &[TrialOutcome]) -> String {
    let column = |o: &TrialOutcome| PARTS.iter().position(|(_, most)| o.part <= *most);
    let mut parts: Vec<usize> = (0..PARTS.len()).collect();
    parts.retain(|part| outcomes.iter().any(|o| column(o) == Some(*part)));
    let block = |kind: usize| {
        let all: Vec<&TrialOutcome> = outcomes.iter().filter(|o| o.kind == kind).collect();
        let of = |part: usize| all.iter().copied().filter(move |o| column(o) == Some(part));
        let columns = parts.iter().map(|part| of(*part).collect());
        let columns: Vec<Vec<&TrialOutcome>> = columns.chain([all.clone()]).collect();
        let names = parts.iter().map(|part| PARTS[*part].0).chain(["all"]);
        let head = (KINDS[kind], names.map(str::to_owned).collect(), "goal");
        let rows = ROWS.iter().map(|row| line(row, kind, &columns));
        (!all.is_empty()).then(|| [head].into_iter().chain(rows).collect())
    };
    aligned((0..KINDS.len()).filter_map(block).collect())
}

/// A line of the table: label, figures, and goal.
type TableLine = (&'static str, Vec<String>, &'static str);

fn line(
    TallyRow(name, goals, of): &TallyRow,
    kind: usize,
    columns: &[Vec<&TrialOutcome>],
) -> TableLine {
    let figure = |some: &Vec<&TrialOutcome>| {
        if some.is_empty() {
            return "-".into();
        }
        of(some)
    };
    (name, columns.iter().map(figure).collect(), goals[kind])
}

/// Prints blocks one below the other, with the same column widths in all of them.
fn aligned(blocks: Vec<Vec<TableLine>>) -> String {
    // A column has at least nine characters.
    let mut widths = [9; PARTS.len() + 1];
    for (_, figures, _) in blocks.iter().flatten() {
        for (width, figure) in widths.iter_mut().zip(figures) {
            *width = (*width).max(figure.len() + 1);
        }
    }
    let mut texts = Vec::new();
    for lines in blocks {
        let mut text = String::new();
        for (name, figures, goal) in lines {
            let mut line = format!("{name:<39}");
            for (figure, width) in figures.iter().zip(widths) {
                let _ = write!(line, "{figure:>width$}");
            }
            let _ = write!(line, "  {goal}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        texts.push(text);
    }
    texts.join("\n")
}

/// Prints a line for each failure of each outcome: seed, kind of drive, failure, badness, and
/// description.
pub fn list(outcomes: &[TrialOutcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let (seed, kind) = (outcome.seed, KINDS[outcome.kind]);
        for failure in SearchFailure::ALL {
            if let Some(badness) = failure.badness(outcome) {
                let (name, line) = (failure.name(), failure.line(outcome));
                let _ = writeln!(text, "{seed} {kind} {name} {badness:.4} {line}");
            }
        }
    }
    text
}

/// Returns the outcomes that fail in this way, the worst first.
pub fn failing(outcomes: &[TrialOutcome], failure: SearchFailure) -> Vec<&TrialOutcome> {
    let mut found: Vec<(f64, &TrialOutcome)> = (outcomes.iter())
        // Outcomes that do not fail in this way have no badness.
        .filter_map(|o| Some((failure.badness(o)?, o)))
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Prints the worst outcomes of each failure, at most `most` of each, as arguments that run them
/// again, followed by `with`.
pub fn worst(outcomes: &[TrialOutcome], most: usize, with: &str) -> String {
    let mut text = String::new();
    for failure in SearchFailure::ALL {
        let found = failing(outcomes, failure);
        if !found.is_empty() {
            let _ = writeln!(text, "\n{}: {}", failure.name(), found.len());
        }
        for outcome in found.into_iter().take(most) {
            let line = failure.line(outcome);
            let _ = writeln!(text, "  --case {}{with}  {line}", outcome.seed);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(worst: f64) -> TrialOutcome {
        TrialOutcome {
            promised: true,
            feasible: true,
            worst,
            total: Some(1.0),
            ..TrialOutcome::default()
        }
    }

    /// Returns the figures and the goal of a row, in the first block that has runs.
    fn row(outcomes: &[TrialOutcome], name: &str) -> String {
        let table = table(outcomes);
        let row = table.lines().find(|l| l.starts_with(name)).expect("a row");
        let figures: Vec<&str> = row[39..].split_whitespace().collect();
        figures.join(" ")
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let of = |n: u32, thousandths| quantile((1..=n).map(f64::from).collect(), thousandths);
        // Ranks are rounded up: 1 % of 200 is rank 2, 5 % is rank 10, and half of 3 is rank 2.
        assert_eq!(
            [of(200, 10), of(200, 50), of(3, 500)],
            [2.0, 10.0, 2.0].map(Some)
        );
        assert_eq!((of(1, 10), of(0, 10)), (Some(1.0), None));
    }

    #[test]
    fn infeasible_runs_count_only_in_totals() {
        let mut all = vec![outcome(1.0), outcome(0.5), outcome(0.7)];
        // The third run cannot keep its promises, and must count only in the totals.
        all[2].feasible = false;
        all[2].total = Some(0.25);
        all[2].part = 0.8;
        assert_eq!(row(&all, "feasible"), "2 0 2");
        let kept = "50.00 - 50.00 99.9, 100";
        assert_eq!(row(&all, "kept, % of feasible"), kept);
        let worst = row(&all, "worst second / min, 5th");
        assert_eq!(worst, "0.500 - 0.500 >= .99");
        let total = row(&all, "total / none, 5th");
        assert_eq!(total, "1.000 0.250 0.250 .95");
    }

    #[test]
    fn a_run_is_in_the_column_of_its_promises_and_the_block_of_its_drive() {
        // Values at both sides of the columns' bounds, and one run on a disk.
        let parts = [0.5, 0.500_001, 0.9, 0.900_001, 0.0];
        let mut all: Vec<TrialOutcome> = parts
            .map(|part| TrialOutcome {
                part,
                ..outcome(1.0)
            })
            .into();
        all[4].kind = 2;
        let text = table(&all);
        let heads: Vec<&str> = text.lines().filter(|l| l.ends_with("goal")).collect();
        assert!(heads[0].starts_with("null ") && heads[1].starts_with("hdd "));
        assert_eq!(heads.len(), 2, "there is nothing to say of flash");
        assert_eq!(row(&all, "runs "), "1 1 1 1 4");
        let disks = &text[text.find("hdd ").expect("a block")..];
        assert!(disks.contains(&format!(
            "{:<39}        1        -        -        -        1\n",
            "runs"
        )));
        assert!(disks.contains("not worse\n"));
        all.retain(|o| o.part <= 0.5);
        assert_eq!(row(&all, "hdd"), "<= .5 all goal");
    }

    #[test]
    fn the_table_fits_a_hundred_columns() {
        let served = RealtimeService {
            among_all: 0.5,
            beside_promised: 1.0,
        };
        // 99 realtime clients in each of four columns give the widest figure, 396 of 396.
        let one = |part| TrialOutcome {
            part,
            served: vec![served; 99],
            ..outcome(1.0)
        };
        let text = table(&[0.5, 0.7, 0.9, 1.0].map(one));
        assert!(text.contains("99 of 99") && text.contains("396 of 396"));
        assert!(text.lines().all(|l| l.len() <= 100), "{text}");
    }

    #[test]
    fn seconds_of_feasible_runs_count_and_bfq_beside_them() {
        let mut all = vec![outcome(1.0), outcome(0.5), outcome(1.0)];
        (all[0].nearly, all[1].nearly, all[2].nearly) = ((5, 5), (2, 3), (0, 9));
        (all[1].bfq_keeps, all[2].feasible) = (true, false);
        // The first two runs are feasible: 5 + 2 of 5 + 3 seconds are 87.5 %.
        let seconds = row(&all, "promised seconds with");
        assert_eq!(seconds, "87.50 87.50 99.99");
        assert_eq!(row(&all, "kept under bfq"), "50.00 50.00");
    }

    #[test]
    fn totals_are_compared_with_bfq_if_both_keep_all_promises() {
        let mut all = [0.5, 1.0, 1.1, 1.2, 1.3].map(|total| TrialOutcome {
            bfq_keeps: true,
            total_bfq: Some(total),
            ..outcome(1.0)
        });
        assert_eq!(SearchFailure::BfqTotal.badness(&all[0]), Some(0.5));
        all[0].bfq_keeps = false;
        all[1].worst = 0.9;
        all[2].feasible = false;
        assert!(
            all.iter()
                .all(|o| SearchFailure::BfqTotal.badness(o).is_none())
        );
        assert_eq!(row(&all, "total / bfq, 1st"), "1.200 1.200 .9");
        assert_eq!(row(&all, "total / bfq, median"), "1.200 1.200 1.05");
    }

    #[test]
    fn a_realtime_client_is_short_only_if_its_max_is_feasible() {
        let mut one = outcome(1.0);
        // Short and feasible, short and not feasible, not short, and short and feasible again.
        let parts = [(0.89, 0.9), (0.5, 0.89), (0.9, 1.0), (0.7, 1.0)];
        let served = parts.map(|(among_all, beside_promised)| RealtimeService {
            among_all,
            beside_promised,
        });
        one.served = served.into();
        assert_eq!(SearchFailure::Realtime.badness(&one), Some(1.0 - 0.7));
        let all = [one];
        assert_eq!(row(&all, "realtime short, of"), "2 of 3 2 of 3 0");
        assert_eq!(row(&all, "realtime short of alone"), "3 of 4 3 of 4");
    }

    #[test]
    fn findings_are_counted_only_in_audited_runs() {
        let mut all = [outcome(1.0)];
        assert_eq!(row(&all, "runs with auditors'"), "- - 0");
        all[0].audited = true;
        assert_eq!(row(&all, "runs with auditors'"), "0 0 0");
    }

    #[test]
    fn every_failure_has_a_name_and_the_worst_is_listed_first() {
        for failure in SearchFailure::ALL {
            assert_eq!(SearchFailure::find(failure.name()), Some(failure));
        }
        let mut all: Vec<TrialOutcome> = [0.9, 0.1, 1.0].map(outcome).into();
        for (seed, outcome) in (0..).zip(&mut all) {
            outcome.seed = seed;
        }
        let text = worst(&all, 9, " --kind null");
        let order: Vec<&str> = text
            .lines()
            .filter_map(|l| l.strip_prefix("  --case "))
            .collect();
        assert!(
            order[0].starts_with("1 --kind null") && order[1].starts_with("0 --kind"),
            "{text}"
        );
        assert_eq!(list(&all).lines().count(), 2);
        assert!(worst(&all, 1, "").contains("promise: 2"));
    }

    #[test]
    fn each_measure_fails_beyond_its_bound() {
        // Each value of `good` is exactly at its bound, and each of `bad` just beyond it.
        let mut good = outcome(1.0);
        (good.share_off, good.idle_wait) = (Some(0.1), Some(400.0));
        good.latency = vec![4.0];
        (good.bfq_keeps, good.total_bfq) = (true, Some(0.9));
        (good.kept_by_none, good.promises_kept) = (2, 2);
        let served = |among_all| {
            let beside_promised = 0.9;
            vec![RealtimeService {
                among_all,
                beside_promised,
            }]
        };
        good.served = served(0.9);
        assert!(
            SearchFailure::ALL
                .iter()
                .all(|f| f.badness(&good).is_none())
        );
        let mut bad = outcome(0.9);
        (bad.share_off, bad.idle_wait) = (Some(0.11), Some(401.0));
        (bad.latency, bad.total) = (vec![1.0, 4.1], Some(0.94));
        (bad.bfq_keeps, bad.findings.0) = (true, 1);
        (bad.kept_by_none, bad.promises_kept) = (2, 1);
        bad.broken = Some("panic".into());
        bad.served = served(0.89);
        let fails = |f: &&SearchFailure| f.badness(&bad).is_some();
        // A total is compared with BFQ's only if `contract` keeps the promises as well.
        let all = SearchFailure::ALL.iter().filter(fails).count();
        assert_eq!(all, SearchFailure::ALL.len() - 1);
    }
}
