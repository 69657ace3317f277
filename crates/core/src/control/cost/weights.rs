//! The part of the drive that each group has, from the weights in the tree (Linux:
//! `__propagate_weights`, `current_hweight`, `current_hweight_max`).
//!
//! The *active* weight of a leaf is its own weight while it sends, and zero otherwise. Its *inuse*
//! weight is smaller while it donates a part. The ratio of inuse to active weight of an inner group
//! is that of its children's sums. The product of a group's parts on all levels up to the root is
//! its *hweight*, which is its part of the drive in units of 1/65536.

use crate::list::NIL;
use alloc::vec;
use alloc::vec::Vec;

/// The whole drive, or a weight of one (Linux: `WEIGHT_ONE`).
pub(super) const ONE: u32 = 1 << 16;
/// The largest number of levels, including the root.
const LEVELS: usize = 16;

/// The weights of a group and its parts of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightNode {
    pub(super) parent: u32,
    /// The configured weight, multiplied by [`ONE`].
    pub(super) weight: u32,
    pub(super) active: u32,
    pub(super) inuse: u32,
    /// The weight in use before the last change.
    pub(super) last_inuse: u32,
    pub(super) child_active: u64,
    pub(super) child_inuse: u64,
    /// The generation of weights for which `hwa` and `hwi` apply.
    generation: u64,
    hwa: u32,
    hwi: u32,
}

impl WeightNode {
    pub(super) const NONE: Self = Self {
        parent: NIL,
        weight: 0,
        active: 0,
        inuse: 0,
        last_inuse: 0,
        child_active: 0,
        child_inuse: 0,
        generation: 0,
        hwa: ONE,
        hwi: ONE,
    };
}

/// The tree of weights. Numbers are slots of groups, and the root is 0.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) nodes: Vec<WeightNode>,
    generation: u64,
    changed: bool,
}

impl Weights {
    pub(super) fn new(groups: u32) -> Self {
        Self {
            nodes: vec![WeightNode::NONE; groups as usize],
            generation: 1,
            changed: false,
        }
    }

    pub(super) fn node(&self, group: u32) -> &WeightNode {
        &self.nodes[group as usize]
    }

    pub(super) fn node_mut(&mut self, group: u32) -> &mut WeightNode {
        &mut self.nodes[group as usize]
    }

    /// Changes a group's weights and those of all groups above it. They apply from [`Self::commit`]
    /// on.
    pub(super) fn propagate(&mut self, group: u32, active: u32, inuse: u32) {
        let node = self.node_mut(group);
        let inuse = if node.child_active > 0 {
            part_of(active, node.child_inuse, node.child_active)
        } else {
            // An active group uses at least one unit, so that its part is never zero.
            inuse.max(1).min(active)
        };
        node.last_inuse = node.inuse;
        let (mut at, mut active, mut inuse) = (group, active, inuse);
        while at != 0 {
            let node = self.node_mut(at);
            let (active_before, inuse_before) = (node.active, node.inuse);
            // If a level does not change, those above do not change either.
            if (active, inuse) == (active_before, inuse_before) {
                return;
            }
            (node.active, node.inuse) = (active, inuse);
            at = node.parent;
            self.changed = true;
            let parent = self.node_mut(at);
            parent.child_active =
                parent.child_active + u64::from(active) - u64::from(active_before);
            parent.child_inuse = parent.child_inuse + u64::from(inuse) - u64::from(inuse_before);
            // An inner group without active children is not active itself.
            (active, inuse) = (0, 0);
            if parent.child_active > 0 {
                active = parent.weight;
                inuse = part_of(active, parent.child_inuse, parent.child_active);
            }
        }
    }

    /// Applies the changed weights.
    pub(super) fn commit(&mut self) {
        if core::mem::take(&mut self.changed) {
            self.generation += 1;
        }
    }

    /// Returns the generation of weights, which is never zero and changes with every commit of
    /// changed weights.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Discards the stored parts of a group that is new, or whose path has changed without
    /// [`Self::propagate`].
    pub(super) fn forget_part(&mut self, group: u32) {
        self.node_mut(group).generation = 0;
    }

    /// Returns a group's part of the drive by active weights, and by weights in use.
    #[inline]
    pub(super) fn parts(&mut self, group: u32) -> (u32, u32) {
        let node = &self.nodes[group as usize];
        if node.generation == self.generation {
            return (node.hwa, node.hwi);
        }
        self.find_parts(group)
    }

    /// Computes a group's parts from the root downwards and stores them.
    #[inline(never)]
    fn find_parts(&mut self, group: u32) -> (u32, u32) {
        let mut path = [0; LEVELS];
        let mut levels = 0;
        let mut at = group;
        while at != 0 {
            path[levels] = at;
            levels += 1;
            at = self.nodes[at as usize].parent;
        }
        let (mut hwa, mut hwi) = (u64::from(ONE), u64::from(ONE));
        for &at in path[..levels].iter().rev() {
            let node = self.node(at);
            let parent = self.node(node.parent);
            // An idle level has no sums to divide by, and counts as if the group had all of it.
            if parent.child_active == 0 || parent.child_inuse == 0 {
                continue;
            }
            let (active, inuse) = (u64::from(node.active), u64::from(node.inuse));
            hwa = hwa * active / parent.child_active.max(active);
            hwi = hwi * inuse / parent.child_inuse.max(inuse);
        }
        let generation = self.generation;
        let node = self.node_mut(group);
        node.generation = generation;
        // Costs are divided by the part, which must not be zero.
        (node.hwa, node.hwi) = (hwa.max(1) as u32, hwi.max(1) as u32);
        (node.hwa, node.hwi)
    }

    /// Returns the part of the drive that a group would have if it used all of its weight.
    pub(super) fn most(&self, group: u32) -> u32 {
        let mut hwm = u64::from(ONE);
        let mut inuse = self.node(group).active;
        let mut at = group;
        while at != 0 {
            let node = self.node(at);
            let parent = self.node(node.parent);
            // The sum of the level as if this group used all of its weight.
            let sum = parent.child_inuse + u64::from(inuse) - u64::from(node.inuse);
            hwm = hwm * u64::from(inuse) / sum.max(1);
            inuse = part_of(parent.active, sum, parent.child_active.max(1));
            at = node.parent;
        }
        hwm.max(1) as u32
    }
}

/// Returns `whole * part / all`, rounded up. The part must be at most all.
fn part_of(whole: u32, part: u64, all: u64) -> u32 {
    (u128::from(whole) * u128::from(part)).div_ceil(u128::from(all)) as u32
}

/// Converts an absolute cost to the vtime of a group with this part of the drive.
#[inline]
pub(super) fn relative(absolute: u64, part: u32) -> u64 {
    // Below this limit, the shifted number has 63 bits at most.
    if absolute < 1 << 47 {
        (absolute << 16).div_ceil(u64::from(part))
    } else {
        let wide = (u128::from(absolute) << 16).div_ceil(u128::from(part));
        // A quarter of the largest distance between positions that can be compared.
        wide.min(1 << 61) as u64
    }
}

/// Converts a group's vtime to an absolute cost, the inverse of [`relative`].
#[inline]
pub(super) fn absolute(relative: u64, part: u32) -> u64 {
    (u128::from(relative) * u128::from(part)).div_ceil(u128::from(ONE)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u32 = 100 * ONE;

    /// Creates a tree with groups 1 and 2 at the root, and groups 3 and 4 below group 2. All groups
    /// except 2 are leaves.
    fn tree(weights: [u32; 4]) -> Weights {
        let mut tree = Weights::new(5);
        for (group, weight) in (1..).zip(weights) {
            let node = tree.node_mut(group);
            node.weight = weight;
            node.parent = if group > 2 { 2 } else { 0 };
        }
        for group in [1, 3, 4] {
            let weight = tree.node(group).weight;
            tree.propagate(group, weight, weight);
        }
        tree.commit();
        tree
    }

    #[test]
    fn the_part_of_a_group_is_the_product_of_parts_on_its_path() {
        let mut tree = tree([W, W, W, 3 * W]);
        assert_eq!(tree.parts(1), (ONE / 2, ONE / 2));
        assert_eq!(tree.parts(3), (ONE / 8, ONE / 8));
        assert_eq!(tree.parts(4), (ONE * 3 / 8, ONE * 3 / 8));
    }

    #[test]
    fn donated_weight_goes_to_siblings_first() {
        let mut tree = tree([W, W, W, W]);
        tree.propagate(3, W, W / 4);
        tree.commit();
        assert_eq!(tree.parts(3).0, ONE / 4, "what it has a right to stays");
        // Group 2 uses 5/8 of its weight. Group 1 has 8/13, group 4 has 4/13 and group 3 has 1/13.
        let parts = [1, 4, 3].map(|g| tree.parts(g).1);
        assert_eq!(parts, [ONE * 8 / 13, ONE * 4 / 13, ONE / 13]);
        assert_eq!(tree.most(3), ONE / 4);
    }

    #[test]
    fn an_idle_group_takes_no_part_of_the_drive() {
        let mut tree = tree([W, W, W, 3 * W]);
        tree.propagate(4, 0, 0);
        tree.commit();
        assert_eq!(tree.parts(3), (ONE / 2, ONE / 2));
        tree.propagate(3, 0, 0);
        tree.commit();
        assert_eq!(tree.parts(1), (ONE, ONE));
        assert_eq!(tree.node(2).active, 0);
    }

    #[test]
    fn costs_round_up_and_do_not_overflow() {
        assert_eq!(relative(10, ONE / 3), 31);
        assert_eq!(absolute(relative(10, ONE / 3), ONE / 3), 11);
        assert_eq!(relative(1 << 46, ONE), 1 << 46);
        assert_eq!(relative(1 << 60, 1), 1 << 61);
    }

    #[test]
    fn a_relative_cost_is_capped_at_half_of_the_comparable_distance() {
        assert_eq!(relative(3, ONE / 2), 6);
        assert_eq!(relative((1 << 47) - 1, ONE), (1 << 47) - 1);
        assert_eq!(relative(1 << 47, ONE), 1 << 47);
        assert_eq!(relative(1 << 47, 1), 1 << 61);
    }
}
