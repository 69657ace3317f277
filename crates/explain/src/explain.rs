//! From what a journal kept to an explanation.

use crate::explanation::{
    Cause, CauseSeconds, DriveSeen, Explanation, Neighbour, Part, Promised, ShortSecond, Slowest,
    Stage,
};
use crate::rows::{Piece, Row, Ruled, Second};
use crate::say;
use crate::share::Share;
use crate::sweep::{Divided, divide};
use crate::view::View;
use std::collections::BTreeMap;
use weir_core::{GroupId, Span};
use weir_measure::SECOND_NS;
use weir_measure::promise::{Excuse, Short, Units, Verdict};

/// Neighbours that are named.
const NAMED: usize = 8;
/// Short seconds that are listed.
const LISTED: usize = 32;
/// A drive that does this part of what is stated of it can keep what was promised: promises are at most nine tenths of it.
const ENOUGH: f64 = 0.9;

/// Time by cause, stage and neighbour, nanoseconds.
type Times = BTreeMap<(Cause, Option<Stage>, Option<u32>), f64>;

/// What is known of the group in one second.
#[derive(Debug, Default)]
struct Slice {
    own: Row,
    drive: Second,
    times: Times,
    /// What the drive did of what is stated of it, if requests waited for it.
    did: Option<f64>,
}

pub(crate) fn explain(
    view: &View,
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
        mbps: rate(slices.values().map(|s| s.own.bytes).sum(), seconds) / 1e6,
        // A sum of nothing is a negative zero.
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
    amount as f64 / seconds.max(1e-9)
}

/// The first second that is explained.
fn first_second(view: &View, since: Option<Span>) -> u32 {
    let known = view.seconds.iter().map(|s| s.second).min().unwrap_or(0);
    let asked = since.map_or(0, |since| {
        (view.now.saturating_sub(since.as_nanos()) / SECOND_NS) as u32
    });
    // In the second in which the group began, its number may have been another's.
    let begun = view.groups.get(view.group).map_or(0, |terms| terms.since);
    known.max(asked).max(begun.div_ceil(SECOND_NS) as u32)
}

/// From when on every piece and request is known.
fn exact_from(view: &View) -> u64 {
    let requests = view
        .requests
        .iter()
        .next()
        .filter(|_| view.requests.wrapped);
    let requests = requests.map_or(0, |r| r.stages()[2]);
    let pieces = view.pieces.iter().next().filter(|_| view.pieces.wrapped);
    requests.max(pieces.map_or(0, Piece::to))
}

/// Every second from `from` on, with what became of the group's time in it.
fn slices(view: &View, from: u32) -> BTreeMap<u32, Slice> {
    let own =
        |group: u32| view.groups.is_within(GroupId(group), view.group) || group == view.group.0;
    let mut slices: BTreeMap<u32, Slice> = BTreeMap::new();
    for second in view.seconds.iter().filter(|s| s.second >= from) {
        slices.entry(second.second).or_default().drive = *second;
    }
    // How the groups shared the drive, where single pieces are not known any more.
    let exact = exact_from(view);
    let mut shares: BTreeMap<u32, Share> = BTreeMap::new();
    for row in view.rows.iter().filter(|r| r.second >= from) {
        if own(row.group) {
            let slice = slices.entry(row.second).or_default();
            (slice.drive.second, slice.own) = (row.second, slice.own.and(row));
        }
        if u64::from(row.second) * SECOND_NS < exact {
            shares
                .entry(row.second)
                .or_default()
                .add(row.group, row.share as f64);
        }
    }
    let requests = view.requests.iter().filter(|r| own(r.group));
    let since = exact.max(u64::from(from) * SECOND_NS);
    let divided = divide(since, requests, view.pieces.iter(), &view.late);
    let mut overall = Divided::default();
    for second in divided.values() {
        overall.elevator.merge(&second.elevator);
        overall.drive.merge(&second.drive);
    }
    for (second, slice) in &mut slices {
        let by_rows = shares
            .get(second)
            .map(|shares| by_shares(slice, shares, &own));
        let by_pieces = || divided.get(second).cloned().unwrap_or_default();
        let mut time = by_rows.unwrap_or_else(by_pieces);
        // What ended in this second may have waited in others only.
        if time.elevator.total() <= 0.0 {
            time.elevator = overall.elevator.clone();
        }
        if time.drive.total() <= 0.0 {
            time.drive = overall.drive.clone();
        }
        slice.divide(view, &time, &own);
    }
    slices
}

impl Row {
    /// The sum with another row of the same second.
    fn and(&self, other: &Self) -> Self {
        Self {
            second: other.second,
            group: other.group,
            requests: self.requests + other.requests,
            errors: self.errors + other.errors,
            bytes: self.bytes + other.bytes,
            limit: self.limit + other.limit,
            elevator: self.elevator + other.elevator,
            drive: self.drive + other.drive,
            late: self.late + other.late,
            share: self.share + other.share,
            service: self.service + other.service,
        }
    }
}

/// How a second's time is divided where only the groups' parts of the drive are known.
fn by_shares(slice: &Slice, shares: &Share, own: &dyn Fn(u32) -> bool) -> Divided {
    let mut elevator = shares.clone();
    elevator.idle = (SECOND_NS.saturating_sub(slice.drive.busy)) as f64;
    let mut drive = Share::default();
    for (group, share) in shares.groups() {
        drive.add(group, share);
    }
    // Of the requests that a client has in the drive, all but one stand before its next.
    let depth = slice.own.drive as f64 / SECOND_NS as f64;
    if depth > 0.0 {
        let (count, mine): (f64, f64) = shares
            .groups()
            .filter(|(group, _)| own(*group))
            .fold((0.0, 0.0), |(n, sum), (_, share)| (n + 1.0, sum + share));
        let itself = mine / depth.max(1.0);
        let owned: Vec<u32> = shares.groups().map(|g| g.0).filter(|g| own(*g)).collect();
        for group in owned {
            drive.take(group, itself / count);
        }
    }
    Divided { elevator, drive }
}

impl Slice {
    /// Divides the time of the requests that ended in this second as `time` says.
    fn divide(&mut self, view: &View, time: &Divided, own: &dyn Fn(u32) -> bool) {
        let row = self.own;
        self.did = self.did(view);
        let slow = self.did.map_or(0.0, |did| 1.0 - did);
        let slow = if slow > 1.0 - ENOUGH { slow } else { 0.0 };
        let held = if is_limited(view) {
            Cause::OwnMax
        } else {
            Cause::Held
        };
        self.give(held, Some(Stage::Limit), None, row.limit as f64);
        self.give(Cause::LateProcess, None, None, row.late as f64);
        let elevator = time.elevator.scaled(row.elevator as f64);
        // Where nothing is known of that time, nothing else was to be seen.
        let unknown = row.elevator as f64 - elevator.total();
        self.give(
            Cause::Idling,
            Some(Stage::Elevator),
            None,
            elevator.idle + unknown,
        );
        self.behind(&elevator, Stage::Elevator, slow, own);
        let service = row.service.min(row.drive) as f64;
        let mut others = time.drive.clone();
        others.idle = 0.0;
        let mut own_share = row.share as f64;
        for (group, share) in time.drive.groups().filter(|(group, _)| own(*group)) {
            others.take(group, own_share);
            own_share = (own_share - share).max(0.0);
        }
        let rest = row.drive as f64 - service;
        let others = others.scaled(rest);
        // Nothing else was there: this request took longer than others do.
        let service = service + rest - others.total();
        self.behind(&others, Stage::Drive, slow, own);
        self.give(Cause::SlowDrive, Some(Stage::Drive), None, service * slow);
        self.give(
            Cause::OwnDepth,
            Some(Stage::Drive),
            None,
            service * (1.0 - slow),
        );
    }

    /// Time behind the pieces of groups: what these would have taken on a drive that does what is stated, and what it took longer.
    fn behind(&mut self, time: &Share, stage: Stage, slow: f64, own: &dyn Fn(u32) -> bool) {
        for (group, time) in time.groups() {
            let (cause, neighbour) = if own(group) {
                (Cause::OwnRequests, None)
            } else {
                (Cause::Neighbour, Some(group))
            };
            self.give(cause, Some(stage), neighbour, time * (1.0 - slow));
            self.give(Cause::SlowDrive, Some(stage), None, time * slow);
        }
    }

    fn give(&mut self, cause: Cause, stage: Option<Stage>, neighbour: Option<u32>, time: f64) {
        if time > 0.0 {
            *self.times.entry((cause, stage, neighbour)).or_default() += time;
        }
    }

    /// What the drive did of what is stated of it, if anything is and requests waited for it: they were in the drive for longer than they
    /// would have been there alone, so that more of them at a time would not have been served sooner, and for twice as long, or in the
    /// elevator for half of the drive's busy time.
    fn did(&self, view: &View) -> Option<f64> {
        let drive = &self.drive;
        let busy = drive.busy.saturating_sub(drive.late);
        let known = drive.drive.saturating_sub(drive.unknown);
        // Where it is not known how long pieces take alone, their service is their share, which says nothing.
        let is_full = drive.unknown > known || 5 * known >= 6 * drive.known;
        let is_queue = drive.unknown <= known && known >= 2 * drive.known;
        let waits = is_full && (drive.elevator >= busy / 2 || is_queue);
        let told = view.stated.is_known() && busy >= SECOND_NS / 10 && waits;
        told.then(|| (drive.stated as f64 / busy as f64).min(1.0))
    }

    /// The largest of its causes but the request itself, and the neighbour that had most of it.
    fn largest(&self) -> Option<(Cause, Option<u32>)> {
        let mut causes: BTreeMap<Cause, f64> = BTreeMap::new();
        for ((cause, ..), time) in &self.times {
            *causes.entry(*cause).or_default() += time;
        }
        causes.remove(&Cause::OwnDepth);
        let cause = causes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0;
        Some((
            cause,
            self.main_neighbour().filter(|_| cause == Cause::Neighbour),
        ))
    }

    fn main_neighbour(&self) -> Option<u32> {
        let mut all: BTreeMap<u32, f64> = BTreeMap::new();
        for ((.., neighbour), time) in &self.times {
            if let Some(group) = neighbour {
                *all.entry(*group).or_default() += time;
            }
        }
        all.into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|n| n.0)
    }

    /// Why the second was short: the first of lateness and a slow drive without which it would not have been, else the largest part.
    fn why(&self, ruled: &Ruled, why: Short) -> (Cause, Option<u32>) {
        if why == Short::Error {
            return (Cause::Errors, None);
        }
        let late = self.drive.late as f64 / SECOND_NS as f64;
        let slow = self
            .did
            .filter(|did| *did < ENOUGH)
            .map_or(0.0, |did| 1.0 - did);
        let would_be_kept =
            |lost: f64| ruled.got as f64 >= ruled.owed as f64 * ENOUGH * (1.0 - lost);
        if late >= slow && late > 0.0 && would_be_kept(late) {
            return (Cause::LateProcess, None);
        }
        if slow > 0.0 && would_be_kept(slow) {
            return (Cause::SlowDrive, None);
        }
        let nothing = || {
            let stood = self.drive.busy >= SECOND_NS / 2 && self.drive.pieces == 0;
            (
                if stood {
                    Cause::SlowDrive
                } else {
                    Cause::OwnDepth
                },
                None,
            )
        };
        self.largest().unwrap_or_else(nothing)
    }
}

/// Whether the group, or one above it, has a max.
fn is_limited(view: &View) -> bool {
    let mut path = view.groups.path(view.group);
    path.any(|(_, terms)| terms.contract.max.is_limited())
}

/// The parts of the mean request, the largest first.
fn parts(times: &Times, requests: u64, name: &dyn Fn(GroupId) -> String) -> Vec<Part> {
    let total: f64 = times.values().sum();
    let mut sorted: Vec<_> = times.iter().filter(|t| *t.1 > 0.0).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1));
    let mut named: Vec<u32> = Vec::new();
    let mut rest: BTreeMap<Option<Stage>, f64> = BTreeMap::new();
    let mut parts = Vec::new();
    let part = |cause, stage, neighbour: Option<String>, time: f64| Part {
        cause,
        stage,
        neighbour,
        us: time / requests.max(1) as f64 / 1e3,
        fraction: time / total,
    };
    for ((cause, stage, neighbour), time) in sorted {
        if let Some(group) = neighbour {
            if !named.contains(group) && named.len() == NAMED {
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
    view: &View,
    times: &Times,
    (requests, busy, from): (u64, u64, u32),
    name: &dyn Fn(GroupId) -> String,
) -> Vec<Neighbour> {
    let mut all: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for ((_, stage, neighbour), time) in times {
        if let Some(group) = neighbour {
            let place = usize::from(*stage == Some(Stage::Drive));
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
    view: &View,
    from: u32,
    slices: &BTreeMap<u32, Slice>,
    name: &dyn Fn(GroupId) -> String,
) -> Option<Promised> {
    let ruled = view.ruled.iter();
    let ruled = ruled.filter(|r| r.group == view.group.0 && r.second >= from);
    let last = ruled.clone().next_back()?;
    let mut excused = [0; Excuse::ALL.len()];
    let mut causes: BTreeMap<(Cause, Option<u32>), u64> = BTreeMap::new();
    let (mut promised, mut kept, mut last_short) = (0, 0, Vec::new());
    let none = Slice::default();
    for second in ruled {
        promised += 1;
        match second.verdict {
            Verdict::Kept => kept += 1,
            Verdict::Excused(why) => excused[why as usize] += 1,
            Verdict::Short { by, why } => {
                let slice = slices.get(&second.second).unwrap_or(&none);
                let (cause, neighbour) = slice.why(second, why);
                *causes.entry((cause, neighbour)).or_default() += 1;
                let ends = (u64::from(second.second) + 1) * SECOND_NS;
                last_short.push(ShortSecond {
                    ago_s: view.now.saturating_sub(ends) as f64 / 1e9,
                    owed: second.owed,
                    by,
                    verdict: why.name(),
                    cause,
                    neighbour: neighbour.map(|group| name(GroupId(group))),
                    drive_did: slice.did.filter(|_| cause == Cause::SlowDrive),
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
    Some(Promised {
        a_second: last.a_second,
        units: match last.units {
            Units::Bytes => "bytes",
            Units::Requests => "requests",
        },
        promised,
        kept,
        excused: excused.map(|(why, n)| (why.name(), n)).collect(),
        short,
        last_short,
    })
}

/// The cause of most of the short seconds, or of the largest part of the latency.
fn cause(parts: &[Part], promise: Option<&Promised>) -> Option<Cause> {
    let mut causes: BTreeMap<Cause, f64> = BTreeMap::new();
    let short = promise.map(|p| &p.short[..]).unwrap_or_default();
    for seconds in short {
        *causes.entry(seconds.cause).or_default() += seconds.seconds as f64;
    }
    if causes.is_empty() {
        for part in parts {
            *causes.entry(part.cause).or_default() += part.us;
        }
    }
    let largest = causes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    largest.map(|(cause, _)| cause)
}

fn drive_seen(slices: &BTreeMap<u32, Slice>, seconds: f64) -> DriveSeen {
    let sum = |of: fn(&Second) -> u64| slices.values().map(|s| of(&s.drive)).sum::<u64>();
    let waited: Vec<f64> = slices.values().filter_map(|s| s.did).collect();
    DriveSeen {
        busy: (rate(sum(|d| d.busy), seconds) / 1e9).min(1.0),
        mbps: rate(sum(|d| d.bytes), seconds) / 1e6,
        iops: rate(sum(|d| d.pieces), seconds),
        did: (!waited.is_empty()).then(|| waited.iter().sum::<f64>() / waited.len() as f64),
        late: (rate(sum(|d| d.late), seconds) / 1e9).min(1.0),
    }
}

fn slowest(view: &View, began: u64) -> Option<Slowest> {
    let own = |group: u32| view.groups.is_within(GroupId(group), view.group);
    let requests = view.requests.iter();
    let requests = requests.filter(|r| own(r.group) && r.stages()[2] >= began);
    let slowest = requests.max_by_key(|r| r.latency())?;
    let us = |ns: u64| ns as f64 / 1e3;
    Some(Slowest {
        ago_s: view.now.saturating_sub(slowest.stages()[2]) as f64 / 1e9,
        us: us(slowest.latency()),
        limit_us: us(slowest.limit.ns()),
        elevator_us: us(slowest.elevator.ns()),
        drive_us: us(slowest.drive.ns()),
        bytes: slowest.bytes.into(),
    })
}
