//! What became of a group's requests in one second, and why.

use crate::SECOND_NS;
use crate::explain::explanation::Stage;
use crate::explain::rows::{Piece, Row, Second};
use crate::explain::share::Share;
use crate::explain::sweep::{Divided, divide};
use crate::explain::terms::Groups;
use crate::explain::view::View;
use crate::promise::Cause;
use std::collections::BTreeMap;
use weir_core::GroupId;

/// A drive that does this part of what is stated of it can keep what was promised: promises are at most nine tenths of it.
const ENOUGH: f64 = 0.9;

/// Time by cause, stage and neighbour, nanoseconds.
pub(crate) type Times = BTreeMap<(Cause, Option<Stage>, Option<u32>), f64>;

/// What is known of the group in one second.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    pub(crate) own: Row,
    pub(crate) drive: Second,
    pub(crate) times: Times,
    /// What the drive did of what is stated of it, if requests waited for it.
    pub(crate) did: Option<f64>,
}

/// From when on every piece and request is known.
pub(crate) fn exact_from(view: &View) -> u64 {
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
pub(crate) fn slices(view: &View, from: u32) -> BTreeMap<u32, Slice> {
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
        self.did = self.drive.did(view.stated.is_known());
        let slow = self.did.map_or(0.0, |did| 1.0 - did);
        let slow = if slow > 1.0 - ENOUGH { slow } else { 0.0 };
        let held = if is_limited(&view.groups, view.group) {
            Cause::OwnMax
        } else {
            Cause::Held
        };
        self.give(held, Some(Stage::Limit), None, row.limit as f64);
        self.give(Cause::HostBusy, None, None, row.late as f64);
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
}

/// Whether the group, or one above it, has a max.
pub(crate) fn is_limited(groups: &Groups, group: GroupId) -> bool {
    let mut path = groups.path(group);
    path.any(|(_, terms)| terms.contract.max.is_limited())
}
