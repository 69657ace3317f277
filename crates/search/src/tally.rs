//! The table of many cases, and the worst cases of each failure.

use crate::case::KINDS;
use crate::trial::Outcome;
use std::fmt::Write as _;

/// A kind of failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A feasible promise is not kept.
    Broken,
    /// A feasible promise is not kept, and BFQ keeps all of them.
    BfqKeeps,
    /// The total is less than under none.
    Total,
    /// A realtime client has a higher latency than alone.
    Latency,
    /// Clients do not get their shares.
    Share,
    /// The idle class waits too long.
    Idle,
    /// An auditor found a violation.
    Finding,
    /// A panic, or an error where there should be none.
    Panic,
}

/// The relative error of shares that counts as a failure.
const SHARE_OFF: f64 = 0.1;

/// The wait of the idle class that counts as a failure, in milliseconds.
const IDLE_WAIT: f64 = 400.0;

impl Failure {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Broken,
        Self::BfqKeeps,
        Self::Total,
        Self::Latency,
        Self::Share,
        Self::Idle,
        Self::Finding,
        Self::Panic,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Broken => "promise",
            Self::BfqKeeps => "bfq-keeps",
            Self::Total => "total",
            Self::Latency => "latency",
            Self::Share => "share",
            Self::Idle => "idle",
            Self::Finding => "finding",
            Self::Panic => "panic",
        }
    }

    /// The failure of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// How badly an outcome fails, larger being worse; `None` if it does not fail in this way.
    pub fn badness(self, outcome: &Outcome) -> Option<f64> {
        let kind = outcome.kind;
        let broken = outcome.feasible && !outcome.kept();
        let rt = worst_latency(outcome);
        match self {
            Self::Broken => broken.then_some(1.0 - outcome.worst),
            Self::BfqKeeps => (broken && outcome.bfq_keeps).then_some(1.0 - outcome.worst),
            Self::Total => {
                let total = outcome.total.filter(|t| *t < [0.95, 0.9, 0.8][kind]);
                total.map(|t| 1.0 - t)
            }
            Self::Latency => rt.filter(|r| *r > [4.0, 8.0, 10.0][kind]),
            Self::Share => outcome.share_off.filter(|off| *off > SHARE_OFF),
            Self::Idle => outcome.idle_wait.filter(|ms| *ms > IDLE_WAIT),
            Self::Finding => (outcome.findings.0 > 0).then_some(outcome.findings.0 as f64),
            Self::Panic => outcome.broken.as_ref().map(|_| 1.0),
        }
    }

    /// The failure of an outcome in a line.
    pub fn line(self, outcome: &Outcome) -> String {
        let title = &outcome.title;
        let (second, group) = outcome.worst_at;
        let broken = format!(
            "group {group} got {:.3} of what it was owed in second {second}",
            outcome.worst
        );
        let what = match self {
            Self::Broken if outcome.realtime => format!("{broken} (beside a realtime client)"),
            Self::Broken | Self::BfqKeeps => broken,
            Self::Total => format!("all got {:.3} of none", outcome.total.unwrap_or_default()),
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

fn worst_latency(outcome: &Outcome) -> Option<f64> {
    outcome.latency.iter().copied().reduce(f64::max)
}

/// The value below which this many thousandths of all are (nearest rank); `None` without values.
pub fn quantile(mut values: Vec<f64>, thousandths: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * thousandths).div_ceil(1000).max(1);
    values.get(rank - 1).copied()
}

/// A row of the table: its label, its goal, and its figure for a kind of drives.
struct Row(&'static str, &'static str, fn(&[&Outcome]) -> String);

const ROWS: &[Row] = &[
    Row("runs", "", |all| all.len().to_string()),
    Row("feasible runs", "", |all| feasible(all).len().to_string()),
    Row("kept, % of feasible", "99.5 / 99 / 97", |all| {
        kept(&feasible(all))
    }),
    Row("kept, % without realtime", "99.8 / 99.5 / 98", |all| {
        let mut some = feasible(all);
        some.retain(|o| !o.realtime);
        kept(&some)
    }),
    Row("worst second / min, 1st percentile", ">= .9", |all| {
        least(all, 10)
    }),
    Row("worst second / min, 5th percentile", ">= .99", |all| {
        least(all, 50)
    }),
    Row("bfq keeps and contract breaks", "0", |all| {
        count(all, Failure::BfqKeeps)
    }),
    Row("total / none, 5th percentile", ".95 / .9 / .8", |all| {
        total(all, 50)
    }),
    Row("total / none, median", "1.0", |all| total(all, 500)),
    Row("realtime p99 / alone, median", "2 / 3 / 3", |all| {
        latency(all, |o| &o.latency, 500)
    }),
    Row(
        "realtime p99 / alone, 90th percentile",
        "4 / 8 / 10",
        |all| latency(all, |o| &o.latency, 900),
    ),
    Row("p99 / max(alone, far), median", "", |all| {
        latency(all, |o| &o.latency_far, 500)
    }),
    Row("p99 / max(alone, far), 90th percentile", "", |all| {
        latency(all, |o| &o.latency_far, 900)
    }),
    Row("shares off by > 10 %, of", "<= 1 in 500", |all| {
        let of = all.iter().filter(|o| o.share_off.is_some()).count();
        format!("{} of {of}", count(all, Failure::Share))
    }),
    Row("idle waited > 400 ms, of", "<= 1 in 500", |all| {
        let of = all.iter().filter(|o| o.idle_wait.is_some()).count();
        format!("{} of {of}", count(all, Failure::Idle))
    }),
    Row("panics and errors", "0", |all| count(all, Failure::Panic)),
    Row("runs with auditors' findings", "0", |all| {
        count(all, Failure::Finding)
    }),
];

fn feasible<'a>(all: &[&'a Outcome]) -> Vec<&'a Outcome> {
    all.iter().copied().filter(|o| o.feasible).collect()
}

fn kept(of: &[&Outcome]) -> String {
    if of.is_empty() {
        return "-".into();
    }
    let kept = of.iter().filter(|o| o.kept()).count();
    format!("{:.2}", kept as f64 * 100.0 / of.len() as f64)
}

fn count(all: &[&Outcome], failure: Failure) -> String {
    all.iter()
        .filter(|o| failure.badness(o).is_some())
        .count()
        .to_string()
}

fn figure(values: Vec<f64>, thousandths: usize) -> String {
    quantile(values, thousandths).map_or_else(|| "-".into(), |v| format!("{v:.3}"))
}

fn least(all: &[&Outcome], thousandths: usize) -> String {
    figure(feasible(all).iter().map(|o| o.worst).collect(), thousandths)
}

fn total(all: &[&Outcome], thousandths: usize) -> String {
    figure(all.iter().filter_map(|o| o.total).collect(), thousandths)
}

fn latency(all: &[&Outcome], of: fn(&Outcome) -> &[f64], thousandths: usize) -> String {
    figure(
        all.iter().flat_map(|o| of(o).iter().copied()).collect(),
        thousandths,
    )
}

/// The table: a column for each kind of drives, with the goals beside it.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!("{:<40}", "");
    for kind in KINDS {
        let _ = write!(text, "{kind:>12}");
    }
    text.push_str("   goal\n");
    for Row(name, goal, of) in ROWS {
        let mut line = format!("{name:<40}");
        for kind in 0..KINDS.len() {
            let some: Vec<&Outcome> = outcomes.iter().filter(|o| o.kind == kind).collect();
            let _ = write!(line, "{:>12}", of(&some));
        }
        let _ = write!(line, "   {goal}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A line for each failure of each outcome: seed, kind of drive, failure, badness, description.
pub fn list(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let (seed, kind) = (outcome.seed, KINDS[outcome.kind]);
        for failure in Failure::ALL {
            if let Some(badness) = failure.badness(outcome) {
                let (name, line) = (failure.name(), failure.line(outcome));
                let _ = writeln!(text, "{seed} {kind} {name} {badness:.4} {line}");
            }
        }
    }
    text
}

/// The outcomes that fail in this way, the worst first.
pub fn failing(outcomes: &[Outcome], failure: Failure) -> Vec<&Outcome> {
    let mut found: Vec<(f64, &Outcome)> = (outcomes.iter())
        .filter_map(|o| Some((failure.badness(o)?, o)))
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The worst outcomes of each failure, the worst first, at most `most` of each, as arguments that run them again, followed by
/// `with`.
pub fn worst(outcomes: &[Outcome], most: usize, with: &str) -> String {
    let mut text = String::new();
    for failure in Failure::ALL {
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

    fn outcome(worst: f64) -> Outcome {
        Outcome {
            promised: true,
            feasible: true,
            worst,
            total: Some(1.0),
            ..Outcome::default()
        }
    }

    fn row(outcomes: &[Outcome], name: &str) -> Vec<String> {
        let table = table(outcomes);
        let row = table.lines().find(|l| l.starts_with(name)).expect("a row");
        let figures = row[40..].split_whitespace();
        figures.take(3).map(str::to_owned).collect()
    }

    #[test]
    fn quantiles_by_nearest_rank() {
        let of = |n: u32, thousandths| quantile((1..=n).map(f64::from).collect(), thousandths);
        assert_eq!(
            [of(200, 10), of(200, 50), of(3, 500)],
            [2.0, 10.0, 2.0].map(Some)
        );
        assert_eq!((of(1, 10), of(0, 10)), (Some(1.0), None));
    }

    #[test]
    fn what_cannot_be_kept_is_counted_in_totals_only() {
        let mut all = vec![outcome(1.0), outcome(0.5), outcome(0.7)];
        all[2].feasible = false;
        all[2].total = Some(0.25);
        assert_eq!(row(&all, "feasible"), ["2", "0", "0"]);
        assert_eq!(row(&all, "kept, % of feasible"), ["50.00", "-", "-"]);
        assert_eq!(row(&all, "worst second / min, 5th"), ["0.500", "-", "-"]);
        assert_eq!(row(&all, "total / none, 5th"), ["0.250", "-", "-"]);
    }

    #[test]
    fn every_failure_has_a_name_and_the_worst_stands_first() {
        for failure in Failure::ALL {
            assert_eq!(Failure::find(failure.name()), Some(failure));
        }
        let mut all: Vec<Outcome> = [0.9, 0.1, 1.0].map(outcome).into();
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
        let mut good = outcome(1.0);
        (good.share_off, good.idle_wait) = (Some(0.1), Some(400.0));
        good.latency = vec![4.0];
        assert!(Failure::ALL.iter().all(|f| f.badness(&good).is_none()));
        let mut bad = outcome(0.9);
        (bad.share_off, bad.idle_wait) = (Some(0.11), Some(401.0));
        (bad.latency, bad.total) = (vec![1.0, 4.1], Some(0.94));
        (bad.bfq_keeps, bad.findings.0) = (true, 1);
        bad.broken = Some("panic".into());
        assert!(Failure::ALL.iter().all(|f| f.badness(&bad).is_some()));
    }
}
