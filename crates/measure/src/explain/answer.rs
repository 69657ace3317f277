//! Computes an explanation from the contents of a journal.

use crate::SECOND_NS;
use crate::explain::explanation::{
    CauseSeconds, DriveSummary, ExplainedShortSecond, Explanation, LatencyPart, Neighbour,
    PromiseSummary, RequestStage, SlowestRequest,
};
use crate::explain::rows::DriveSecond;
use crate::explain::say;
use crate::explain::slice::{GroupSecond, Times, exact_from, slices};
use crate::explain::view::JournalSnapshot;
use crate::promise::{Blame, Cause, Excuse, PromiseVerdict, Units};
use std::collections::BTreeMap;
use weir_core::{GroupId, Span};

/// The maximum number of neighbours that are named.
const NAMED: usize = 8;
/// The maximum number of short seconds that are listed.
const LISTED: usize = 32;

pub(crate) fn explain(
    view: &JournalSnapshot,
    since: Option<Span>,
    name: &dyn Fn(GroupId) -> String,
) -> Explanation {
    let from = first_second(view, since);
    let slices = slices(view, from);
    let began = u64::from(from) * SECOND_NS;
    let seconds = view.now.saturating_sub(began) as f64 / 1e9;
    let requests: u64 = slices.values().map(|s| u64::from(s.own.requests)).sum();
    let mut times = Times::new();
    for slice in slices.values() {
        slice
            .times
            .iter()
            .for_each(|(at, time)| *times.entry(*at).or_default() += time);
    }
    let parts = parts(&times, requests, name);
    let busy: u64 = slices.values().map(|s| s.drive.busy).sum();
    let neighbours = neighbours(view, &times, (requests, busy, from), name);
    let promise = promise(view, from, &slices, name);
    let cause = cause(&parts, promise.as_ref());
    let mut explanation = Explanation {
        volume: name(view.group),
        seconds,
        exact_s: view.now.saturating_sub(exact_from(view).max(began)) as f64 / 1e9,
        requests,
        errors: slices.values().map(|s| u64::from(s.own.errors)).sum(),
        bandwidth_mb_per_s: rate(slices.values().map(|s| s.own.bytes).sum(), seconds) / 1e6,
        // The sum of an empty iterator is a negative zero.
        latency_us: parts.iter().map(|part| part.us).sum::<f64>() + 0.0,
        parts,
        neighbours,
        promise,
        drive: drive_seen(&slices, seconds),
        slowest: slowest(view, began),
        waiting: view.waiting.clone(),
        cause,
        said: Vec::new(),
    };
    explanation.said = say::sentences(&explanation);
    explanation
}

fn rate(amount: u64, seconds: f64) -> f64 {
    // An empty period must not cause a division by zero.
    amount as f64 / seconds.max(1e-9)
}

/// Returns the first second that is explained.
fn first_second(view: &JournalSnapshot, since: Option<Span>) -> u32 {
    let known = view.seconds.iter().map(|s| s.second).min().unwrap_or(0);
    let asked = since.map_or(0, |since| {
        (view.now.saturating_sub(since.as_nanos()) / SECOND_NS) as u32
    });
    // The second in which the group was created is left out, because the group's number may have
    // been another's before.
    let begun = view.groups.get(view.group).map_or(0, |terms| terms.since);
    known.max(asked).max(begun.div_ceil(SECOND_NS) as u32)
}

/// Returns the parts of the mean request, the largest first.
fn parts(times: &Times, requests: u64, name: &dyn Fn(GroupId) -> String) -> Vec<LatencyPart> {
    let total: f64 = times.values().sum();
    let mut sorted: Vec<_> = times.iter().filter(|t| *t.1 > 0.0).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1));
    let mut named: Vec<u32> = Vec::new();
    let mut rest: BTreeMap<Option<RequestStage>, f64> = BTreeMap::new();
    let mut parts = Vec::new();
    let part = |cause, stage, neighbour: Option<String>, time: f64| LatencyPart {
        cause,
        stage,
        neighbour,
        us: time / requests.max(1) as f64 / 1e3,
        fraction: time / total,
    };
    for ((cause, stage, neighbour), time) in sorted {
        if let Some(group) = neighbour {
            if !named.contains(group) && named.len() == NAMED {
                // The times behind further neighbours are added up, per stage, in parts without a
                // name.
                *rest.entry(*stage).or_default() += time;
                continue;
            }
            if !named.contains(group) {
                named.push(*group);
            }
        }
        let neighbour = neighbour.map(|group| name(GroupId(group)));
        parts.push(part(*cause, *stage, neighbour, *time));
    }
    let rest = rest.into_iter();
    parts.extend(rest.map(|(stage, time)| part(Cause::Neighbour, stage, None, time)));
    parts.sort_by(|a, b| b.us.total_cmp(&a.us));
    parts
}

fn neighbours(
    view: &JournalSnapshot,
    times: &Times,
    (requests, busy, from): (u64, u64, u32),
    name: &dyn Fn(GroupId) -> String,
) -> Vec<Neighbour> {
    let mut all: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for ((_, stage, neighbour), time) in times {
        if let Some(group) = neighbour {
            let place = usize::from(*stage == Some(RequestStage::Drive));
            all.entry(*group).or_default()[place] += time;
        }
    }
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_by(|(_, a), (_, b)| (b[0] + b[1]).total_cmp(&(a[0] + a[1])));
    sorted.truncate(NAMED);
    let mut shares: BTreeMap<u32, u64> = sorted.iter().map(|n| (n.0, 0)).collect();
    for row in view.rows.iter().filter(|r| r.second >= from) {
        if let Some(share) = shares.get_mut(&row.group) {
            *share += row.share;
        }
    }
    let us = |time: f64| time / requests.max(1) as f64 / 1e3;
    let neighbour = |(group, [elevator, drive]): (u32, [f64; 2])| Neighbour {
        name: name(GroupId(group)),
        elevator_us: us(elevator),
        drive_us: us(drive),
        drive_part: (shares[&group] as f64 / busy.max(1) as f64).min(1.0),
    };
    sorted.into_iter().map(neighbour).collect()
}

fn promise(
    view: &JournalSnapshot,
    from: u32,
    slices: &BTreeMap<u32, GroupSecond>,
    name: &dyn Fn(GroupId) -> String,
) -> Option<PromiseSummary> {
    let ruled = view.ruled.iter();
    let ruled = ruled.filter(|r| r.group == view.group.0 && r.second >= from);
    let last = ruled.clone().next_back()?;
    let mut excused = [0; Excuse::ALL.len()];
    let mut causes: BTreeMap<(Cause, Option<u32>), u64> = BTreeMap::new();
    let (mut promised, mut kept, mut last_short) = (0, 0, Vec::new());
    let (mut waited, mut unasked) = (0, 0);
    for second in ruled {
        promised += 1;
        waited += second.waited;
        unasked += u64::from(second.unasked);
        match second.verdict {
            PromiseVerdict::Kept => kept += 1,
            PromiseVerdict::Excused(why) => excused[why as usize] += 1,
            PromiseVerdict::Short { by, why } => {
                let Blame { cause, neighbour } = why;
                *causes.entry((cause, neighbour)).or_default() += 1;
                let ends = (u64::from(second.second) + 1) * SECOND_NS;
                let slice = slices.get(&second.second);
                last_short.push(ExplainedShortSecond {
                    ago_s: view.now.saturating_sub(ends) as f64 / 1e9,
                    owed: second.owed,
                    by,
                    cause,
                    neighbour: neighbour.map(|group| name(GroupId(group))),
                    drive_did: slice
                        .and_then(|s| s.did)
                        .filter(|_| cause == Cause::SlowDrive),
                });
            }
        }
    }
    last_short.drain(..last_short.len().saturating_sub(LISTED));
    let mut short: Vec<CauseSeconds> = causes
        .into_iter()
        .map(|((cause, neighbour), seconds)| CauseSeconds {
            cause,
            neighbour: neighbour.map(|group| name(GroupId(group))),
            seconds,
        })
        .collect();
    short.sort_by_key(|s| std::cmp::Reverse(s.seconds));
    let excused = Excuse::ALL.into_iter().zip(excused).filter(|e| e.1 > 0);
    Some(PromiseSummary {
        a_second: last.a_second,
        units: match last.units {
            Units::Bytes => "bytes".to_owned(),
            Units::Requests => "requests".to_owned(),
        },
        promised,
        kept,
        unasked,
        idle: 1.0 - waited as f64 / (promised * SECOND_NS) as f64,
        excused: excused.map(|(why, n)| (why.name().to_owned(), n)).collect(),
        short,
        last_short,
    })
}

/// Returns the cause of most of the short seconds.
///
/// Without short seconds, it is the cause of most seconds in which the promise did not apply or in
/// which the client did not request all of it, if these seconds are more than half. Otherwise, it
/// is the cause of the largest part of the latency.
fn cause(parts: &[LatencyPart], promise: Option<&PromiseSummary>) -> Option<Cause> {
    let mut causes: BTreeMap<Cause, f64> = BTreeMap::new();
    let short = promise.map(|p| &p.short[..]).unwrap_or_default();
    for seconds in short {
        *causes.entry(seconds.cause).or_default() += seconds.seconds as f64;
    }
    if let (Some(of), true) = (promise, causes.is_empty()) {
        let mut quiet: BTreeMap<Cause, u64> = BTreeMap::new();
        *quiet.entry(Cause::ClientIdle).or_default() += of.unasked;
        for why in Excuse::ALL {
            let seconds = of.excused.get(why.name()).copied().unwrap_or(0);
            *quiet.entry(why.cause()).or_default() += seconds;
        }
        let most = quiet.into_iter().max_by_key(|(_, seconds)| *seconds);
        if let Some((cause, _)) = most.filter(|(_, seconds)| 2 * seconds > of.promised) {
            return Some(cause);
        }
    }
    if causes.is_empty() {
        for part in parts {
            *causes.entry(part.cause).or_default() += part.us;
        }
    }
    let largest = causes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    largest.map(|(cause, _)| cause)
}

fn drive_seen(slices: &BTreeMap<u32, GroupSecond>, seconds: f64) -> DriveSummary {
    let sum = |of: fn(&DriveSecond) -> u64| slices.values().map(|s| of(&s.drive)).sum::<u64>();
    let waited: Vec<f64> = slices.values().filter_map(|s| s.did).collect();
    DriveSummary {
        busy: (rate(sum(|d| d.busy), seconds) / 1e9).min(1.0),
        bandwidth_mb_per_s: rate(sum(|d| d.bytes), seconds) / 1e6,
        iops: rate(sum(|d| d.pieces), seconds),
        did: (!waited.is_empty()).then(|| waited.iter().sum::<f64>() / waited.len() as f64),
        late: (rate(sum(|d| d.late), seconds) / 1e9).min(1.0),
    }
}

fn slowest(view: &JournalSnapshot, began: u64) -> Option<SlowestRequest> {
    let own = |group: u32| view.groups.is_within(GroupId(group), view.group);
    let requests = view.requests.iter();
    let requests = requests.filter(|r| own(r.group) && r.stages()[2] >= began);
    let slowest = requests.max_by_key(|r| r.latency())?;
    let us = |ns: u64| ns as f64 / 1e3;
    Some(SlowestRequest {
        ago_s: view.now.saturating_sub(slowest.stages()[2]) as f64 / 1e9,
        us: us(slowest.latency()),
        limit_us: us(slowest.limit.ns()),
        elevator_us: us(slowest.elevator.ns()),
        drive_us: us(slowest.drive.ns()),
        bytes: slowest.bytes.into(),
    })
}
