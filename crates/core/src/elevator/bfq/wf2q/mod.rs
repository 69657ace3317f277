//! B-WF2Q+ over the tree of groups: at each node, one service tree a class, and in each tree the entity of smallest finish time
//! among those whose start time virtual time has reached.
//!
//! An entity's number is a group's slot below `groups` and a queue's from there on. A group's budget is that of the child it
//! would serve next. Here is what happens to entities turn by turn, level by level; `timestamps` says how one moves within its node,
//! `choice` which entity a node serves next, and `waiting` looks at the tree for others. The rules are Linux's (bfq-wf2q.c, named function
//! by function below); what differs stands in docs/evidence/deviations.md.

mod choice;
mod timestamps;
mod waiting;

use super::entity::{CLASSES, Entity, Place, delta};
use crate::Instant;
use crate::list::NIL;
use crate::tree::{Forest, Tree};
use alloc::vec;
use alloc::vec::Vec;

/// The root's number, as a node; it is no entity.
const ROOT: u32 = 0;

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
    /// The entity that the look-up found when something last changed here.
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

    /// Another weight from then on, `times` as large as the queue's own.
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

    /// Virtual time and weight sum of a class at a node.
    #[cfg(test)]
    pub(super) fn tree_state(&self, node: u32, class: u8) -> (u64, u64) {
        let tree = &self.trees[tree_of(node, class) as usize];
        (tree.v, tree.wsum)
    }
}

/// The place of a node's tree of a class.
const fn tree_of(node: u32, class: u8) -> u32 {
    node * CLASSES as u32 + class as u32
}
