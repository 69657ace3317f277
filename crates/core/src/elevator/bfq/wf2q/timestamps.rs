//! How entities enter, move within and leave the service trees, and the start and finish times they get.

use super::super::entity::{Entity, IDLE, Place, delta};
use super::{ROOT, Wf2q};
use crate::Instant;
use crate::list::NIL;
use crate::tree::before;

impl Wf2q {
    /// Linux: `__bfq_activate_entity`.
    pub(super) fn enter(&mut self, now: Instant, e: u32, waited: bool) {
        let entity = &mut self.entities[e as usize];
        let tree = &mut self.trees[entity.tree as usize];
        if entity.class == IDLE && tree.active.is_empty() {
            self.nodes[entity.parent as usize].idle_class_at = now;
        }
        let back_shifted = waited && before(entity.finish, tree.v);
        let least = if back_shifted { entity.finish } else { tree.v };
        if entity.place == Place::Idle {
            self.forest.remove(&mut tree.idle, e);
            let ahead = before(least, entity.finish);
            entity.start = if ahead { entity.finish } else { least };
        } else {
            entity.start = least;
            tree.wsum += u64::from(entity.weight);
        }
        self.enqueue(e, back_shifted);
    }

    /// Moves an entity that is active or in service to where it now belongs (Linux: `__bfq_requeue_entity`). What it was served
    /// in service moves its start time on and is then settled.
    pub(super) fn reposition(&mut self, e: u32) {
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

    /// Linux: `bfq_update_fin_time_enqueue`.
    pub(super) fn enqueue(&mut self, e: u32, back_shifted: bool) {
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
    pub(super) fn extract(&mut self, e: u32) {
        let Entity { parent, tree, .. } = *self.entity(e);
        self.forest.remove(&mut self.trees[tree as usize].active, e);
        self.nodes[parent as usize].active -= 1;
    }

    /// Linux: `__bfq_deactivate_entity`.
    pub(super) fn leave(&mut self, e: u32) {
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
            tree.wsum -= u64::from(entity.weight);
        }
    }

    /// Forgets an idle entity that virtual time has caught up with; one a call bounds the work (Linux: `bfq_forget_idle`).
    pub(super) fn forget_idle(&mut self, tree: u32) {
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
}
