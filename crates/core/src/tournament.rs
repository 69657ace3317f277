//! Tournaments: the slot with the smallest key of each of many sets, with all matches in one table.
//!
//! The active slots of a set play in pairs, then the winners of two matches, and so on up to the
//! top. A slot whose key changes plays its way up again, with one match per level. The positions of
//! these matches do not depend on the winners, so the processor has no branches to predict and need
//! not finish one level before it reads the next.
//!
//! Keys are compared as serial numbers, that is by the sign of `a - b`, so virtual times can wrap.
//! Of equal keys, the one that was set first comes first.
//!
//! A set has room for all its members, active or not. Therefore only a new member can make it
//! necessary to move a set to a larger place.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// The key of an active slot, as it takes part in matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Contestant {
    key: u64,
    /// The ticket of the key in the upper half, and the slot in the lower half.
    tie: u64,
}

/// The absence of a slot at a place. It differs from every entry, because tickets begin with one.
const ABSENT: Contestant = Contestant { key: 0, tie: 0 };

impl Contestant {
    fn new(key: u64, ticket: u32, slot: u32) -> Self {
        let tie = u64::from(ticket) << 32 | u64::from(slot);
        Self { key, tie }
    }

    #[inline]
    fn slot(self) -> u32 {
        self.tie as u32
    }

    #[inline]
    fn is_absent(self) -> bool {
        self.tie == 0
    }

    /// Returns true if this entry comes before another. Both must be present. Key and tie are
    /// compared as one serial number of 128 bits.
    #[inline]
    fn is_before(self, other: Self) -> bool {
        // The borrow of the lower half, as in a subtraction of two 128-bit numbers.
        let borrow = u64::from(self.tie < other.tie);
        let difference = self.key.wrapping_sub(other.key).wrapping_sub(borrow);
        difference.cast_signed() < 0
    }

    /// Returns the winner of a match between this entry, which must be present, and one that may be
    /// absent.
    #[inline]
    fn against(self, other: Self) -> Self {
        // No short circuit: a branch on data that cannot be predicted would cost more than the
        // second test.
        let lost = other.is_before(self) & !other.is_absent();
        Self {
            key: select_unpredictable(lost, other.key, self.key),
            tie: select_unpredictable(lost, other.tie, self.tie),
        }
    }
}

/// A set of slots. Its entries are at the nodes of a complete binary tree in the usual numbering:
/// the root is 1, and the children of node `n` are `2n` and `2n + 1`. Match `n` is between the
/// nodes `2n` and `2n + 1`. The active slots occupy the leaves from the left, and play only in the
/// smallest subtree that contains all of them.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// The winner at the root of that subtree.
    top: Contestant,
    /// The index of match 0 in the table of matches. There is no such match, because the root is 1.
    base: u32,
    /// The number of active slots.
    len: u32,
    /// The ticket that was issued last.
    ticket: u32,
    /// The number of levels of matches. `played` is the number of levels of the subtree with the
    /// active slots.
    levels: u8,
    played: u8,
}

impl Set {
    const EMPTY: Self = Self {
        top: ABSENT,
        base: 0,
        len: 0,
        ticket: 0,
        levels: 0,
        played: 0,
    };

    /// Returns the node of a leaf, counted from the left.
    #[inline]
    fn node(&self, leaf: u32) -> u32 {
        leaf | 1 << self.levels
    }

    /// Returns the index of the match between a node and its sibling.
    #[inline]
    fn match_index(&self, node: u32) -> usize {
        (self.base + node / 2) as usize
    }

    /// Puts an entry at a node, and plays `levels` matches with it or the respective winner.
    #[inline]
    fn play(
        &mut self,
        matches: &mut [[Contestant; 2]],
        mut node: u32,
        levels: u8,
        mut entry: Contestant,
    ) {
        let base = self.base;
        for _ in 0..levels {
            let pair = &mut matches[(base + node / 2) as usize];
            let side = node as usize % 2;
            pair[side] = entry;
            entry = entry.against(pair[side ^ 1]);
            node /= 2;
        }
        self.top = entry;
    }

    /// Reassigns the tickets from one on, in the order of the keys, because all tickets were used.
    #[cold]
    fn renumber(&mut self, leaves: &mut [u32], matches: &mut [[Contestant; 2]]) {
        // The leaves are the second half of the entries. If only one slot is active, its entry is
        // only in `top`.
        let row = 2 * self.base as usize + self.node(0) as usize;
        if self.len > 1 {
            let entries = &mut matches.as_flattened_mut()[row..row + self.len as usize];
            entries.sort_unstable_by(|a, b| b.is_before(*a).cmp(&a.is_before(*b)));
        }
        for leaf in 0..self.len {
            let old = match self.len {
                1 => self.top,
                _ => matches.as_flattened()[row + leaf as usize],
            };
            leaves[old.slot() as usize] = leaf;
            let new = Contestant::new(old.key, leaf + 1, old.slot());
            self.play(matches, self.node(leaf), self.played, new);
        }
        self.ticket = self.len;
    }
}

/// An active member of a set.
#[derive(Debug)]
pub(crate) struct TournamentMember<'a> {
    set: &'a mut Set,
    leaves: &'a mut [u32],
    matches: &'a mut [[Contestant; 2]],
    slot: u32,
}

impl TournamentMember<'_> {
    /// Returns true if no active slot of the set has a smaller key.
    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        self.set.top.slot() == self.slot
    }

    /// Gives the slot another key, behind the slots of equal key.
    #[expect(clippy::inline_always, reason = "once for each level of each piece")]
    #[inline(always)]
    pub(crate) fn postpone(self, key: u64) {
        let ticket = self.set.ticket + 1;
        self.set.ticket = ticket;
        let entry = Contestant::new(key, ticket, self.slot);
        if self.set.played == 0 {
            self.set.top = entry;
        } else {
            let leaf = self.set.node(self.leaves[self.slot as usize]);
            self.set.play(self.matches, leaf, self.set.played, entry);
        }
        // Tickets must not wrap, because they decide between equal keys.
        if ticket == u32::MAX {
            self.set.renumber(self.leaves, self.matches);
        }
    }
}

/// Returns the number of places that matches of `levels` levels take up.
fn size(levels: u8) -> u32 {
    if levels == 0 { 0 } else { 1 << levels }
}

/// Returns the number of levels that `members` members need.
fn levels_for(members: u32) -> u8 {
    (u32::BITS - members.saturating_sub(1).leading_zeros()) as u8
}

/// Several sets of slots. A slot is active in at most one set at a time, and must be a member of
/// that set.
#[derive(Debug)]
pub(crate) struct Tournaments {
    sets: Vec<Set>,
    members: Vec<u32>,
    /// For each slot, its leaf in the set in which it is active, counted from the left.
    leaves: Vec<u32>,
    matches: Vec<[Contestant; 2]>,
    /// The first free index in the table of matches.
    free: u32,
    /// All sets, ordered by the places of their matches, for `compact_matches`.
    order: Vec<u32>,
}

impl Tournaments {
    /// Creates `sets` sets of `slots` slots. They can have up to `members` members in total,
    /// because a slot can be a member of several.
    pub(crate) fn new(sets: u32, slots: u32, members: u32) -> Self {
        Self {
            sets: vec![Set::EMPTY; sets as usize],
            members: vec![0; sets as usize],
            leaves: vec![0; slots as usize],
            // Twice the room that the members can need, so that `compact_matches` is rarely called.
            matches: vec![[ABSENT; 2]; 4 * members as usize],
            free: 0,
            order: (0..sets).collect(),
        }
    }

    /// Adds a member to a set. It is not active yet.
    pub(crate) fn join(&mut self, set: u32) {
        self.members[set as usize] += 1;
        if levels_for(self.members[set as usize]) > self.sets[set as usize].levels {
            self.grow(set);
        }
    }

    /// Returns the number of active members of a set.
    #[cfg(debug_assertions)]
    pub(crate) fn len(&self, set: u32) -> u32 {
        self.sets[set as usize].len
    }

    /// Removes an inactive member from a set.
    pub(crate) fn leave(&mut self, set: u32) {
        self.members[set as usize] -= 1;
        debug_assert!(self.sets[set as usize].len <= self.members[set as usize]);
    }

    /// Returns true if no member of the set is active.
    #[inline]
    pub(crate) fn is_empty(&self, set: u32) -> bool {
        self.sets[set as usize].len == 0
    }

    /// Returns the active slot with the smallest key.
    #[inline]
    pub(crate) fn first(&self, set: u32) -> Option<u32> {
        let top = self.sets[set as usize].top;
        (!top.is_absent()).then_some(top.slot())
    }

    /// Makes a member active, behind the slots of equal key.
    pub(crate) fn insert(&mut self, set: u32, slot: u32, key: u64) {
        let s = &mut self.sets[set as usize];
        debug_assert!(s.len < self.members[set as usize], "it is no member");
        // Active slots occupy the leaves from the left, so the next free leaf is the number of
        // active ones.
        let leaf = s.len;
        s.len += 1;
        if leaf.is_power_of_two() {
            // The subtree with the active slots gets one more level, and the former winner becomes
            // its left half.
            let top = s.node(0) >> s.played;
            self.matches[s.match_index(top)][0] = s.top;
            s.played += 1;
        }
        self.leaves[slot as usize] = leaf;
        self.postpone(set, slot, key);
    }

    /// Gives an active slot another key, behind the slots of equal key.
    #[inline]
    pub(crate) fn postpone(&mut self, set: u32, slot: u32, key: u64) {
        self.member(set, slot).postpone(key);
    }

    /// Returns access to an active member of a set.
    #[inline]
    pub(crate) fn member(&mut self, set: u32, slot: u32) -> TournamentMember<'_> {
        TournamentMember {
            set: &mut self.sets[set as usize],
            leaves: &mut self.leaves,
            matches: &mut self.matches,
            slot,
        }
    }

    /// Makes an active slot inactive. The slot at the last leaf takes over its leaf.
    pub(crate) fn remove(&mut self, set: u32, slot: u32) {
        let s = self.sets[set as usize];
        let (leaf, last) = (self.leaves[slot as usize], s.len - 1);
        debug_assert!(leaf <= last, "slot {slot} is not active in set {set}");
        if last == 0 {
            self.sets[set as usize].top = ABSENT;
        } else {
            // The slot at the last leaf moves to the free leaf, so that the leaves stay filled from
            // the left.
            let moved = self.retire(set, s.node(last));
            if leaf != last {
                self.leaves[moved.slot() as usize] = leaf;
                self.play(set, s.node(leaf), s.played, moved);
            }
        }
        let s = &mut self.sets[set as usize];
        s.len = last;
        s.played = levels_for(last);
    }

    /// Puts an entry at a node of a set, and plays `levels` matches with it or the respective
    /// winner.
    fn play(&mut self, set: u32, node: u32, levels: u8, entry: Contestant) {
        self.sets[set as usize].play(&mut self.matches, node, levels, entry);
    }

    /// Removes the entry at the last of several leaves and returns it.
    fn retire(&mut self, set: u32, last: u32) -> Contestant {
        let s = self.sets[set as usize];
        let (mut node, mut levels) = (last, s.played);
        let retired = self.matches[s.match_index(node)][node as usize % 2];
        // The sibling of a left node is further to the right, where no slot is active, so the whole
        // subtree above is empty.
        while node.is_multiple_of(2) {
            self.matches[s.match_index(node)][0] = ABSENT;
            (node, levels) = (node / 2, levels - 1);
        }
        let pair = &mut self.matches[s.match_index(node)];
        pair[1] = ABSENT;
        let left = pair[0];
        self.play(set, node / 2, levels - 1, left);
        retired
    }

    /// Moves a set to a place with room for all its members.
    #[cold]
    fn grow(&mut self, set: u32) {
        let levels = levels_for(self.members[set as usize]);
        if self.free + size(levels) > self.matches.len() as u32 {
            self.compact_matches();
        }
        let base = self.free;
        self.free += size(levels);
        self.matches[base as usize..self.free as usize].fill([ABSENT; 2]);
        self.relocate(set, base, levels);
    }

    /// Removes gaps and unused levels from the table of matches.
    fn compact_matches(&mut self) {
        let sets = &self.sets;
        // Sets move towards the beginning in the order of their places, so that none overwrites
        // another.
        (self.order).sort_unstable_by_key(|&set| sets[set as usize].base);
        self.free = 0;
        for place in 0..self.order.len() {
            let set = self.order[place];
            let needed = levels_for(self.members[set as usize]);
            let levels = self.sets[set as usize].levels.min(needed);
            self.relocate(set, self.free, levels);
            self.free += size(levels);
        }
    }

    /// Moves the matches of a set to another place. The place must be unused or nearer to the
    /// beginning than the set itself, with no more levels.
    fn relocate(&mut self, set: u32, base: u32, levels: u8) {
        let s = &mut self.sets[set as usize];
        let both = s.levels.min(levels);
        // From the top down, because the matches that a level would overwrite have been moved by
        // then.
        for level in 0..both {
            let count = 1 << level;
            let from = (s.base as usize) + (count << (s.levels - both));
            let to = (base as usize) + (count << (levels - both));
            self.matches.copy_within(from..from + count, to);
        }
        (s.base, s.levels) = (base, levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use std::vec::Vec as StdVec;

    const SETS: u32 = 5;
    const SLOTS: u32 = 70;

    /// A model of the sets: key, order of insertion and slot of each active member.
    #[derive(Default)]
    struct Model {
        sets: [StdVec<(u64, u64, u32)>; SETS as usize],
    }

    impl Model {
        fn set(&mut self, set: u32, slot: u32, entry: Option<(u64, u64)>) {
            let all = &mut self.sets[set as usize];
            all.retain(|e| e.2 != slot);
            all.extend(entry.map(|(key, step)| (key, step, slot)));
        }

        /// Checks that the first slot of each set is the one that a scan finds.
        fn check(&self, tournaments: &Tournaments, base: u64) {
            for (set, all) in (0..).zip(&self.sets) {
                let first = all
                    .iter()
                    .min_by_key(|e| (e.0.wrapping_sub(base), e.1))
                    .map(|e| e.2);
                assert_eq!(tournaments.first(set), first);
                assert_eq!(tournaments.is_empty(set), all.is_empty());
            }
        }
    }

    /// Lets slots join sets, become active and inactive, change keys and leave at random. Most of
    /// them use the same set for 1000 steps, so that sets grow and shrink.
    fn agree(seed: u64, base: u64, ticket: u32) {
        let mut tournaments = Tournaments::new(SETS, SLOTS, SLOTS);
        for set in &mut tournaments.sets {
            set.ticket = ticket;
        }
        let (mut model, mut rng) = (Model::default(), Rng::new(seed));
        let mut member = [None; SLOTS as usize];
        let mut active = [false; SLOTS as usize];
        for step in 0..30_000u64 {
            let slot = rng.range(0, u64::from(SLOTS) - 1) as u32;
            let at = slot as usize;
            // 40 keys for 70 slots, so that many are equal.
            let key = base.wrapping_add(rng.range(0, 39));
            // Most slots join one set at a time, so that its tree grows and the others shrink.
            let crowd = (step / 1_000) as u32 % SETS;
            match (member[at], rng.range(0, 7)) {
                (None, draw) => {
                    let set = if draw < 6 { crowd } else { draw as u32 % SETS };
                    tournaments.join(set);
                    member[at] = Some(set);
                }
                (Some(set), 0) if !active[at] => {
                    tournaments.leave(set);
                    member[at] = None;
                }
                (Some(set), _) if !active[at] => {
                    tournaments.insert(set, slot, key);
                    model.set(set, slot, Some((key, step)));
                    active[at] = true;
                }
                (Some(set), 0..3) => {
                    tournaments.remove(set, slot);
                    model.set(set, slot, None);
                    active[at] = false;
                }
                (Some(set), _) => {
                    let slot = tournaments
                        .first(set)
                        .filter(|_| key.is_multiple_of(2))
                        .unwrap_or(slot);
                    tournaments.postpone(set, slot, key);
                    model.set(set, slot, Some((key, step)));
                }
            }
            model.check(&tournaments, base);
        }
    }

    #[test]
    fn agree_with_a_scan() {
        for seed in 0..8 {
            agree(seed, 0, 0);
        }
    }

    #[test]
    fn keys_may_wrap() {
        // Half of the keys are before the wrap and half after it.
        agree(1, 0u64.wrapping_sub(20), 0);
    }

    #[test]
    fn order_survives_the_last_ticket() {
        for early in 0..40 {
            // The tickets end after a different number of steps in each run.
            agree(early, 0, u32::MAX - 100 * early as u32 - 1);
        }
    }

    #[test]
    fn members_that_move_from_set_to_set_find_room() {
        const ALL: u32 = 1_000;
        let mut tournaments = Tournaments::new(40, ALL, ALL);
        (0..ALL).for_each(|_| tournaments.join(0));
        // Each set keeps one that is active and has a key.
        for set in 1..40 {
            for slot in 0..ALL - set {
                tournaments.leave(set - 1);
                tournaments.join(set);
                if slot == 0 {
                    tournaments.insert(set, set, u64::from(set));
                }
            }
            (1..=set).for_each(|set| assert_eq!(tournaments.first(set), Some(set)));
        }
    }
}
