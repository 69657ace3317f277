//! Big ordered trees over slot numbers: treaps whose nodes are leaves of up to 32 slots each.
//!
//! A treap with a node for each slot ([`crate::tree`]) is what many small trees share. In one that holds thousands of slots nearly every
//! step down is a cache miss. Here the steps lead through a table a twentieth as long, those that are next to each other in order are so in
//! memory, and what comes is written behind what stands in its leaf, of which nothing is read: a leaf is sorted when somebody looks into it.

use crate::tree::{Sorted, Tree};
use alloc::vec;
use alloc::vec::Vec;

/// Slots of a leaf at most.
const ROOM: usize = 32;
/// Leaves next to each other have more than this together; a full one is split into two of this.
const PAIR: usize = ROOM / 2;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    slot: u32,
}

/// The entries of a leaf; it begins a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf([Entry; ROOM]);

impl Leaf {
    const EMPTY: Self = Self([Entry { key: 0, slot: 0 }; ROOM]);
}

/// How many entries of a leaf are in use, and how many of these are in order; the others came later.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    len: u8,
    sorted: u8,
}

/// A tree. Belongs to one [`Leaves`]; a slot is in at most one tree of them at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BigTree {
    /// Its leaves. The key of each is after none of its slots', and before none of those of the leaves in front of it.
    leaves: Tree,
    /// The leaf that a slot was taken out of last: the next one is often there.
    recent: u32,
}

impl BigTree {
    pub(crate) const EMPTY: Self = Self {
        leaves: Tree::EMPTY,
        recent: 0,
    };
}

/// The leaves of some trees. Keys are below 2^63.
#[derive(Debug)]
pub(crate) struct Leaves {
    leaves: Vec<Leaf>,
    fills: Vec<Fill>,
    order: Sorted,
    free: Vec<u32>,
}

impl Leaves {
    /// Room for `slots` slots in up to `trees` trees.
    pub(crate) fn new(slots: u32, trees: u32) -> Self {
        // Of each tree all but one leaf have more than eight slots on average; one more is there between a split and an insertion.
        let leaves = slots / (PAIR as u32 / 2) + trees + 1;
        Self {
            leaves: vec![Leaf::EMPTY; leaves as usize],
            fills: vec![Fill::default(); leaves as usize],
            order: Sorted::new(leaves),
            free: (0..leaves).collect(),
        }
    }

    /// Inserts `slot` behind those of equal key.
    pub(crate) fn insert(&mut self, tree: &mut BigTree, slot: u32, key: u64) {
        let mut leaf = match self.order.last_up_to(&tree.leaves, key) {
            Some(leaf) => leaf,
            None => self.first_leaf(tree, key),
        };
        if self.len(leaf) == ROOM {
            leaf = self.split(tree, leaf, key);
        }
        let fill = &mut self.fills[leaf as usize];
        self.leaves[leaf as usize].0[usize::from(fill.len)] = Entry { key, slot };
        fill.len += 1;
    }

    /// Takes out a slot that is in `tree` with this key. Returns the one behind it.
    pub(crate) fn remove(&mut self, tree: &mut BigTree, slot: u32, key: u64) -> Option<u32> {
        let (leaf, at) = self.find(tree, slot, key);
        let next = self.behind(leaf, at);
        tree.recent = leaf;
        let fill = &mut self.fills[leaf as usize];
        let entries = &mut self.leaves[leaf as usize].0[..usize::from(fill.len)];
        entries.copy_within(at + 1.., at);
        fill.len -= 1;
        fill.sorted -= 1;
        if usize::from(fill.len) < PAIR {
            self.join(tree, leaf);
        }
        next
    }

    /// Shows the slots behind one that is in `tree` with this key, up to this number of them: those of its leaf and of the next.
    pub(crate) fn show_next(
        &mut self,
        tree: &BigTree,
        (slot, key): (u32, u64),
        most: usize,
        show: impl Fn(u32),
    ) {
        let (leaf, at) = self.find(tree, slot, key);
        let here = &self.entries(leaf)[at + 1..];
        let left = most.saturating_sub(here.len());
        here.iter().take(most).for_each(|entry| show(entry.slot));
        if let Some(next) = self.order.next(leaf)
            && left > 0
        {
            let there = self.sorted(next).iter();
            there.take(left).for_each(|entry| show(entry.slot));
        }
    }

    /// The slot behind one that is in `tree` with this key.
    pub(crate) fn next(&mut self, tree: &BigTree, slot: u32, key: u64) -> Option<u32> {
        let (leaf, at) = self.find(tree, slot, key);
        self.behind(leaf, at)
    }

    /// The slot in front of one that is in `tree` with this key.
    pub(crate) fn prev(&mut self, tree: &BigTree, slot: u32, key: u64) -> Option<u32> {
        let (leaf, at) = self.find(tree, slot, key);
        self.in_front(leaf, at).map(|entry| entry.slot)
    }

    /// The last slot whose key is not after `key`, and its key.
    pub(crate) fn last_up_to(&mut self, tree: &BigTree, key: u64) -> Option<(u32, u64)> {
        let leaf = self.order.last_up_to(&tree.leaves, key)?;
        let at = self.sorted(leaf).partition_point(|entry| entry.key <= key);
        let found = self.in_front(leaf, at)?;
        Some((found.slot, found.key))
    }

    fn len(&self, leaf: u32) -> usize {
        self.fills[leaf as usize].len.into()
    }

    fn entries(&self, leaf: u32) -> &[Entry] {
        &self.leaves[leaf as usize].0[..self.len(leaf)]
    }

    /// The entries of a leaf, in order.
    fn sorted(&mut self, leaf: u32) -> &[Entry] {
        let fill = &mut self.fills[leaf as usize];
        let entries = &mut self.leaves[leaf as usize].0[..usize::from(fill.len)];
        if fill.sorted < fill.len {
            sort(entries, fill.sorted.into());
            fill.sorted = fill.len;
        }
        entries
    }

    /// Where a slot stands, now that its leaf is in order.
    fn find(&mut self, tree: &BigTree, slot: u32, key: u64) -> (u32, usize) {
        let mut leaf = tree.recent;
        let mut found = self.position(leaf, slot, key);
        if found.is_none() {
            let last = self.order.last_up_to(&tree.leaves, key);
            leaf = last.expect("the slot is in the tree");
            found = self.position(leaf, slot, key);
        }
        // Those of equal key may go back over several leaves.
        while found.is_none() {
            leaf = self.order.prev(leaf).expect("the slot is in the tree");
            found = self.position(leaf, slot, key);
        }
        (leaf, found.unwrap_or_default())
    }

    fn position(&mut self, leaf: u32, slot: u32, key: u64) -> Option<usize> {
        let entries = self.sorted(leaf);
        let first = entries.partition_point(|entry| entry.key < key);
        let at = entries[first..]
            .iter()
            .position(|entry| entry.slot == slot)?;
        Some(first + at)
    }

    fn behind(&mut self, leaf: u32, at: usize) -> Option<u32> {
        if let Some(entry) = self.entries(leaf).get(at + 1) {
            return Some(entry.slot);
        }
        let next = self.order.next(leaf)?;
        self.sorted(next).first().map(|entry| entry.slot)
    }

    fn in_front(&mut self, leaf: u32, at: usize) -> Option<Entry> {
        if at > 0 {
            return self.entries(leaf).get(at - 1).copied();
        }
        let before = self.order.prev(leaf)?;
        self.sorted(before).last().copied()
    }

    /// The first leaf of a tree of which each begins behind `key`: it begins there from now on.
    #[cold]
    fn first_leaf(&mut self, tree: &mut BigTree, key: u64) -> u32 {
        if let Some(first) = self.order.first(&tree.leaves) {
            self.order.lower_first(first, key);
            return first;
        }
        self.add(tree, key)
    }

    /// A new leaf behind those that begin with `key` as well.
    fn add(&mut self, tree: &mut BigTree, key: u64) -> u32 {
        let leaf = self.free.pop().expect("there are leaves for all slots");
        self.order.insert(&mut tree.leaves, leaf, key, 0);
        leaf
    }

    /// Splits a full leaf. Returns the one of its two parts into which `key` belongs.
    #[inline(never)]
    fn split(&mut self, tree: &mut BigTree, leaf: u32, key: u64) -> u32 {
        let first = self.sorted(leaf)[PAIR].key;
        let right = self.add(tree, first);
        // It comes in front of those that begin with the same key and were there before.
        while let Some(next) = self.order.next(leaf).filter(|&next| next != right) {
            self.order.remove(&mut tree.leaves, next);
            self.order.insert(&mut tree.leaves, next, first, 0);
        }
        self.append(right, leaf, PAIR);
        let left = &mut self.fills[leaf as usize];
        (left.len, left.sorted) = (PAIR as u8, PAIR as u8);
        if key < first { leaf } else { right }
    }

    /// A leaf has become smaller: it is joined with one next to it if they have few slots together, and given back if it has none.
    #[inline(never)]
    fn join(&mut self, tree: &mut BigTree, leaf: u32) {
        let len = self.len(leaf);
        if len == 0 {
            return self.give_back(tree, leaf);
        }
        let fits = |&other: &u32| self.len(other) + len <= PAIR;
        let before = self
            .order
            .prev(leaf)
            .filter(fits)
            .map(|other| (other, leaf));
        let next = || {
            self.order
                .next(leaf)
                .filter(fits)
                .map(|other| (leaf, other))
        };
        if let Some((left, right)) = before.or_else(next) {
            self.sorted(left);
            self.append(left, right, 0);
            self.give_back(tree, right);
        }
    }

    /// A leaf takes in what stands in another from `first` on, behind what it has. Both are in order.
    fn append(&mut self, leaf: u32, other: u32, first: usize) {
        self.sorted(other);
        let (upper, end) = (self.leaves[other as usize].clone(), self.len(other));
        let (len, upper) = (self.len(leaf), &upper.0[first..end]);
        self.leaves[leaf as usize].0[len..len + upper.len()].copy_from_slice(upper);
        let len = (len + upper.len()) as u8;
        self.fills[leaf as usize] = Fill { len, sorted: len };
    }

    fn give_back(&mut self, tree: &mut BigTree, leaf: u32) {
        self.fills[leaf as usize] = Fill::default();
        self.order.remove(&mut tree.leaves, leaf);
        self.free.push(leaf);
    }
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
    use std::vec::Vec as StdVec;
    use weir_random::Rng;

    type Model = StdVec<(u64, u32)>;

    fn check(leaves: &mut Leaves, tree: &BigTree, model: &Model) {
        let numbers: StdVec<u32> = leaves.order.iter(&tree.leaves).collect();
        let mut all = Model::new();
        for &leaf in &numbers {
            assert!(leaves.len(leaf) > 0);
            all.extend(leaves.sorted(leaf).iter().map(|e| (e.key, e.slot)));
        }
        assert_eq!(&all, model);
        for pair in numbers.windows(2) {
            let both = leaves.len(pair[0]) + leaves.len(pair[1]);
            assert!(both > PAIR, "{both} slots in two leaves");
        }
    }

    /// Slots come and go in two trees; there are as many keys as `keys`, so that many slots may have the same.
    fn agrees_with_a_sorted_array(keys: u64) {
        const SLOTS: u32 = 600;
        let mut leaves = Leaves::new(SLOTS, 2);
        let mut trees = [BigTree::EMPTY; 2];
        let mut models: [Model; 2] = [Model::new(), Model::new()];
        let mut rng = Rng::new(keys);
        for step in 0..30_000u64 {
            let state = rng.next_u64();
            let slot = (state >> 40) as u32 % SLOTS;
            let key = (state >> 8) % keys;
            let place = |model: &Model| model.iter().position(|&(_, other)| other == slot);
            let held = (0..2).find_map(|which| Some((which, place(&models[which])?)));
            // It fills up and is emptied in turns.
            let filling = step / 3_000 % 2 == 0;
            if let Some((which, place)) = held {
                let (tree, model) = (&mut trees[which], &mut models[which]);
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
                let (tree, model) = (&mut trees[which], &mut models[which]);
                leaves.insert(tree, slot, key);
                model.insert(model.partition_point(|m| m.0 <= key), (key, slot));
            }
            for (tree, model) in trees.iter().zip(&models) {
                if step % 5 > 0 {
                    continue;
                }
                let last = model.iter().rfind(|m| m.0 <= key).map(|m| (m.1, m.0));
                assert_eq!(leaves.last_up_to(tree, key), last);
                if step % 20 == 0 {
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
        const SLOTS: u32 = 1_000;
        let mut leaves = Leaves::new(SLOTS, 1);
        let mut tree = BigTree::EMPTY;
        // Full leaves, of which all but a few slots are taken out; then they are full again elsewhere.
        for round in 0..4u32 {
            let key = |slot: u32| u64::from(slot * 617 % SLOTS + round * 7);
            for slot in 0..SLOTS {
                leaves.insert(&mut tree, slot, key(slot));
            }
            for slot in (0..SLOTS).filter(|slot| slot % 9 > 0) {
                leaves.remove(&mut tree, slot, key(slot));
            }
            for slot in (0..SLOTS).filter(|slot| slot % 9 > 0) {
                leaves.insert(&mut tree, slot, u64::from(slot));
            }
            for slot in 0..SLOTS {
                let key = if slot % 9 > 0 { slot.into() } else { key(slot) };
                leaves.remove(&mut tree, slot, key);
            }
            assert_eq!(leaves.free.len(), leaves.leaves.len());
        }
    }
}
