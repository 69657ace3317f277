//! B-WF2Q+ on the tree of groups and queues.
//!
//! Each node has one service tree for each class. In each tree, the next entity is the one with the
//! smallest finish time among those whose start time virtual time has reached. The number of a
//! group's entity is its slot below `groups`, and queues follow from there. The budget of a group
//! is that of the child that it would serve next.
//!
//! This file has the changes turn by turn and level by level: [`Wf2q::activate`] when a queue gets
//! requests, [`Wf2q::select`] at the beginning of a turn, [`Wf2q::served`] for each request, and
//! [`Wf2q::requeue`] or [`Wf2q::retire`] at the end. `timestamps` moves an entity within its node,
//! `choice` finds the next entity of a node, and `waiting` has queries for other modules. The rules
//! are those of Linux's bfq-wf2q.c, whose functions are named below. docs/deviations.md lists the
//! differences.

mod choice;
mod timestamps;
mod waiting;

use super::entity::{BfqEntity, CLASSES, EntityState, delta};
use crate::Instant;
use crate::list::NIL;
use crate::tree::{Forest, Tree};
use alloc::vec;
use alloc::vec::Vec;

/// The number of the root as a node. The root is not an entity.
const ROOT: u32 = 0;

/// The competing and idle entities of one class at a node (Linux: `bfq_service_tree`).
#[derive(Clone, Copy, Debug)]
struct ServiceTree {
    /// Backlogged entities by finish time.
    active: Tree,
    /// Entities without requests whose finish time is ahead of virtual time.
    idle: Tree,
    v: u64,
    /// The sum of the weights of all entities in both trees and in service.
    wsum: u64,
}

/// A group or the root as the place where its members compete (Linux: `bfq_sched_data`).
#[derive(Clone, Copy, Debug)]
struct SchedNode {
    in_service: u32,
    /// The entity that the last look-up found, after the last change at this node.
    next: u32,
    /// The number of members in the active trees.
    active: u32,
    /// The time at which the idle class was last served or began to wait.
    idle_class_at: Instant,
}

const TREE: ServiceTree = ServiceTree {
    active: Tree::EMPTY,
    idle: Tree::EMPTY,
    v: 0,
    wsum: 0,
};

const NODE: SchedNode = SchedNode {
    in_service: NIL,
    next: NIL,
    active: 0,
    idle_class_at: Instant::ZERO,
};

/// The tree of groups and queues.
#[derive(Debug)]
pub(super) struct Wf2q {
    nodes: Vec<SchedNode>,
    /// The service trees of each node by class, one node after the other.
    trees: Vec<ServiceTree>,
    entities: Vec<BfqEntity>,
    forest: Forest,
}

impl Wf2q {
    pub(super) fn new(groups: u32, queues: u32) -> Self {
        Self {
            nodes: vec![NODE; groups as usize],
            trees: vec![TREE; groups as usize * CLASSES],
            entities: vec![BfqEntity::NEW; (groups + queues) as usize],
            forest: Forest::new(groups + queues),
        }
    }

    pub(super) fn entity(&self, e: u32) -> &BfqEntity {
        &self.entities[e as usize]
    }

    pub(super) fn entity_mut(&mut self, e: u32) -> &mut BfqEntity {
        &mut self.entities[e as usize]
    }

    /// Adds an entity that does not compete yet.
    pub(super) fn add(&mut self, e: u32, parent: u32, class: u8, weight: u32) {
        debug_assert!(
            self.entity(e).place == EntityState::Out,
            "entity {e} is in use"
        );
        *self.entity_mut(e) = BfqEntity {
            parent,
            class,
            tree: tree_of(parent, class),
            weight,
            new_weight: weight,
            ..BfqEntity::NEW
        };
        if (e as usize) < self.nodes.len() {
            self.nodes[e as usize] = NODE;
            let first = tree_of(e, 0) as usize;
            self.trees[first..first + CLASSES].fill(TREE);
        }
    }

    /// Removes an entity that is neither active nor in service.
    pub(super) fn forget(&mut self, e: u32) {
        let BfqEntity {
            tree,
            place,
            weight,
            ..
        } = *self.entity(e);
        debug_assert!(matches!(place, EntityState::Idle | EntityState::Out));
        if place == EntityState::Idle {
            let tree = &mut self.trees[tree as usize];
            self.forest.remove(&mut tree.idle, e);
            tree.wsum -= u64::from(weight);
        }
        self.entity_mut(e).place = EntityState::Out;
    }

    /// Sets a weight that applies from the entity's next activation or requeueing on (Linux:
    /// `__bfq_entity_update_weight_prio`).
    pub(super) fn set_weight(&mut self, e: u32, weight: u32) {
        self.entity_mut(e).new_weight = weight;
    }

    /// Sets a raised weight that is `times` as large as the queue's own, from the next activation
    /// or requeueing on.
    pub(super) fn raise(&mut self, e: u32, weight: u32, times: u32) {
        let entity = self.entity_mut(e);
        entity.new_weight = weight;
        entity.raised = times;
    }

    /// Applies the new weight of the queue in service at once.
    pub(super) fn reweigh(&mut self, e: u32) {
        let entity = &mut self.entities[e as usize];
        debug_assert!(entity.place == EntityState::Service);
        let tree = &mut self.trees[entity.tree as usize];
        tree.wsum = tree.wsum - u64::from(entity.weight) + u64::from(entity.new_weight);
        entity.weight = entity.new_weight;
    }

    /// Lets a queue with requests compete (Linux: `bfq_activate_requeue_entity`). `waited` means
    /// that its request was expected and came in time.
    pub(super) fn activate(&mut self, now: Instant, e: u32, waited: bool) {
        let mut at = e;
        loop {
            let parent = self.entity(at).parent;
            match self.entity(at).place {
                EntityState::Active | EntityState::Service => self.reposition(at),
                EntityState::Out | EntityState::Idle => self.enter(now, at, waited),
            }
            // If the choice of the parent stays the same, nothing changes on the levels above.
            if !self.refresh_next(parent) || parent == ROOT {
                return;
            }
            at = parent;
        }
    }

    /// Moves an active queue that is not in service after its budget has changed.
    pub(super) fn rebudgeted(&mut self, e: u32) {
        self.reposition_path(e);
    }

    /// Takes a queue without requests that is not in service out of competition (Linux:
    /// `bfq_deactivate_entity`).
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

    /// Chooses a queue and puts it and the groups above it in service (Linux:
    /// `bfq_get_next_queue`).
    pub(super) fn select(&mut self, now: Instant) -> Option<u32> {
        let mut node = ROOT;
        let queue = loop {
            debug_assert!(self.nodes[node as usize].in_service == NIL);
            let e = self.choose(now, node)?;
            self.nodes[node as usize].in_service = e;
            let inside = self.nodes.get(e as usize).map(|n| n.active);
            // A group of several members stays in the tree, because it may be the next one again
            // (Linux: `bfq_no_longer_next_in_service`).
            if inside.is_none_or(|active| active == 1) {
                self.extract(e);
                self.entity_mut(e).place = EntityState::Service;
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

    /// Charges a queue in service, or one whose request is injected, and advances virtual time
    /// (Linux: `bfq_bfqq_served`).
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
            // Virtual time wraps around. Times are compared by their difference (`tree::before`).
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

    /// Does the same as [`Self::served`] for rare cases, without inlining.
    #[inline(never)]
    pub(super) fn served_rarely(&mut self, queue: u32, sectors: u64) {
        self.served(queue, sectors);
    }

    /// Updates the tree after a queue that is not in service was charged, because virtual time has
    /// advanced on its path.
    pub(super) fn on_injection(&mut self, queue: u32) {
        let mut at = queue;
        loop {
            let parent = self.entity(at).parent;
            let concerns = self.refresh_next(parent);
            if parent == ROOT {
                return;
            }
            let place = self.entity(parent).place;
            if concerns && matches!(place, EntityState::Active | EntityState::Service) {
                self.reposition(parent);
            }
            at = parent;
        }
    }

    /// Ends the turn of a queue that has requests, or is treated as if it had (Linux:
    /// `bfq_requeue_bfqq`).
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

    /// Ends the turn of a queue without requests. Its `service` is kept (Linux:
    /// `bfq_del_bfqq_busy`).
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

    /// Returns true if the next turn would belong to another child of the root than the present one
    /// (Linux: `next_queue_may_preempt`).
    pub(super) fn may_preempt(&self) -> bool {
        let root = &self.nodes[ROOT as usize];
        root.next != root.in_service
    }

    /// Returns virtual time and the sum of weights of a class at a node.
    #[cfg(test)]
    pub(super) fn tree_state(&self, node: u32, class: u8) -> (u64, u64) {
        let tree = &self.trees[tree_of(node, class) as usize];
        (tree.v, tree.wsum)
    }
}

/// Returns the number of the service tree of a class at a node.
const fn tree_of(node: u32, class: u8) -> u32 {
    node * CLASSES as u32 + class as u32
}
