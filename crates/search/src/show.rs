//! Cases and outcomes as text for people.

use crate::case::Case;
use crate::judge::{self, Judged};
use crate::text;
use crate::trial::{Outcome, Played, Trial};
use std::fmt::{self, Display, Formatter, Write as _};
use weir_core::{Contract, GroupId, ROOT};

/// A contract in a few words.
struct Words<'a>(&'a Contract);

impl Display for Words<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        text::contract(f, self.0)
    }
}

/// The case in lines: the drive, each group, each client, each change.
pub fn case(case: &Case) -> String {
    let mut text = format!("{} s on {}\n", case.seconds, case.drive);
    if let Some(freeze) = case.freeze {
        let ms = |span: weir_core::Span| span.as_nanos() / 1_000_000;
        let (length, every, first) = (ms(freeze.length), ms(freeze.every), ms(freeze.first));
        let _ = writeln!(
            text,
            "frozen for {length} ms of {every} ms, first at {first} ms"
        );
    }
    let own = case.drive.config().capacity() == Some(case.capacity);
    let whose = if own {
        "as the drive states"
    } else {
        "so large that all promises fit"
    };
    let capacity = &case.capacity;
    let _ = writeln!(
        text,
        "capacity {} bytes/s, {} requests/s, {whose}",
        capacity.read, capacity.iops
    );
    for (id, group) in (1..).zip(&case.groups) {
        let below = if group.parent == ROOT {
            String::new()
        } else {
            format!(" in group {}", group.parent.0)
        };
        let _ = writeln!(text, "group {id:<3}{below}{}", Words(&group.contract));
    }
    for (index, client) in case.clients.iter().enumerate() {
        let _ = writeln!(text, "{index:>3} {client}");
    }
    for change in &case.changes {
        let ms = change.at.as_nanos() / 1_000_000;
        let _ = writeln!(
            text,
            "at {ms} ms group {}:{}",
            change.group.0,
            Words(&change.contract)
        );
    }
    text
}

/// What each client got, and the verdicts about each promise.
pub fn trial(case: &Case, trial: &Trial) -> String {
    let mut text = clients(case, trial);
    text.push('\n');
    text.push_str(&promises(case, trial));
    text
}

fn clients(case: &Case, trial: &Trial) -> String {
    let mut text = format!(
        "{:>6} {:>5} {:>12} {:>12} {:>12} {:>12} {:>11} {:>11} {:>11}\n",
        "client",
        "group",
        "none B/s",
        "bfq B/s",
        "contract B/s",
        "alone B/s",
        "p99 none us",
        "contract",
        "alone"
    );
    let rate = |played: &Played, c: usize| played.clients[c].bytes / case.seconds;
    for index in 0..case.clients.len() {
        let alone = trial.alone[index].map_or_else(|| "-".into(), |a| format!("{a:.0}"));
        let realtime =
            trial.realtime[index].map_or_else(|| "-".into(), |ns| (ns / 1000).to_string());
        let _ = writeln!(
            text,
            "{index:>6} {:>5} {:>12} {:>12} {:>12} {alone:>12} {:>11} {:>11} {realtime:>11}",
            case.clients[index].group.0,
            rate(&trial.none, index),
            rate(&trial.bfq, index),
            rate(&trial.contract, index),
            trial.none.clients[index].p99 / 1000,
            trial.contract.clients[index].p99 / 1000,
        );
    }
    let all = |played: &Played| played.clients.iter().map(|c| c.bytes).sum::<u64>() / case.seconds;
    let (none, bfq, contract) = (all(&trial.none), all(&trial.bfq), all(&trial.contract));
    let _ = writeln!(text, "{:>12} {none:>12} {bfq:>12} {contract:>12}", "all");
    text
}

fn promises(case: &Case, trial: &Trial) -> String {
    let mut text = format!(
        "{:>6} {:>12} {:>8} {:>14} {:>12} {:>18} {:>14}\n",
        "group", "min B/s", "min 1/s", "seconds kept", "worst", "under bfq", "worst there"
    );
    let ids = (1..=case.groups.len() as u32).map(GroupId);
    for group in ids.filter(|g| case.is_promised(*g)) {
        let contract = case.group(group);
        let (kept, worst) = fared(&trial.judged, group);
        let (kept_bfq, worst_bfq) = fared(&trial.judged_bfq, group);
        let _ = writeln!(
            text,
            "{:>6} {:>12} {:>8} {kept:>14} {worst:>12} {kept_bfq:>18} {worst_bfq:>14}",
            group.0, contract.min, contract.min_iops
        );
    }
    text
}

/// Seconds kept of those judged, and the worst.
fn fared(judged: &[Judged], group: GroupId) -> (String, String) {
    let own: Vec<Judged> = judged
        .iter()
        .copied()
        .filter(|j| j.group == group)
        .collect();
    let kept = own.iter().filter(|j| j.is_kept()).count();
    let worst = judge::worst(&own).map_or_else(
        || "-".into(),
        |j| format!("{:.3} ({} s)", j.part(), j.second),
    );
    (format!("{kept} of {}", own.len()), worst)
}

/// Each promise under contract, second by second.
pub fn seconds(trial: &Trial) -> String {
    let mut text = format!(
        "{:>6} {:>7} {:>14} {:>14} {:>14} {:>8}\n",
        "group", "second", "served", "owed", "lacks", "part"
    );
    for j in &trial.judged {
        let mark = if j.is_kept() { "" } else { "  <-" };
        let _ = writeln!(
            text,
            "{:>6} {:>7} {:>14} {:>14} {:>14} {:>8.3}{mark}",
            j.group.0,
            j.second,
            j.served,
            j.owed,
            j.lacks,
            j.part()
        );
    }
    text
}

/// The outcome's figures in lines.
pub fn outcome(outcome: &Outcome) -> String {
    let number = |n: Option<f64>| n.map_or_else(|| "-".into(), |n| format!("{n:.3}"));
    let latency: Vec<String> = outcome.latency.iter().map(|l| format!("{l:.2}")).collect();
    format!(
        "feasible {}, kept {}, worst {:.3}, bfq keeps {}\ntotal / none {}, realtime p99 / alone {}, shares off {}, idle waited {} ms\nfindings {} {}\n",
        outcome.feasible,
        outcome.kept(),
        outcome.worst,
        outcome.bfq_keeps,
        number(outcome.total),
        if latency.is_empty() {
            "-".into()
        } else {
            latency.join(" ")
        },
        number(outcome.share_off),
        number(outcome.idle_wait),
        outcome.findings.0,
        outcome.findings.1,
    )
}
