//! Search trees of slot numbers with the nodes in one table. Nothing is allocated, and every
//! operation takes logarithmic expected time.
//!
//! Each node has a `key` that orders it and a `start`, and every subtree knows its smallest start.
//! Therefore the smallest key among the nodes with `start <= v` (the choice of B-WF2Q+ among the
//! eligible entities) takes one walk. Keys and starts are compared as serial numbers, that is by
//! the sign of `a - b`, so virtual times can wrap. Equal keys keep the order of insertion.
//!
//! The trees are treaps with a hash of the slot's number as priority, so their shape is the same on
//! every run. Neighbours in the order of keys are linked, because elevators need them for every
//! request.

use crate::list::NIL;
use alloc::vec::Vec;

/// The node of a slot.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The children to the left and to the right.
    child: [u32; 2],
    /// The parent, [`NIL`] for the root, or [`OUT`].
    parent: u32,
    /// The priority in the heap order.
    priority: u32,
    /// The neighbours in the order of keys.
    prev: u32,
    next: u32,
    key: u64,
    start: u64,
    min_start: u64,
}

/// The parent of a slot that is in no tree.
const OUT: u32 = NIL - 1;

impl Node {
    const fn free(slot: u32) -> Self {
        Self {
            child: [NIL; 2],
            parent: OUT,
            priority: priority(slot),
            prev: NIL,
            next: NIL,
            key: 0,
            start: 0,
            min_start: 0,
        }
    }
}

/// The indices of the children in [`Node::child`].
const LEFT: usize = 0;
const RIGHT: usize = 1;

/// The root of a tree. A tree belongs to one [`Treap`], and a slot is in at most one tree of it at
/// a time.
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

/// The nodes of up to `capacity` slots. Without `STARTS` the trees only keep order and ignore
/// starts, which is cheaper.
#[derive(Debug)]
pub(crate) struct Treap<const STARTS: bool> {
    nodes: Vec<Node>,
}

/// Trees that find the first eligible slot.
pub(crate) type Forest = Treap<true>;

/// Trees that only keep order.
pub(crate) type Sorted = Treap<false>;

/// Returns true if serial number `a` comes before `b`.
#[inline]
pub(crate) fn before(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// Returns the slot, or `None` for [`NIL`].
#[inline]
fn named(slot: u32) -> Option<u32> {
    (slot != NIL).then_some(slot)
}

/// Returns the priority of a slot in the heap order of the treap.
const fn priority(slot: u32) -> u32 {
    // A multiplicative hash in two rounds (constants of the golden ratio and of MurmurHash3), so
    // that neighbouring slots get unrelated priorities.
    slot.wrapping_add(1)
        .wrapping_mul(0x9E37_79B1)
        .rotate_left(15)
        .wrapping_mul(0x85EB_CA6B)
}

impl<const STARTS: bool> Treap<STARTS> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            nodes: (0..capacity).map(Node::free).collect(),
        }
    }

    /// Returns true if the slot is in a tree of this forest.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.nodes[slot as usize].parent != OUT
    }

    /// Returns the key with which the slot was inserted.
    pub(crate) fn key(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].key
    }

    /// Inserts `slot` behind the slots of equal key.
    pub(crate) fn insert(&mut self, tree: &mut Tree, slot: u32, key: u64, start: u64) {
        debug_assert!(!self.contains(slot), "slot {slot} is in a tree already");
        let priority = self.nodes[slot as usize].priority;
        let (mut parent, mut side) = (NIL, LEFT);
        let (mut prev, mut next) = (NIL, NIL);
        let mut at = tree.root;
        // The new node replaces the first node on its path with a lower priority. That subtree is
        // split and becomes its children.
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            if node.priority < priority {
                break;
            }
            if STARTS && before(start, node.min_start) {
                node.min_start = start;
            }
            parent = at;
            if before(key, node.key) {
                (side, next, at) = (LEFT, at, node.child[LEFT]);
            } else {
                (side, prev, at) = (RIGHT, at, node.child[RIGHT]);
            }
        }
        if parent == NIL {
            tree.root = slot;
        } else {
            self.nodes[parent as usize].child[side] = slot;
        }
        let node = &mut self.nodes[slot as usize];
        node.child = [NIL; 2];
        node.parent = parent;
        node.key = key;
        if STARTS {
            (node.start, node.min_start) = (start, start);
        }
        if at != NIL {
            let (last, first) = self.split(slot, key, at);
            prev = if last == slot { prev } else { last };
            next = if first == slot { next } else { first };
        }
        let node = &mut self.nodes[slot as usize];
        (node.prev, node.next) = (prev, next);
        if prev != NIL {
            self.nodes[prev as usize].next = slot;
        }
        if next != NIL {
            self.nodes[next as usize].prev = slot;
        }
    }

    /// Splits the subtree at `at` by `key` and makes its parts the children of `slot`: earlier keys
    /// to the left, others to the right. Returns the last slot of the left part and the first of
    /// the right part, or `slot` if a part is empty.
    #[inline]
    fn split(&mut self, slot: u32, key: u64, mut at: u32) -> (u32, u32) {
        // The nodes and sides to which the next part before `slot`, or after it, is attached.
        let (mut last, mut last_side) = (slot, LEFT);
        let (mut first, mut first_side) = (slot, RIGHT);
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            if before(key, node.key) {
                node.parent = first;
                let below = node.child[LEFT];
                self.nodes[first as usize].child[first_side] = at;
                (first, first_side, at) = (at, LEFT, below);
            } else {
                node.parent = last;
                let below = node.child[RIGHT];
                self.nodes[last as usize].child[last_side] = at;
                (last, last_side, at) = (at, RIGHT, below);
            }
        }
        self.nodes[last as usize].child[last_side] = NIL;
        self.nodes[first as usize].child[first_side] = NIL;
        if STARTS {
            self.refresh_up(last, slot);
            self.refresh_up(first, slot);
            self.refresh(slot);
        }
        (last, first)
    }

    /// Gives a slot of `tree` a later key, and keeps its start. The result is the same as removing
    /// and inserting it.
    pub(crate) fn postpone(&mut self, tree: &mut Tree, slot: u32, key: u64) {
        debug_assert!(
            // A slot whose key went back could have to move towards the front, which the comparison
            // below does not cover.
            !before(key, self.key(slot)),
            "the key of slot {slot} goes back"
        );
        match self.next(slot) {
            Some(next) if !before(key, self.key(next)) => {
                let start = self.nodes[slot as usize].start;
                self.remove(tree, slot);
                self.insert(tree, slot, key, start);
            }
            // It stays in front of its successor, so only the key changes.
            _ => self.nodes[slot as usize].key = key,
        }
    }

    /// Removes `slot` from `tree`, which must contain it.
    pub(crate) fn remove(&mut self, tree: &mut Tree, slot: u32) {
        debug_assert!(self.contains(slot), "slot {slot} is in no tree");
        let node = &mut self.nodes[slot as usize];
        let ([mut left, mut right], parent) = (node.child, node.parent);
        let (prev, next) = (node.prev, node.next);
        node.parent = OUT;
        if prev != NIL {
            self.nodes[prev as usize].next = next;
        }
        if next != NIL {
            self.nodes[next as usize].prev = prev;
        }
        // The two subtrees below `slot` are merged: the root of higher priority moves up, and the
        // merge continues with its inner child.
        let (mut hook, mut side) = (parent, RIGHT);
        if parent != NIL {
            side = usize::from(self.nodes[parent as usize].child[RIGHT] == slot);
        }
        while left != NIL && right != NIL {
            let l = &self.nodes[left as usize];
            let r = &self.nodes[right as usize];
            let (upper, further);
            if l.priority > r.priority {
                (upper, further) = (left, RIGHT);
                left = l.child[RIGHT];
            } else {
                (upper, further) = (right, LEFT);
                right = r.child[LEFT];
            }
            self.hang(tree, hook, side, upper);
            (hook, side) = (upper, further);
        }
        let rest = if left == NIL { right } else { left };
        self.hang(tree, hook, side, rest);
        if STARTS {
            self.refresh_up(hook, NIL);
        }
    }

    /// Returns the slot with the smallest key.
    pub(crate) fn first(&self, tree: &Tree) -> Option<u32> {
        let (mut at, mut first) = (tree.root, NIL);
        while at != NIL {
            first = at;
            at = self.nodes[at as usize].child[LEFT];
        }
        named(first)
    }

    /// Returns the slot after `slot` in the order of keys.
    #[inline]
    pub(crate) fn next(&self, slot: u32) -> Option<u32> {
        named(self.nodes[slot as usize].next)
    }

    /// Returns the slot before `slot` in the order of keys.
    #[inline]
    pub(crate) fn prev(&self, slot: u32) -> Option<u32> {
        named(self.nodes[slot as usize].prev)
    }

    /// Returns the slot with the largest key that is not after `key`.
    pub(crate) fn last_up_to(&self, tree: &Tree, key: u64) -> Option<u32> {
        let (mut at, mut found) = (tree.root, NIL);
        while at != NIL {
            let node = &self.nodes[at as usize];
            at = if before(key, node.key) {
                node.child[LEFT]
            } else {
                found = at;
                node.child[RIGHT]
            };
        }
        named(found)
    }

    /// Returns the smallest start in the tree.
    pub(crate) fn min_start(&self, tree: &Tree) -> Option<u64> {
        (tree.root != NIL).then(|| self.nodes[tree.root as usize].min_start)
    }

    /// Returns the slot with the smallest key among those whose start is not after `v` (BFQ:
    /// `bfq_first_active_entity`).
    pub(crate) fn first_eligible(&self, tree: &Tree, v: u64) -> Option<u32> {
        let mut at = tree.root;
        // No slot in the tree is eligible.
        if at == NIL || before(v, self.nodes[at as usize].min_start) {
            return None;
        }
        loop {
            let node = &self.nodes[at as usize];
            // Keys to the left are smaller, so an eligible slot there is preferred.
            if node.child[LEFT] != NIL
                && !before(v, self.nodes[node.child[LEFT] as usize].min_start)
            {
                at = node.child[LEFT];
            } else if !before(v, node.start) {
                return Some(at);
            } else {
                at = node.child[RIGHT];
            }
        }
    }

    /// Returns the slots in the order of their keys.
    pub(crate) fn iter<'a>(&'a self, tree: &Tree) -> impl Iterator<Item = u32> + 'a {
        core::iter::successors(self.first(tree), move |&slot| self.next(slot))
    }

    /// Puts a slot, or [`NIL`], below another slot or at the root.
    #[inline]
    fn hang(&mut self, tree: &mut Tree, parent: u32, side: usize, slot: u32) {
        if parent == NIL {
            tree.root = slot;
        } else {
            self.nodes[parent as usize].child[side] = slot;
        }
        if slot != NIL {
            self.nodes[slot as usize].parent = parent;
        }
    }

    /// Updates the smallest starts from slot `at` up to `end`, which is above it and is not
    /// updated.
    fn refresh_up(&mut self, mut at: u32, end: u32) {
        while at != end {
            self.refresh(at);
            at = self.nodes[at as usize].parent;
        }
    }

    /// Updates the smallest start of a subtree. Those of its children must be correct.
    fn refresh(&mut self, at: u32) {
        let Node { child, start, .. } = self.nodes[at as usize];
        let mut min = start;
        for child in child {
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
    use crate::random::Rng;
    use std::vec::Vec as StdVec;

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
        // A perfect tree has 13 levels, and a treap of random priorities about two to three times
        // as many.
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
                // Keys only grow here, as `postpone` requires. Some stay the same.
                let key = forest.key(slot) + (state >> 40) % 20;
                forest.postpone(&mut tree, slot, key);
                let place = model.iter().position(|m| m.2 == slot).unwrap();
                let (old, _, slot, start) = model[place];
                if key > old {
                    model[place] = (key, step, slot, start);
                // A key that stays the same moves the slot behind those of equal key that were
                // inserted later.
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
                // 37 and 64 have no common divisor, so each key appears once.
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
        // The second key is 11 before the first one, across the wrap.
        forest.insert(&mut tree, 1, u64::MAX - 5, u64::MAX - 9);
        assert_eq!(forest.first(&tree), Some(1));
        assert_eq!(forest.first_eligible(&tree, u64::MAX - 1), Some(1));
        assert_eq!(forest.min_start(&tree), Some(u64::MAX - 9));
    }
}
