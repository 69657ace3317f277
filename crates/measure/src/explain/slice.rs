//! The requests of a group in one second, with the causes of their latency.

use crate::SECOND_NS;
use crate::explain::explanation::RequestStage;
use crate::explain::rows::{DriveSecond, GroupRow, PieceTrace};
use crate::explain::share::Share;
use crate::explain::sweep::{TimeDivision, divide};
use crate::explain::terms::GroupTree;
use crate::explain::view::JournalSnapshot;
use crate::promise::Cause;
use std::collections::BTreeMap;
use weir_core::GroupId;

/// The performance, relative to its stated capacity, from which a drive can keep all promises.
/// Admission allows promises of at most 90 % of the capacity.
const ENOUGH: f64 = 0.9;

/// Nanoseconds by cause, stage and neighbour.
pub(crate) type Times = BTreeMap<(Cause, Option<RequestStage>, Option<u32>), f64>;

/// The data about a group in one second.
#[derive(Debug, Default)]
pub(crate) struct GroupSecond {
    pub(crate) own: GroupRow,
    pub(crate) drive: DriveSecond,
    pub(crate) times: Times,
    /// The performance of the drive relative to its stated capacity, if requests waited for it.
    pub(crate) did: Option<f64>,
}

/// Returns the time from which on every piece and request is known.
pub(crate) fn exact_from(view: &JournalSnapshot) -> u64 {
    // Entries are added when they complete. If some were dropped, all that completed after the
    // oldest remaining one are known.
    let requests = view
        .requests
        .iter()
        .next()
        .filter(|_| view.requests.wrapped);
    let requests = requests.map_or(0, |r| r.stages()[2]);
    let pieces = view.pieces.iter().next().filter(|_| view.pieces.wrapped);
    requests.max(pieces.map_or(0, PieceTrace::to))
}

/// Returns every second from `from` on, with the causes of the group's latency.
pub(crate) fn slices(view: &JournalSnapshot, from: u32) -> BTreeMap<u32, GroupSecond> {
    let own =
        |group: u32| view.groups.is_within(GroupId(group), view.group) || group == view.group.0;
    let mut slices: BTreeMap<u32, GroupSecond> = BTreeMap::new();
    for second in view.seconds.iter().filter(|s| s.second >= from) {
        slices.entry(second.second).or_default().drive = *second;
    }
    // For seconds of which single pieces are no longer known, the groups' shares of the drive are
    // used.
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
    let mut overall = TimeDivision::default();
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
        // The requests that completed in this second may have waited only in earlier ones. Then the
        // division over all seconds is used.
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

impl GroupRow {
    /// Returns the sum with another row of the same second.
    pub(crate) fn and(&self, other: &Self) -> Self {
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

/// Returns the division of a second's time, if only the groups' shares of the drive are known.
fn by_shares(slice: &GroupSecond, shares: &Share, own: &dyn Fn(u32) -> bool) -> TimeDivision {
    // A request in the elevator also waits while the drive is idle. A request in the drive does
    // not.
    let mut elevator = shares.clone();
    elevator.idle = (SECOND_NS.saturating_sub(slice.drive.busy)) as f64;
    let mut drive = Share::default();
    for (group, share) in shares.groups() {
        drive.add(group, share);
    }
    // By Little's law, the time of the group's requests in the drive, divided by the second, is its
    // depth there. All of these requests except one are in front of its next request.
    let depth = slice.own.drive as f64 / SECOND_NS as f64;
    if depth > 0.0 {
        let (count, mine): (f64, f64) = shares
            .groups()
            .filter(|(group, _)| own(*group))
            .fold((0.0, 0.0), |(n, sum), (_, share)| (n + 1.0, sum + share));
        let itself = mine / depth.max(1.0);
        let owned: Vec<u32> = shares.groups().map(|g| g.0).filter(|g| own(*g)).collect();
        // The rows do not tell to which of the own groups this request belongs, so its share is
        // divided evenly.
        for group in owned {
            drive.take(group, itself / count);
        }
    }
    TimeDivision { elevator, drive }
}

impl GroupSecond {
    /// Divides the time of the requests that completed in this second as `time` specifies.
    fn divide(&mut self, view: &JournalSnapshot, time: &TimeDivision, own: &dyn Fn(u32) -> bool) {
        let row = self.own;
        self.did = self.drive.did(view.stated.is_known());
        // A drive that reaches at least 90 % of its stated capacity does not count as slow.
        let slow = self.did.map_or(0.0, |did| 1.0 - did);
        let slow = if slow > 1.0 - ENOUGH { slow } else { 0.0 };
        let held = if is_limited(&view.groups, view.group) {
            Cause::OwnMax
        } else {
            Cause::Held
        };
        self.add_time(held, Some(RequestStage::Limit), None, row.limit as f64);
        self.add_time(Cause::HostBusy, None, None, row.late as f64);
        let elevator = time.elevator.scaled(row.elevator as f64);
        // If the division of that time is not known, no other cause was observed.
        let unknown = row.elevator as f64 - elevator.total();
        self.add_time(
            Cause::Idling,
            Some(RequestStage::Elevator),
            None,
            elevator.idle + unknown,
        );
        self.divide_wait_behind(&elevator, RequestStage::Elevator, slow, own);
        // The service can exceed the time in the drive, from which lateness is subtracted.
        let service = row.service.min(row.drive) as f64;
        let mut others = time.drive.clone();
        others.idle = 0.0;
        let mut own_share = row.share as f64;
        // The pieces' own share is no wait, so it is removed from the time behind the group's own
        // requests.
        for (group, share) in time.drive.groups().filter(|(group, _)| own(*group)) {
            others.take(group, own_share);
            own_share = (own_share - share).max(0.0);
        }
        let rest = row.drive as f64 - service;
        let others = others.scaled(rest);
        // Nothing else was in the drive, so this request took longer than others do.
        let service = service + rest - others.total();
        self.divide_wait_behind(&others, RequestStage::Drive, slow, own);
        self.add_time(
            Cause::SlowDrive,
            Some(RequestStage::Drive),
            None,
            service * slow,
        );
        self.add_time(
            Cause::OwnDepth,
            Some(RequestStage::Drive),
            None,
            service * (1.0 - slow),
        );
    }

    /// Divides time behind pieces of groups: the part that these would have taken on a drive that
    /// reaches its stated capacity, and the part that they took longer.
    fn divide_wait_behind(
        &mut self,
        time: &Share,
        stage: RequestStage,
        slow: f64,
        own: &dyn Fn(u32) -> bool,
    ) {
        for (group, time) in time.groups() {
            let (cause, neighbour) = if own(group) {
                (Cause::OwnRequests, None)
            } else {
                (Cause::Neighbour, Some(group))
            };
            self.add_time(cause, Some(stage), neighbour, time * (1.0 - slow));
            self.add_time(Cause::SlowDrive, Some(stage), None, time * slow);
        }
    }

    fn add_time(
        &mut self,
        cause: Cause,
        stage: Option<RequestStage>,
        neighbour: Option<u32>,
        time: f64,
    ) {
        if time > 0.0 {
            *self.times.entry((cause, stage, neighbour)).or_default() += time;
        }
    }
}

/// Returns true if the group, or a group above it, has a max.
pub(crate) fn is_limited(groups: &GroupTree, group: GroupId) -> bool {
    let mut path = groups.path(group);
    path.any(|(_, terms)| terms.contract.max.is_limited())
}
