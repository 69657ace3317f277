//! Donation: parts of the drive that groups do not use go to other groups, in proportion to their
//! weights (Linux: `hweight_after_donation`, `transfer_surpluses`).
//!
//! Only the weights of donors and of the groups above them change. The part of every other group
//! then grows by the same factor. In the formulas below, `t` is the part that the donors of a
//! subtree have, `t'` the part that they keep, and `f` the part of the other groups.

use super::weights::{ONE, Weights};
use alloc::vec;
use alloc::vec::Vec;

/// A group that donates a part of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Donor {
    pub(super) group: u32,
    /// The part that the group has, in units of 1 / [`ONE`] of the drive. `keeps` is the part that
    /// it keeps.
    has: u32,
    keeps: u32,
    /// The weight with which the group has the part that it keeps.
    pub(super) inuse: u32,
}

/// The sums of an inner group or the root.
#[derive(Clone, Copy, Debug, Default)]
struct InnerSums {
    /// True if the group is in the walk.
    seen: bool,
    hwa: u64,
    hwi: u64,
    /// `t` of the formulas. `keeps` is `t'`.
    has: u64,
    keeps: u64,
    /// The sum of the children's weights after the donation.
    sum: u128,
}

/// The donors of a period and the groups above them. All memory is reserved at the beginning.
#[derive(Debug)]
pub(super) struct Donation {
    pub(super) donors: Vec<Donor>,
    inner: Vec<InnerSums>,
    /// Inner groups, each behind its parent.
    walk: Vec<u32>,
}

impl Donation {
    pub(super) fn new(groups: u32) -> Self {
        Self {
            donors: Vec::with_capacity(groups as usize),
            inner: vec![InnerSums::default(); groups as usize],
            walk: Vec::with_capacity(groups as usize),
        }
    }

    pub(super) fn begin(&mut self) {
        self.donors.clear();
    }

    pub(super) fn add(&mut self, group: u32, has: u32, keeps: u32) {
        self.donors.push(Donor {
            group,
            has,
            keeps,
            inuse: 0,
        });
    }

    /// Computes the donors' weights. Returns false if their parts are too small to be divided.
    pub(super) fn settle(&mut self, weights: &Weights) -> bool {
        self.limit_kept_parts();
        self.walk_up(weights);
        let divided = self.add_up(weights);
        if divided {
            self.adjust_sums(weights);
            for donor in &mut self.donors {
                let parent = &self.inner[weights.node(donor.group).parent as usize];
                let inuse = share(parent.sum, donor.keeps.into(), parent.hwi);
                donor.inuse = inuse.min(u32::MAX.into()) as u32;
            }
        }
        for &group in &self.walk {
            // Only the visited entries are reset, so a donation costs no more than its donors'
            // paths.
            self.inner[group as usize] = InnerSums::default();
        }
        self.walk.clear();
        divided
    }

    /// Reduces the parts of donors that would keep more than they have, if all donors together
    /// would keep the whole drive.
    fn limit_kept_parts(&mut self) {
        let over = |d: &&Donor| d.keeps > d.has;
        let sum: u64 = self.donors.iter().map(|d| u64::from(d.keeps)).sum();
        let over_sum: u64 = self
            .donors
            .iter()
            .filter(over)
            .map(|d| u64::from(d.keeps))
            .sum();
        let excess = (sum + 1).saturating_sub(ONE.into());
        if sum < u64::from(ONE) || over_sum <= excess {
            return;
        }
        for donor in &mut self.donors {
            if donor.keeps > donor.has {
                donor.keeps = (u64::from(donor.keeps) * (over_sum - excess) / over_sum) as u32;
            }
        }
    }

    /// Lists the groups above donors, and adds the donors' parts to their parents.
    fn walk_up(&mut self, weights: &Weights) {
        for donor in &self.donors {
            let parent = weights.node(donor.group).parent;
            let begin = self.walk.len();
            let mut at = parent;
            while !self.inner[at as usize].seen {
                self.inner[at as usize].seen = true;
                self.walk.push(at);
                if at == 0 {
                    break;
                }
                at = weights.node(at).parent;
            }
            // The new part of the path was listed upwards, but parents must be in front of their
            // children.
            self.walk[begin..].reverse();
            let inner = &mut self.inner[parent as usize];
            inner.has += u64::from(donor.has);
            inner.keeps += u64::from(donor.keeps);
        }
    }

    /// Adds up the donors' parts on every level. Returns false if a part is too small.
    fn add_up(&mut self, weights: &Weights) -> bool {
        for &group in self.walk.iter().rev().filter(|g| **g != 0) {
            let InnerSums { has, keeps, .. } = self.inner[group as usize];
            let parent = &mut self.inner[weights.node(group).parent as usize];
            parent.has += has;
            parent.keeps += keeps;
        }
        for &group in &self.walk {
            let hwa = if group == 0 {
                u64::from(ONE)
            } else {
                let node = weights.node(group);
                let above = self.inner[node.parent as usize].hwa * u64::from(node.active);
                above.div_ceil(weights.node(node.parent).child_active.max(1))
            };
            let inner = &mut self.inner[group as usize];
            inner.hwa = hwa;
            inner.has = inner.has.min(hwa);
            // The donors of a subtree must keep less than they have, or nothing would be donated
            // (Linux: `transfer_surpluses`).
            inner.keeps = inner.keeps.min(inner.has.saturating_sub(1));
            if hwa <= 1 || inner.has <= 1 || inner.keeps == 0 {
                return false;
            }
        }
        true
    }

    /// Computes the sums of weights below each inner group after the donation.
    fn adjust_sums(&mut self, weights: &Weights) {
        let one = u64::from(ONE);
        let root = self.inner[0];
        // `gamma` is the factor by which the parts of all other groups grow: (1 - t') / (1 - t) at
        // the root.
        let gamma = ((one - root.keeps) * one).div_ceil(one - root.has.min(one - 1));
        for &group in &self.walk {
            let node = weights.node(group);
            let mut inner = self.inner[group as usize];
            if group == 0 {
                inner.hwi = one;
                inner.sum = share(node.child_active.into(), one - inner.has, one - inner.keeps);
                self.inner[0] = inner;
                continue;
            }
            let parent = self.inner[node.parent as usize];
            // b' = gamma * f + t' is the new part of a group. Its new weight is w' = s' * b' / (b'
            // of the parent), where s' is the parent's new sum.
            inner.hwi = (gamma * (inner.hwa - inner.has)).div_ceil(one) + inner.keeps;
            let inuse = share(parent.sum, inner.hwi, parent.hwi);
            let of_donors = share(node.child_active.into(), inner.has, inner.hwa);
            let of_others = u128::from(node.child_active) - of_donors;
            let weight = share(node.active.into(), inner.has, inner.hwa);
            let weight_kept = share(inuse, inner.keeps, inner.hwi);
            inner.sum = of_others + (of_donors * weight_kept).div_ceil(weight.max(1));
            self.inner[group as usize] = inner;
        }
    }
}

/// Returns `whole * part / all`, rounded up.
fn share(whole: u128, part: u64, all: u64) -> u128 {
    (whole * u128::from(part)).div_ceil(u128::from(all.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u32 = 100 * ONE;

    fn tree(parents: &[u32], weights: &[u32]) -> Weights {
        let mut tree = Weights::new(parents.len() as u32 + 1);
        for (group, (&parent, &weight)) in (1..).zip(parents.iter().zip(weights)) {
            let node = tree.node_mut(group);
            (node.weight, node.parent) = (weight, parent);
        }
        for group in 1..=parents.len() as u32 {
            if !parents.contains(&group) {
                let weight = tree.node(group).weight;
                tree.propagate(group, weight, weight);
            }
        }
        tree.commit();
        tree
    }

    fn donate(tree: &mut Weights, keeps: &[(u32, u32)]) -> bool {
        let mut donation = Donation::new(16);
        for &(group, keeps) in keeps {
            let (has, _) = tree.parts(group);
            donation.add(group, has, keeps);
        }
        let divided = donation.settle(tree);
        for donor in donation.donors.iter().filter(|_| divided) {
            let active = tree.node(donor.group).active;
            tree.propagate(donor.group, active, donor.inuse);
        }
        tree.commit();
        divided
    }

    fn near(part: u32, to: u32) -> bool {
        part.abs_diff(to) <= 16
    }

    #[test]
    fn a_donor_keeps_its_demand_and_the_others_gain_by_weight() {
        let mut tree = tree(&[0, 0, 0], &[W, W, 2 * W]);
        assert!(donate(&mut tree, &[(1, ONE / 10)]));
        let parts = [1, 2, 3].map(|g| tree.parts(g).1);
        assert!(near(parts[0], ONE / 10), "{parts:?}");
        assert!(near(parts[1], ONE * 3 / 10), "{parts:?}");
        assert!(near(parts[2], ONE * 6 / 10), "{parts:?}");
    }

    #[test]
    fn a_nested_donor_donates_to_all_groups_and_not_only_to_siblings() {
        // Group 1 is at the root, and groups 3 and 4 are below group 2.
        let mut tree = tree(&[0, 0, 2, 2], &[W; 4]);
        assert!(donate(&mut tree, &[(3, ONE / 20)]));
        let parts = [1, 3, 4].map(|g| tree.parts(g).1);
        // Groups 1 and 4 had parts of 2 : 1, and share the 95 % in this proportion.
        assert!(near(parts[1], ONE / 20), "{parts:?}");
        assert!(near(parts[0], ONE * 95 / 150), "{parts:?}");
        assert!(near(parts[2], ONE * 95 / 300), "{parts:?}");
    }

    #[test]
    fn several_donors_keep_their_demands() {
        let mut tree = tree(&[0, 0, 2, 2, 2, 0], &[W, 3 * W, W, W, 5 * W, W]);
        assert!(donate(&mut tree, &[(3, 2000), (4, 100), (6, 3000)]));
        let parts = [3, 4, 6, 1, 5].map(|g| tree.parts(g).1);
        assert!(near(parts[0], 2000) && near(parts[1], 100) && near(parts[2], 3000));
        // Group 1 has 1/5 of the drive, and group 5 has 5/7 of the 3/5 of group 2.
        let rest = (ONE - 5100) as f64;
        let of_1 = 0.2 / (0.2 + 3.0 / 7.0) * rest;
        assert!(near(parts[3], of_1 as u32), "{parts:?} {of_1}");
        assert!(near(parts[4], (rest - of_1) as u32), "{parts:?}");
    }

    #[test]
    fn donors_that_demand_too_much_leave_a_part_for_other_groups() {
        let mut tree = tree(&[0, 0, 0], &[W, W, 100 * W]);
        donate(&mut tree, &[(1, ONE - 1), (2, ONE / 2)]);
        let rest = tree.parts(3).1;
        assert!(rest > ONE / 1000, "{rest}");
    }

    /// Returns the parts that donors keep. Each donor is given by the part that it has and the part
    /// that it would keep.
    fn kept<const N: usize>(donors: [(u32, u32); N]) -> Vec<u32> {
        let mut donation = Donation::new(16);
        for (group, (has, keeps)) in (1..).zip(donors) {
            donation.add(group, has, keeps);
        }
        donation.limit_kept_parts();
        donation.donors.iter().map(|d| d.keeps).collect()
    }

    #[test]
    fn donors_above_their_part_are_cut_until_a_unit_is_left() {
        // One unit must be left. With one unit more, the donor that would keep more than it has
        // returns it.
        assert_eq!(kept([(600, ONE - 101), (200, 100)]), [ONE - 101, 100]);
        assert_eq!(kept([(600, ONE - 100), (200, 100)]), [ONE - 101, 100]);
        assert_eq!(kept([(600, ONE - 1), (100, 100)]), [ONE - 101, 100]);
        // Two donors return in proportion to their parts: they keep 65,235 of 67,536.
        assert_eq!(
            kept([(600, ONE / 2), (600, ONE / 2 + 2_000), (500, 300)]),
            [31_651, 33_583, 300]
        );
        // A donor that keeps no more than it has returns nothing, even if no part is left.
        assert_eq!(kept([(ONE - 1, ONE - 1), (1, 10)]), [ONE - 1, 10]);
    }

    #[test]
    fn parts_too_small_to_be_divided_are_left() {
        let mut tree = tree(&[0, 0], &[1, 10_000 * ONE]);
        assert!(!donate(&mut tree, &[(1, 0)]));
    }
}
