//! The choice of the entity that a node serves next.
//!
//! Of the highest class that waits, it is the entity with the smallest finish time among those
//! whose start time virtual time has reached.

use super::super::entity::{CLASSES, IDLE};
use super::{ROOT, ServiceTree, Wf2q, tree_of};
use crate::list::NIL;
use crate::tree::before;
use crate::{Instant, Span};

/// The time for which the idle class may wait for the other classes (Linux: `BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS_TIMEOUT: Span = Span::from_millis(200);

impl Wf2q {
    /// Finds the next entity of a node and passes its budget on to the node's own entity (Linux:
    /// `bfq_update_next_in_service`, `bfq_update_parent_budget`). Returns true if the level above
    /// must be updated.
    pub(super) fn refresh_next(&mut self, node: u32) -> bool {
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

    /// Returns the entity that a node serves next, by class (Linux: `bfq_lookup_next_entity`).
    pub(super) fn lookup(&mut self, node: u32) -> Option<u32> {
        let first = tree_of(node, 0) as usize;
        let waiting = |tree: &ServiceTree| !tree.active.is_empty();
        let class = self.trees[first..first + CLASSES]
            .iter()
            .position(waiting)?;
        self.lookup_class(node, class as u8)
    }

    /// Returns the entity to serve now, which is one of the idle class if that class has waited for
    /// too long. The promotion is decided only here, where it takes effect.
    pub(super) fn choose(&mut self, now: Instant, node: u32) -> Option<u32> {
        let at = self.nodes[node as usize].idle_class_at;
        let promoted = if now.since(at) > IDLE_CLASS_TIMEOUT {
            self.lookup_class(node, IDLE)
        } else {
            None
        };
        // Every change while no entity of the node was in service was followed by a look-up, so the
        // stored result is still right.
        let next = self.nodes[node as usize].next;
        debug_assert_eq!(self.lookup(node).unwrap_or(NIL), next);
        let found = promoted.or_else(|| (next != NIL).then_some(next))?;
        if self.entity(found).class == IDLE {
            self.nodes[node as usize].idle_class_at = now;
        }
        Some(found)
    }

    /// Returns the next entity of a class (Linux: `__bfq_lookup_next_entity`,
    /// `bfq_calc_vtime_jump`, `bfq_first_active_entity`).
    pub(super) fn lookup_class(&mut self, node: u32, class: u8) -> Option<u32> {
        let tree = &mut self.trees[tree_of(node, class) as usize];
        let min_start = self.forest.min_start(&tree.active)?;
        // If no entity may start yet, virtual time jumps to the smallest start time, so that the
        // drive does not idle. The jump is kept only if no entity is in service, because the
        // look-up is otherwise only a preview.
        let v = if before(tree.v, min_start) {
            min_start
        } else {
            tree.v
        };
        if self.nodes[node as usize].in_service == NIL {
            tree.v = v;
        }
        self.forest.first_eligible(&tree.active, v)
    }
}
