//! The workload: the class and kind of queues that is served in a group, and for how long (Linux:
//! `choose_wl_class_and_type`).
//!
//! This file also determines the order of turns within a service tree and the length of slices.

use super::Cfq;
use super::service::{CfqClass, QueueKind, TYPES, TreeKind};
use crate::tree::before;
use crate::{Instant, Span};

/// A tick of the kernel's clock with `HZ` = 1000.
pub(super) const TICK: Span = Span::from_millis(1);
/// The shortest time for which a kind of queues is served (Linux: `CFQ_MIN_TT`).
const LEAST: Span = Span::from_millis(2);
/// The distance of a queue of the idle class from the one in front of it (Linux: `CFQ_IDLE_DELAY`).
const IDLE_DELAY: u64 = 200_000_000;
/// The distance by which a preempting queue precedes the first of its tree (Linux: in
/// `cfq_service_tree_add`).
const FRONT: u64 = 1_000_000_000;

/// The group and kind of queues that are served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) group: u32,
    pub(super) kind: TreeKind,
    /// The end of the time for this kind, if it has queues for that long.
    pub(super) until: Instant,
}

impl Workload {
    pub(super) const NONE: Self = Self {
        group: 0,
        kind: TreeKind {
            class: CfqClass::BestEffort,
            way: QueueKind::Async,
        },
        until: Instant::ZERO,
    };
}

impl Cfq {
    /// Selects the next group, which continues with its last kind of queues (Linux:
    /// `cfq_choose_cfqg`).
    pub(super) fn choose_group(&mut self, now: Instant) {
        let Some(group) = self.groups.next() else {
            return;
        };
        self.workload.group = group;
        // Without unfinished work, the time of the last kind must be over already.
        self.workload.until = now.saturating_sub(Span::from_nanos(1));
        if let Some(unfinished) = self.groups.get(group).unfinished {
            self.workload.kind = unfinished.kind;
            self.workload.until = now + unfinished.left;
        }
        self.choose_kind(now);
    }

    fn choose_kind(&mut self, now: Instant) {
        let group = self.groups.get(self.workload.group);
        let mut classes = [CfqClass::Realtime, CfqClass::BestEffort].into_iter();
        let class = classes.find(|&class| group.services.busy(class) > 0);
        let Some(class) = class else {
            self.workload.kind = TreeKind::of(CfqClass::Idle, false, false);
            // The idle class is checked again after each tick, so that other classes do not wait
            // for it.
            self.workload.until = now + TICK;
            return;
        };
        let kind = self.workload.kind;
        let goes_on = kind.class == class && now <= self.workload.until;
        if goes_on && group.services.get(kind).count > 0 {
            return;
        }
        let kind = self.first_kind(class);
        self.workload.kind = kind;
        self.workload.until = now + self.time_for(kind);
    }

    /// Returns the kind of queues of a class whose next queue has waited longest for its turn
    /// (Linux: `cfq_choose_wl_type`).
    fn first_kind(&self, class: CfqClass) -> TreeKind {
        let services = &self.groups.get(self.workload.group).services;
        let mut first: Option<(TreeKind, u64)> = None;
        for way in TYPES {
            let kind = TreeKind { class, way };
            let Some(q) = self.turns.first(&services.get(kind).order) else {
                continue;
            };
            let key = self.turns.key(q);
            if first.is_none_or(|(_, least)| before(key, least)) {
                first = Some((kind, key));
            }
        }
        first.map_or(self.workload.kind, |(kind, _)| kind)
    }

    /// Returns the time for which queues of a kind are served: their part, by number, of the
    /// group's part of the target.
    fn time_for(&self, kind: TreeKind) -> Span {
        let group = self.groups.get(self.workload.group);
        let target = self.config.target_latency;
        let count = group.services.get(kind).count;
        let all = group.average[kind.class as usize].max(group.services.busy(kind.class));
        let time = portion(group.part_of(target), count, all.max(1));
        // Asynchronous queues share time with those of all groups, and get less of it in proportion
        // to their slices.
        let time = if kind.way == QueueKind::Async {
            let asynchronous = group.services.busy_async();
            let most = portion(target, asynchronous, self.busy.max(1));
            scaled(
                time.min(most),
                self.config.slice_async,
                self.config.slice_sync,
            )
        } else {
            // Idling for random queues takes up to `slice_idle`, after which there must be time for
            // service.
            time.max(self.slice_idle.saturating_mul(2))
        };
        time.max(LEAST)
    }

    /// Puts a queue in the order of turns of its kind (Linux: `cfq_service_tree_add`).
    ///
    /// The position is in front of all others, or behind those that arrived before it, the farther
    /// the lower its level. A queue that is in a tree already is moved.
    pub(super) fn line_up(&mut self, now: Instant, q: u32, in_front: bool) {
        let kind = self.queue(q).kind();
        let group = self.queue(q).group;
        let now = now.as_nanos();
        let order = self.groups.get(group).services.get(kind).order;
        let key = if kind.class == CfqClass::Idle {
            // Keys wrap around, so those within half of the range of numbers around now are
            // comparable. The last key is the largest of them.
            let last = self.turns.last_up_to(&order, now.wrapping_add(1 << 62));
            let last = last.filter(|&last| last != q);
            last.map_or(now, |last| self.turns.key(last))
                .wrapping_add(IDLE_DELAY)
        } else if in_front {
            let first = self.turns.first(&order);
            first
                .map_or(now, |first| self.turns.key(first))
                .wrapping_sub(FRONT)
        } else {
            // The rest of a slice is used only once. It puts the queue forward by its length.
            let residue = core::mem::take(&mut self.queues[q as usize].residue);
            let offset = self.offset(q).wrapping_sub(residue);
            now.wrapping_add(offset.cast_unsigned())
        };
        let was = self.queue(q).tree;
        if let Some(was) = was {
            let service = self.groups.get_mut(group).services.get_mut(was);
            self.turns.remove(&mut service.order, q);
            service.count -= 1;
        }
        self.queues[q as usize].tree = Some(kind);
        let service = self.groups.get_mut(group).services.get_mut(kind);
        self.turns.insert(&mut service.order, q, key, 0);
        service.count += 1;
        if was.is_none() {
            self.groups.add_queue(group, self.counts_requests());
        }
    }

    /// Adds a queue that has its first request to the busy queues (Linux: `cfq_add_cfqq_rr`).
    pub(super) fn begin(&mut self, now: Instant, q: u32) {
        debug_assert!(self.queue(q).tree.is_none(), "the queue is busy");
        self.busy += 1;
        self.busy_sync += u32::from(self.queue(q).sync);
        self.line_up(now, q, false);
    }

    /// Removes a queue without requests from the busy queues (Linux: `cfq_del_cfqq_rr`).
    pub(super) fn rest(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        let (group, level, sync) = (queue.group, queue.level, queue.sync);
        let kind = queue.tree.take().expect("the queue is busy");
        let service = self.groups.get_mut(group).services.get_mut(kind);
        self.turns.remove(&mut service.order, q);
        service.count -= 1;
        self.places.remove(q, level);
        self.groups.remove_queue(group);
        debug_assert!(self.busy > 0, "more queues rest than were busy");
        self.busy -= 1;
        self.busy_sync -= u32::from(sync);
    }

    /// Returns the delay of a queue's turn compared with that of a queue of the highest level
    /// (Linux: `cfq_slice_offset`).
    fn offset(&self, q: u32) -> i64 {
        let queue = self.queue(q);
        // A queue waits one difference of slices for each other queue of its group. A queue that
        // begins to be busy is not in its group's count yet, so the only queue of a group gets one
        // difference in front of now (the same in Linux).
        let others = i64::from(self.groups.get(queue.group).queues) - 1;
        let most = self.slice_of(true, 0).as_nanos().cast_signed();
        let own = self.slice_of(queue.sync, queue.level).as_nanos();
        others * (most - own.cast_signed())
    }

    /// Returns the time slice of queues of a level (Linux: `cfq_prio_slice`).
    pub(super) fn slice_of(&self, sync: bool, level: u8) -> Span {
        let base = if sync {
            self.config.slice_sync
        } else {
            self.config.slice_async
        };
        // Each level differs by 20 % of the base. Level 4 has the base.
        let fifth = base.as_nanos() / 5;
        Span::from_nanos(base.as_nanos() + 4 * fifth - u64::from(level) * fifth)
    }

    /// Returns the time slice of the queue in service (Linux: `cfq_scaled_cfqq_slice`).
    ///
    /// The slice is shorter than that of the level if the queues of its group and class would
    /// otherwise not all be served within the target.
    pub(super) fn slice_for(&mut self, q: u32) -> Span {
        let queue = self.queue(q);
        let slice = self.slice_of(queue.sync, queue.level);
        if !self.config.low_latency {
            return slice;
        }
        let (sync_slice, least) = (self.config.slice_sync, self.slice_idle.saturating_mul(2));
        let target = self.config.target_latency;
        let (group, class) = (queue.group, queue.class);
        let group = self.groups.get_mut(group);
        // Linux has no average for the idle class and uses that of the best-effort class.
        let queues = group.average_queues(class.min(CfqClass::BestEffort));
        let expected = sync_slice.saturating_mul(queues.into());
        let target = group.part_of(target);
        // All queues have their turns within the target with full slices.
        if expected <= target {
            return slice;
        }
        // A slice must be long enough to idle twice, but never longer than the slice of the level.
        let least = scaled(least, slice, sync_slice).min(slice);
        scaled(slice, target, expected).max(least)
    }

    /// Returns true if groups are charged by requests instead of time (Linux: `iops_mode`). This is
    /// the case if the drive serves several requests at once and does not idle.
    pub(super) fn counts_requests(&self) -> bool {
        self.slice_idle == Span::ZERO && self.queueing.is_likely()
    }
}

/// Returns `parts` of `all` parts of a time.
fn portion(time: Span, parts: u32, all: u32) -> Span {
    Span::from_nanos(time.as_nanos().saturating_mul(parts.into()) / u64::from(all))
}

/// Returns `time` multiplied by `to / of`. A zero `of` counts as 1 ns.
fn scaled(time: Span, to: Span, of: Span) -> Span {
    let product = u128::from(time.as_nanos()) * u128::from(to.as_nanos());
    let of = u128::from(of.as_nanos().max(1));
    Span::from_nanos((product / of) as u64)
}
