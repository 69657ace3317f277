//! Prints outcomes as text for people.

use crate::search::case::SearchCase;
use crate::search::judge::{self, JudgedSecond};
use crate::search::trial::{ClientService, Trial, TrialOutcome};
use std::fmt::Write as _;
use weir_core::GroupId;

/// Prints the service of each client, and the verdicts about each promise.
pub fn trial(case: &SearchCase, trial: &Trial) -> String {
    let mut text = clients(case, trial);
    text.push('\n');
    text.push_str(&promises(case, trial));
    text
}

fn clients(case: &SearchCase, trial: &Trial) -> String {
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
    let (reference, contract) = (&trial.reference, &trial.contract.clients);
    let rate = |got: &ClientService| got.bytes / case.seconds();
    for (index, client) in case.scenario.clients.iter().enumerate() {
        // Only some programs are run alone.
        let alone = reference.alone[index].map_or_else(|| "-".into(), |a| format!("{a:.0}"));
        let realtime = reference.realtime[index]
            .as_ref()
            .map_or_else(|| "-".into(), |got| (got.p99 / 1000).to_string());
        let _ = writeln!(
            text,
            "{index:>6} {:>5} {:>12} {:>12} {:>12} {alone:>12} {:>11} {:>11} {realtime:>11}",
            client.group.0,
            rate(&reference.none[index]),
            rate(&reference.bfq[index]),
            rate(&contract[index]),
            reference.none[index].p99 / 1000,
            contract[index].p99 / 1000,
        );
    }
    let all =
        |clients: &[ClientService]| clients.iter().map(|c| c.bytes).sum::<u64>() / case.seconds();
    let (none, bfq, contract) = (all(&reference.none), all(&reference.bfq), all(contract));
    let _ = writeln!(text, "{:>12} {none:>12} {bfq:>12} {contract:>12}", "all");
    text
}

fn promises(case: &SearchCase, trial: &Trial) -> String {
    let mut text = format!(
        "{:>6} {:>12} {:>8} {:>14} {:>12} {:>18} {:>14}\n",
        "group", "min B/s", "min 1/s", "seconds kept", "worst", "under bfq", "worst there"
    );
    let ids = case.groups();
    for group in ids.filter(|g| case.is_promised(*g)) {
        let contract = case.group(group);
        let (kept, worst) = summarise_seconds(&trial.judged, group);
        let (kept_bfq, worst_bfq) = summarise_seconds(&trial.reference.judged_bfq, group);
        let _ = writeln!(
            text,
            "{:>6} {:>12} {:>8} {kept:>14} {worst:>12} {kept_bfq:>18} {worst_bfq:>14}",
            group.0, contract.min, contract.min_iops
        );
    }
    text
}

/// Returns the number of kept seconds of those judged, and the worst second.
fn summarise_seconds(judged: &[JudgedSecond], group: GroupId) -> (String, String) {
    let own: Vec<JudgedSecond> = judged
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

/// Prints each promise under `contract`, second by second.
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

/// Prints the figures of an outcome, in lines.
pub fn outcome(outcome: &TrialOutcome) -> String {
    let number = |n: Option<f64>| n.map_or_else(|| "-".into(), |n| format!("{n:.3}"));
    let some = |all: Vec<String>| {
        if all.is_empty() {
            "-".into()
        } else {
            all.join(" ")
        }
    };
    let latency: Vec<String> = outcome.latency.iter().map(|l| format!("{l:.2}")).collect();
    let served = outcome.served.iter().map(|s| {
        let (part, beside) = (s.among_all, s.beside_promised);
        format!("{part:.3} ({beside:.3} beside promised ones)")
    });
    let served: Vec<String> = served.collect();
    format!(
        "promised {:.3} of the drive's time, feasible {}, kept {}, worst {:.3}, bfq keeps {}\ntotal / none {}, total / bfq {}, realtime / alone {}, realtime p99 / alone {}, shares off {}, idle waited {} ms\nfindings {} {}\n",
        outcome.part,
        outcome.feasible,
        outcome.kept(),
        outcome.worst,
        outcome.bfq_keeps,
        number(outcome.total),
        number(outcome.total_bfq),
        some(served),
        some(latency),
        number(outcome.share_off),
        number(outcome.idle_wait),
        outcome.findings.0,
        outcome.findings.1,
    )
}
