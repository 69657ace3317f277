//! Start and finish times of entities, and their moves into, within and out of the service trees.

use super::super::entity::{BfqEntity, EntityState, IDLE, delta};
use super::{ROOT, Wf2q};
use crate::Instant;
use crate::list::NIL;
use crate::tree::before;

impl Wf2q {
    /// Adds an entity to the active tree (Linux: `__bfq_activate_entity`).
    pub(super) fn enter(&mut self, now: Instant, e: u32, waited: bool) {
        let entity = &mut self.entities[e as usize];
        let tree = &mut self.trees[entity.tree as usize];
        if entity.class == IDLE && tree.active.is_empty() {
            self.nodes[entity.parent as usize].idle_class_at = now;
        }
        // An entity that was waited for continues from its old finish time, even if virtual time
        // has passed it. Otherwise its short pause would cost it a part of its share.
        let back_shifted = waited && before(entity.finish, tree.v);
        let least = if back_shifted { entity.finish } else { tree.v };
        if entity.place == EntityState::Idle {
            self.forest.remove(&mut tree.idle, e);
            // An entity cannot gain by a pause: it does not start before the finish time of its
            // last service.
            let ahead = before(least, entity.finish);
            entity.start = if ahead { entity.finish } else { least };
        } else {
            entity.start = least;
            tree.wsum += u64::from(entity.weight);
        }
        self.enqueue(e, back_shifted);
    }

    /// Moves an entity that is active or in service to its new position (Linux:
    /// `__bfq_requeue_entity`). The service received in a turn advances the start time and is then
    /// settled.
    pub(super) fn reposition(&mut self, e: u32) {
        let entity = &mut self.entities[e as usize];
        let parent = entity.parent;
        if self.nodes[parent as usize].in_service == e {
            let used = delta(entity.service, u64::from(entity.weight));
            entity.start = entity.start.wrapping_add(used);
            entity.service = 0;
        }
        if entity.place == EntityState::Active {
            self.extract(e);
        }
        // A group with no other member to serve stays out of the tree while its only member is in
        // service.
        if self.nodes.get(e as usize).is_some_and(|n| n.next == NIL) {
            debug_assert!(self.nodes[parent as usize].in_service == e);
            self.entity_mut(e).place = EntityState::Service;
        } else {
            self.enqueue(e, false);
        }
    }

    pub(super) fn reposition_path(&mut self, e: u32) {
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

    /// Computes the finish time and adds the entity to the active tree (Linux:
    /// `bfq_update_fin_time_enqueue`).
    pub(super) fn enqueue(&mut self, e: u32, back_shifted: bool) {
        let entity = &mut self.entities[e as usize];
        let tree = &mut self.trees[entity.tree as usize];
        tree.wsum = tree.wsum - u64::from(entity.weight) + u64::from(entity.new_weight);
        entity.weight = entity.new_weight;
        let length = delta(entity.budget, u64::from(entity.weight));
        entity.finish = entity.start.wrapping_add(length);
        // An entity that was shifted back must not stay behind virtual time for long, because it
        // would then hold the drive at the cost of others. It is moved to virtual time, less far if
        // it is raised.
        if back_shifted && before(entity.finish, tree.v) {
            let late = tree.v.wrapping_sub(entity.finish) / u64::from(entity.raised);
            entity.finish = entity.finish.wrapping_add(late);
            entity.start = entity.finish.wrapping_sub(length);
        }
        entity.place = EntityState::Active;
        self.forest
            .insert(&mut tree.active, e, entity.finish, entity.start);
        self.nodes[entity.parent as usize].active += 1;
    }

    /// Removes an entity from the active tree.
    pub(super) fn extract(&mut self, e: u32) {
        let BfqEntity { parent, tree, .. } = *self.entity(e);
        self.forest.remove(&mut self.trees[tree as usize].active, e);
        self.nodes[parent as usize].active -= 1;
    }

    /// Takes an entity out of competition (Linux: `__bfq_deactivate_entity`).
    pub(super) fn leave(&mut self, e: u32) {
        if self.entity(e).place == EntityState::Active {
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
        // Until virtual time reaches the finish time, the weight still counts, so that the entity
        // cannot gain by leaving and returning.
        if before(tree.v, entity.finish) {
            entity.place = EntityState::Idle;
            self.forest
                .insert(&mut tree.idle, e, entity.finish, entity.start);
        } else {
            entity.place = EntityState::Out;
            tree.wsum -= u64::from(entity.weight);
        }
    }

    /// Removes an idle entity whose finish time virtual time has reached. Only one per call, which
    /// bounds the work (Linux: `bfq_forget_idle`).
    pub(super) fn forget_idle(&mut self, tree: u32) {
        let tree = &mut self.trees[tree as usize];
        let Some(first) = self.forest.first(&tree.idle) else {
            return;
        };
        let entity = &mut self.entities[first as usize];
        if !before(tree.v, entity.finish) {
            self.forest.remove(&mut tree.idle, first);
            tree.wsum -= u64::from(entity.weight);
            entity.place = EntityState::Out;
        }
    }
}
