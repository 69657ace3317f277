//! What promises leave, divided by weight: start-time fair queueing at every node of the tree.
//!
//! Each entity (a group, or a stream in its group) has a start tag in its parent's virtual time; the smallest is served and
//! moves on by cost / weight; virtual time is the start tag of what was served last. An entity that comes back from a pause starts at
//! the present, owed nothing for it. Two entities that wait all the time differ in service / weight by at most one piece of each
//! (Goyal, Vin, Cheng: "Start-time fair queueing", 1996), whatever the drive's speed does.
//!
//! A group that has few requests at a time has nothing to send while they are in the drive, and is no less in need of its share. It is
//! *absent* and keeps its place: one whose turn it is is *ahead* of it if its start tag is larger by more than a slack. What becomes of
//! one that is ahead is another file's business (`restraint`).

use super::constants::{CHARGE_MAX, START_AHEAD_MAX};
use super::learned::arrival::Presence;
use super::unit::{Charge, Entity};
use crate::heap::Heap;
use crate::list::NIL;
use crate::tournament::Tournaments;
use crate::tree::before;
use crate::{GroupId, Instant, Span};
use alloc::vec;
use alloc::vec::Vec;

/// Fraction bits of virtual time.
const SHIFT: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    /// It and those beside it that are of its class, by their start tags.
    set: u32,
    start: u64,
    /// How far ahead [`START_AHEAD_MAX`] takes it.
    ahead: u64,
    weight: u32,
    idle_class: bool,
    active: bool,
    /// It has nothing to send and keeps its place: it, or a group below it, will have something in a moment.
    absent: bool,
}

/// The trees of all groups. An entity's number is a group's slot, or the number of groups plus a stream's slot.
#[derive(Debug)]
pub(super) struct Shares {
    groups: u32,
    entities: Vec<Node>,
    /// Three for each group: of its children, of those of the idle class, and of those that are absent. The second has a virtual time of
    /// its own: what is left to it now and then moves nobody else's.
    sets: Tournaments,
    times: Vec<u64>,
    /// For each group, how far behind its virtual time a child may be that comes back at once: as much as the one may be ahead that
    /// moved it.
    owed: Vec<u64>,
    /// The service by which one may be ahead: what keeps the drive busy, in the units of virtual time.
    slack: u64,
    /// What is known of each group with streams, and the number of groups that are absent.
    presence: Vec<Presence>,
    absent: u32,
    /// Groups of the idle class, at whatever level, that have something to send: by when they must be served.
    overdue: Heap,
    idle_timeout: Span,
}

impl Shares {
    pub(super) fn new(groups: u32, streams: u32, idle_timeout: Span) -> Self {
        let entity = Node {
            parent: NIL,
            set: NIL,
            start: 0,
            ahead: START_AHEAD_MAX << SHIFT,
            weight: 1,
            idle_class: false,
            active: false,
            absent: false,
        };
        Self {
            groups,
            entities: vec![entity; (groups + streams) as usize],
            // A group is a member of two.
            sets: Tournaments::new(3 * groups, groups + streams, 2 * groups + streams),
            times: vec![0; 2 * groups as usize],
            owed: vec![0; groups as usize],
            slack: 0,
            presence: vec![Presence::default(); groups as usize],
            absent: 0,
            overdue: Heap::new(groups),
            idle_timeout,
        }
    }

    pub(super) fn of_stream(&self, stream: u32) -> Entity {
        Entity(self.groups + stream)
    }

    /// Those below a group that are of a class.
    #[inline]
    fn set_of(&self, group: u32, idle_class: bool) -> u32 {
        if idle_class {
            self.groups + group
        } else {
            group
        }
    }

    /// The absent ones below a group.
    #[inline]
    fn absent_below(&self, group: u32) -> u32 {
        2 * self.groups + group
    }

    /// Places an entity in the tree, or gives it another weight or class.
    pub(super) fn set(
        &mut self,
        now: Instant,
        entity: Entity,
        parent: u32,
        weight: u32,
        idle_class: bool,
    ) {
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
            self.entities[entity.0 as usize].start = self.times[set as usize];
        }
        let e = &mut self.entities[entity.0 as usize];
        (e.parent, e.set, e.idle_class) = (parent, set, idle_class);
        (e.weight, e.ahead) = (weight, (START_AHEAD_MAX << SHIFT) / u64::from(weight));
        if active {
            self.activate(now, entity, false);
        }
    }

    /// Takes an inactive entity out of the tree, if it is in it.
    pub(super) fn forget(&mut self, entity: Entity) {
        self.stop_keeping(entity.0);
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

    /// The entity has something to send: it and every group above it.
    /// Such as had requests a moment ago (`resumes`) are still owed what they were then, unless others had what was left.
    pub(super) fn activate(&mut self, now: Instant, entity: Entity, resumes: bool) {
        let mut at = entity.0;
        while at != NIL {
            let e = &mut self.entities[at as usize];
            if e.parent == NIL || e.active {
                return;
            }
            debug_assert!(e.set != NIL && e.weight > 0, "it has no place in the tree");
            e.active = true;
            let present = self.times[e.set as usize];
            let owed = if resumes && at < self.groups && !e.idle_class {
                self.owed[e.parent as usize]
            } else {
                0
            };
            let least = present.wrapping_sub(owed);
            // It is further behind than that, or so far, after days, that it seems ahead.
            if e.start.wrapping_sub(least) > e.ahead.saturating_add(owed) {
                e.start = least;
            }
            let (set, start, parent, idle_class) = (e.set, e.start, e.parent, e.idle_class);
            self.stop_keeping_one(at);
            self.sets.insert(set, at, start);
            if idle_class {
                self.served_idle(now, at);
            }
            at = parent;
        }
    }

    /// The entity has nothing more to send, and perhaps the groups above it have not either; such as need it keep their places, if
    /// places are kept (`keeps`).
    pub(super) fn deactivate(&mut self, entity: Entity, keeps: bool) {
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
            let of_either = [false, true].map(|class| self.set_of(at, class));
            if !of_either.iter().all(|&set| self.sets.is_empty(set)) {
                return;
            }
        }
    }

    /// A group that has become inactive keeps its place if it needs that, or a group below it does.
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

    /// It keeps its place no longer.
    #[inline]
    fn stop_keeping_one(&mut self, at: u32) {
        let e = &mut self.entities[at as usize];
        if core::mem::take(&mut e.absent) {
            let parent = e.parent;
            self.sets.remove(self.absent_below(parent), at);
            self.absent -= 1;
        }
    }

    /// It keeps its place no longer, and neither do those above that did so for its sake.
    fn stop_keeping(&mut self, mut at: u32) {
        while self.entities[at as usize].absent {
            self.stop_keeping_one(at);
            at = self.entities[at as usize].parent;
            if !self.sets.is_empty(self.absent_below(at)) {
                return;
            }
        }
    }

    /// One may be ahead by `slack` of service.
    pub(super) fn set_slack(&mut self, slack: Charge) {
        self.slack = slack.0.min(CHARGE_MAX) << SHIFT;
    }

    /// What is known of a group.
    #[inline]
    pub(super) fn presence(&mut self, group: GroupId) -> &mut Presence {
        &mut self.presence[group.0 as usize]
    }

    /// The absent group of which the stream, whose turn it is, is ahead by more than the slack, if there is one.
    #[inline]
    pub(super) fn absent_behind(&mut self, now: Instant, entity: Entity) -> Option<u32> {
        if self.absent == 0 {
            return None;
        }
        let mut at = entity.0;
        loop {
            let e = self.entities[at as usize];
            if e.parent == NIL {
                return None;
            }
            if let Some(absent) = self.first_absent(now, e.parent) {
                let start = self.entities[absent as usize].start;
                let slack = self.slack / u64::from(e.weight);
                if e.idle_class || before(start.wrapping_add(slack), e.start) {
                    return Some(absent);
                }
            }
            at = e.parent;
        }
    }

    /// The absent child of a group that is behind most. Such as did not come back in time are so no longer.
    fn first_absent(&mut self, now: Instant, group: u32) -> Option<u32> {
        while let Some(first) = self.sets.first(self.absent_below(group)) {
            let leaf = self.absent_leaf(first);
            if self.presence[leaf as usize]
                .kept_until()
                .is_none_or(|until| now < until)
            {
                return Some(first);
            }
            self.stop_keeping(leaf);
        }
        None
    }

    /// The group with streams for whose sake a group is absent.
    fn absent_leaf(&self, mut group: u32) -> u32 {
        while let Some(first) = self.sets.first(self.absent_below(group)) {
            group = first;
        }
        group
    }

    /// What is known of the group for whose sake a group is absent.
    pub(super) fn absence(&self, group: u32) -> &Presence {
        &self.presence[self.absent_leaf(group) as usize]
    }

    /// The entity and the groups above it, up to the root.
    fn path(&self, entity: Entity) -> impl Iterator<Item = &Node> {
        let node = |at: u32| self.entities.get(at as usize);
        core::iter::successors(node(entity.0), move |e| node(e.parent))
    }

    /// True if the entity, or a group above it, is of the idle class.
    pub(super) fn is_idle_class(&self, entity: Entity) -> bool {
        self.path(entity).any(|e| e.idle_class)
    }

    /// True if the entity or a stream below it has something to send.
    pub(super) fn is_active(&self, entity: Entity) -> bool {
        self.entities[entity.0 as usize].active
    }

    /// The group of the idle class that has waited too long, if one has.
    #[inline]
    pub(super) fn overdue(&self, now: Instant) -> Option<u32> {
        let (at, group) = self.overdue.first()?;
        (at <= now).then_some(group)
    }

    /// A group of the idle class is served, or begins to wait.
    fn served_idle(&mut self, now: Instant, group: u32) {
        if self.idle_timeout > Span::ZERO {
            let ticket = self.overdue.ticket();
            self.overdue.set(group, now + self.idle_timeout, ticket);
        }
    }

    /// The stream whose turn it is below `group`; `None` if nobody there has anything to send.
    #[inline]
    pub(super) fn pick(&self, group: u32) -> Option<u32> {
        let mut at = group;
        loop {
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

    /// `charge` was spent on the stream: it and the groups above it move on, up to and including `top`; all of them if that is not
    /// among them.
    #[inline]
    pub(super) fn charge(&mut self, now: Instant, entity: Entity, charge: Charge, top: Entity) {
        let (mut at, work) = (entity.0, charge.0.min(CHARGE_MAX) << SHIFT);
        while let Some(parent) = self.charge_one(at, work) {
            let e = &self.entities[at as usize];
            if e.idle_class && e.active {
                self.served_idle(now, at);
            }
            if at == top.0 {
                return;
            }
            at = parent;
        }
    }

    /// A flush of the stream cost `charge`; that is no service for which an entity of the idle class would have waited.
    pub(super) fn charge_flush(&mut self, entity: Entity, charge: Charge) {
        let (mut at, work) = (entity.0, charge.0.min(CHARGE_MAX) << SHIFT);
        while let Some(parent) = self.charge_one(at, work) {
            at = parent;
        }
    }

    /// It moves on by `work`: what it is charged, in the units of virtual time. Returns the group above; `None` if the entity has no place in the tree, as the root has none.
    #[expect(clippy::inline_always, reason = "once for each level of each piece")]
    #[inline(always)]
    fn charge_one(&mut self, at: u32, work: u64) -> Option<u32> {
        let e = &mut self.entities[at as usize];
        if e.parent == NIL {
            return None;
        }
        debug_assert!(e.weight > 0, "it has no share");
        let present = &mut self.times[e.set as usize];
        // Virtual time follows those whose turn it was, not those served ahead of it for the sake of a promise.
        if e.active && before(*present, e.start) && self.sets.first(e.set) == Some(at) {
            *present = e.start;
            if at < self.groups && !e.idle_class {
                self.owed[e.parent as usize] = self.slack / u64::from(e.weight);
            }
        }
        let furthest = present.wrapping_add(e.ahead);
        let next = (e.start).wrapping_add(work / u64::from(e.weight));
        if !before(furthest, next) {
            e.start = next;
        } else if before(e.start, furthest) {
            e.start = furthest;
        }
        let (parent, start) = (e.parent, e.start);
        if e.active {
            self.sets.postpone(e.set, at, start);
        } else if e.absent {
            self.sets.postpone(self.absent_below(parent), at, start);
        }
        Some(parent)
    }

    /// Those with something to send, and every group above them, wait for their turn, and nobody else. `sums` is room for sums by group.
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
                let furthest = self.times[e.set as usize].wrapping_add(START_AHEAD_MAX << SHIFT);
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

    /// What is known of each group, by its number.
    #[cfg(debug_assertions)]
    pub(super) fn all_presence(&self) -> impl Iterator<Item = &Presence> {
        self.presence.iter()
    }

    /// Those that keep their places are groups with nothing to send, and each is in its set.
    #[cfg(debug_assertions)]
    fn check_absent(&self) {
        let absent = |e: &&Node| e.absent;
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

    /// True if the stream `one` has had less than its share beside the stream `other`, at the level at which their ways part.
    pub(super) fn owes(&self, one: Entity, other: Entity) -> bool {
        for a in self.path(one) {
            if let Some(b) = self.path(other).find(|b| b.parent == a.parent) {
                return !a.idle_class && (b.idle_class || before(a.start, b.start));
            }
        }
        false
    }

    /// True if the entity, or a group above it, is ahead of the one whose turn it is beside it in the same tenant by more than `charge` of
    /// service: what it has now, it has of their tenant's share.
    pub(super) fn is_past(&self, entity: Entity, charge: Charge) -> bool {
        let mut path = self
            .path(entity)
            .take_while(|e| !matches!(e.parent, 0 | NIL));
        path.any(|e| {
            self.sets.first(e.set).is_some_and(|first| {
                let most = (charge.0.min(CHARGE_MAX) << SHIFT) / u64::from(e.weight);
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
    fn a_piece_that_takes_the_drive_for_years_does_not_turn_time_back() {
        let mut shares = Shares::new(1, 2, Span::ZERO);
        for stream in 0..2 {
            let entity = shares.of_stream(stream);
            shares.set(NOW, entity, 0, 1, false);
            shares.activate(NOW, entity, false);
        }
        for cost in [1 << 47, 1 << 48, (1 << 48) - 1, u64::MAX >> 1] {
            let stream = shares.pick(0).unwrap();
            let entity = shares.of_stream(stream);
            let start = |shares: &Shares| shares.entities[entity.0 as usize].start;
            let before_it = start(&shares);
            shares.charge(NOW, entity, Charge(cost), Entity::NONE);
            assert!(!before(start(&shares), before_it));
        }
    }

    fn served(shares: &mut Shares, turns: u32, cost: u64) -> [u32; 4] {
        let mut count = [0; 4];
        for _ in 0..turns {
            let stream = shares.pick(0).unwrap();
            count[stream as usize] += 1;
            shares.charge(NOW, shares.of_stream(stream), Charge(cost), Entity::NONE);
        }
        count
    }

    /// Two tenants 1 : 3, the second with two volumes 1 : 2; a stream on each leaf.
    fn tree() -> Shares {
        let mut shares = Shares::new(5, 4, Span::from_millis(200));
        for (group, parent, weight) in [(1, 0, 100), (2, 0, 300), (3, 2, 10), (4, 2, 20)] {
            shares.set(NOW, Entity(group), parent, weight, false);
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
        assert_eq!(served(&mut tree(), 400, 1_000), [100, 100, 200, 0]);
    }

    #[test]
    fn a_pause_earns_nothing_and_costs_nothing() {
        let mut shares = tree();
        let entity = shares.of_stream(0);
        shares.deactivate(entity, false);
        assert!(!shares.is_active(Entity(1)));
        served(&mut shares, 300, 1_000);
        shares.activate(NOW, entity, false);
        let count = served(&mut shares, 400, 1_000);
        assert!((100..=102).contains(&count[0]), "{count:?}");
    }

    /// Requests of a group that are in the drive.
    fn outstanding(shares: &mut Shares, group: u32, requests: u32) {
        for _ in 0..requests {
            shares.presence(GroupId(group)).observe_request(NOW);
        }
    }

    #[test]
    fn a_group_whose_requests_are_in_the_drive_keeps_its_place() {
        let mut shares = tree();
        shares.set_slack(Charge(1_000));
        let [one, other] = [0, 1].map(|stream| shares.of_stream(stream));
        shares.deactivate(shares.of_stream(2), false);
        outstanding(&mut shares, 3, 1);
        shares.charge(NOW, other, Charge(1_000), Entity::NONE);
        shares.deactivate(other, true);
        // It has had its thousand, and so may the other, whose share is a third, and a third of the slack.
        for _ in 0..2 {
            assert_eq!(shares.absent_behind(NOW, one), None);
            shares.charge(NOW, one, Charge(700), Entity::NONE);
        }
        assert_eq!(shares.absent_behind(NOW, one), Some(2));
        // What it had not meanwhile it has when it comes back, but for more than the slack.
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
        // Two days of service of weight one, an hour and a half of them beyond what can be told from the past.
        for _ in 0..170 {
            shares.charge(NOW, one, Charge(CHARGE_MAX), Entity::NONE);
            shares.sets.remove(0, one.0);
            shares.entities[one.0 as usize].active = false;
            shares.times[0] = shares.times[0].wrapping_add(CHARGE_MAX << SHIFT);
            shares.activate(NOW, one, false);
        }
        shares.activate(NOW, other, false);
        let count = served(&mut shares, 40, 1_000);
        assert!(count[1] >= 20, "{count:?}");
    }

    #[test]
    fn what_was_reserved_counts_against_the_share() {
        let mut shares = tree();
        let entity = shares.of_stream(0);
        // Twenty pieces out of turn: of the next eighty turns the other tenant gets all that its share makes up.
        for _ in 0..20 {
            shares.charge(NOW, entity, Charge(1_000), Entity::NONE);
        }
        let count = served(&mut shares, 60, 1_000);
        assert_eq!(count[0], 0);
        assert_eq!(served(&mut shares, 400, 1_000)[0], 100);
    }

    #[test]
    fn the_idle_class_waits_for_nobody_or_for_its_time() {
        let mut shares = tree();
        shares.set(NOW, Entity(1), 0, 100, true);
        assert_eq!(served(&mut shares, 30, 1_000)[0], 0);
        let late = Instant::ZERO + Span::from_millis(200);
        assert_eq!(shares.overdue(late), Some(1));
        let entity = shares.of_stream(0);
        shares.charge(late, entity, Charge(1_000), Entity::NONE);
        assert_eq!(shares.overdue(late), None);
        assert_ne!(shares.pick(0), Some(0));
    }

    #[test]
    fn a_group_that_comes_to_the_idle_class_is_owed_nothing_and_owes_nothing() {
        let mut shares = tree();
        shares.set(NOW, Entity(2), 0, 100, true);
        assert_eq!(served(&mut shares, 400, 1_000_000)[0], 400);
        shares.set(NOW, Entity(1), 0, 100, true);
        let count = served(&mut shares, 40, 1_000_000);
        assert_eq!(count[0], 20, "{count:?}");
    }
}
