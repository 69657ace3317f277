//! What the figures of a run mean: who was limited by what, and whether promises were kept.

use super::Scenario;
use weir_load::{Program, Size};
use weir_measure::{LimitedBy, Record, TOTAL};
use weir_report::number::{deviation, figure, percent, plain};

/// What limited a client: as [`LimitedBy::of`], but a client whose promise could not be kept even if the drive did nothing else is
/// limited by itself.
///
/// `unloaded_us` is the time that a request takes on the idle drive, `least_us` the shortest latency that the client ever saw.
/// `None` where it is not known where the time went.
pub(crate) fn limited_by(
    record: &Record,
    program: &Program,
    unloaded_us: f64,
    least_us: f64,
) -> Option<LimitedBy> {
    let split = record.split_us.as_ref()?;
    let latency = record.latency_us.mean;
    let places = f64::from(program.depth) * record.seconds * 1e6;
    let think = (places / record.requests.max(1) as f64 - latency).max(0.0);
    let path = (latency - split.total()).max(0.0);
    // A busy machine makes the path longer than it need be: what went faster once is possible.
    let least = think + (path + unloaded_us).min(least_us);
    let reach = f64::from(program.depth) * largest(program) / least;
    match record.promised_mbps {
        // Bytes a microsecond are MB/s.
        Some(promised) if reach < promised => Some(LimitedBy::Client),
        _ => Some(LimitedBy::of(split, latency, think)),
    }
}

/// Bytes of a program's largest request.
pub(crate) fn largest(program: &Program) -> f64 {
    match program.size {
        Size::Fixed(size) => size.into(),
        Size::Range { max, .. } => max.into(),
    }
}

/// Whether a policy did what the scenario is about, and what came of it in a sentence.
///
/// `used` is the part of the drive that was used.
pub(crate) fn verdict(scenario: Scenario, records: &[Record], used: Option<f64>) -> (bool, String) {
    let clients: Vec<&Record> = records.iter().filter(|r| r.client != TOTAL).collect();
    let (kept, text) = match scenario {
        Scenario::Contract => target(&clients, scenario.target()),
        Scenario::EqualReaders => everyone(&clients),
        Scenario::Shares => shares(&clients),
        Scenario::Max => limits(&clients),
    };
    let used = used.map(|u| format!(" {} of the drive was used.", percent(u)));
    (kept, text + &used.unwrap_or_default())
}

/// Whether the target got what it was promised, and then whether the others did.
fn target(clients: &[&Record], name: &str) -> (bool, String) {
    let Some(target) = clients.iter().find(|r| r.client == name) else {
        return (false, format!("The {name} got nothing."));
    };
    let promised = target.promised_mbps.unwrap_or(0.0);
    let others = clients.iter().filter(|r| r.client != name);
    let short = others.filter(|r| !met(r)).count();
    let got = target.throughput_mbps;
    if target.limited_by == Some(LimitedBy::Client) && got < promised {
        let text = format!(
            "The {name} got {} of what it was promised; it was limited by itself: by its path to the server and its one request at \
             a time.",
            percent(got / promised)
        );
        return (false, text);
    }
    match (met(target), short) {
        (true, 0) => (
            true,
            "Kept: everyone got what was promised in every second.".into(),
        ),
        (true, n) => (
            true,
            format!(
                "The {name}'s promise was kept in every second; {n} of the others fell short of theirs."
            ),
        ),
        (false, _) if got >= promised => (
            false,
            format!(
                "Enough for the {name} on average, but not in every second: the worst had {} MB/s.",
                figure(target.worst_second_mbps.unwrap_or(0.0))
            ),
        ),
        (false, _) => (
            false,
            format!(
                "The {name} got {} of what it was promised.",
                percent(got / promised)
            ),
        ),
    }
}

fn everyone(clients: &[&Record]) -> (bool, String) {
    let kept = clients.iter().filter(|r| met(r)).count();
    let text = if kept == clients.len() {
        "Kept: everyone got what was promised in every second.".to_owned()
    } else {
        format!(
            "{kept} of {} got what they were promised in every second.",
            clients.len()
        )
    };
    (kept == clients.len(), text)
}

/// True if the promise was kept in every second in which it was in force.
fn met(record: &Record) -> bool {
    record.windows_met.is_some_and(|part| part >= 1.0)
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
    use weir_measure::{Latency, SplitUs};

    fn client(name: &str, got: f64, met: f64) -> Record {
        Record {
            client: name.into(),
            throughput_mbps: got,
            promised_mbps: Some(10.0),
            worst_second_mbps: Some(got * 0.9),
            windows_met: Some(met),
            ..Record::default()
        }
    }

    #[test]
    fn the_target_comes_first_in_the_verdict() {
        let verdict = |target: f64, met: f64, others: f64| {
            let records = [
                client("target", target, met),
                client("reader-01", 12.0, others),
                client(TOTAL, 1.0, 0.0),
            ];
            verdict(Scenario::Contract, &records, Some(0.5))
        };
        let used = "50% of the drive was used.";
        let all = "Kept: everyone got what was promised in every second.";
        assert_eq!(verdict(11.0, 1.0, 1.0), (true, format!("{all} {used}")));
        let (kept, text) = verdict(11.0, 1.0, 0.5);
        assert!(kept && text.contains("1 of the others"), "{text}");
        let (kept, text) = verdict(11.0, 0.5, 1.0);
        assert!(
            !kept && text.contains("not in every second: the worst had 9.90 MB/s"),
            "{text}"
        );
        let (kept, text) = verdict(0.9, 0.0, 1.0);
        assert!(
            !kept && text.starts_with("The target got 9% of what it was promised."),
            "{text}"
        );
    }

    #[test]
    fn a_client_whose_path_is_too_long_is_limited_by_itself() {
        let program = Program::random_reads(4096, 1);
        let record = |latency: f64, split: SplitUs| Record {
            requests: (1e6 / latency) as u64,
            seconds: 1.0,
            latency_us: Latency {
                mean: latency,
                ..Latency::default()
            },
            split_us: Some(split),
            ..client("target", 4096.0 / latency, 0.0)
        };
        let drive = |elevator, drive| SplitUs {
            limit: 0.0,
            elevator,
            drive,
            ..SplitUs::default()
        };
        // 500 us between client and server: 8 MB/s at best, whatever waited in the elevator.
        let far = record(1200.0, drive(650.0, 50.0));
        assert_eq!(
            limited_by(&far, &program, 46.0, 546.0),
            Some(LimitedBy::Client)
        );
        // It was faster once: then it is the load that makes the path so long.
        let busy = limited_by(&far, &program, 46.0, 90.0);
        assert_eq!(busy, Some(LimitedBy::Share));
        let near = record(700.0, drive(600.0, 50.0));
        assert_eq!(
            limited_by(&near, &program, 46.0, 96.0),
            Some(LimitedBy::Share)
        );
        let unknown = Record {
            split_us: None,
            ..near
        };
        assert_eq!(limited_by(&unknown, &program, 46.0, 96.0), None);
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
        let (kept, text) = verdict(Scenario::Shares, &records, None);
        assert!(kept);
        assert_eq!(
            text,
            "Bandwidths are 1.00 : 2.00 : 4.00 : 8.00, 0.00% off over the run and 10.0% in the worst second."
        );
        assert!(off(&[0.0; 4]) > OFF);
    }

    #[test]
    fn limits_are_judged_by_the_names_of_the_clients() {
        let records = [
            client("limit-5", 4.95, 1.0),
            client("limit-10", 10.3, 1.0),
            client("unlimited", 99.0, 1.0),
        ];
        let (kept, text) = verdict(Scenario::Max, &records, None);
        assert!(!kept);
        assert_eq!(text, "Got 4.95 of 5, 10.30 of 10 MB/s: at most 3.00% off.");
    }
}
