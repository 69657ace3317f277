//! Comparison of the weights of competing groups (Linux before 4.20: `group_weights_tree`,
//! `bfq_differentiated_weights`).

use alloc::vec;
use alloc::vec::Vec;

/// The number of counters: weights are at most 1,000 (Linux: `BFQ_MAX_WEIGHT`), and zero is the
/// root's.
const WEIGHTS: usize = 1_001;

/// The number of competing groups by weight. A group competes while a queue in it, or in a group
/// below it, has requests waiting or in the drive.
#[derive(Debug)]
pub(super) struct GroupWeights {
    groups: Vec<CompetingGroup>,
    /// The number of competing groups of each weight.
    competing: Vec<u32>,
    /// The number of weights that at least one competing group has.
    distinct: u32,
}

#[derive(Clone, Copy, Debug)]
struct CompetingGroup {
    /// The group above. The root is its own parent and has no weight.
    parent: u32,
    weight: u32,
    /// The number of competing queues and groups directly below.
    members: u32,
}

impl GroupWeights {
    pub(super) fn new(groups: u32) -> Self {
        let root = CompetingGroup {
            parent: 0,
            weight: 0,
            members: 0,
        };
        Self {
            groups: vec![root; groups as usize],
            competing: vec![0; WEIGHTS],
            distinct: 0,
        }
    }

    /// Adds a group, or changes its weight or parent. A group that moves has no members that
    /// compete.
    pub(super) fn set(&mut self, group: u32, parent: u32, weight: u32) {
        let weight = weight.min(WEIGHTS as u32 - 1);
        let CompetingGroup { members, .. } = self.groups[group as usize];
        if members > 0 {
            self.uncount(group);
        }
        let entry = &mut self.groups[group as usize];
        (entry.parent, entry.weight) = (parent, weight);
        if members > 0 {
            self.count(group);
        }
    }

    /// Counts a queue of the group that begins to compete.
    pub(super) fn enter(&mut self, mut group: u32) {
        loop {
            let members = &mut self.groups[group as usize].members;
            *members += 1;
            // The groups above already count this group if it had a member before.
            if *members > 1 || group == 0 {
                return;
            }
            self.count(group);
            group = self.groups[group as usize].parent;
        }
    }

    /// Removes a queue of the group that no longer competes.
    pub(super) fn leave(&mut self, mut group: u32) {
        loop {
            let members = &mut self.groups[group as usize].members;
            debug_assert!(*members > 0, "nothing of group {group} competes");
            *members -= 1;
            if *members > 0 || group == 0 {
                return;
            }
            self.uncount(group);
            group = self.groups[group as usize].parent;
        }
    }

    /// Returns true if groups of different weights compete.
    pub(super) fn differ(&self) -> bool {
        self.distinct > 1
    }

    fn count(&mut self, group: u32) {
        let count = &mut self.competing[self.groups[group as usize].weight as usize];
        *count += 1;
        self.distinct += u32::from(*count == 1);
    }

    fn uncount(&mut self, group: u32) {
        let count = &mut self.competing[self.groups[group as usize].weight as usize];
        *count -= 1;
        self.distinct -= u32::from(*count == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_groups_that_compete_are_compared_at_every_level() {
        let mut weights = GroupWeights::new(5);
        for (group, parent, weight) in [(1, 0, 100), (2, 0, 100), (3, 0, 200), (4, 3, 200)] {
            weights.set(group, parent, weight);
        }
        weights.enter(0);
        weights.enter(1);
        weights.enter(2);
        weights.enter(2);
        assert!(
            !weights.differ(),
            "1 and 2 are alike, and the root has no weight"
        );
        weights.enter(4);
        assert!(weights.differ(), "4, and 3 above it");
        weights.leave(4);
        assert!(!weights.differ());
        weights.set(2, 0, 300);
        assert!(weights.differ(), "while it competes");
        weights.leave(2);
        assert!(weights.differ(), "one queue of two is left");
        weights.leave(2);
        assert!(!weights.differ());
    }
}
