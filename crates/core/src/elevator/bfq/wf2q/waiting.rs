//! Looking at the tree without changing it: which entities wait, in the order of turns, and which compete for tags.

use super::super::entity::{CLASSES, Entity, Place};
use super::{ROOT, Wf2q, tree_of};

/// A weight counts this many times against those of the next lower class where tags are divided (Linux: `IOPRIO_BE_NR`).
const HIGHER: u64 = 8;

impl Wf2q {
    /// The first queue that waits for its turn: by class and finish time, those of a group in its place.
    pub(in super::super) fn first_waiting(&self) -> Option<u32> {
        self.first_below(ROOT, 0)
    }

    /// The queue that waits for its turn after `e`, which does.
    pub(in super::super) fn next_waiting(&self, e: u32) -> Option<u32> {
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

    /// An entity and the groups above it, without the root.
    pub(in super::super) fn path(&self, e: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(e), |&at| {
            let parent = self.entity(at).parent;
            (parent != ROOT).then_some(parent)
        })
    }

    /// True if an entity and every group above it hold less than their parts of `limit`, by weight among those that compete or did
    /// just now. An entity that does not is not limited (Linux: `bfqq_request_over_limit`).
    pub(in super::super) fn is_within(&self, e: u32, limit: u64, held: &[u32]) -> bool {
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
}
