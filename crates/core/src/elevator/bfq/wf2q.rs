//! B-WF2Q+ over the tree of groups: at each node, one service tree a class, and in each tree the entity of smallest finish time
//! among those whose start time virtual time has reached.
//!
//! An entity's number is a group's slot below `groups` and a queue's from there on. A group's budget is that of the child it
//! would serve next. The rules are Linux's (bfq-wf2q.c, named function by function below); what differs stands in
//! docs/deviations.md.

use super::entity::{CLASSES, Entity, IDLE, Place, delta};
use crate::list::NIL;
use crate::tree::{Forest, Tree, before};
use crate::{Instant, Span, mutant};
use alloc::vec;
use alloc::vec::Vec;

/// The root's number, as a node; it is no entity.
const ROOT: u32 = 0;

/// A weight counts so many times against those of the next lower class where tags are divided (Linux: `IOPRIO_BE_NR`).
const HIGHER: u64 = 8;

/// How long the idle class may wait behind the others (Linux: `BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS_TIMEOUT: Span = Span::from_millis(200);

/// Linux: `bfq_service_tree`.
#[derive(Clone, Copy, Debug)]
struct ServiceTree {
    /// Backlogged entities by finish time.
    active: Tree,
    /// Entities without requests whose finish time is ahead of virtual time.
    idle: Tree,
    v: u64,
    /// Weights of all entities in both trees and in service.
    wsum: u64,
}

/// A group, the root among them, as the place where its members compete (Linux: `bfq_sched_data`).
#[derive(Clone, Copy, Debug)]
struct Node {
    in_service: u32,
    /// Whom the look-up found when something last changed here.
    next: u32,
    /// Members in the active trees.
    active: u32,
    /// When the idle class was last served, or came to wait.
    idle_class_at: Instant,
}

const TREE: ServiceTree = ServiceTree {
    active: Tree::EMPTY,
    idle: Tree::EMPTY,
    v: 0,
    wsum: 0,
};

const NODE: Node = Node {
    in_service: NIL,
    next: NIL,
    active: 0,
    idle_class_at: Instant::ZERO,
};

/// The tree of groups and queues.
#[derive(Debug)]
pub(super) struct Wf2q {
    nodes: Vec<Node>,
    /// Those of each node by class, one node after the other.
    trees: Vec<ServiceTree>,
    entities: Vec<Entity>,
    forest: Forest,
}

impl Wf2q {
    pub(super) fn new(groups: u32, queues: u32) -> Self {
        Self {
            nodes: vec![NODE; groups as usize],
            trees: vec![TREE; groups as usize * CLASSES],
            entities: vec![Entity::NEW; (groups + queues) as usize],
            forest: Forest::new(groups + queues),
        }
    }

    pub(super) fn entity(&self, e: u32) -> &Entity {
        &self.entities[e as usize]
    }

    pub(super) fn entity_mut(&mut self, e: u32) -> &mut Entity {
        &mut self.entities[e as usize]
    }

    /// A new entity, inactive.
    pub(super) fn add(&mut self, e: u32, parent: u32, class: u8, weight: u32) {
        debug_assert!(self.entity(e).place == Place::Out, "entity {e} is in use");
        *self.entity_mut(e) = Entity {
            parent,
            class,
            tree: tree_of(parent, class),
            weight,
            new_weight: weight,
            ..Entity::NEW
        };
        if (e as usize) < self.nodes.len() {
            self.nodes[e as usize] = NODE;
            let first = tree_of(e, 0) as usize;
            self.trees[first..first + CLASSES].fill(TREE);
        }
    }

    /// An entity goes that is neither active nor in service.
    pub(super) fn forget(&mut self, e: u32) {
        let Entity {
            tree,
            place,
            weight,
            ..
        } = *self.entity(e);
        debug_assert!(matches!(place, Place::Idle | Place::Out));
        if place == Place::Idle {
            let tree = &mut self.trees[tree as usize];
            self.forest.remove(&mut tree.idle, e);
            tree.wsum -= u64::from(weight);
        }
        self.entity_mut(e).place = Place::Out;
    }

    /// Another weight, from the entity's next activation or requeueing on (Linux: `__bfq_entity_update_weight_prio`).
    pub(super) fn set_weight(&mut self, e: u32, weight: u32) {
        self.entity_mut(e).new_weight = weight;
    }

    /// Another weight likewise, of which a queue's own is one of so many parts.
    pub(super) fn raise(&mut self, e: u32, weight: u32, times: u32) {
        let entity = self.entity_mut(e);
        entity.new_weight = weight;
        entity.raised = times;
    }

    /// The new weight of the queue in service counts now.
    pub(super) fn reweigh(&mut self, e: u32) {
        let entity = &mut self.entities[e as usize];
        debug_assert!(entity.place == Place::Service);
        let tree = &mut self.trees[entity.tree as usize];
        tree.wsum = tree.wsum - u64::from(entity.weight) + u64::from(entity.new_weight);
        entity.weight = entity.new_weight;
    }

    /// A queue with requests competes from now on; `waited` if it was expected to go on and came in time
    /// (Linux: `bfq_activate_requeue_entity`).
    pub(super) fn activate(&mut self, now: Instant, e: u32, waited: bool) {
        let mut at = e;
        loop {
            let parent = self.entity(at).parent;
            match self.entity(at).place {
                Place::Active | Place::Service => self.reposition(at),
                Place::Out | Place::Idle => self.enter(now, at, waited),
            }
            if !self.refresh_next(parent) || parent == ROOT {
                return;
            }
            at = parent;
        }
    }

    /// The budget of an active queue that is not in service has changed.
    pub(super) fn rebudgeted(&mut self, e: u32) {
        self.reposition_path(e);
    }

    /// A queue that is not in service has no requests any more (Linux: `bfq_deactivate_entity`).
    pub(super) fn deactivate(&mut self, e: u32) {
        let mut at = e;
        loop {
            self.leave(at);
            let parent = self.entity(at).parent;
            self.refresh_next(parent);
            if parent == ROOT {
                return;
            }
            let node = &self.nodes[parent as usize];
            if node.next != NIL || node.in_service != NIL {
                self.reposition_path(parent);
                return;
            }
            at = parent;
        }
    }

    /// Chooses a queue and puts it and the groups above it in service (Linux: `bfq_get_next_queue`).
    pub(super) fn select(&mut self, now: Instant) -> Option<u32> {
        let mut node = ROOT;
        let queue = loop {
            debug_assert!(self.nodes[node as usize].in_service == NIL);
            let e = self.choose(now, node)?;
            self.nodes[node as usize].in_service = e;
            let inside = self.nodes.get(e as usize).map(|n| n.active);
            // A group of several members stays in the tree: it may well be next again (Linux: `bfq_no_longer_next_in_service`).
            if inside.is_none_or(|active| active == 1) {
                self.extract(e);
                self.entity_mut(e).place = Place::Service;
            }
            if inside.is_none() {
                break e;
            }
            node = e;
        };
        let mut at = queue;
        loop {
            at = self.entity(at).parent;
            self.refresh_next(at);
            if at == ROOT {
                return Some(queue);
            }
        }
    }

    /// The queue in service, or one whose request is injected, was charged with `sectors` (Linux: `bfq_bfqq_served`).
    #[expect(
        clippy::inline_always,
        reason = "once a request; its other callers are rare"
    )]
    #[inline(always)]
    pub(super) fn served(&mut self, queue: u32, sectors: u64) {
        let mut at = queue;
        loop {
            let entity = &mut self.entities[at as usize];
            entity.service += sectors;
            let (parent, place) = (entity.parent, entity.tree);
            let tree = &mut self.trees[place as usize];
            tree.v = tree.v.wrapping_add(delta(sectors, tree.wsum));
            if !tree.idle.is_empty() {
                self.forget_idle(place);
            }
            if parent == ROOT {
                return;
            }
            at = parent;
        }
    }

    /// The same for what is seldom.
    #[inline(never)]
    pub(super) fn served_rarely(&mut self, queue: u32, sectors: u64) {
        self.served(queue, sectors);
    }

    /// A queue that is not in service was charged: virtual time has moved on wherever it and its groups compete.
    pub(super) fn injected(&mut self, queue: u32) {
        let mut at = queue;
        loop {
            let parent = self.entity(at).parent;
            let concerns = self.refresh_next(parent);
            if parent == ROOT {
                return;
            }
            let place = self.entity(parent).place;
            if concerns && matches!(place, Place::Active | Place::Service) {
                self.reposition(parent);
            }
            at = parent;
        }
    }

    /// The turn of the queue in service is over and it has requests, or is treated so (Linux: `bfq_requeue_bfqq`).
    pub(super) fn requeue(&mut self, queue: u32) {
        let mut at = queue;
        loop {
            self.reposition(at);
            let parent = self.entity(at).parent;
            self.nodes[parent as usize].in_service = NIL;
            self.refresh_next(parent);
            if parent == ROOT {
                return;
            }
            at = parent;
        }
    }

    /// The turn of the queue in service is over and it has no requests. It keeps its `service` (Linux: `bfq_del_bfqq_busy`).
    pub(super) fn retire(&mut self, queue: u32) {
        let mut at = queue;
        let mut gone = true;
        loop {
            if gone {
                self.leave(at);
            } else {
                self.reposition(at);
            }
            let parent = self.entity(at).parent;
            let node = &mut self.nodes[parent as usize];
            node.in_service = NIL;
            self.refresh_next(parent);
            if parent == ROOT {
                return;
            }
            gone = self.nodes[parent as usize].next == NIL;
            at = parent;
        }
    }

    /// True if the next turn would not be another of the group (or queue) in service (Linux: `next_queue_may_preempt`).
    pub(super) fn may_preempt(&self) -> bool {
        let root = &self.nodes[ROOT as usize];
        root.next != root.in_service
    }

    /// An entity and the groups above it, without the root.
    pub(super) fn path(&self, e: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(e), |&at| {
            let parent = self.entity(at).parent;
            (parent != ROOT).then_some(parent)
        })
    }

    /// True if an entity and every group above it hold less than their parts of `limit`, by weight among those who compete or did
    /// just now. Who does not is not limited (Linux: `bfqq_request_over_limit`).
    pub(super) fn is_within(&self, e: u32, limit: u64, held: &[u32]) -> bool {
        if (self.path(e)).any(|at| self.entity(at).place == Place::Out) {
            return true;
        }
        self.part(e, limit, held).is_some()
    }

    /// An entity's part of `limit`, unless it holds that much or a group above it does.
    fn part(&self, e: u32, limit: u64, held: &[u32]) -> Option<u64> {
        let Entity {
            parent,
            class,
            weight,
            ..
        } = *self.entity(e);
        let limit = if parent == ROOT {
            limit
        } else {
            self.part(parent, limit, held)?
        };
        let first = tree_of(parent, 0) as usize;
        let trees = &self.trees[first..=first + usize::from(class)];
        let sum = trees.iter().fold(0, |sum, tree| HIGHER * sum + tree.wsum);
        let part = (limit * u64::from(weight) + sum / 2) / sum.max(1);
        (u64::from(held[e as usize]) < part).then_some(part)
    }

    /// The first queue that waits for its turn: by class and finish time, those of a group in its place.
    pub(super) fn first_waiting(&self) -> Option<u32> {
        self.first_below(ROOT, 0)
    }

    /// The queue that waits for its turn after `e`, which does.
    pub(super) fn next_waiting(&self, e: u32) -> Option<u32> {
        let mut at = e;
        loop {
            if let Some(found) = self.forest.next(at).and_then(|next| self.queue_in(next)) {
                return Some(found);
            }
            let Entity { parent, class, .. } = *self.entity(at);
            if let Some(found) = self.first_below(parent, class + 1) {
                return Some(found);
            }
            if parent == ROOT {
                return None;
            }
            at = parent;
        }
    }

    /// The first queue below a node, of this class or one that comes after it.
    fn first_below(&self, node: u32, class: u8) -> Option<u32> {
        let first = tree_of(node, 0) as usize;
        self.trees[first + usize::from(class)..first + CLASSES]
            .iter()
            .find_map(|tree| self.forest.first(&tree.active))
            .and_then(|e| self.queue_in(e))
    }

    /// An entity if it is a queue, or the first queue of the group that it is.
    fn queue_in(&self, e: u32) -> Option<u32> {
        if (e as usize) < self.nodes.len() {
            self.first_below(e, 0)
        } else {
            Some(e)
        }
    }

    /// Virtual time and weight sum of a class at a node.
    #[cfg(test)]
    pub(super) fn tree_state(&self, node: u32, class: u8) -> (u64, u64) {
        let tree = &self.trees[tree_of(node, class) as usize];
        (tree.v, tree.wsum)
    }

    /// Linux: `__bfq_activate_entity`.
    fn enter(&mut self, now: Instant, e: u32, waited: bool) {
        let entity = &mut self.entities[e as usize];
        let tree = &mut self.trees[entity.tree as usize];
        if entity.class == IDLE && tree.active.is_empty() {
            self.nodes[entity.parent as usize].idle_class_at = now;
        }
        let back_shifted = waited && before(entity.finish, tree.v);
        let least = if back_shifted { entity.finish } else { tree.v };
        if entity.place == Place::Idle {
            self.forest.remove(&mut tree.idle, e);
            let ahead = before(least, entity.finish) && !mutant::is(mutant::IDLE_RESTARTS_AT_V);
            entity.start = if ahead { entity.finish } else { least };
        } else {
            entity.start = least;
            tree.wsum += u64::from(entity.weight);
        }
        self.enqueue(e, back_shifted);
    }

    /// Moves an entity that is active or in service to where it now belongs (Linux: `__bfq_requeue_entity`). What it was served
    /// in service moves its start time on and is then settled.
    fn reposition(&mut self, e: u32) {
        let entity = &mut self.entities[e as usize];
        let parent = entity.parent;
        if self.nodes[parent as usize].in_service == e {
            let used = delta(entity.service, u64::from(entity.weight));
            entity.start = entity.start.wrapping_add(used);
            entity.service = 0;
        }
        if entity.place == Place::Active {
            self.extract(e);
        }
        if self.nodes.get(e as usize).is_some_and(|n| n.next == NIL) {
            debug_assert!(self.nodes[parent as usize].in_service == e);
            self.entity_mut(e).place = Place::Service;
        } else {
            self.enqueue(e, false);
        }
    }

    fn reposition_path(&mut self, e: u32) {
        let mut at = e;
        loop {
            self.reposition(at);
            let parent = self.entity(at).parent;
            if !self.refresh_next(parent) || parent == ROOT {
                return;
            }
            at = parent;
        }
    }

    /// Linux: `bfq_update_fin_time_enqueue`.
    fn enqueue(&mut self, e: u32, back_shifted: bool) {
        let entity = &mut self.entities[e as usize];
        let tree = &mut self.trees[entity.tree as usize];
        tree.wsum = tree.wsum - u64::from(entity.weight) + u64::from(entity.new_weight);
        entity.weight = entity.new_weight;
        let length = delta(entity.budget, u64::from(entity.weight));
        entity.finish = entity.start.wrapping_add(length);
        if back_shifted && before(entity.finish, tree.v) {
            let late = tree.v.wrapping_sub(entity.finish) / u64::from(entity.raised);
            entity.finish = entity.finish.wrapping_add(late);
            entity.start = entity.finish.wrapping_sub(length);
        }
        entity.place = Place::Active;
        self.forest
            .insert(&mut tree.active, e, entity.finish, entity.start);
        self.nodes[entity.parent as usize].active += 1;
    }

    /// Out of the active tree.
    fn extract(&mut self, e: u32) {
        let Entity { parent, tree, .. } = *self.entity(e);
        self.forest.remove(&mut self.trees[tree as usize].active, e);
        self.nodes[parent as usize].active -= 1;
    }

    /// Linux: `__bfq_deactivate_entity`.
    fn leave(&mut self, e: u32) {
        if self.entity(e).place == Place::Active {
            self.extract(e);
        }
        let is_group = (e as usize) < self.nodes.len();
        let entity = &mut self.entities[e as usize];
        let tree = &mut self.trees[entity.tree as usize];
        let used = delta(entity.service, u64::from(entity.weight));
        entity.finish = entity.start.wrapping_add(used);
        if is_group {
            entity.service = 0;
        }
        if before(tree.v, entity.finish) {
            entity.place = Place::Idle;
            self.forest
                .insert(&mut tree.idle, e, entity.finish, entity.start);
        } else {
            entity.place = Place::Out;
            if !mutant::is(mutant::WEIGHT_KEPT) {
                tree.wsum -= u64::from(entity.weight);
            }
        }
    }

    /// Forgets an idle entity that virtual time has caught up with; one a call bounds the work (Linux: `bfq_forget_idle`).
    fn forget_idle(&mut self, tree: u32) {
        let tree = &mut self.trees[tree as usize];
        let Some(first) = self.forest.first(&tree.idle) else {
            return;
        };
        let entity = &mut self.entities[first as usize];
        if !before(tree.v, entity.finish) {
            self.forest.remove(&mut tree.idle, first);
            tree.wsum -= u64::from(entity.weight);
            entity.place = Place::Out;
        }
    }

    /// Looks up whom the node serves next and passes its budget on to the node's own entity. True if that concerns the level
    /// above (Linux: `bfq_update_next_in_service`, `bfq_update_parent_budget`).
    fn refresh_next(&mut self, node: u32) -> bool {
        let found = self.lookup(node).unwrap_or(NIL);
        let old = core::mem::replace(&mut self.nodes[node as usize].next, found);
        if found == NIL {
            return old != NIL;
        }
        if node == ROOT {
            return false;
        }
        let budget = self.entity(found).budget;
        let own = core::mem::replace(&mut self.entity_mut(node).budget, budget);
        old == NIL || own != budget
    }

    /// Linux: `bfq_lookup_next_entity`.
    fn lookup(&mut self, node: u32) -> Option<u32> {
        let first = tree_of(node, 0) as usize;
        let waiting = |tree: &ServiceTree| !tree.active.is_empty();
        let class = self.trees[first..first + CLASSES]
            .iter()
            .position(waiting)?;
        self.lookup_class(node, class as u8)
    }

    /// Whom to serve now: the idle class first if it has waited too long. The promotion is decided here, when it matters.
    fn choose(&mut self, now: Instant, node: u32) -> Option<u32> {
        let at = self.nodes[node as usize].idle_class_at;
        let overdue = now.since(at) > IDLE_CLASS_TIMEOUT && !mutant::is(mutant::IDLE_CLASS_STARVED);
        let promoted = if overdue {
            self.lookup_class(node, IDLE)
        } else {
            None
        };
        // Whatever changed while nothing here was in service was followed by a look-up.
        let next = self.nodes[node as usize].next;
        debug_assert_eq!(self.lookup(node).unwrap_or(NIL), next);
        let found = promoted.or_else(|| (next != NIL).then_some(next))?;
        if self.entity(found).class == IDLE {
            self.nodes[node as usize].idle_class_at = now;
        }
        Some(found)
    }

    /// Linux: `__bfq_lookup_next_entity`, `bfq_calc_vtime_jump`, `bfq_first_active_entity`.
    fn lookup_class(&mut self, node: u32, class: u8) -> Option<u32> {
        let tree = &mut self.trees[tree_of(node, class) as usize];
        let min_start = self.forest.min_start(&tree.active)?;
        let v = if before(tree.v, min_start) {
            min_start
        } else {
            tree.v
        };
        if self.nodes[node as usize].in_service == NIL {
            tree.v = v;
        }
        if mutant::is(mutant::ELIGIBILITY_IGNORED) {
            return self.forest.first(&tree.active);
        }
        let mut found = self.forest.first_eligible(&tree.active, v)?;
        while mutant::is(mutant::TIES_LAST_FIRST) {
            match self.forest.next(found) {
                Some(next) if self.forest.key(next) == self.forest.key(found) => found = next,
                _ => break,
            }
        }
        Some(found)
    }
}

/// The place of a node's tree of a class.
const fn tree_of(node: u32, class: u8) -> u32 {
    node * CLASSES as u32 + class as u32
}
