//! States the fate of promises in words. Whether a promise was kept is decided in
//! [`weir_measure::promise`].

use weir_measure::number::{figure, percent, plain};
use weir_measure::promise::{Cause, Excuse, Fate};
use weir_measure::{PromiseSeconds, Record};

/// Returns the fate of the target's promise, and a text on this promise and on the broken promises
/// of other clients.
pub(super) fn target(clients: &[&Record], name: &str) -> (Fate, String) {
    let Some(target) = clients.iter().find(|r| r.client == name) else {
        // Without a record, the target took no part in the run.
        return (Fate::Broken, format!("The {name} got nothing."));
    };
    let others: Vec<&Record> = failed(clients).filter(|r| r.client != name).collect();
    let (fate, rest) = (target.fate(), describe_clients(&others));
    let text = match fate {
        Fate::NotAsked => format!("Nothing is promised to the {name}."),
        Fate::Kept if others.is_empty() => kept(clients),
        Fate::Kept => format!("The {name}'s promise was kept in every second. {rest}"),
        _ => format!("The {name} {}. {rest}", describe_fate(target)),
    };
    (fate, text.trim_end().to_owned())
}

/// Returns the worst fate of all promises, and a text on those that were broken.
pub(super) fn everyone(clients: &[&Record]) -> (Fate, String) {
    let promised = || clients.iter().filter(|r| r.fate() != Fate::NotAsked);
    let fate = promised()
        .map(|r| r.fate())
        .fold(Fate::NotAsked, Fate::worse);
    let broken: Vec<&Record> = failed(clients).collect();
    let (all, short) = (promised().count(), broken.len());
    let text = match (all, short) {
        (0, _) => "Nothing is promised to anyone.".to_owned(),
        (_, 0) => kept(clients),
        _ => format!(
            "{} of {all} promises were kept. {}",
            all - short,
            describe_clients(&broken)
        ),
    };
    (fate, text)
}

/// Returns the text for a run in which all promises were kept. It mentions clients that did not use
/// all that they are promised.
fn kept(clients: &[&Record]) -> String {
    let idle = |r: &&Record| Some((r.client.clone(), r.promise_seconds.as_ref()?.idle()?));
    let idle: Vec<(String, f64)> = clients.iter().filter_map(idle).collect();
    let kept = "Kept: everyone got what was promised in every second";
    match &idle[..] {
        [] => format!("{kept}."),
        [(name, idle)] => format!(
            "{kept} for the time in which it asked. {name} had nothing outstanding for {} of the time.",
            percent(*idle)
        ),
        [(name, idle), rest @ ..] => format!(
            "{kept} for the time in which it asked. {name} had nothing outstanding for {} of the time, and {} more did not ask for all either.",
            percent(*idle),
            rest.len()
        ),
    }
}

/// Returns the clients whose promise was broken.
fn failed<'a>(clients: &[&'a Record]) -> impl Iterator<Item = &'a Record> {
    clients.iter().copied().filter(|r| r.fate().is_failure())
}

/// The largest number of clients that a text mentions by name.
const NAMED: usize = 4;

/// Returns a sentence on the promise of each client, and the number of clients that are not
/// mentioned.
fn describe_clients(clients: &[&Record]) -> String {
    let sentences = clients.iter().take(NAMED);
    let sentences = sentences.map(|r| format!("{} {}.", r.client, describe_fate(r)));
    let rest = clients.len().saturating_sub(NAMED);
    let rest = (rest > 0).then(|| format!("So did {rest} more."));
    sentences.chain(rest).collect::<Vec<_>>().join(" ")
}

/// Returns the fate of a client's broken promise in this run, without the client's name.
fn describe_fate(record: &Record) -> String {
    let seconds = record.promise_seconds.as_ref();
    describe_broken(
        record,
        seconds.map_or((0, 0), |s| (s.short, s.short + s.kept)),
    )
}

/// Returns the fate of a broken promise: its short seconds, the amounts and the cause.
///
/// The pair has the number of short seconds and the number of seconds in which the promise applied,
/// in this run, or in several runs of which this is the worst.
pub(crate) fn describe_broken(record: &Record, (short, applied): (u64, u64)) -> String {
    let seconds = record.promise_seconds.clone().unwrap_or_default();
    if record.fate() == Fate::NotJudged {
        return "was not judged: the run has no whole second".to_owned();
    }
    if record.fate() == Fate::Invalid {
        return "was not judged: the machine was too busy".to_owned();
    }
    let depth = seconds.excused_as(Excuse::Depth);
    // No second is short, and some are excused by the client's own queue depth.
    if seconds.short == 0 && depth > 0 {
        return format!(
            "got {} of what it was promised; it was limited by itself: by its path to the server and its requests at a time",
            percent(got(record))
        );
    }
    let beyond = record
        .alone_mb_per_s
        .filter(|_| record.fate() == Fate::OutOfReach);
    if let Some(alone) = beyond {
        return format!(
            "got {} of {} promised; alone it gets {} MB/s, and no policy can give it more",
            figure(record.bandwidth_mb_per_s),
            promised(record),
            figure(alone)
        );
    }
    let worst = seconds.worst().map_or_else(String::new, |worst| {
        format!(
            ", at worst {} of what it was owed (second {})",
            percent(worst.part()),
            // Seconds are counted from 0 in records, and from 1 in texts.
            worst.second + 1
        )
    });
    let why = main_cause(&seconds);
    format!(
        "got {} of {} promised and fell short in {short} of {applied} s{worst}{why}",
        amount(record),
        promised(record)
    )
}

/// Returns the fraction of its promise that a client got.
fn got(record: &Record) -> f64 {
    match (record.promised_mb_per_s, record.promised_iops) {
        (Some(mb_per_s), _) if mb_per_s > 0.0 => record.bandwidth_mb_per_s / mb_per_s,
        (_, Some(iops)) if iops > 0 => iops_of(record) / iops as f64,
        _ => 1.0,
    }
}

/// Returns the amount that a client got, in the unit of its promise.
fn amount(record: &Record) -> String {
    match record.promised_iops {
        Some(_) => format!("{:.0}", iops_of(record)),
        None => figure(record.bandwidth_mb_per_s),
    }
}

/// Returns the requests per second that count for a promise. Flushes do not count.
fn iops_of(record: &Record) -> f64 {
    let flushes = record.flushes.map_or(0, |flushes| flushes.requests);
    (record.requests - flushes) as f64 / record.seconds.max(1e-9)
}

/// Returns the promise of a client, with its unit.
fn promised(record: &Record) -> String {
    match (record.promised_mb_per_s, record.promised_iops) {
        (_, Some(iops)) => format!("{iops} requests/s"),
        (mb_per_s, None) => format!("{} MB/s", plain(mb_per_s.unwrap_or(0.0))),
    }
}

/// Returns the most frequent cause of short seconds, as the end of a sentence.
fn main_cause(seconds: &PromiseSeconds) -> String {
    let main = seconds.main_short();
    let neighbour = seconds.main_neighbour();
    // Only these causes refer to a certain neighbour.
    let neighbour =
        neighbour.filter(|_| matches!(main, Some(Cause::Neighbour | Cause::ServerBusy)));
    main.map_or_else(String::new, |cause| {
        format!(", because of {}", cause.by(neighbour))
    })
}
