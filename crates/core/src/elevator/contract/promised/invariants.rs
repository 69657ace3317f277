//! Checks of the reservations between calls, for debug builds.

use super::{Reservation, Reservations, is_outstanding};
use crate::admission::PROMISABLE;
use crate::cx::Cx;
use crate::elevator::contract::constants::LEAD_MAX;
use crate::elevator::contract::unit::Bytes;
use crate::group::Groups;
use crate::list::NIL;
use crate::table::Stage;
use crate::time::mul_div_floor;
use crate::{Capacity, Class, GroupId, Op, ROOT, Span};

/// Longest piece that any drive accepts.
const PIECE_MAX: Bytes = Bytes(64 << 20);

impl Reservations {
    /// Checks all reservations. `active` returns true if a group has a queued request. `sums` is
    /// scratch space with an element for each group.
    pub(crate) fn invariants(&self, cx: &Cx, sums: &mut [u64], active: impl Fn(u32) -> bool) {
        self.check_promises(&cx.table.groups, cx.table.capacity());
        for (group, r) in self.all() {
            let waits = r.exists() && active(group);
            assert_eq!(
                self.waiting.contains(group),
                waits && !r.realtime,
                "group {group}"
            );
            let urgent = self.urgent.get(group).is_some();
            assert_eq!(urgent, waits && r.realtime, "group {group}");
            // A reservation is served ahead up to the maximum lead, and by the piece that exceeds
            // it. Its headroom may have been smaller then, but never smaller than this.
            let ahead = LEAD_MAX + r.time_with(0, PIECE_MAX, 1);
            assert!(
                r.kept_until <= cx.now + ahead,
                "group {group} is too far ahead: {r:?}"
            );
            if self.forest.contains(group) {
                let key = if r.realtime {
                    r.latency.solo.as_nanos()
                } else {
                    r.latest_start().as_nanos()
                };
                assert!(
                    r.exists() && r.bound_realtime == r.realtime,
                    "group {group}"
                );
                assert_eq!(self.forest.key(group), key, "group {group}");
            }
        }
        self.check_outstanding(cx, sums);
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Reservation)> {
        (0..).zip(&self.table)
    }

    /// Checks that each reservation has the rates of its group's contract, and that their sum is
    /// not more than admission permits.
    fn check_promises(&self, groups: &Groups, capacity: Option<Capacity>) {
        let mut bytes = 0;
        for (slot, r) in self.all() {
            let contract = groups.get(GroupId(slot)).filter(|_| GroupId(slot) != ROOT);
            let contract = contract.map(|group| group.contract).unwrap_or_default();
            let reserved = contract.reserved();
            assert_eq!(
                (r.bandwidth, r.iops),
                (reserved.bytes, reserved.iops),
                "group {slot}"
            );
            assert!(!r.exists() || r.realtime == (contract.class == Class::Realtime));
            let exist = |g: &GroupId| self.table[g.0 as usize].exists();
            let mut path = groups.path(GroupId(slot)).filter(exist).map(|g| g.0);
            assert_eq!(
                self.nearest[slot as usize],
                path.next().unwrap_or(NIL),
                "group {slot}"
            );
            if r.exists() {
                assert_eq!(r.above, path.next().unwrap_or(NIL), "group {slot}");
                bytes += if r.above == NIL { r.bandwidth } else { 0 };
            }
        }
        let capacity = capacity.map_or(0, |capacity| capacity.bytes());
        let most = mul_div_floor(capacity, PROMISABLE, 1_000_000);
        assert!(bytes <= most, "more is promised than was admitted");
    }

    /// Adds the `parts` of each group to the sums of all reservations on its path.
    fn sum_up(&self, sums: &mut [u64], parts: impl Iterator<Item = (GroupId, u64)>) {
        sums.fill(0);
        for (group, part) in parts {
            self.path(group).for_each(|at| sums[at as usize] += part);
        }
    }

    /// Checks the outstanding requests and the work in flight of each reservation against the
    /// requests and pieces of its group.
    fn check_outstanding(&self, cx: &Cx, sums: &mut [u64]) {
        let table = &cx.table;
        let requests = || table.all_live().map(|(_, live)| live);
        let pieces = || {
            let pieces = table.pieces.iter().filter(|(_, p)| p.op != Op::Flush);
            pieces.map(|(_, p)| (table.requests[p.request].group, u64::from(p.length)))
        };
        let outstanding = requests().filter(|live| is_outstanding(live));
        self.sum_up(sums, outstanding.map(|live| (live.group, 1)));
        for (group, r) in self.all() {
            assert_eq!(
                r.requests(),
                sums[group as usize],
                "requests of group {group}"
            );
        }
        let unsent = requests().filter(|live| live.stage == Stage::Elevator);
        let unsent = unsent.map(|live| (live.group, u64::from(live.request.length - live.issued)));
        self.sum_up(sums, unsent.chain(pieces()));
        for (group, r) in self.all() {
            assert_eq!(
                r.demand.outstanding.0, sums[group as usize],
                "bytes of group {group}"
            );
        }
        let services = table.pieces.iter().filter(|(_, p)| p.op != Op::Flush);
        let services = services.map(|(_, p)| {
            let group = table.requests[p.request].group;
            (group, p.op.charge(p.length.into()))
        });
        self.sum_up(sums, services);
        for (group, r) in self.all() {
            assert_eq!(
                r.in_drive.bytes.0, sums[group as usize],
                "bytes in the drive of group {group}"
            );
            let nothing = r.in_drive.bytes == Bytes::ZERO;
            assert!(
                !nothing || r.in_drive.promised == Span::ZERO,
                "nothing of group {group} is in the drive"
            );
        }
    }

    /// Checks that no reservation has more cost in flight than its requests. It can have slightly
    /// less after a recount, which divides the cost of a request equally among its pieces and
    /// rounds down.
    pub(crate) fn check_flight(&self, cx: &Cx, sums: &mut [u64], cost: impl Fn(u32) -> u64) {
        let in_drive = cx
            .table
            .all_live()
            .filter(|(_, l)| l.pieces > 0 && l.request.op != Op::Flush);
        self.sum_up(
            sums,
            in_drive.map(|(request, live)| (live.group, cost(request))),
        );
        for (group, r) in self.all() {
            assert!(
                r.in_drive.cost.as_nanos() <= sums[group as usize],
                "cost in the drive of group {group}"
            );
        }
    }
}
