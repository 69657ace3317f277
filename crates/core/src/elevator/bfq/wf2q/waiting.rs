//! Queries of the tree that do not change it: the waiting entities in the order of their turns, and
//! their parts of the tags.

use super::super::entity::{BfqEntity, CLASSES, EntityState};
use super::{ROOT, Wf2q, tree_of};

/// The factor between the weights of a class and the next lower class when tags are divided (Linux:
/// `IOPRIO_BE_NR`).
const HIGHER: u64 = 8;

impl Wf2q {
    /// Returns the first queue that waits for its turn, by class and finish time. The queues of a
    /// group take the group's place.
    pub(in super::super) fn first_waiting(&self) -> Option<u32> {
        self.first_below(ROOT, 0)
    }

    /// Returns the queue that waits for its turn after the waiting queue `e`.
    pub(in super::super) fn next_waiting(&self, e: u32) -> Option<u32> {
        let mut at = e;
        loop {
            if let Some(found) = self.forest.next(at).and_then(|next| self.queue_in(next)) {
                return Some(found);
            }
            let BfqEntity { parent, class, .. } = *self.entity(at);
            if let Some(found) = self.first_below(parent, class + 1) {
                return Some(found);
            }
            if parent == ROOT {
                return None;
            }
            at = parent;
        }
    }

    /// Returns the first queue below a node in this class or a lower one.
    fn first_below(&self, node: u32, class: u8) -> Option<u32> {
        let first = tree_of(node, 0) as usize;
        self.trees[first + usize::from(class)..first + CLASSES]
            .iter()
            .find_map(|tree| self.forest.first(&tree.active))
            .and_then(|e| self.queue_in(e))
    }

    /// Returns an entity if it is a queue, or the first queue of the group.
    fn queue_in(&self, e: u32) -> Option<u32> {
        if (e as usize) < self.nodes.len() {
            self.first_below(e, 0)
        } else {
            Some(e)
        }
    }

    /// Returns an entity and the groups above it, without the root.
    pub(in super::super) fn path(&self, e: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(e), |&at| {
            let parent = self.entity(at).parent;
            (parent != ROOT).then_some(parent)
        })
    }

    /// Returns true if an entity and every group above it hold less than their parts of `limit`
    /// (Linux: `bfqq_request_over_limit`).
    ///
    /// The parts are by weight among entities that compete or recently did. An entity that does not
    /// compete is not limited.
    pub(in super::super) fn is_within(&self, e: u32, limit: u64, held: &[u32]) -> bool {
        if (self.path(e)).any(|at| self.entity(at).place == EntityState::Out) {
            return true;
        }
        self.part(e, limit, held).is_some()
    }

    /// Returns an entity's part of `limit`, or `None` if the entity or a group above it holds its
    /// whole part.
    fn part(&self, e: u32, limit: u64, held: &[u32]) -> Option<u64> {
        let BfqEntity {
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
        // `sum / 2` rounds the quotient to the nearest number.
        let part = (limit * u64::from(weight) + sum / 2) / sum.max(1);
        (u64::from(held[e as usize]) < part).then_some(part)
    }
}
