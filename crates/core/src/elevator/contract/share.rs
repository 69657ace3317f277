//! Divides the drive's time that promises leave by weight: start-time fair queueing at each node of
//! the tree.
//!
//! Each entity (a group, or a stream in its group) has a start tag in the virtual time of its
//! parent. The entity with the smallest start tag is served, and its tag advances by cost / weight.
//! Virtual time is the start tag of the entity that was served last. An entity that returns from a
//! pause starts at the present virtual time, so it gets no credit for the pause. The services of
//! two entities that always have queued requests, divided by their weights, differ by at most one
//! piece of each, even if the speed of the drive changes (Goyal, Vin, Cheng: "Start-time fair
//! queueing", 1996).
//!
//! A group with few requests at a time has no queued request while its requests are in the drive,
//! although it still needs its share. Such a group is *absent* and keeps its place in the order.
//! Another entity is *ahead* of it if its start tag is larger by more than a slack.
//! [`restraint`](super::restraint) limits the entities that are ahead.
//!
//! The calls are [`Shares::activate`] when an entity has queued requests again, [`Shares::pick`] to
//! choose a stream, [`Shares::charge`] for each piece, and [`Shares::deactivate`] when the queue is
//! empty.

use super::constants::SECOND;
use super::learned::arrival::Presence;
use super::unit::{ShareCharge, ShareEntity};
use crate::heap::Heap;
use crate::list::NIL;
use crate::tournament::Tournaments;
use crate::tree::before;
use crate::{GroupId, Instant, Span};
use alloc::vec;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

/// Fraction bits of virtual time.
const SHIFT: u32 = 16;

/// Converts a charge into virtual time. A charge above [`SECOND`] counts as a second, because
/// virtual times are compared as serial numbers and must differ by less than 2^63.
const fn virtual_time(charge: ShareCharge) -> u64 {
    if charge.0 < SECOND.as_nanos() {
        charge.0 << SHIFT
    } else {
        AHEAD_MAX
    }
}

/// Virtual time up to which an entity of weight one may be ahead, so that at most a second of
/// reserved service counts against its share.
const AHEAD_MAX: u64 = SECOND.as_nanos() << SHIFT;

/// An entity: its place in the tree, its start tag, and its state. A charge reads almost all of it,
/// so it has a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct ShareNode {
    parent: u32,
    /// The set that contains this entity and its siblings of the same class, ordered by start tags.
    set: u32,
    /// The start tag, in the virtual time of the set.
    start: u64,
    /// The largest lead over virtual time: [`AHEAD_MAX`] divided by the weight.
    ahead: u64,
    weight: NonZeroU32,
    idle_class: bool,
    /// True if the entity, or a stream below it, has a queued request.
    active: bool,
    /// True if the group has no queued request but keeps its place, because it, or a group below
    /// it, will have one soon.
    absent: bool,
    /// Virtual times of the children of the normal class and of the idle class. The idle class has
    /// a virtual time of its own, so that the little service that it gets does not advance the time
    /// of others.
    times: [u64; 2],
    /// The weight of the child group of the normal class that was served last in its turn, and the
    /// permitted lead over an absent group at that time.
    last_weight: NonZeroU32,
    last_slack: u64,
}

impl ShareNode {
    /// Returns the lag behind virtual time that a child group keeps if it returns at once. It is as
    /// large as the lead that the child may have had that was served last.
    fn owed(&self) -> u64 {
        self.last_slack / NonZeroU64::from(self.last_weight)
    }

    /// Returns the start tag after a charge of `work`, at the virtual time `present`. Service from
    /// a reservation is charged in advance up to a limit. An entity that is beyond the limit
    /// already keeps its tag.
    #[inline]
    fn advanced(&self, present: u64, work: u64) -> u64 {
        let furthest = present.wrapping_add(self.ahead);
        let next = (self.start).wrapping_add(work / NonZeroU64::from(self.weight));
        if !before(furthest, next) {
            next
        } else if before(self.start, furthest) {
            furthest
        } else {
            self.start
        }
    }
}

/// The tree of all groups and streams. `unit` explains the numbers of its members.
#[derive(Debug)]
pub(super) struct Shares {
    groups: u32,
    entities: Vec<ShareNode>,
    /// Three sets for each group: its children of the normal class, those of the idle class, and
    /// those that are absent.
    sets: Tournaments,
    /// The permitted lead of an entity over an absent one: the service that keeps the drive busy,
    /// in the unit of virtual time.
    slack: u64,
    /// The request pattern of each group with streams.
    presence: Vec<Presence>,
    /// Number of groups that are absent.
    absent: u32,
    /// The groups of the idle class, at any level, that have a queued request, by the time at which
    /// they must be served.
    overdue: Heap,
    idle_timeout: Span,
}

impl Shares {
    pub(super) fn new(groups: u32, streams: u32, idle_timeout: Span) -> Self {
        let entity = ShareNode {
            parent: NIL,
            set: NIL,
            start: 0,
            ahead: AHEAD_MAX,
            weight: NonZeroU32::MIN,
            idle_class: false,
            active: false,
            absent: false,
            times: [0; 2],
            last_weight: NonZeroU32::MIN,
            last_slack: 0,
        };
        Self {
            groups,
            entities: vec![entity; (groups + streams) as usize],
            // A group is a member of two sets: one of its parent's classes, and its parent's absent
            // children.
            sets: Tournaments::new(3 * groups, groups + streams, 2 * groups + streams),
            slack: 0,
            presence: vec![Presence::default(); groups as usize],
            absent: 0,
            overdue: Heap::new(groups),
            idle_timeout,
        }
    }

    /// Returns the entity of a stream.
    pub(super) fn of_stream(&self, stream: u32) -> ShareEntity {
        ShareEntity(self.groups + stream)
    }

    /// Returns the set of the children of a group that are of a class.
    #[inline]
    fn set_of(&self, group: u32, idle_class: bool) -> u32 {
        if idle_class {
            self.groups + group
        } else {
            group
        }
    }

    /// Returns the set of the absent children of a group.
    #[inline]
    fn absent_below(&self, group: u32) -> u32 {
        2 * self.groups + group
    }

    /// Places an entity in the tree, or changes its weight or class.
    pub(super) fn set(
        &mut self,
        now: Instant,
        entity: ShareEntity,
        parent: u32,
        weight: u32,
        idle_class: bool,
    ) {
        // An active entity leaves its set during the change, because the set may be another one
        // afterwards.
        let active = self.entities[entity.0 as usize].active;
        if active {
            self.deactivate(entity, false);
        }
        let set = self.set_of(parent, idle_class);
        if self.entities[entity.0 as usize].set != set {
            self.forget(entity);
            self.sets.join(set);
            if entity.0 < self.groups {
                self.sets.join(self.absent_below(parent));
            }
            // A new member starts at the present, like one that returns from a pause.
            let times = self.entities[parent as usize].times;
            self.entities[entity.0 as usize].start = times[usize::from(idle_class)];
        }
        let e = &mut self.entities[entity.0 as usize];
        (e.parent, e.set, e.idle_class) = (parent, set, idle_class);
        e.weight = NonZeroU32::new(weight).expect("a share is not zero");
        e.ahead = AHEAD_MAX / NonZeroU64::from(e.weight);
        if active {
            self.activate(now, entity, false);
        }
    }

    /// Removes an inactive entity from the tree, if it is in the tree.
    pub(super) fn forget(&mut self, entity: ShareEntity) {
        self.end_absences(entity.0);
        let (is_group, e) = (entity.0 < self.groups, self.entities[entity.0 as usize]);
        debug_assert!(!e.active);
        if e.parent != NIL {
            self.sets.leave(e.set);
            if is_group {
                self.sets.leave(self.absent_below(e.parent));
            }
        }
        let e = &mut self.entities[entity.0 as usize];
        (e.parent, e.set) = (NIL, NIL);
    }

    /// Marks the entity and every group above it as active, because it has a queued request. With
    /// `resumes`, the entity had requests a moment ago, and it is still owed the service that it
    /// was owed then, unless others have received it.
    pub(super) fn activate(&mut self, now: Instant, entity: ShareEntity, resumes: bool) {
        let mut at = entity.0;
        while at != NIL {
            let e = &self.entities[at as usize];
            // The groups above an active entity are active already.
            if e.parent == NIL || e.active {
                return;
            }
            debug_assert!(e.set != NIL, "it has no place in the tree");
            let above = &self.entities[e.parent as usize];
            let present = above.times[usize::from(e.idle_class)];
            let owed = if resumes && at < self.groups && !e.idle_class {
                above.owed()
            } else {
                0
            };
            let e = &mut self.entities[at as usize];
            e.active = true;
            let least = present.wrapping_sub(owed);
            // The entity is further behind than it is owed. Or it paused for days, and its tag
            // seems to be ahead, since tags are compared as serial numbers.
            if e.start.wrapping_sub(least) > e.ahead.saturating_add(owed) {
                e.start = least;
            }
            let (set, start, parent, idle_class) = (e.set, e.start, e.parent, e.idle_class);
            self.end_absence(at);
            self.sets.insert(set, at, start);
            if idle_class {
                self.restart_idle_timeout(now, at);
            }
            at = parent;
        }
    }

    /// Marks the entity as inactive, because it has no queued request, and also the groups above it
    /// that have no other active child. With `keeps`, those that are absent keep their places.
    pub(super) fn deactivate(&mut self, entity: ShareEntity, keeps: bool) {
        let mut at = entity.0;
        loop {
            let e = &mut self.entities[at as usize];
            if e.parent == NIL || !e.active {
                return;
            }
            self.sets.remove(e.set, at);
            e.active = false;
            let (parent, idle_class) = (e.parent, e.idle_class);
            if idle_class {
                self.overdue.clear(at);
            } else if keeps && at < self.groups {
                self.keep(at);
            }
            at = parent;
            // A group stays active as long as a child of either class is active.
            let of_either = [false, true].map(|class| self.set_of(at, class));
            if !of_either.iter().all(|&set| self.sets.is_empty(set)) {
                return;
            }
        }
    }

    /// Lets a group that has become inactive keep its place, if it or a group below it is absent.
    fn keep(&mut self, group: u32) {
        let below = !self.sets.is_empty(self.absent_below(group));
        if below || self.presence[group as usize].keeps_place() {
            let e = &mut self.entities[group as usize];
            e.absent = true;
            let (parent, start) = (e.parent, e.start);
            self.sets.insert(self.absent_below(parent), group, start);
            self.absent += 1;
        }
    }

    /// Ends the absence of one group.
    #[inline]
    fn end_absence(&mut self, at: u32) {
        let e = &mut self.entities[at as usize];
        if core::mem::take(&mut e.absent) {
            let parent = e.parent;
            self.sets.remove(self.absent_below(parent), at);
            self.absent -= 1;
        }
    }

    /// Ends the absence of a group, and of the groups above it that were absent only because of it.
    fn end_absences(&mut self, mut at: u32) {
        while self.entities[at as usize].absent {
            self.end_absence(at);
            at = self.entities[at as usize].parent;
            if !self.sets.is_empty(self.absent_below(at)) {
                return;
            }
        }
    }

    /// Sets the permitted lead over an absent entity.
    pub(super) fn set_slack(&mut self, slack: ShareCharge) {
        self.slack = virtual_time(slack);
    }

    /// Returns the request pattern of a group.
    #[inline]
    pub(super) fn presence(&mut self, group: GroupId) -> &mut Presence {
        &mut self.presence[group.0 as usize]
    }

    /// Returns the absent group that the stream is ahead of by more than the slack, if there is
    /// one.
    #[inline]
    pub(super) fn absent_behind(&mut self, now: Instant, entity: ShareEntity) -> Option<u32> {
        // The common case: without absent groups, there is no need to walk up the path.
        if self.absent == 0 {
            return None;
        }
        self.find_absent_behind(now, entity)
    }

    /// Walks up the path of the stream to find an absent group that the stream is ahead of.
    #[inline(never)]
    fn find_absent_behind(&mut self, now: Instant, entity: ShareEntity) -> Option<u32> {
        let mut at = entity.0;
        loop {
            let e = self.entities[at as usize];
            if e.parent == NIL {
                return None;
            }
            if let Some(absent) = self.first_absent(now, e.parent) {
                let start = self.entities[absent as usize].start;
                let slack = self.slack / NonZeroU64::from(e.weight);
                // Members of the idle class have a virtual time of their own, which cannot be
                // compared with that of the absent group. They always count as ahead.
                if e.idle_class || before(start.wrapping_add(slack), e.start) {
                    return Some(absent);
                }
            }
            at = e.parent;
        }
    }

    /// Returns the absent child of a group that is furthest behind, after it has ended the absence
    /// of those that did not return in time.
    fn first_absent(&mut self, now: Instant, group: u32) -> Option<u32> {
        while let Some(first) = self.sets.first(self.absent_below(group)) {
            let leaf = self.absent_leaf(first);
            if self.presence[leaf as usize]
                .kept_until()
                .is_none_or(|until| now < until)
            {
                return Some(first);
            }
            self.end_absences(leaf);
        }
        None
    }

    /// Returns the group with streams that causes the absence of a group.
    fn absent_leaf(&self, mut group: u32) -> u32 {
        while let Some(first) = self.sets.first(self.absent_below(group)) {
            group = first;
        }
        group
    }

    /// Returns the request pattern of the group that causes the absence of a group.
    pub(super) fn absence(&self, group: u32) -> &Presence {
        &self.presence[self.absent_leaf(group) as usize]
    }

    /// Iterates over the entity and the groups above it, up to the root.
    fn path(&self, entity: ShareEntity) -> impl Iterator<Item = &ShareNode> {
        let node = |at: u32| self.entities.get(at as usize);
        core::iter::successors(node(entity.0), move |e| node(e.parent))
    }

    /// Returns true if the entity, or a group above it, is of the idle class.
    pub(super) fn is_idle_class(&self, entity: ShareEntity) -> bool {
        self.path(entity).any(|e| e.idle_class)
    }

    /// Returns true if the entity, or a stream below it, has a queued request.
    pub(super) fn is_active(&self, entity: ShareEntity) -> bool {
        self.entities[entity.0 as usize].active
    }

    /// Returns the group of the idle class that has waited for too long, if there is one.
    #[inline]
    pub(super) fn overdue(&self, now: Instant) -> Option<u32> {
        let (at, group) = self.overdue.first()?;
        (at <= now).then_some(group)
    }

    /// Restarts the timeout of a group of the idle class that is served or begins to wait.
    fn restart_idle_timeout(&mut self, now: Instant, group: u32) {
        // Without a timeout, the idle class is never served while others wait.
        if self.idle_timeout > Span::ZERO {
            let ticket = self.overdue.ticket();
            self.overdue.set(group, now + self.idle_timeout, ticket);
        }
    }

    /// Returns the stream whose turn it is below `group`. `None` if no stream there has a queued
    /// request.
    #[inline]
    pub(super) fn pick(&self, group: u32) -> Option<u32> {
        let mut at = group;
        loop {
            // The idle class is served when no other child has queued requests.
            let first = match self.sets.first(self.set_of(at, false)) {
                Some(normal) => normal,
                None => self.sets.first(self.set_of(at, true))?,
            };
            if first >= self.groups {
                return Some(first - self.groups);
            }
            at = first;
        }
    }

    /// Charges a piece of an active stream to it and to the groups above it, up to and including
    /// `top`. If `top` is not above the stream, all groups up to the root are charged.
    // Not inlined, because the loop needs all registers.
    #[inline(never)]
    pub(super) fn charge(
        &mut self,
        now: Instant,
        entity: ShareEntity,
        charge: ShareCharge,
        top: ShareEntity,
    ) {
        let (mut at, work) = (entity.0, virtual_time(charge));
        while let Some(parent) = self.charge_active(at, work) {
            if self.entities[at as usize].idle_class {
                self.restart_idle_timeout(now, at);
            }
            if at == top.0 {
                return;
            }
            at = parent;
        }
    }

    /// Charges a flush of the stream. A flush does not count as service of the idle class, so its
    /// timeout continues.
    pub(super) fn charge_flush(&mut self, entity: ShareEntity, charge: ShareCharge) {
        let (mut at, work) = (entity.0, virtual_time(charge));
        loop {
            let e = self.entities[at as usize];
            let parent = if e.active {
                self.charge_active(at, work)
            } else {
                self.charge_inactive(at, work)
            };
            let Some(parent) = parent else {
                return;
            };
            at = parent;
        }
    }

    /// Advances the start tag of one active entity by `work`, the charge in the unit of virtual
    /// time. Returns the group above. `None` for the root.
    #[expect(clippy::inline_always, reason = "once for each level of each piece")]
    #[inline(always)]
    fn charge_active(&mut self, at: u32, work: u64) -> Option<u32> {
        // A copy, because the compiler would read the entity again after each change of another.
        let e = self.entities[at as usize];
        if e.parent == NIL {
            return None;
        }
        debug_assert!(e.active, "it has no queued request");
        let member = self.sets.member(e.set, at);
        let above = &mut self.entities[e.parent as usize];
        let present = &mut above.times[usize::from(e.idle_class)];
        // Virtual time follows the entities whose turn it was, and not those that a promise served
        // earlier.
        if before(*present, e.start) && member.is_first() {
            *present = e.start;
            if at < self.groups && !e.idle_class {
                (above.last_weight, above.last_slack) = (e.weight, self.slack);
            }
        }
        let start = e.advanced(*present, work);
        self.entities[at as usize].start = start;
        // `postpone` is sufficient, because a start tag never falls here.
        member.postpone(start);
        Some(e.parent)
    }

    /// Advances the start tag of one entity without queued requests by `work`. Returns the group
    /// above. `None` if the entity has no place in the tree, as the root.
    fn charge_inactive(&mut self, at: u32, work: u64) -> Option<u32> {
        let e = self.entities[at as usize];
        if e.parent == NIL {
            return None;
        }
        let present = self.entities[e.parent as usize].times[usize::from(e.idle_class)];
        let start = e.advanced(present, work);
        self.entities[at as usize].start = start;
        if e.absent {
            self.sets.postpone(self.absent_below(e.parent), at, start);
        }
        Some(e.parent)
    }

    /// Checks that exactly the entities with queued requests, and the groups above them, are
    /// active. `sums` is scratch space with an element for each group.
    #[cfg(debug_assertions)]
    pub(super) fn invariants(&self, sums: &mut [u64]) {
        sums.fill(0);
        for (at, e) in (0..).zip(&self.entities) {
            let due = at < self.groups && self.overdue.get(at).is_some();
            assert!(
                e.active || !due,
                "entity {at} has nothing to send and must be served"
            );
            if e.active {
                assert_eq!(e.set, self.set_of(e.parent, e.idle_class), "entity {at}");
                sums[e.parent as usize] += 1;
            }
            if e.parent != NIL {
                let times = self.entities[e.parent as usize].times;
                let present = times[usize::from(e.idle_class)];
                let furthest = present.wrapping_add(AHEAD_MAX);
                assert!(!before(furthest, e.start), "entity {at} is too far ahead");
            }
        }
        self.check_absent();
        for (group, &active) in (0..self.groups).zip(&*sums) {
            let sets = [false, true].map(|class| self.set_of(group, class));
            let waiting = sets.map(|set| self.sets.len(set)).iter().sum::<u32>();
            assert_eq!(u64::from(waiting), active, "below group {group}");
            let e = &self.entities[group as usize];
            let has_place = e.parent != NIL;
            assert_eq!(e.active, has_place && active > 0, "group {group}");
        }
    }

    /// Iterates over the request patterns of all groups, by slot.
    #[cfg(debug_assertions)]
    pub(super) fn all_presence(&self) -> impl Iterator<Item = &Presence> {
        self.presence.iter()
    }

    /// Checks that only groups without queued requests are absent, and that each of them is in its
    /// set.
    #[cfg(debug_assertions)]
    fn check_absent(&self) {
        let absent = |e: &&ShareNode| e.absent;
        assert_eq!(
            self.entities.iter().filter(absent).count(),
            self.absent as usize,
            "absent groups"
        );
        for group in 0..self.groups {
            let below = (self.entities.iter().filter(absent)).filter(|e| e.parent == group);
            let kept = self.sets.len(self.absent_below(group));
            assert_eq!(below.count(), kept as usize, "absent below group {group}");
            let e = &self.entities[group as usize];
            assert!(!e.absent || !e.active && !e.idle_class, "group {group}");
        }
    }

    /// Returns true if the stream `one` has had less than its share compared with the stream
    /// `other`. The start tags are compared at the level at which the paths separate.
    pub(super) fn is_behind(&self, one: ShareEntity, other: ShareEntity) -> bool {
        for a in self.path(one) {
            if let Some(b) = self.path(other).find(|b| b.parent == a.parent) {
                return !a.idle_class && (b.idle_class || before(a.start, b.start));
            }
        }
        false
    }

    /// Returns true if the entity, or a group above it, is ahead of its sibling whose turn it is by
    /// more than `charge`. Only levels within a tenant count, because any further service comes
    /// from the tenant's share.
    pub(super) fn is_ahead_in_tenant(&self, entity: ShareEntity, charge: ShareCharge) -> bool {
        let mut path = self
            .path(entity)
            .take_while(|e| !matches!(e.parent, 0 | NIL));
        path.any(|e| {
            self.sets.first(e.set).is_some_and(|first| {
                let most = virtual_time(charge) / NonZeroU64::from(e.weight);
                let start = self.entities[first as usize].start;
                before(start.wrapping_add(most), e.start)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn a_piece_with_an_extreme_cost_does_not_turn_virtual_time_back() {
        let mut shares = Shares::new(1, 2, Span::ZERO);
        for stream in 0..2 {
            let entity = shares.of_stream(stream);
            shares.set(NOW, entity, 0, 1, false);
            shares.activate(NOW, entity, false);
        }
        // Without a limit, two tags could not be compared any more after the largest costs.
        for cost in [1 << 47, 1 << 48, (1 << 48) - 1, u64::MAX >> 1] {
            let stream = shares.pick(0).unwrap();
            let entity = shares.of_stream(stream);
            let start = |shares: &Shares| shares.entities[entity.0 as usize].start;
            let before_it = start(&shares);
            shares.charge(NOW, entity, ShareCharge(cost), ShareEntity::NONE);
            assert!(!before(start(&shares), before_it));
        }
    }

    /// Serves `turns` pieces of `cost` by share, and counts those of each stream.
    fn served(shares: &mut Shares, turns: u32, cost: u64) -> [u32; 4] {
        let mut count = [0; 4];
        for _ in 0..turns {
            let stream = shares.pick(0).unwrap();
            count[stream as usize] += 1;
            shares.charge(
                NOW,
                shares.of_stream(stream),
                ShareCharge(cost),
                ShareEntity::NONE,
            );
        }
        count
    }

    /// Creates two tenants with the shares 1 : 3. The second has two volumes with the shares 1 : 2.
    /// Each leaf has a stream.
    fn tree() -> Shares {
        let mut shares = Shares::new(5, 4, Span::from_millis(200));
        for (group, parent, weight) in [(1, 0, 100), (2, 0, 300), (3, 2, 10), (4, 2, 20)] {
            shares.set(NOW, ShareEntity(group), parent, weight, false);
        }
        for (stream, group) in [(0, 1), (1, 3), (2, 4)] {
            let entity = shares.of_stream(stream);
            shares.set(NOW, entity, group, 100, false);
            shares.activate(NOW, entity, false);
        }
        shares
    }

    #[test]
    fn weights_divide_at_every_level() {
        // 1 : 3 of 400 pieces are 100 and 300, and 1 : 2 of 300 are 100 and 200.
        assert_eq!(served(&mut tree(), 400, 1_000), [100, 100, 200, 0]);
    }

    #[test]
    fn a_pause_earns_no_credit_and_costs_no_share() {
        let mut shares = tree();
        let entity = shares.of_stream(0);
        shares.deactivate(entity, false);
        assert!(!shares.is_active(ShareEntity(1)));
        served(&mut shares, 300, 1_000);
        shares.activate(NOW, entity, false);
        // A quarter of the next 400 pieces belongs to the first tenant, without anything for the
        // 300 pieces of its pause.
        let count = served(&mut shares, 400, 1_000);
        assert!((100..=102).contains(&count[0]), "{count:?}");
    }

    /// Adds requests of a group that are in the drive.
    fn outstanding(shares: &mut Shares, group: u32, requests: u32) {
        for _ in 0..requests {
            shares.presence(GroupId(group)).observe_request(NOW);
        }
    }

    #[test]
    fn a_group_with_all_requests_in_flight_keeps_its_place() {
        let mut shares = tree();
        shares.set_slack(ShareCharge(1_000));
        let [one, other] = [0, 1].map(|stream| shares.of_stream(stream));
        shares.deactivate(shares.of_stream(2), false);
        outstanding(&mut shares, 3, 1);
        shares.charge(NOW, other, ShareCharge(1_000), ShareEntity::NONE);
        shares.deactivate(other, true);
        // The absent tenant has received 1,000 at weight 300. The other tenant, at weight 100, may
        // be ahead by the slack of 1,000. So it may receive 333 + 1,000, which is less than two
        // pieces of 700.
        for _ in 0..2 {
            assert_eq!(shares.absent_behind(NOW, one), None);
            shares.charge(NOW, one, ShareCharge(700), ShareEntity::NONE);
        }
        assert_eq!(shares.absent_behind(NOW, one), Some(2));
        // After its return, the group receives the service that it missed while it was absent, up
        // to the slack.
        shares.activate(NOW, other, true);
        let count = served(&mut shares, 100, 100);
        assert!((77..=90).contains(&count[1]), "{count:?}");
        shares.presence(GroupId(3)).arrivals.observe_answer(NOW);
        shares.deactivate(other, true);
        assert_eq!(shares.absent_behind(NOW, one), None, "it has paused");
    }

    #[test]
    fn a_stream_that_comes_back_after_days_starts_at_the_present() {
        let mut shares = Shares::new(1, 2, Span::ZERO);
        let [one, other] = [0, 1].map(|stream| shares.of_stream(stream));
        for entity in [one, other] {
            shares.set(NOW, entity, 0, 1, false);
        }
        shares.activate(NOW, one, false);
        // At weight one, 170 times 2^40 ns are 52 hours of service. Tags are compared as serial
        // numbers, which works up to a distance of 2^63 / 2^16 ns, or 39 hours.
        for _ in 0..170 {
            shares.charge(NOW, one, ShareCharge(1 << 40), ShareEntity::NONE);
            shares.sets.remove(0, one.0);
            shares.entities[one.0 as usize].active = false;
            let time = &mut shares.entities[0].times[0];
            *time = time.wrapping_add(1 << 40 << SHIFT);
            shares.activate(NOW, one, false);
        }
        shares.activate(NOW, other, false);
        let count = served(&mut shares, 40, 1_000);
        assert!(count[1] >= 20, "{count:?}");
    }

    #[test]
    fn reserved_service_counts_against_the_share() {
        let mut shares = tree();
        let entity = shares.of_stream(0);
        // The first tenant receives 20 pieces out of turn. At 1 : 3 this is its part of 80 pieces,
        // so the next 60 belong to the other tenant.
        for _ in 0..20 {
            shares.charge(NOW, entity, ShareCharge(1_000), ShareEntity::NONE);
        }
        let count = served(&mut shares, 60, 1_000);
        assert_eq!(count[0], 0);
        assert_eq!(served(&mut shares, 400, 1_000)[0], 100);
    }

    #[test]
    fn the_idle_class_is_served_without_others_or_after_its_timeout() {
        let mut shares = tree();
        shares.set(NOW, ShareEntity(1), 0, 100, true);
        // The first tenant is in the idle class, so it gets nothing while the other one has queued
        // requests.
        assert_eq!(served(&mut shares, 30, 1_000)[0], 0);
        let late = Instant::ZERO + Span::from_millis(200);
        assert_eq!(shares.overdue(late), Some(1));
        // Its service restarts the timeout.
        let entity = shares.of_stream(0);
        shares.charge(late, entity, ShareCharge(1_000), ShareEntity::NONE);
        assert_eq!(shares.overdue(late), None);
        assert_ne!(shares.pick(0), Some(0));
    }

    #[test]
    fn a_group_enters_the_idle_class_without_debt_or_credit() {
        let mut shares = tree();
        shares.set(NOW, ShareEntity(2), 0, 100, true);
        assert_eq!(served(&mut shares, 400, 1_000_000)[0], 400);
        shares.set(NOW, ShareEntity(1), 0, 100, true);
        let count = served(&mut shares, 40, 1_000_000);
        assert_eq!(count[0], 20, "{count:?}");
    }
}
