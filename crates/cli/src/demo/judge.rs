//! What the figures of a run mean: whether it did what its scenario is about, in words. Whether a promise was kept in a second is
//! decided in [`weir_measure::promise`].

use super::Scenario;
use weir_measure::promise::Excuse;
use weir_measure::{PromiseSeconds, Record, TOTAL};
use weir_report::Fate;
use weir_report::number::{deviation, figure, percent, plain};

/// Whether a policy did what the scenario is about, and what came of it in a sentence.
pub(crate) fn verdict(scenario: Scenario, records: &[Record]) -> (Fate, String) {
    let clients: Vec<&Record> = records.iter().filter(|r| r.client != TOTAL).collect();
    let (fate, text) = match scenario {
        Scenario::Contract => target(&clients, scenario.target()),
        Scenario::EqualReaders => everyone(&clients),
        Scenario::Shares => kept(shares(&clients)),
        Scenario::Max => kept(limits(&clients)),
    };
    let busy = busy(records);
    let busy = busy.map(|busy| format!(" The drive was busy for {} of the time.", percent(busy)));
    (fate, text + &busy.unwrap_or_default())
}

/// The part (0 to 1) of the time in which the drive was busy.
pub(crate) fn busy(records: &[Record]) -> Option<f64> {
    let total = records.iter().find(|r| r.client == TOTAL)?;
    total.drive_busy_percent.map(|busy| busy as f64 / 100.0)
}

/// A word for what was kept or not.
fn kept((kept, text): (bool, String)) -> (Fate, String) {
    (if kept { Fate::Kept } else { Fate::Broken }, text)
}

/// What the client gets with the drive to itself, in MB/s, if that is less than it was promised.
pub(crate) fn beyond(record: &Record) -> Option<f64> {
    let promised = record.promised_mbps?;
    record.alone_mbps.filter(|alone| *alone < promised * 0.99)
}

/// Whether the target got what it was promised, and then whether the others did.
fn target(clients: &[&Record], name: &str) -> (Fate, String) {
    let Some(target) = clients.iter().find(|r| r.client == name) else {
        return (Fate::Broken, format!("The {name} got nothing."));
    };
    let promised = target.promised_mbps.unwrap_or(0.0);
    let got = target.throughput_mbps;
    if let Some(alone) = beyond(target) {
        let (got, promised, alone) = (figure(got), plain(promised), figure(alone));
        let text = format!(
            "The {name} got {got} of {promised} MB/s promised; alone it gets {alone} MB/s, and no policy can give it more."
        );
        return (Fate::OutOfReach, text);
    }
    let seconds = target.promise_seconds.clone().unwrap_or_default();
    let others = clients.iter().filter(|r| r.client != name);
    let short = others.filter(|r| lacks(r)).count();
    let part = percent(got / promised);
    match (lacks(target), short) {
        (false, _) if seconds.of(Excuse::Depth.name()) > 0 => (
            Fate::OutOfReach,
            format!(
                "The {name} got {part} of what it was promised; it was limited by itself: by its path to the server and its requests at \
                 a time."
            ),
        ),
        (false, 0) => (
            Fate::Kept,
            "Kept: everyone got what was promised in every second.".into(),
        ),
        (false, n) => (
            Fate::Kept,
            format!(
                "The {name}'s promise was kept in every second; {n} of the others fell short of theirs."
            ),
        ),
        (true, _) if got >= promised => (
            Fate::Broken,
            format!(
                "Enough for the {name} on average, but not in every second: the worst had {} MB/s.",
                figure(target.worst_second_mbps.unwrap_or(0.0))
            ),
        ),
        (true, _) => (
            Fate::Broken,
            format!(
                "The {name} got {part} of what it was promised{}.",
                because(&seconds)
            ),
        ),
    }
}

/// What most of the short seconds were short for.
fn because(seconds: &PromiseSeconds) -> &'static str {
    use weir_measure::promise::Short;
    let main = Short::ALL.into_iter().max_by_key(|s| seconds.of(s.name()));
    match main.filter(|why| seconds.of(why.name()) > 0) {
        Some(Short::Others) => ": others had the drive",
        Some(Short::Elevator) => {
            ": it waited in the elevator, though others did not have the drive"
        }
        Some(Short::Drive) => ": the drive itself did not do more",
        Some(Short::Error) => ": the storage failed its requests",
        None => "",
    }
}

fn everyone(clients: &[&Record]) -> (Fate, String) {
    if let Some(alone) = clients.iter().find_map(|r| beyond(r)) {
        let text = format!(
            "What was promised is out of reach: alone a client gets {} MB/s.",
            figure(alone)
        );
        return (Fate::OutOfReach, text);
    }
    let kept = clients.iter().filter(|r| !lacks(r)).count();
    if kept == clients.len() {
        let text = "Kept: everyone got what was promised in every second.";
        return (Fate::Kept, text.into());
    }
    let text = format!(
        "{kept} of {} got what they were promised in every second.",
        clients.len()
    );
    (Fate::Broken, text)
}

/// True if the promise was short in some second, or was never in force for a whole one.
fn lacks(record: &Record) -> bool {
    let seconds = record.promise_seconds.as_ref();
    seconds.is_none_or(|s| s.short > 0 || s.promised == 0)
}

/// A share that is this far off over the whole run was not kept.
const OFF: f64 = 0.05;

/// How far the clients were from shares 1 : 2 : 4 : 8, over the run and in the worst second.
fn shares(clients: &[&Record]) -> (bool, String) {
    let totals: Vec<f64> = clients.iter().map(|r| r.throughput_mbps).collect();
    let whole = off(&totals);
    let seconds: Vec<Vec<f64>> = clients.iter().map(|r| by_second(r)).collect();
    let count = seconds.iter().map(Vec::len).min().unwrap_or(0);
    let worst = (0..count).map(|i| off(&seconds.iter().map(|s| s[i]).collect::<Vec<_>>()));
    let worst = worst.fold(0.0, f64::max);
    let ratios: Vec<String> = totals
        .iter()
        .map(|t| figure(t / totals[0].max(1e-9)))
        .collect();
    let text = format!(
        "Bandwidths are {}, {} off over the run and {} in the worst second.",
        ratios.join(" : "),
        deviation(whole),
        deviation(worst)
    );
    (whole <= OFF, text)
}

/// The largest difference of any bandwidth to its share (1 : 2 : 4 : 8) of them all, as a part of that share.
fn off(bandwidths: &[f64]) -> f64 {
    let total: f64 = bandwidths.iter().sum();
    let shares: f64 = (0..bandwidths.len()).map(|i| f64::from(1 << i)).sum();
    let each = bandwidths.iter().enumerate().map(|(i, b)| {
        let due = total * f64::from(1 << i) / shares;
        (b - due).abs() / due
    });
    // A run without any traffic has kept no share.
    if total > 0.0 {
        each.fold(0.0, f64::max)
    } else {
        1.0
    }
}

/// Bandwidth in each whole second.
fn by_second(record: &Record) -> Vec<f64> {
    let (Some(step), Some(series)) = (record.series_step_s, &record.series_mbps) else {
        return Vec::new();
    };
    let windows = (1.0 / step).round().max(1.0) as usize;
    let seconds = series.chunks_exact(windows);
    seconds
        .map(|s| s.iter().sum::<f64>() / windows as f64)
        .collect()
}

/// How far the clients with a limit were from it. The limit is in their names: `limit-5` may have 5 MB/s.
fn limits(clients: &[&Record]) -> (bool, String) {
    let limited = clients.iter().filter_map(|r| {
        let limit: f64 = r.client.strip_prefix("limit-")?.parse().ok()?;
        Some((limit, r.throughput_mbps))
    });
    let limited: Vec<(f64, f64)> = limited.collect();
    let off = limited
        .iter()
        .map(|(limit, got)| (got - limit).abs() / limit);
    let off = off.fold(0.0, f64::max);
    let each: Vec<String> = limited
        .iter()
        .map(|(limit, got)| format!("{} of {}", figure(*got), plain(*limit)))
        .collect();
    let text = format!(
        "Got {} MB/s: at most {} off.",
        each.join(", "),
        deviation(off)
    );
    (off <= 0.02, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client with ten promised seconds, of which so many were kept.
    fn client(name: &str, got: f64, kept: u64) -> Record {
        let short = 10 - kept;
        Record {
            client: name.into(),
            throughput_mbps: got,
            promised_mbps: Some(10.0),
            worst_second_mbps: Some(got * 0.9),
            promise_seconds: Some(PromiseSeconds {
                promised: 10,
                kept,
                short,
                why: [("others".to_owned(), short)].into(),
                ..PromiseSeconds::default()
            }),
            ..Record::default()
        }
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
            verdict(Scenario::Contract, &records)
        };
        let busy = "The drive was busy for 50% of the time.";
        let all = "Kept: everyone got what was promised in every second.";
        assert_eq!(verdict(11.0, 10, 10), (Fate::Kept, format!("{all} {busy}")));
        let (fate, text) = verdict(11.0, 10, 5);
        assert!(
            fate == Fate::Kept && text.contains("1 of the others"),
            "{text}"
        );
        let (fate, text) = verdict(11.0, 5, 10);
        assert!(
            fate == Fate::Broken && text.contains("not in every second: the worst had 9.90 MB/s"),
            "{text}"
        );
        let (fate, text) = verdict(0.9, 0, 10);
        assert!(
            fate == Fate::Broken
                && text.starts_with(
                    "The target got 9% of what it was promised: others had the drive."
                ),
            "{text}"
        );
    }

    #[test]
    fn what_a_client_does_not_get_alone_is_out_of_reach() {
        let target = Record {
            alone_mbps: Some(0.72),
            ..client("target", 0.64, 0)
        };
        let (fate, text) = verdict(Scenario::Contract, &[target]);
        assert_eq!(fate, Fate::OutOfReach);
        let said = "The target got 0.64 of 10 MB/s promised; alone it gets 0.72 MB/s";
        assert!(text.starts_with(said), "{text}");
    }

    #[test]
    fn shares_are_judged_over_the_run_and_in_the_worst_second() {
        let client = |share: u32, second: [f64; 2]| Record {
            client: format!("share-{share}"),
            throughput_mbps: second.iter().sum::<f64>() / 2.0,
            series_step_s: Some(0.5),
            series_mbps: Some(second.iter().flat_map(|s| [*s, *s]).collect()),
            ..Record::default()
        };
        let records = [
            client(1, [9.0, 11.0]),
            client(2, [20.0, 20.0]),
            client(4, [41.0, 39.0]),
            client(8, [80.0, 80.0]),
        ];
        let (fate, text) = verdict(Scenario::Shares, &records);
        assert_eq!(fate, Fate::Kept);
        assert_eq!(
            text,
            "Bandwidths are 1.00 : 2.00 : 4.00 : 8.00, 0.00% off over the run and 10.0% in the worst second."
        );
        assert!(off(&[0.0; 4]) > OFF);
    }

    #[test]
    fn limits_are_judged_by_the_names_of_the_clients() {
        let records = [
            client("limit-5", 4.95, 10),
            client("limit-10", 10.3, 10),
            client("unlimited", 99.0, 10),
        ];
        let (fate, text) = verdict(Scenario::Max, &records);
        assert_eq!(fate, Fate::Broken);
        assert_eq!(text, "Got 4.95 of 5, 10.30 of 10 MB/s: at most 3.00% off.");
    }
}
