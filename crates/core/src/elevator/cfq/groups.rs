//! Groups, and the choice among them by the time that they have used (Linux: `struct cfq_group`).
//!
//! The part of a group is its weight divided by that of all busy siblings, multiplied by the part
//! of its parent. Used time is divided by this part. The group with the smallest sum is next.

use super::service::{CfqClass, CfqServiceTrees, TreeKind};
use crate::elevator::common::think::Think;
use crate::id::GroupId;
use crate::table::Table;
use crate::tree::{Sorted, Tree, before};
use crate::{Instant, ROOT, Span};
use alloc::vec::Vec;

/// The fraction bits of parts of the drive and of virtual time (Linux: `CFQ_SERVICE_SHIFT`).
const PART_BITS: u32 = 12;
/// The bounds of group weights (Linux: `CFQ_WEIGHT_LEGACY_MIN` to `CFQ_WEIGHT_LEGACY_MAX`).
const WEIGHTS: (u16, u16) = (10, 1000);
/// The distance in virtual time of a group that becomes busy from the last one (Linux:
/// `CFQ_SLICE_MODE_GROUP_DELAY`).
///
/// The 200 ms are in a unit that is 4096 times as fine, so this is only a place at the end.
const BEHIND_LAST: u64 = 200_000_000;
/// The distance from the last group if requests are counted (Linux: `CFQ_IOPS_MODE_GROUP_DELAY`).
const BEHIND_LAST_REQUESTS: u64 = 1;

/// The kind of queues that a group was serving when its turn ended, and the rest of its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnfinishedWorkload {
    pub(super) kind: TreeKind,
    pub(super) left: Span,
}

/// The weight, charges and service trees of a group.
#[derive(Clone, Debug)]
pub(super) struct CfqGroup {
    parent: Option<u32>,
    known: bool,
    weight: u32,
    /// The weight from the group's next busy period on.
    new_weight: u32,
    /// The number of busy members, plus one if the group has busy queues of its own.
    active: u32,
    /// The sum of the weights of busy members.
    members_weight: u32,
    /// The group's part of the drive while it is busy.
    part: u32,
    pub(super) vdisktime: u64,
    /// The number of the group's busy queues.
    pub(super) queues: u32,
    /// Pieces of the group in the drive.
    pub(super) dispatched: u32,
    /// The averaged number of busy queues of the realtime class and of the best-effort class
    /// (Linux: `busy_queues_avg`).
    pub(super) average: [u32; 2],
    pub(super) unfinished: Option<UnfinishedWorkload>,
    pub(super) think: Think,
    pub(super) services: CfqServiceTrees,
}

impl CfqGroup {
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
        services: CfqServiceTrees::NEW,
    };

    /// Returns the group's part of the drive while it is busy, in units of 1/4096.
    pub(super) fn part(&self) -> u32 {
        self.part
    }

    /// Returns the group's part of a time.
    pub(super) fn part_of(&self, time: Span) -> Span {
        let part = (u128::from(time.as_nanos()) * u128::from(self.part)) >> PART_BITS;
        Span::from_nanos(part as u64)
    }

    /// Returns the averaged number of busy queues of a class, which rises quickly and falls slowly
    /// (Linux: `cfq_group_get_avg_queues`).
    pub(super) fn average_queues(&mut self, class: CfqClass) -> u32 {
        let busy = self.services.busy(class);
        let average = &mut self.average[class as usize];
        let (least, most) = (busy.min(*average), busy.max(*average));
        // The larger number has three times the weight of the smaller one. The added 2 rounds to
        // the nearest.
        *average = (3 * most + least + 2) / 4;
        *average
    }

    /// Returns true if the group is known to think for longer than this.
    pub(super) fn thinks_longer(&self, than: Span) -> bool {
        self.think.known_mean().is_some_and(|mean| mean > than)
    }
}

/// All groups and the order of the busy ones.
#[derive(Debug)]
pub(super) struct CfqGroups {
    pub(super) all: Vec<CfqGroup>,
    order: Sorted,
    /// Busy groups in the order of their charges.
    busy: Tree,
    /// The smallest charge of any busy group, which never decreases.
    least: u64,
}

impl CfqGroups {
    pub(super) fn new(groups: u32) -> Self {
        let mut all: Vec<CfqGroup> = (0..groups).map(|_| CfqGroup::NEW).collect();
        all[ROOT.0 as usize].known = true;
        Self {
            all,
            order: Sorted::new(groups),
            busy: Tree::EMPTY,
            least: 0,
        }
    }

    pub(super) fn get(&self, group: u32) -> &CfqGroup {
        &self.all[group as usize]
    }

    pub(super) fn get_mut(&mut self, group: u32) -> &mut CfqGroup {
        &mut self.all[group as usize]
    }

    /// Adds a group or changes its share, which applies from its next busy period on (Linux:
    /// `cfq_update_group_weight`).
    pub(super) fn set(&mut self, id: GroupId, table: &Table) {
        let Some(known) = table.groups.get(id).filter(|_| id != ROOT) else {
            return;
        };
        let (least, most) = WEIGHTS;
        let weight = u32::from(known.contract.share.clamp(least, most));
        let parent = Some(known.parent.0);
        let group = self.get_mut(id.0);
        if !group.known || group.parent != parent {
            *group = CfqGroup {
                parent,
                known: true,
                ..CfqGroup::NEW
            };
        }
        group.new_weight = weight;
    }

    /// Removes a group without members.
    pub(super) fn forget(&mut self, id: GroupId) {
        debug_assert!(self.get(id.0).active == 0, "a busy group goes");
        *self.get_mut(id.0) = CfqGroup::NEW;
    }

    /// Returns the group to serve next (Linux: `cfq_get_next_cfqg`).
    pub(super) fn next(&mut self) -> Option<u32> {
        let first = self.order.first(&self.busy)?;
        let used = self.get(first).vdisktime;
        // The smallest charge never decreases, so a group that enters with it is not ahead of the
        // others.
        if before(self.least, used) {
            self.least = used;
        }
        Some(first)
    }

    /// Counts a queue of the group that became busy (Linux: `cfq_group_notify_queue_add`).
    pub(super) fn add_queue(&mut self, group: u32, by_requests: bool) {
        let g = self.get_mut(group);
        g.queues += 1;
        if self.order.contains(group) {
            return;
        }
        // A group that was idle begins behind all others, so it is owed nothing for its pause.
        // Charges wrap around, so the last is searched within half of the range.
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

    /// Counts a queue of the group that is no longer busy (Linux: `cfq_group_notify_queue_del`).
    pub(super) fn remove_queue(&mut self, group: u32) {
        let g = self.get_mut(group);
        g.queues -= 1;
        if g.queues == 0 {
            g.unfinished = None;
            self.leave(group);
        }
    }

    /// Charges the group for nanoseconds or requests, and computes its part again (Linux:
    /// `cfq_group_served`).
    pub(super) fn charge(&mut self, group: u32, used: u64) {
        let part = self.get(group).part;
        debug_assert!(
            self.order.contains(group),
            "a group is charged that is not busy"
        );
        debug_assert!(part > 0, "a busy group has no part of the drive");
        // Both the unit of virtual time and the part are fractions of `PART_BITS`, so two shifts
        // are needed. The limit of `1 << 60` keeps charges comparable after wrapping.
        let scaled = (u128::from(used) << (2 * PART_BITS)) / u128::from(part);
        self.leave(group);
        let g = self.get_mut(group);
        g.vdisktime = g.vdisktime.wrapping_add(scaled.min(1 << 60) as u64);
        self.enter(group);
    }

    /// Adds a group to the busy ones and computes its part from the weights on its path (Linux:
    /// `cfq_group_service_tree_add`).
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
        // A part of zero would divide by zero in `charge`.
        self.get_mut(group).part = part.max(1);
    }

    /// Removes a group from the busy ones, and its weight from its parents (Linux:
    /// `cfq_group_service_tree_del`).
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

    /// Returns the busy groups in the order of their charges.
    pub(super) fn iter_busy(&self) -> impl Iterator<Item = (u32, &CfqGroup)> {
        self.order.iter(&self.busy).map(|g| (g, self.get(g)))
    }

    /// Returns the charge of a busy group beyond the smallest of any, as time of the whole drive.
    pub(super) fn lead(&self, group: &CfqGroup) -> Span {
        let ahead = group.vdisktime.wrapping_sub(self.least);
        let ahead = ahead.cast_signed().max(0).cast_unsigned();
        Span::from_nanos(ahead >> PART_BITS)
    }

    /// Records the arrival of a stream. For the first one, the think time of the group begins now.
    pub(super) fn open(&mut self, group: u32, now: Instant) {
        self.get_mut(group).think.last_end.get_or_insert(now);
    }
}
