//! Puts an explanation into sentences.

use crate::explain::explanation::{
    Explanation, LatencyPart, Neighbour, PromiseSummary, RequestStage,
};
use crate::number::{duration, figure, percent, plain};
use crate::promise::Cause;
use std::fmt;

/// The fraction of the latency below which a part is not mentioned.
const NOTICEABLE: f64 = 0.02;
/// The number of neighbours that are named. Others are summed up.
const NAMED: usize = 3;

/// The first sentence of an explanation: the latency of a request, and the place where it spends
/// most of that time.
#[derive(Clone, Copy, Debug)]
pub struct LatencySentence<'a> {
    /// The name of the client whose request it is.
    pub of: &'a str,
    /// The latency in microseconds.
    pub us: f64,
    /// The place where the request spends the largest part, such as `in the drive's queue`.
    pub place: &'a str,
    /// The fraction (0 to 1) of the latency spent there.
    pub part: f64,
    /// The requests that it is behind, such as `behind commands of the readers`. Empty if they are
    /// not mentioned.
    pub behind: &'a str,
}

impl fmt::Display for LatencySentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of,
            us,
            place,
            part,
            behind,
        } = *self;
        let (us, part) = (duration(us), percent(part));
        write!(
            f,
            "A request of {of} takes {us} and is {place} for {part} of it"
        )?;
        if !behind.is_empty() {
            write!(f, ", {behind}")?;
        }
        f.write_str(".")
    }
}

/// Joins words to a list: `a`, `a and b`, `a, b and c`.
pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The place of a request in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentencePlace {
    /// Throttled by its own max or that of its tenant.
    OwnMax,
    /// Throttled by another controller.
    Held,
    /// In the elevator while others are served.
    Elevator,
    /// In the elevator while the drive is kept free for another stream's next request.
    Idling,
    /// In the drive, which works on other requests.
    Queue,
    /// In the drive for longer than a drive of the stated capacity would take.
    SlowDrive,
    /// In the drive, which works on this request.
    Service,
    /// Waiting for this process to run.
    Late,
    /// Outside of the block layer: page cache, system calls.
    Host,
}

impl SentencePlace {
    /// Returns the place in words that can follow `is`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::OwnMax => "held by its own max",
            Self::Held => "held by a controller",
            Self::Elevator => "waiting in the elevator",
            Self::Idling => "waiting while the elevator idles",
            Self::Queue => "in the drive's queue",
            Self::SlowDrive => "in a drive slower than stated",
            Self::Service => "being served",
            Self::Late => "waiting for this process to run",
            Self::Host => "in the host",
        }
    }
}

/// Returns the place of a request during a part of its latency.
fn place(cause: Cause, stage: Option<RequestStage>) -> SentencePlace {
    match (cause, stage) {
        (Cause::OwnMax, _) => SentencePlace::OwnMax,
        (_, Some(RequestStage::Limit)) => SentencePlace::Held,
        (Cause::HostBusy, _) | (_, None) => SentencePlace::Late,
        (Cause::Idling, _) => SentencePlace::Idling,
        (Cause::SlowDrive, _) => SentencePlace::SlowDrive,
        (_, Some(RequestStage::Elevator)) => SentencePlace::Elevator,
        (Cause::OwnDepth, _) => SentencePlace::Service,
        (_, Some(RequestStage::Drive)) => SentencePlace::Queue,
    }
}

pub(crate) fn sentences(e: &Explanation) -> Vec<String> {
    let mut said = Vec::new();
    if e.requests == 0 {
        said.push(format!(
            "No request of {} was answered in {}.",
            e.volume,
            duration(e.seconds * 1e6)
        ));
    } else {
        said.push(latency_sentence(e));
        said.extend(neighbours_sentence(&e.neighbours, e.latency_us));
        said.extend(causes_sentence(e));
    }
    if e.errors > 0 {
        said.push(format!("The storage failed {} of its requests.", e.errors));
    }
    said.extend(
        e.promise
            .as_ref()
            .map(|promise| promise_sentence(e, promise)),
    );
    said.extend(e.promise.as_ref().and_then(unasked));
    said.extend(e.promise.as_ref().and_then(short_seconds_sentence));
    said.push(drive(e));
    said.extend(slowest(e));
    said.extend(waiting(e));
    said
}

/// Returns the sentence about the largest place, with all its causes.
fn latency_sentence(e: &Explanation) -> String {
    let mut places: Vec<(SentencePlace, f64)> = Vec::new();
    for part in &e.parts {
        let name = place(part.cause, part.stage);
        match places.iter_mut().find(|p| p.0 == name) {
            Some(found) => found.1 += part.fraction,
            None => places.push((name, part.fraction)),
        }
    }
    let largest = places.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (name, fraction) = largest.copied().unwrap_or((SentencePlace::Service, 1.0));
    let in_place = |part: &&LatencyPart| place(part.cause, part.stage) == name;
    let mut behind: Vec<String> = (e.parts.iter().filter(in_place))
        .filter(|part| part.fraction >= NOTICEABLE)
        .filter_map(|part| match (part.cause, &part.neighbour) {
            (Cause::Neighbour, Some(neighbour)) => Some(format!("requests of {neighbour}")),
            (Cause::Neighbour, None) => Some("requests of others".to_owned()),
            (Cause::OwnRequests, _) => Some("its own".to_owned()),
            _ => None,
        })
        .collect();
    if behind.len() > NAMED + 1 {
        behind.truncate(NAMED);
        behind.push("requests of more clients".to_owned());
    }
    let behind = list(&behind);
    let behind = if behind.is_empty() {
        behind
    } else {
        format!("behind {behind}")
    };
    let takes = LatencySentence {
        of: &e.volume,
        us: e.latency_us,
        place: name.words(),
        part: fraction,
        behind: &behind,
    };
    takes.to_string()
}

/// Returns the sentence about the time behind each neighbour.
fn neighbours_sentence(neighbours: &[Neighbour], latency_us: f64) -> Option<String> {
    let noticed = |us: f64| us >= NOTICEABLE * latency_us;
    let stood = |n: &Neighbour| {
        let stages = [
            (n.elevator_us, "in the elevator"),
            (n.drive_us, "in the drive"),
        ];
        let stages = stages.into_iter().filter(|s| noticed(s.0));
        let stages: Vec<String> = stages
            .map(|(us, at)| format!("{} {at}", duration(us)))
            .collect();
        format!(
            "those of {} for {} ({} of the drive's time)",
            n.name,
            list(&stages),
            percent(n.drive_part)
        )
    };
    let large: Vec<&Neighbour> = (neighbours.iter())
        .filter(|n| noticed(n.elevator_us + n.drive_us))
        .collect();
    // If only one neighbour would be left to sum up, it is named as well.
    let count = if large.len() > NAMED + 1 {
        NAMED
    } else {
        large.len()
    };
    let (named, rest) = large.split_at(count);
    let mut all: Vec<String> = named.iter().map(|n| stood(n)).collect();
    if !rest.is_empty() {
        let sum = |of: fn(&Neighbour) -> f64| rest.iter().map(|n| of(n)).sum();
        all.push(stood(&Neighbour {
            name: format!("{} others", rest.len()),
            elevator_us: sum(|n| n.elevator_us),
            drive_us: sum(|n| n.drive_us),
            drive_part: sum(|n| n.drive_part),
        }));
    }
    (!all.is_empty()).then(|| format!("Before it stand {}.", list(&all)))
}

/// Returns the sentence about causes other than neighbours.
fn causes_sentence(e: &Explanation) -> Option<String> {
    let causes = [
        (Cause::OwnMax, SentencePlace::OwnMax.words()),
        (
            Cause::Held,
            "held by a controller or because its client does not read its answers",
        ),
        (Cause::OwnRequests, "behind its own requests"),
        (Cause::Idling, "waiting while the drive is kept free"),
        (Cause::SlowDrive, SentencePlace::SlowDrive.words()),
        (Cause::HostBusy, SentencePlace::Late.words()),
        (Cause::OwnDepth, SentencePlace::Service.words()),
    ];
    let all: Vec<String> = causes
        .into_iter()
        .filter_map(|(cause, words)| {
            let us = e.caused_by(cause);
            let part = us / e.latency_us;
            (part >= NOTICEABLE)
                .then(|| format!("{words} for {} ({})", duration(us), percent(part)))
        })
        .collect();
    (!all.is_empty()).then(|| format!("It is {}.", list(&all)))
}

fn amount(value: u64, units: &str) -> String {
    if units == "bytes" {
        format!("{} MB", plain(value as f64 / 1e6))
    } else {
        format!("{value} requests")
    }
}

fn promise_sentence(e: &Explanation, promise: &PromiseSummary) -> String {
    let short = promise.all_short();
    let excused: Vec<String> = promise
        .excused
        .iter()
        .map(|(why, n)| format!("{n} {why}"))
        .collect();
    let mut text = format!(
        "Of {} seconds in which {} was promised {} a second, {} were kept",
        promise.promised,
        e.volume,
        amount(promise.a_second, &promise.units),
        promise.kept
    );
    if !excused.is_empty() {
        text = format!("{text}, excused {}", list(&excused));
    }
    format!("{text} and {short} were short.")
}

/// Returns the sentence about the time in which the client had no request outstanding.
fn unasked(promise: &PromiseSummary) -> Option<String> {
    (promise.unasked > 0).then(|| {
        format!(
            "Its client had nothing outstanding for {} of the time and did not ask for all that is promised.",
            percent(promise.idle)
        )
    })
}

fn short_seconds_sentence(promise: &PromiseSummary) -> Option<String> {
    let causes: Vec<String> = (promise.short.iter())
        .map(|short| {
            let by = short.cause.by(short.neighbour.as_deref());
            format!("{} by {by}", short.seconds)
        })
        .collect();
    let last = promise.last_short.last()?;
    let did = last.drive_did.map_or_else(String::new, |did| {
        format!("; the drive did {} of what is stated", percent(did))
    });
    Some(format!(
        "The short seconds: {}; the last one, {} ago, lacks {} of {}{did}.",
        list(&causes),
        duration(last.ago_s * 1e6),
        amount(last.by, &promise.units),
        amount(last.owed, &promise.units),
    ))
}

fn drive(e: &Explanation) -> String {
    let drive = &e.drive;
    let mut text = format!(
        "The drive is busy for {} of the time and does {} MB/s in {:.0} pieces a second",
        percent(drive.busy),
        figure(drive.bandwidth_mb_per_s),
        drive.iops
    );
    if let Some(did) = drive.did {
        let said = if did < 1.0 {
            let did = percent(did);
            format!("{did} of what is stated of it, in seconds in which requests wait for it")
        } else {
            "no less than is stated of it".to_owned()
        };
        text = format!("{text}: {said}");
    }
    if drive.late >= NOTICEABLE / 2.0 {
        let late = percent(drive.late);
        text = format!("{text}; this process is late for {late} of the time");
    }
    text + "."
}

fn slowest(e: &Explanation) -> Option<String> {
    let slowest = e.slowest.as_ref()?;
    Some(format!(
        "The slowest request ended {} ago and took {}: {} held, {} in the elevator, {} in the drive.",
        duration(slowest.ago_s * 1e6),
        duration(slowest.us),
        duration(slowest.limit_us),
        duration(slowest.elevator_us),
        duration(slowest.drive_us)
    ))
}

fn waiting(e: &Explanation) -> Option<String> {
    let waiting = e.waiting.as_ref()?;
    let held = match waiting.held {
        0 => String::new(),
        held => format!(", {held} of them held"),
    };
    Some(format!(
        "Now {} of its requests are not over{held}; the oldest has been there for {}.",
        waiting.requests,
        duration(waiting.oldest_us)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_many_neighbours_are_named_and_the_rest_is_summed() {
        let neighbour = |n: usize| Neighbour {
            name: format!("n{n}"),
            elevator_us: 100.0,
            drive_us: 0.0,
            drive_part: 0.1,
        };
        let said = |count| {
            let all: Vec<Neighbour> = (1..=count).map(neighbour).collect();
            neighbours_sentence(&all, 1_000.0).expect("they are noticed")
        };
        assert!(said(4).contains("those of n4 for 100 us in the elevator (10% "));
        let five = said(5);
        assert!(five.contains("those of n3 for 100 us") && !five.contains("n4"));
        assert!(five.contains("those of 2 others for 200 us in the elevator (20% "));
    }
}
