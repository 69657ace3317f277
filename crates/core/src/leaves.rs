//! Large ordered trees of slot numbers: leaves of up to 32 slots, branches of up to 64 leaves, and
//! for each tree a trunk of branches.
//!
//! The treap in [`crate::tree`] has a node for each slot, and many small trees share its table. In
//! a tree of thousands of slots nearly every step down a treap is a cache miss. Here, slots that
//! are adjacent in order are adjacent in memory, and there are few levels. A new slot is appended
//! to its leaf without reading the leaf, and a leaf is sorted only when its order is needed.

use alloc::vec;
use alloc::vec::Vec;

/// The highest number of slots of a leaf.
const ROOM: usize = 32;
/// Two adjacent leaves of a branch have more slots than this together, or they are joined. A full
/// leaf is split into two of this size.
const PAIR: usize = ROOM / 2;
/// The highest number of leaves of a branch.
const LEAVES: usize = 64;
/// Two adjacent branches have more leaves than this together, or they are joined. A full branch is
/// split into two of this size.
const BRANCH_PAIR: usize = LEAVES / 2;

/// A slot with its key, or a leaf or branch with a bound. The bound is a key that is not after the
/// keys of its own slots and not before those of the slots in front of it.
///
/// The first leaf of a branch takes all keys from the branch's bound on, and the first branch of a
/// tree takes all keys. Their own bounds are not used.
#[derive(Clone, Copy, Debug)]
struct KeyedSlot {
    key: u64,
    slot: u32,
}

const NONE: KeyedSlot = KeyedSlot { key: 0, slot: 0 };

/// The slots of a leaf, aligned to a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf([KeyedSlot; ROOM]);

/// The number of slots of a leaf, and the number of those at its beginning that are sorted. The
/// others were appended later.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    len: u8,
    sorted: u8,
}

/// The leaves of a branch.
#[derive(Clone, Debug)]
struct Branch {
    leaves: [KeyedSlot; LEAVES],
    len: usize,
}

/// A tree of branches, ordered by their bounds.
#[derive(Clone, Debug)]
struct Trunk {
    branches: Vec<KeyedSlot>,
    /// The leaf from which a slot was removed last. The next removal is often in the same leaf.
    recent: Spot,
}

/// The position of a leaf: the index of its branch in the tree, its index in the branch, and its
/// number.
#[derive(Clone, Copy, Debug, Default)]
struct Spot {
    branch: usize,
    place: usize,
    leaf: u32,
}

/// A table of several trees. A slot is in at most one of them at a time.
#[derive(Debug)]
pub(crate) struct Leaves {
    trees: Vec<Trunk>,
    branches: Vec<Branch>,
    leaves: Vec<Leaf>,
    fills: Vec<Fill>,
    free_branches: Vec<u32>,
    free_leaves: Vec<u32>,
}

impl Leaves {
    /// Creates `trees` trees with room for `slots` slots in total.
    pub(crate) fn new(slots: u32, trees: u32) -> Self {
        // Two adjacent leaves have at least 17 slots together, and two adjacent branches at least
        // 33 leaves. One leaf and one branch more are needed between a split and the insertion that
        // caused it. The divisors are rounded down, so that there is some reserve.
        let leaves = slots / 7 + 2 * trees + 2;
        let branches = leaves / 16 + trees + 1;
        let tree = Trunk {
            branches: Vec::new(),
            recent: Spot::default(),
        };
        let branch = Branch {
            leaves: [NONE; LEAVES],
            len: 0,
        };
        let mut all = vec![tree; trees as usize];
        for tree in &mut all {
            tree.branches.reserve_exact(branches as usize);
        }
        Self {
            trees: all,
            branches: vec![branch; branches as usize],
            leaves: vec![Leaf([NONE; ROOM]); leaves as usize],
            fills: vec![Fill::default(); leaves as usize],
            free_branches: (0..branches).collect(),
            free_leaves: (0..leaves).collect(),
        }
    }

    /// Inserts `slot` into a tree, behind the slots of equal key.
    pub(crate) fn insert(&mut self, tree: usize, slot: u32, key: u64) {
        let leaf = match self.spot(tree, key) {
            Some(spot) if self.len(spot.leaf) == ROOM => self.split(tree, spot, key),
            Some(spot) => spot.leaf,
            None => self.create_first_leaf(tree),
        } as usize;
        let fill = &mut self.fills[leaf];
        self.leaves[leaf].0[usize::from(fill.len)] = KeyedSlot { key, slot };
        fill.len += 1;
    }

    /// Removes a slot that is in a tree with this key. Returns the slot after it.
    pub(crate) fn remove(&mut self, tree: usize, slot: u32, key: u64) -> Option<u32> {
        let (spot, at) = self.find(tree, slot, key);
        self.trees[tree].recent = spot;
        let fill = &mut self.fills[spot.leaf as usize];
        let entries = &mut self.leaves[spot.leaf as usize].0[..usize::from(fill.len)];
        let next = entries.get(at + 1).map(|entry| entry.slot);
        entries.copy_within(at + 1.., at);
        fill.len -= 1;
        // The leaf was sorted to find the slot, so the sorted part is the whole leaf.
        fill.sorted -= 1;
        let is_small = usize::from(fill.len) < PAIR;
        let next = next.or_else(|| self.first_behind(tree, spot));
        if is_small {
            self.join(tree, spot);
        }
        next
    }

    /// Passes up to `most` slots after the given one to `show`. It stops at the end of the next
    /// leaf.
    pub(crate) fn show_next(
        &mut self,
        tree: usize,
        (slot, key): (u32, u64),
        most: usize,
        show: impl Fn(u32),
    ) {
        let (spot, at) = self.find(tree, slot, key);
        let here = &self.entries(spot.leaf)[at + 1..];
        let left = most.saturating_sub(here.len());
        here.iter().take(most).for_each(|entry| show(entry.slot));
        if let Some(next) = self.next_spot(tree, spot)
            && left > 0
        {
            let there = self.sorted(next.leaf).iter();
            there.take(left).for_each(|entry| show(entry.slot));
        }
    }

    /// Returns the slot after one that is in a tree with this key.
    pub(crate) fn next(&mut self, tree: usize, slot: u32, key: u64) -> Option<u32> {
        let (spot, at) = self.find(tree, slot, key);
        match self.entries(spot.leaf).get(at + 1) {
            Some(entry) => Some(entry.slot),
            None => self.first_behind(tree, spot),
        }
    }

    /// Returns the slot before one that is in a tree with this key.
    pub(crate) fn prev(&mut self, tree: usize, slot: u32, key: u64) -> Option<u32> {
        let (spot, at) = self.find(tree, slot, key);
        self.in_front(tree, spot, at).map(|entry| entry.slot)
    }

    /// Returns the last slot whose key is not after `key`, with its key.
    pub(crate) fn last_up_to(&mut self, tree: usize, key: u64) -> Option<(u32, u64)> {
        let spot = self.spot(tree, key)?;
        let entries = self.sorted(spot.leaf);
        let at = entries.partition_point(|entry| entry.key <= key);
        let found = self.in_front(tree, spot, at)?;
        Some((found.slot, found.key))
    }

    fn len(&self, leaf: u32) -> usize {
        self.fills[leaf as usize].len.into()
    }

    fn entries(&self, leaf: u32) -> &[KeyedSlot] {
        &self.leaves[leaf as usize].0[..self.len(leaf)]
    }

    /// Sorts a leaf, if necessary, and returns its slots.
    fn sorted(&mut self, leaf: u32) -> &[KeyedSlot] {
        let fill = &mut self.fills[leaf as usize];
        let entries = &mut self.leaves[leaf as usize].0[..usize::from(fill.len)];
        if fill.sorted < fill.len {
            sort(entries, fill.sorted.into());
            fill.sorted = fill.len;
        }
        entries
    }

    /// Returns the leaves of a branch of a tree.
    fn branch(&self, tree: usize, branch: usize) -> &[KeyedSlot] {
        let branch = &self.branches[self.trees[tree].branches[branch].slot as usize];
        &branch.leaves[..branch.len]
    }

    /// Returns the leaf at an index of a branch.
    fn at(&self, tree: usize, branch: usize, place: usize) -> Option<Spot> {
        let number = self.trees[tree].branches.get(branch)?.slot;
        let of = &self.branches[number as usize];
        let leaf = of.leaves[..of.len].get(place)?.slot;
        Some(Spot {
            branch,
            place,
            leaf,
        })
    }

    /// Returns the leaf to which a key belongs, behind the slots of equal key, or `None` if the
    /// tree is empty.
    fn spot(&self, tree: usize, key: u64) -> Option<Spot> {
        let branches = &self.trees[tree].branches;
        let branch = place_of(branches, key)?;
        let of = &self.branches[branches[branch].slot as usize];
        let leaves = &of.leaves[..of.len];
        let place = place_of(leaves, key)?;
        let leaf = leaves[place].slot;
        Some(Spot {
            branch,
            place,
            leaf,
        })
    }

    fn next_spot(&self, tree: usize, spot: Spot) -> Option<Spot> {
        let next = self.at(tree, spot.branch, spot.place + 1);
        next.or_else(|| self.at(tree, spot.branch + 1, 0))
    }

    fn prev_spot(&self, tree: usize, spot: Spot) -> Option<Spot> {
        if let Some(place) = spot.place.checked_sub(1) {
            return self.at(tree, spot.branch, place);
        }
        let branch = spot.branch.checked_sub(1)?;
        self.at(tree, branch, self.branch(tree, branch).len() - 1)
    }

    /// Sorts the leaf of a slot and returns its position and the slot's index in it.
    fn find(&mut self, tree: usize, slot: u32, key: u64) -> (Spot, usize) {
        let recent = self.trees[tree].recent;
        // Requests are often removed in order, so the leaf of the last removal comes first.
        if let Some(at) = self.position(recent.leaf, slot, key) {
            // The leaf contains the slot, but other leaves may have been inserted or removed in
            // front of it since, so its position has to be checked.
            let there = self.at(tree, recent.branch, recent.place);
            if there.is_some_and(|there| there.leaf == recent.leaf) {
                return (recent, at);
            }
        }
        let mut spot = self.spot(tree, key);
        while let Some(there) = spot {
            if let Some(at) = self.position(there.leaf, slot, key) {
                return (there, at);
            }
            // Slots of equal key can extend over several leaves.
            spot = self.prev_spot(tree, there);
        }
        unreachable!("slot {slot} is not in the tree")
    }

    fn position(&mut self, leaf: u32, slot: u32, key: u64) -> Option<usize> {
        let entries = self.sorted(leaf);
        let first = entries.partition_point(|entry| entry.key < key);
        let at = entries[first..]
            .iter()
            .position(|entry| entry.slot == slot)?;
        Some(first + at)
    }

    /// Returns the first slot of the next leaf.
    #[inline(never)]
    fn first_behind(&mut self, tree: usize, spot: Spot) -> Option<u32> {
        let next = self.next_spot(tree, spot)?;
        self.sorted(next.leaf).first().map(|entry| entry.slot)
    }

    fn in_front(&mut self, tree: usize, spot: Spot, at: usize) -> Option<KeyedSlot> {
        if at > 0 {
            return self.entries(spot.leaf).get(at - 1).copied();
        }
        let before = self.prev_spot(tree, spot)?;
        self.sorted(before.leaf).last().copied()
    }

    /// Creates the first leaf of an empty tree.
    #[cold]
    fn create_first_leaf(&mut self, tree: usize) -> u32 {
        // The bounds of the first leaf and branch are not used, so zero will do.
        let (leaf, branch) = (self.free_leaf(), self.free_branch());
        let slot = branch;
        self.trees[tree].branches.push(KeyedSlot { slot, ..NONE });
        let branch = &mut self.branches[branch as usize];
        branch.leaves[0] = KeyedSlot { slot: leaf, ..NONE };
        branch.len = 1;
        leaf
    }

    fn free_leaf(&mut self) -> u32 {
        (self.free_leaves.pop()).expect("there are leaves for all slots")
    }

    fn free_branch(&mut self) -> u32 {
        (self.free_branches.pop()).expect("there are branches for all leaves")
    }

    /// Splits a full leaf. Returns the one of its two parts to which `key` belongs.
    #[inline(never)]
    fn split(&mut self, tree: usize, spot: Spot, key: u64) -> u32 {
        // The upper half moves to a new leaf, whose bound is its first key.
        let first = self.sorted(spot.leaf)[PAIR].key;
        let right = self.free_leaf();
        self.append(right, spot.leaf, PAIR);
        let (len, sorted) = (PAIR as u8, PAIR as u8);
        self.fills[spot.leaf as usize] = Fill { len, sorted };
        let entry = KeyedSlot {
            key: first,
            slot: right,
        };
        self.hang(tree, spot, entry);
        if key < first { spot.leaf } else { right }
    }

    /// Inserts a leaf into its branch, after the leaf at `spot`.
    fn hang(&mut self, tree: usize, spot: Spot, leaf: KeyedSlot) {
        let mut number = self.trees[tree].branches[spot.branch].slot as usize;
        let mut at = spot.place + 1;
        // A full branch is split in two first.
        if self.branches[number].len == LEAVES {
            let slot = self.free_branch();
            let upper = self.branches[number].leaves;
            self.branches[number].len = BRANCH_PAIR;
            let right = &mut self.branches[slot as usize];
            right.len = LEAVES - BRANCH_PAIR;
            right.leaves[..right.len].copy_from_slice(&upper[BRANCH_PAIR..]);
            let key = right.leaves[0].key;
            let branches = &mut self.trees[tree].branches;
            branches.insert(spot.branch + 1, KeyedSlot { key, slot });
            if at > BRANCH_PAIR {
                (number, at) = (slot as usize, at - BRANCH_PAIR);
            }
        }
        let branch = &mut self.branches[number];
        branch.leaves.copy_within(at..branch.len, at + 1);
        branch.leaves[at] = leaf;
        branch.len += 1;
    }

    /// Joins a leaf from which a slot was removed with an adjacent one if they have few slots
    /// together. Frees the leaf if it is empty.
    #[inline(never)]
    fn join(&mut self, tree: usize, spot: Spot) {
        let len = self.len(spot.leaf);
        if len == 0 {
            return self.give_back(tree, spot);
        }
        // A joined leaf is at most half full, so that it is not split again soon.
        let fits = |other: &Spot| self.len(other.leaf) + len <= PAIR;
        // Only leaves of the same branch are joined, so that the bounds of branches do not change.
        let before = spot.place.checked_sub(1);
        let before = before.and_then(|place| self.at(tree, spot.branch, place));
        let next = self.at(tree, spot.branch, spot.place + 1);
        if let Some(before) = before.filter(fits) {
            self.sorted(before.leaf);
            self.append(before.leaf, spot.leaf, 0);
            self.give_back(tree, spot);
        } else if let Some(next) = next.filter(fits) {
            self.append(spot.leaf, next.leaf, 0);
            self.give_back(tree, next);
        }
    }

    /// Appends the slots of leaf `other` from index `first` on to `leaf`, which must be sorted.
    fn append(&mut self, leaf: u32, other: u32, first: usize) {
        self.sorted(other);
        let (upper, end) = (self.leaves[other as usize].clone(), self.len(other));
        let (len, upper) = (self.len(leaf), &upper.0[first..end]);
        self.leaves[leaf as usize].0[len..len + upper.len()].copy_from_slice(upper);
        let len = (len + upper.len()) as u8;
        self.fills[leaf as usize] = Fill { len, sorted: len };
    }

    /// Removes a leaf from its branch. Joins the branch with an adjacent one if they have few
    /// leaves together.
    fn give_back(&mut self, tree: usize, spot: Spot) {
        self.fills[spot.leaf as usize] = Fill::default();
        self.free_leaves.push(spot.leaf);
        let number = self.trees[tree].branches[spot.branch].slot;
        let branch = &mut self.branches[number as usize];
        branch.leaves[..branch.len].copy_within(spot.place + 1.., spot.place);
        branch.len -= 1;
        let len = branch.len;
        if len == 0 {
            self.trees[tree].branches.remove(spot.branch);
            self.free_branches.push(number);
        } else if len < BRANCH_PAIR {
            // The branch to the left is tried first, and the one to the right if that is too large.
            let left = spot.branch.saturating_sub(1);
            if !self.join_branches(tree, left) && left != spot.branch {
                self.join_branches(tree, spot.branch);
            }
        }
    }

    /// Joins a branch with the next one if there is one and they have few leaves together. Returns
    /// true if it did.
    fn join_branches(&mut self, tree: usize, left: usize) -> bool {
        let branches = &self.trees[tree].branches;
        let (Some(&left_entry), Some(&right)) = (branches.get(left), branches.get(left + 1)) else {
            return false;
        };
        let upper = self.branches[right.slot as usize].clone();
        let branch = &mut self.branches[left_entry.slot as usize];
        let len = branch.len + upper.len;
        if len > BRANCH_PAIR {
            return false;
        }
        branch.leaves[branch.len..len].copy_from_slice(&upper.leaves[..upper.len]);
        // The first leaf of a branch takes all keys from the branch's bound on, so its own bound
        // may be wrong. In the joined branch it is no longer the first and needs that bound.
        let seam = branch.len;
        branch.leaves[seam].key = right.key;
        branch.len = len;
        self.trees[tree].branches.remove(left + 1);
        self.free_branches.push(right.slot);
        // The leaves at the seam were in different branches and may have few slots together.
        if let Some(spot) = self.at(tree, left, seam) {
            self.join(tree, spot);
        }
        true
    }
}

/// Returns the index of the last entry whose key is not after `key`, or 0 if there is none.
#[inline]
fn place_of(entries: &[KeyedSlot], key: u64) -> Option<usize> {
    let others = entries.get(1..)?;
    Some(others.partition_point(|entry| entry.key <= key))
}

/// Sorts entries by key. Entries of equal key keep their order, and the first `sorted` entries are
/// sorted already.
fn sort(entries: &mut [KeyedSlot], sorted: usize) {
    // An insertion sort, because it is stable and only the last entries are out of order.
    for next in sorted..entries.len() {
        let entry = entries[next];
        let mut at = next;
        while at > 0 && entries[at - 1].key > entry.key {
            entries[at] = entries[at - 1];
            at -= 1;
        }
        entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use std::vec::Vec as StdVec;

    type Model = StdVec<(u64, u32)>;

    fn check(leaves: &mut Leaves, tree: usize, model: &Model) {
        let mut all = Model::new();
        for branch in 0..leaves.trees[tree].branches.len() {
            let numbers = leaves.branch(tree, branch).to_vec();
            for entry in &numbers {
                assert!(leaves.len(entry.slot) > 0);
                let slots = leaves.sorted(entry.slot).iter();
                all.extend(slots.map(|entry| (entry.key, entry.slot)));
            }
            for pair in numbers.windows(2) {
                let both = leaves.len(pair[0].slot) + leaves.len(pair[1].slot);
                // This is the invariant on which the number of leaves in `Leaves::new` relies.
                assert!(both > PAIR, "{both} slots in two leaves");
            }
            if branch > 0 {
                let both = leaves.branch(tree, branch - 1).len() + numbers.len();
                assert!(both > BRANCH_PAIR, "{both} leaves in two branches");
            }
        }
        assert_eq!(&all, model);
    }

    /// Inserts and removes slots in two trees and compares them with sorted arrays. There are
    /// `keys` different keys, so that a small number makes many slots share a key.
    fn agrees_with_a_sorted_array(keys: u64) {
        const SLOTS: u32 = 5_000;
        let mut leaves = Leaves::new(SLOTS, 2);
        let mut models: [Model; 2] = [Model::new(), Model::new()];
        let mut rng = Rng::new(keys);
        for step in 0..40_000u64 {
            let state = rng.next_u64();
            let slot = (state >> 40) as u32 % SLOTS;
            let key = (state >> 8) % keys;
            let place = |model: &Model| model.iter().position(|&(_, other)| other == slot);
            let held = (0..2).find_map(|which| Some((which, place(&models[which])?)));
            // The trees are filled and emptied in alternation.
            let filling = step / 10_000 % 2 == 0;
            if let Some((which, place)) = held {
                let (tree, model) = (which, &mut models[which]);
                let (key, next) = (model[place].0, model.get(place + 1).map(|m| m.1));
                assert_eq!(leaves.next(tree, slot, key), next);
                let prev = place.checked_sub(1).map(|at| model[at].1);
                assert_eq!(leaves.prev(tree, slot, key), prev);
                if !filling || state.is_multiple_of(4) {
                    assert_eq!(leaves.remove(tree, slot, key), next);
                    model.remove(place);
                }
            } else if filling || state.is_multiple_of(4) {
                let which = (state >> 32) as usize % 2;
                let (tree, model) = (which, &mut models[which]);
                leaves.insert(tree, slot, key);
                model.insert(model.partition_point(|m| m.0 <= key), (key, slot));
            }
            for (tree, model) in models.iter().enumerate() {
                // Not in every step, because a check visits all slots.
                if step % 7 > 0 {
                    continue;
                }
                let last = model.iter().rfind(|m| m.0 <= key).map(|m| (m.1, m.0));
                assert_eq!(leaves.last_up_to(tree, key), last);
                if step % 35 == 0 {
                    check(&mut leaves, tree, model);
                }
            }
        }
    }

    #[test]
    fn agrees_with_a_sorted_array_where_keys_differ() {
        agrees_with_a_sorted_array(1 << 50);
    }

    #[test]
    fn agrees_with_a_sorted_array_where_many_have_the_same_key() {
        for keys in [1, 3, 40] {
            agrees_with_a_sorted_array(keys);
        }
    }

    #[test]
    fn leaves_suffice_for_all_slots() {
        const SLOTS: u32 = 5_000;
        let mut leaves = Leaves::new(SLOTS, 1);
        let tree = 0;
        // Most slots of full leaves are removed, and the slots are inserted at other places, so
        // that leaves which are nearly empty must be joined to be available again.
        for round in 0..4u32 {
            // 617 and 5000 have no common divisor, so the keys are a permutation of the slots.
            let key = |slot: u32| u64::from(slot * 617 % SLOTS + round * 7);
            for slot in 0..SLOTS {
                leaves.insert(tree, slot, key(slot));
            }
            // One slot in nine remains, which is fewer than four of the 32 in a full leaf.
            for slot in (0..SLOTS).filter(|slot| slot % 9 > 0) {
                leaves.remove(tree, slot, key(slot));
            }
            for slot in (0..SLOTS).filter(|slot| slot % 9 > 0) {
                leaves.insert(tree, slot, u64::from(slot));
            }
            for slot in 0..SLOTS {
                let key = if slot % 9 > 0 { slot.into() } else { key(slot) };
                leaves.remove(tree, slot, key);
            }
            // All leaves are free again, so none is lost.
            assert_eq!(leaves.free_leaves.len(), leaves.leaves.len());
        }
    }
}
