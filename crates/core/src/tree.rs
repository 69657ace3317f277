//! Search trees over slot numbers, with the nodes in one table: no allocation, everything in logarithmic expected time.
//!
//! Each node has a `key` that orders it and a `start`; every subtree knows its smallest start, so that the smallest key among
//! those with `start <= v` (B-WF2Q+'s choice among the eligible) takes one walk. Keys and starts are compared as serial numbers,
//! `a - b` as signed, so virtual times may wrap. Equal keys keep the order of insertion. The trees are treaps whose priorities
//! are a hash of the slot's number: the shape, like everything here, is the same on every run.

use crate::list::NIL;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Node {
    left: u32,
    right: u32,
    parent: u32,
    linked: bool,
    key: u64,
    start: u64,
    min_start: u64,
}

const FREE: Node = Node {
    left: NIL,
    right: NIL,
    parent: NIL,
    linked: false,
    key: 0,
    start: 0,
    min_start: 0,
};

/// A tree's root. Belongs to one [`Forest`]; a slot is in at most one tree of a forest at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    root: u32,
}

impl Tree {
    pub(crate) const EMPTY: Self = Self { root: NIL };

    pub(crate) fn is_empty(&self) -> bool {
        self.root == NIL
    }
}

/// The nodes of up to `capacity` slots. Without `STARTS` the trees only keep order: starts are ignored, which is cheaper.
#[derive(Debug)]
pub(crate) struct Treap<const STARTS: bool> {
    nodes: Vec<Node>,
}

/// Trees that find the first of those eligible.
pub(crate) type Forest = Treap<true>;

/// Trees that keep order.
pub(crate) type Sorted = Treap<false>;

/// True if serial number `a` comes before `b`.
#[inline]
pub(crate) fn before(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// A slot's place in the heap order of the treap.
#[inline]
fn priority(slot: u32) -> u32 {
    slot.wrapping_add(1)
        .wrapping_mul(0x9E37_79B1)
        .rotate_left(15)
        .wrapping_mul(0x85EB_CA6B)
}

impl<const STARTS: bool> Treap<STARTS> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            nodes: vec![FREE; capacity as usize],
        }
    }

    /// True if the slot is in some tree of this forest.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.nodes[slot as usize].linked
    }

    /// The key the slot was inserted with.
    pub(crate) fn key(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].key
    }

    /// Inserts `slot` behind those of equal key.
    pub(crate) fn insert(&mut self, tree: &mut Tree, slot: u32, key: u64, start: u64) {
        debug_assert!(!self.contains(slot), "slot {slot} is in a tree already");
        let mut parent = NIL;
        let mut at = tree.root;
        let mut went_left = false;
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            if STARTS && before(start, node.min_start) {
                node.min_start = start;
            }
            parent = at;
            went_left = before(key, node.key);
            at = if went_left { node.left } else { node.right };
        }
        self.nodes[slot as usize] = Node {
            left: NIL,
            right: NIL,
            parent,
            linked: true,
            key,
            start,
            min_start: start,
        };
        if parent == NIL {
            tree.root = slot;
        } else if went_left {
            self.nodes[parent as usize].left = slot;
        } else {
            self.nodes[parent as usize].right = slot;
        }
        while self.nodes[slot as usize].parent != NIL
            && priority(slot) > priority(self.nodes[slot as usize].parent)
        {
            self.rotate_up(tree, slot);
        }
    }

    /// Gives a slot that is in `tree` a later key; its start stays. The same as taking it out and putting it in again.
    pub(crate) fn postpone(&mut self, tree: &mut Tree, slot: u32, key: u64) {
        debug_assert!(
            !before(key, self.key(slot)),
            "the key of slot {slot} goes back"
        );
        match self.next(slot) {
            Some(next) if !before(key, self.key(next)) => {
                let start = self.nodes[slot as usize].start;
                self.remove(tree, slot);
                self.insert(tree, slot, key, start);
            }
            _ => self.nodes[slot as usize].key = key,
        }
    }

    /// Takes `slot` out of `tree`, which must be the tree it is in.
    pub(crate) fn remove(&mut self, tree: &mut Tree, slot: u32) {
        debug_assert!(self.contains(slot), "slot {slot} is in no tree");
        loop {
            let Node { left, right, .. } = self.nodes[slot as usize];
            let child = match (left, right) {
                (NIL, only) | (only, NIL) => {
                    self.replace(tree, slot, only);
                    break;
                }
                (left, right) if priority(left) > priority(right) => left,
                (_, right) => right,
            };
            self.rotate_up(tree, child);
        }
        let mut at = self.nodes[slot as usize].parent;
        self.nodes[slot as usize] = FREE;
        while STARTS && at != NIL {
            self.refresh(at);
            at = self.nodes[at as usize].parent;
        }
    }

    /// The slot of smallest key.
    pub(crate) fn first(&self, tree: &Tree) -> Option<u32> {
        self.end(tree.root, |n| n.left)
    }

    /// The slot after `slot` in the order of keys.
    pub(crate) fn next(&self, slot: u32) -> Option<u32> {
        let right = self.nodes[slot as usize].right;
        if right != NIL {
            return self.end(right, |n| n.left);
        }
        self.climb(slot, |parent, child| parent.left == child)
    }

    /// The slot before `slot` in the order of keys.
    pub(crate) fn prev(&self, slot: u32) -> Option<u32> {
        let left = self.nodes[slot as usize].left;
        if left != NIL {
            return self.end(left, |n| n.right);
        }
        self.climb(slot, |parent, child| parent.right == child)
    }

    /// The slot of the largest key that is not after `key`.
    pub(crate) fn last_up_to(&self, tree: &Tree, key: u64) -> Option<u32> {
        let (mut at, mut found) = (tree.root, NIL);
        while at != NIL {
            let node = &self.nodes[at as usize];
            at = if before(key, node.key) {
                node.left
            } else {
                found = at;
                node.right
            };
        }
        (found != NIL).then_some(found)
    }

    /// The smallest start in the tree.
    pub(crate) fn min_start(&self, tree: &Tree) -> Option<u64> {
        (tree.root != NIL).then(|| self.nodes[tree.root as usize].min_start)
    }

    /// The slot of smallest key among those whose start is not after `v` (BFQ: `bfq_first_active_entity`).
    pub(crate) fn first_eligible(&self, tree: &Tree, v: u64) -> Option<u32> {
        let mut at = tree.root;
        if at == NIL || before(v, self.nodes[at as usize].min_start) {
            return None;
        }
        loop {
            let node = &self.nodes[at as usize];
            if node.left != NIL && !before(v, self.nodes[node.left as usize].min_start) {
                at = node.left;
            } else if !before(v, node.start) {
                return Some(at);
            } else {
                at = node.right;
            }
        }
    }

    /// The slots in the order of their keys.
    pub(crate) fn iter<'a>(&'a self, tree: &Tree) -> impl Iterator<Item = u32> + 'a {
        core::iter::successors(self.first(tree), move |&slot| self.next(slot))
    }

    fn end(&self, mut at: u32, side: impl Fn(&Node) -> u32) -> Option<u32> {
        if at == NIL {
            return None;
        }
        loop {
            let further = side(&self.nodes[at as usize]);
            if further == NIL {
                return Some(at);
            }
            at = further;
        }
    }

    fn climb(&self, mut child: u32, found: impl Fn(&Node, u32) -> bool) -> Option<u32> {
        loop {
            let parent = self.nodes[child as usize].parent;
            if parent == NIL {
                return None;
            }
            if found(&self.nodes[parent as usize], child) {
                return Some(parent);
            }
            child = parent;
        }
    }

    /// Puts `new` (or nothing) where `old` hangs.
    fn replace(&mut self, tree: &mut Tree, old: u32, new: u32) {
        let parent = self.nodes[old as usize].parent;
        if parent == NIL {
            tree.root = new;
        } else if self.nodes[parent as usize].left == old {
            self.nodes[parent as usize].left = new;
        } else {
            self.nodes[parent as usize].right = new;
        }
        if new != NIL {
            self.nodes[new as usize].parent = parent;
        }
    }

    /// Swaps `slot` with its parent, keeping the order of keys.
    fn rotate_up(&mut self, tree: &mut Tree, slot: u32) {
        let parent = self.nodes[slot as usize].parent;
        self.replace(tree, parent, slot);
        let inner = if self.nodes[parent as usize].left == slot {
            let inner = self.nodes[slot as usize].right;
            self.nodes[parent as usize].left = inner;
            self.nodes[slot as usize].right = parent;
            inner
        } else {
            let inner = self.nodes[slot as usize].left;
            self.nodes[parent as usize].right = inner;
            self.nodes[slot as usize].left = parent;
            inner
        };
        if inner != NIL {
            self.nodes[inner as usize].parent = parent;
        }
        self.nodes[parent as usize].parent = slot;
        if STARTS {
            self.nodes[slot as usize].min_start = self.nodes[parent as usize].min_start;
            self.refresh(parent);
        }
    }

    fn refresh(&mut self, at: u32) {
        let Node {
            left, right, start, ..
        } = self.nodes[at as usize];
        let mut min = start;
        for child in [left, right] {
            if child != NIL && before(self.nodes[child as usize].min_start, min) {
                min = self.nodes[child as usize].min_start;
            }
        }
        self.nodes[at as usize].min_start = min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec as StdVec;
    use weir_random::Rng;

    fn check(forest: &Forest, tree: &Tree, model: &[(u64, u64, u32, u64)]) {
        let mut sorted: StdVec<_> = model.to_vec();
        sorted.sort_by_key(|&(key, seq, ..)| (key, seq));
        assert!(forest.iter(tree).eq(sorted.iter().map(|m| m.2)));
        assert_eq!(forest.min_start(tree), model.iter().map(|m| m.3).min());
        for v in [0, 10, 25, 50, 99] {
            let expected = sorted.iter().find(|m| m.3 <= v).map(|m| m.2);
            assert_eq!(forest.first_eligible(tree, v), expected, "eligible at {v}");
            let last = sorted.iter().rfind(|m| m.0 <= v).map(|m| m.2);
            assert_eq!(forest.last_up_to(tree, v), last, "up to {v}");
        }
        for pair in sorted.windows(2) {
            assert_eq!(forest.prev(pair[1].2), Some(pair[0].2));
        }
        for &(_, _, slot, _) in model {
            let parent = forest.nodes[slot as usize].parent;
            assert!(parent == NIL || priority(parent) > priority(slot));
        }
    }

    #[test]
    fn a_tree_that_grows_at_one_end_stays_flat() {
        let mut forest = Sorted::new(4096);
        let mut tree = Tree::EMPTY;
        for slot in 0..4096 {
            forest.insert(&mut tree, slot, u64::from(slot), 0);
        }
        let depth = |mut slot: u32| {
            let mut depth = 0;
            while slot != NIL {
                (slot, depth) = (forest.nodes[slot as usize].parent, depth + 1);
            }
            depth
        };
        let deepest = (0..4096).map(depth).max().unwrap();
        assert!(deepest <= 40, "{deepest} levels for 4096 slots");
    }

    #[test]
    fn agrees_with_a_scan_of_a_sorted_array() {
        let mut forest = Forest::new(48);
        let mut tree = Tree::EMPTY;
        let mut model: StdVec<(u64, u64, u32, u64)> = StdVec::new();
        let mut rng = Rng::new(7);
        for step in 0..20_000u64 {
            let state = rng.next_u64();
            let slot = (state >> 33) as u32 % 48;
            if forest.contains(slot) && (state >> 62) == 0 {
                let key = forest.key(slot) + (state >> 40) % 20;
                forest.postpone(&mut tree, slot, key);
                let place = model.iter().position(|m| m.2 == slot).unwrap();
                let (old, _, slot, start) = model[place];
                if key > old {
                    model[place] = (key, step, slot, start);
                } else if model
                    .iter()
                    .any(|m| m.0 == key && m.2 != slot && m.1 > model[place].1)
                {
                    model[place].1 = step;
                }
            } else if forest.contains(slot) {
                forest.remove(&mut tree, slot);
                model.retain(|m| m.2 != slot);
            } else {
                let (key, start) = ((state >> 40) % 60, (state >> 50) % 100);
                forest.insert(&mut tree, slot, key, start);
                model.push((key, step, slot, start));
            }
            check(&forest, &tree, &model);
        }
    }

    #[test]
    fn trees_without_starts_keep_order() {
        let mut forest = Sorted::new(64);
        let mut tree = Tree::EMPTY;
        for round in 0..3 {
            for slot in 0..64 {
                forest.insert(&mut tree, slot, u64::from(slot * 37 % 64), 0);
            }
            assert!(forest.iter(&tree).map(|s| forest.key(s)).eq(0..64));
            for slot in 0..64 {
                forest.remove(&mut tree, (slot * 29 + round) % 64);
            }
            assert_eq!(forest.first(&tree), None);
        }
    }

    #[test]
    fn virtual_times_may_wrap() {
        let mut forest = Forest::new(4);
        let mut tree = Tree::EMPTY;
        forest.insert(&mut tree, 0, 5, 3);
        forest.insert(&mut tree, 1, u64::MAX - 5, u64::MAX - 9);
        assert_eq!(forest.first(&tree), Some(1));
        assert_eq!(forest.first_eligible(&tree, u64::MAX - 1), Some(1));
        assert_eq!(forest.min_start(&tree), Some(u64::MAX - 9));
    }
}
