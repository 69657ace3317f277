//! Big ordered trees over slot numbers: leaves of up to 32 slots, branches of up to 64 leaves, and a trunk of branches for each tree.
//!
//! A treap with a node for each slot ([`crate::tree`]) is what many small trees share. In one that holds thousands of slots nearly every
//! step down is a cache miss. Here those that are next to each other in order are so in memory, there are few tables to look through, and what
//! comes is written behind what stands in its leaf, of which nothing is read: a leaf is sorted when somebody looks into it.

use alloc::vec;
use alloc::vec::Vec;

/// Slots of a leaf at most.
const ROOM: usize = 32;
/// Leaves next to each other in a branch have more than this together; a full one is split into two of this.
const PAIR: usize = ROOM / 2;
/// Leaves of a branch at most.
const LEAVES: usize = 64;
/// Branches next to each other have more leaves than this together; a full one is split into two of this.
const BRANCH_PAIR: usize = LEAVES / 2;

/// A slot and its key; a leaf or a branch, and a key that is after none of its slots' and before none of those in front of it. The first
/// leaf of a branch takes all from the branch's key on, the first branch of a tree all: their keys are not looked at.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    slot: u32,
}

const NONE: Entry = Entry { key: 0, slot: 0 };

/// The slots of a leaf; it begins a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf([Entry; ROOM]);

/// How many slots of a leaf are in use, and how many of these are in order; the others came later.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    len: u8,
    sorted: u8,
}

/// The leaves of a branch.
#[derive(Clone, Debug)]
struct Branch {
    leaves: [Entry; LEAVES],
    len: usize,
}

/// A tree.
#[derive(Clone, Debug)]
struct Tree {
    branches: Vec<Entry>,
    /// Where a slot was taken out last: the next one is often there.
    recent: Spot,
}

/// Where a leaf hangs: at which branch of its tree, and at which place of that; and its number.
#[derive(Clone, Copy, Debug, Default)]
struct Spot {
    branch: usize,
    place: usize,
    leaf: u32,
}

/// Some trees. A slot is in at most one of them at a time.
#[derive(Debug)]
pub(crate) struct Leaves {
    trees: Vec<Tree>,
    branches: Vec<Branch>,
    leaves: Vec<Leaf>,
    fills: Vec<Fill>,
    free_branches: Vec<u32>,
    free_leaves: Vec<u32>,
}

impl Leaves {
    /// Room for `slots` slots in `trees` trees.
    pub(crate) fn new(slots: u32, trees: u32) -> Self {
        // Two leaves of a branch have 17 slots, two branches 33 leaves. One more of each is there between a split and an insertion.
        let leaves = slots / 7 + 2 * trees + 2;
        let branches = leaves / 16 + trees + 1;
        let tree = Tree {
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

    /// Inserts `slot` into a tree, behind those of equal key.
    pub(crate) fn insert(&mut self, tree: usize, slot: u32, key: u64) {
        let leaf = match self.spot(tree, key) {
            Some(spot) if self.len(spot.leaf) == ROOM => self.split(tree, spot, key),
            Some(spot) => spot.leaf,
            None => self.plant(tree),
        } as usize;
        let fill = &mut self.fills[leaf];
        self.leaves[leaf].0[usize::from(fill.len)] = Entry { key, slot };
        fill.len += 1;
    }

    /// Takes out a slot that is in a tree with this key. Returns the one behind it.
    pub(crate) fn remove(&mut self, tree: usize, slot: u32, key: u64) -> Option<u32> {
        let (spot, at) = self.find(tree, slot, key);
        self.trees[tree].recent = spot;
        let fill = &mut self.fills[spot.leaf as usize];
        let entries = &mut self.leaves[spot.leaf as usize].0[..usize::from(fill.len)];
        let next = entries.get(at + 1).map(|entry| entry.slot);
        entries.copy_within(at + 1.., at);
        fill.len -= 1;
        fill.sorted -= 1;
        let is_small = usize::from(fill.len) < PAIR;
        let next = next.or_else(|| self.first_behind(tree, spot));
        if is_small {
            self.join(tree, spot);
        }
        next
    }

    /// Shows the slots behind one that is in a tree with this key, up to this number of them: those of its leaf and of the next.
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

    /// The slot behind one that is in a tree with this key.
    pub(crate) fn next(&mut self, tree: usize, slot: u32, key: u64) -> Option<u32> {
        let (spot, at) = self.find(tree, slot, key);
        match self.entries(spot.leaf).get(at + 1) {
            Some(entry) => Some(entry.slot),
            None => self.first_behind(tree, spot),
        }
    }

    /// The slot in front of one that is in a tree with this key.
    pub(crate) fn prev(&mut self, tree: usize, slot: u32, key: u64) -> Option<u32> {
        let (spot, at) = self.find(tree, slot, key);
        self.in_front(tree, spot, at).map(|entry| entry.slot)
    }

    /// The last slot whose key is not after `key`, and its key.
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

    fn entries(&self, leaf: u32) -> &[Entry] {
        &self.leaves[leaf as usize].0[..self.len(leaf)]
    }

    /// The slots of a leaf, in order.
    fn sorted(&mut self, leaf: u32) -> &[Entry] {
        let fill = &mut self.fills[leaf as usize];
        let entries = &mut self.leaves[leaf as usize].0[..usize::from(fill.len)];
        if fill.sorted < fill.len {
            sort(entries, fill.sorted.into());
            fill.sorted = fill.len;
        }
        entries
    }

    /// The leaves of a branch of a tree.
    fn branch(&self, tree: usize, branch: usize) -> &[Entry] {
        let branch = &self.branches[self.trees[tree].branches[branch].slot as usize];
        &branch.leaves[..branch.len]
    }

    /// The leaf at a place of a branch.
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

    /// The leaf into which a key belongs, behind those of equal key; `None`: the tree is empty.
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

    /// Where a slot stands, now that its leaf is in order.
    fn find(&mut self, tree: usize, slot: u32, key: u64) -> (Spot, usize) {
        let recent = self.trees[tree].recent;
        if let Some(at) = self.position(recent.leaf, slot, key) {
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
            // Those of equal key may go back over several leaves.
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

    /// The first slot of the leaf behind one.
    #[inline(never)]
    fn first_behind(&mut self, tree: usize, spot: Spot) -> Option<u32> {
        let next = self.next_spot(tree, spot)?;
        self.sorted(next.leaf).first().map(|entry| entry.slot)
    }

    fn in_front(&mut self, tree: usize, spot: Spot, at: usize) -> Option<Entry> {
        if at > 0 {
            return self.entries(spot.leaf).get(at - 1).copied();
        }
        let before = self.prev_spot(tree, spot)?;
        self.sorted(before.leaf).last().copied()
    }

    /// The only leaf of a tree that was empty.
    #[cold]
    fn plant(&mut self, tree: usize) -> u32 {
        let (leaf, branch) = (self.free_leaf(), self.free_branch());
        let slot = branch;
        self.trees[tree].branches.push(Entry { slot, ..NONE });
        let branch = &mut self.branches[branch as usize];
        branch.leaves[0] = Entry { slot: leaf, ..NONE };
        branch.len = 1;
        leaf
    }

    fn free_leaf(&mut self) -> u32 {
        (self.free_leaves.pop()).expect("there are leaves for all slots")
    }

    fn free_branch(&mut self) -> u32 {
        (self.free_branches.pop()).expect("there are branches for all leaves")
    }

    /// Splits a full leaf. Returns the one of its two parts into which `key` belongs.
    #[inline(never)]
    fn split(&mut self, tree: usize, spot: Spot, key: u64) -> u32 {
        let first = self.sorted(spot.leaf)[PAIR].key;
        let right = self.free_leaf();
        self.append(right, spot.leaf, PAIR);
        let (len, sorted) = (PAIR as u8, PAIR as u8);
        self.fills[spot.leaf as usize] = Fill { len, sorted };
        let entry = Entry {
            key: first,
            slot: right,
        };
        self.hang(tree, spot, entry);
        if key < first { spot.leaf } else { right }
    }

    /// Hangs a leaf behind the one at a spot.
    fn hang(&mut self, tree: usize, spot: Spot, leaf: Entry) {
        let mut number = self.trees[tree].branches[spot.branch].slot as usize;
        let mut at = spot.place + 1;
        if self.branches[number].len == LEAVES {
            let slot = self.free_branch();
            let upper = self.branches[number].leaves;
            self.branches[number].len = BRANCH_PAIR;
            let right = &mut self.branches[slot as usize];
            right.len = LEAVES - BRANCH_PAIR;
            right.leaves[..right.len].copy_from_slice(&upper[BRANCH_PAIR..]);
            let key = right.leaves[0].key;
            let branches = &mut self.trees[tree].branches;
            branches.insert(spot.branch + 1, Entry { key, slot });
            if at > BRANCH_PAIR {
                (number, at) = (slot as usize, at - BRANCH_PAIR);
            }
        }
        let branch = &mut self.branches[number];
        branch.leaves.copy_within(at..branch.len, at + 1);
        branch.leaves[at] = leaf;
        branch.len += 1;
    }

    /// A leaf has become smaller: it is joined with one next to it if they have few slots together, and given back if it has none.
    #[inline(never)]
    fn join(&mut self, tree: usize, spot: Spot) {
        let len = self.len(spot.leaf);
        if len == 0 {
            return self.give_back(tree, spot);
        }
        let fits = |other: &Spot| self.len(other.leaf) + len <= PAIR;
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

    /// A leaf takes in what stands in another from `first` on, behind what it has, which is in order.
    fn append(&mut self, leaf: u32, other: u32, first: usize) {
        self.sorted(other);
        let (upper, end) = (self.leaves[other as usize].clone(), self.len(other));
        let (len, upper) = (self.len(leaf), &upper.0[first..end]);
        self.leaves[leaf as usize].0[len..len + upper.len()].copy_from_slice(upper);
        let len = (len + upper.len()) as u8;
        self.fills[leaf as usize] = Fill { len, sorted: len };
    }

    /// Takes a leaf off its branch, which is joined with one next to it if they have few leaves together.
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
            let left = spot.branch.saturating_sub(1);
            if !self.join_branches(tree, left) && left != spot.branch {
                self.join_branches(tree, spot.branch);
            }
        }
    }

    /// Joins a branch with the next one, if there is one and they have few leaves together.
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
        // Its first leaf takes all from the branch's key on.
        let seam = branch.len;
        branch.leaves[seam].key = right.key;
        branch.len = len;
        self.trees[tree].branches.remove(left + 1);
        self.free_branches.push(right.slot);
        if let Some(spot) = self.at(tree, left, seam) {
            self.join(tree, spot);
        }
        true
    }
}

/// The last of some entries that a key is not before, or the first.
#[inline]
fn place_of(entries: &[Entry], key: u64) -> Option<usize> {
    let others = entries.get(1..)?;
    Some(others.partition_point(|entry| entry.key <= key))
}

/// Puts entries in the order of their keys, those of equal key as they came; the first `sorted` are.
fn sort(entries: &mut [Entry], sorted: usize) {
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
                assert!(both > PAIR, "{both} slots in two leaves");
            }
            if branch > 0 {
                let both = leaves.branch(tree, branch - 1).len() + numbers.len();
                assert!(both > BRANCH_PAIR, "{both} leaves in two branches");
            }
        }
        assert_eq!(&all, model);
    }

    /// Slots come and go in two trees; there are as many keys as `keys`, so that many slots may have the same.
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
            // It fills up and is emptied in turns.
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
    fn there_are_leaves_for_all_slots_however_they_lie() {
        const SLOTS: u32 = 5_000;
        let mut leaves = Leaves::new(SLOTS, 1);
        let tree = 0;
        // Full leaves, of which all but a few slots are taken out; then they are full again elsewhere.
        for round in 0..4u32 {
            let key = |slot: u32| u64::from(slot * 617 % SLOTS + round * 7);
            for slot in 0..SLOTS {
                leaves.insert(tree, slot, key(slot));
            }
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
            assert_eq!(leaves.free_leaves.len(), leaves.leaves.len());
        }
    }
}
