//! Groups: each has its turns by the time that it has used, divided by its part of the drive (Linux: `struct cfq_group`).
//!
//! The part of a group is that of its weight among its siblings that are busy, times that of its parent's, and so on. The group that
//! has used least by that measure is next.

use super::service::{Class, Kind, Services};
use crate::elevator::common::think::Think;
use crate::id::GroupId;
use crate::table::Table;
use crate::tree::{Sorted, Tree, before};
use crate::{Instant, ROOT, Span};
use alloc::vec::Vec;

/// Parts of the drive are counted in `1 << PART_BITS`ths, virtual time in as many of a nanosecond (Linux: `CFQ_SERVICE_SHIFT`).
const PART_BITS: u32 = 12;
/// Weights of groups (Linux: `CFQ_WEIGHT_LEGACY_MIN` to `CFQ_WEIGHT_LEGACY_MAX`).
const WEIGHTS: (u16, u16) = (10, 1000);
/// A group that comes goes so far behind the last, in virtual time (Linux: `CFQ_SLICE_MODE_GROUP_DELAY`: 200 ms in a unit that is 4096
/// times as fine, so it is hardly more than a place at the end).
const BEHIND_LAST: u64 = 200_000_000;
/// That distance where requests are counted (Linux: `CFQ_IOPS_MODE_GROUP_DELAY`).
const BEHIND_LAST_REQUESTS: u64 = 1;

/// What a group was doing when its turn ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    pub(super) kind: Kind,
    pub(super) left: Span,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    parent: Option<u32>,
    known: bool,
    weight: u32,
    /// What its weight will be when it is next busy again.
    new_weight: u32,
    /// Number of its members that are busy, and one if it is busy itself.
    active: u32,
    /// The sum of the weights of members that are.
    members_weight: u32,
    /// Its part of the drive while it is busy.
    part: u32,
    pub(super) vdisktime: u64,
    /// Its busy queues.
    pub(super) queues: u32,
    /// Pieces in the drive.
    pub(super) dispatched: u32,
    /// Busy queues of the realtime class and of the best-effort class, averaged (Linux: `busy_queues_avg`).
    pub(super) average: [u32; 2],
    pub(super) unfinished: Option<Unfinished>,
    pub(super) think: Think,
    pub(super) services: Services,
}

impl Group {
    const NEW: Self = Self {
        parent: None,
        known: false,
        weight: 100,
        new_weight: 100,
        active: 0,
        members_weight: 0,
        part: 1,
        vdisktime: 0,
        queues: 0,
        dispatched: 0,
        average: [0; 2],
        unfinished: None,
        think: Think::NEW,
        services: Services::NEW,
    };

    /// Its part of the drive while it is busy, in 4096ths.
    pub(super) fn part(&self) -> u32 {
        self.part
    }

    /// Its part of a time.
    pub(super) fn part_of(&self, time: Span) -> Span {
        let part = (u128::from(time.as_nanos()) * u128::from(self.part)) >> PART_BITS;
        Span::from_nanos(part as u64)
    }

    /// The average of its busy queues of a class, which follows them up quickly and down slowly (Linux: `cfq_group_get_avg_queues`).
    pub(super) fn average_queues(&mut self, class: Class) -> u32 {
        let busy = self.services.busy(class);
        let average = &mut self.average[class as usize];
        let (least, most) = (busy.min(*average), busy.max(*average));
        *average = (3 * most + least + 2) / 4;
        *average
    }

    /// True if it is known to come back later than this.
    pub(super) fn thinks_longer(&self, than: Span) -> bool {
        self.think.known_mean().is_some_and(|mean| mean > than)
    }
}

/// The groups.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    order: Sorted,
    /// Busy groups by what they have used.
    busy: Tree,
    /// The least that any busy group has used; it does not go back.
    least: u64,
}

impl Groups {
    pub(super) fn new(groups: u32) -> Self {
        let mut all: Vec<Group> = (0..groups).map(|_| Group::NEW).collect();
        all[ROOT.0 as usize].known = true;
        Self {
            all,
            order: Sorted::new(groups),
            busy: Tree::EMPTY,
            least: 0,
        }
    }

    pub(super) fn get(&self, group: u32) -> &Group {
        &self.all[group as usize]
    }

    pub(super) fn get_mut(&mut self, group: u32) -> &mut Group {
        &mut self.all[group as usize]
    }

    /// A group came or its share changed: its weight counts when it is next busy again (Linux: `cfq_update_group_weight`).
    pub(super) fn set(&mut self, id: GroupId, table: &Table) {
        let Some(known) = table.groups.get(id).filter(|_| id != ROOT) else {
            return;
        };
        let (least, most) = WEIGHTS;
        let weight = u32::from(known.contract.share.clamp(least, most));
        let parent = Some(known.parent.0);
        let group = self.get_mut(id.0);
        if !group.known || group.parent != parent {
            *group = Group {
                parent,
                known: true,
                ..Group::NEW
            };
        }
        group.new_weight = weight;
    }

    /// A group without members goes.
    pub(super) fn forget(&mut self, id: GroupId) {
        debug_assert!(self.get(id.0).active == 0, "a busy group goes");
        *self.get_mut(id.0) = Group::NEW;
    }

    /// The group whose turn it is (Linux: `cfq_get_next_cfqg`).
    pub(super) fn next(&mut self) -> Option<u32> {
        let first = self.order.first(&self.busy)?;
        let used = self.get(first).vdisktime;
        if before(self.least, used) {
            self.least = used;
        }
        Some(first)
    }

    /// A queue of the group has become busy (Linux: `cfq_group_notify_queue_add`).
    pub(super) fn queue_came(&mut self, group: u32, by_requests: bool) {
        let g = self.get_mut(group);
        g.queues += 1;
        if self.order.contains(group) {
            return;
        }
        let vdisktime = match self
            .order
            .last_up_to(&self.busy, self.least.wrapping_add(1 << 62))
        {
            Some(last) if by_requests => self.order.key(last).wrapping_add(BEHIND_LAST_REQUESTS),
            Some(last) => self.order.key(last).wrapping_add(BEHIND_LAST),
            None => self.least,
        };
        self.get_mut(group).vdisktime = vdisktime;
        self.enter(group);
    }

    /// A queue of the group is busy no longer (Linux: `cfq_group_notify_queue_del`).
    pub(super) fn queue_left(&mut self, group: u32) {
        let g = self.get_mut(group);
        g.queues -= 1;
        if g.queues == 0 {
            g.unfinished = None;
            self.leave(group);
        }
    }

    /// The group has used a number of nanoseconds, or requests. Its part is worked out anew (Linux: `cfq_group_served`).
    pub(super) fn charge(&mut self, group: u32, used: u64) {
        let part = self.get(group).part;
        debug_assert!(
            self.order.contains(group),
            "a group is charged that is not busy"
        );
        debug_assert!(part > 0, "a busy group has no part of the drive");
        let scaled = (u128::from(used) << (2 * PART_BITS)) / u128::from(part);
        self.leave(group);
        let g = self.get_mut(group);
        g.vdisktime = g.vdisktime.wrapping_add(scaled.min(1 << 60) as u64);
        self.enter(group);
    }

    /// Linux: `cfq_group_service_tree_add`.
    fn enter(&mut self, group: u32) {
        let key = self.get(group).vdisktime;
        debug_assert!(!self.order.contains(group), "a group is busy twice");
        self.order.insert(&mut self.busy, group, key, 0);
        let mut part = 1 << PART_BITS;
        let mut at = group;
        let g = self.get_mut(at);
        g.active += 1;
        let mut comes = g.active == 1;
        while let Some(parent) = self.get(at).parent {
            let g = self.get_mut(at);
            if comes {
                g.weight = g.new_weight;
            }
            let weight = g.weight;
            let above = self.get_mut(parent);
            if comes {
                above.active += 1;
                above.members_weight += weight;
                comes = above.active == 1;
            }
            debug_assert!(
                above.members_weight >= weight,
                "a member weighs more than all"
            );
            part = part * weight / above.members_weight;
            at = parent;
        }
        self.get_mut(group).part = part.max(1);
    }

    /// Linux: `cfq_group_service_tree_del`.
    fn leave(&mut self, group: u32) {
        self.order.remove(&mut self.busy, group);
        let mut at = group;
        loop {
            let g = self.get_mut(at);
            g.active -= 1;
            let (gone, weight) = (g.active == 0, g.weight);
            let Some(parent) = g.parent.filter(|_| gone) else {
                return;
            };
            self.get_mut(parent).members_weight -= weight;
            at = parent;
        }
    }

    /// Busy groups with what each has used.
    pub(super) fn iter_busy(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.order.iter(&self.busy).map(|g| (g, self.get(g)))
    }

    /// What a busy group has used beyond the least that any has, in time of the whole drive.
    pub(super) fn lead(&self, group: &Group) -> Span {
        let ahead = group.vdisktime.wrapping_sub(self.least);
        let ahead = ahead.cast_signed().max(0).cast_unsigned();
        Span::from_nanos(ahead >> PART_BITS)
    }

    /// A stream of the group came: if it is the first, how soon the group comes back is counted from now on.
    pub(super) fn open(&mut self, group: u32, now: Instant) {
        self.get_mut(group).think.last_end.get_or_insert(now);
    }
}
