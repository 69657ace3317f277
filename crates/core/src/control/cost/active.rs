//! The active groups in the order of their activation, with a mark for those that must be checked.

use crate::list::NIL;
use alloc::vec;
use alloc::vec::Vec;

const BITS: usize = u64::BITS as usize;

/// A sequence of groups, each at a place of its own. Later groups have later places. Numbers are
/// slots of groups.
#[derive(Debug)]
pub(super) struct Active {
    /// The group at each place, or [`NIL`] if it was removed.
    groups: Vec<u32>,
    /// The place of each group, or [`NIL`].
    places: Vec<u32>,
    /// A bit for each place whose group must be checked.
    awake: Vec<u64>,
    len: u32,
}

impl Active {
    pub(super) fn new(groups: u32) -> Self {
        let places = 2 * groups as usize;
        Self {
            groups: Vec::with_capacity(places),
            places: vec![NIL; groups as usize],
            awake: vec![0; places.div_ceil(BITS)],
            len: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a group, which must be checked.
    pub(super) fn push(&mut self, group: u32) {
        debug_assert!(self.places[group as usize] == NIL, "group {group} is here");
        // There are twice as many places as groups, so that places are closed up at most once in as
        // many activations as there are groups.
        if self.groups.len() == 2 * self.places.len() {
            self.close_up();
        }
        self.places[group as usize] = self.groups.len() as u32;
        self.groups.push(group);
        self.len += 1;
        self.wake(group);
    }

    /// Removes a group and leaves its place empty.
    pub(super) fn remove(&mut self, group: u32) {
        self.rest(group);
        let place = core::mem::replace(&mut self.places[group as usize], NIL);
        self.groups[place as usize] = NIL;
        self.len -= 1;
    }

    /// Marks a group for checking, if it is active.
    #[inline]
    pub(super) fn wake(&mut self, group: u32) {
        let place = self.places[group as usize] as usize;
        // The place of an inactive group is `NIL`, which is beyond all bits.
        if let Some(bits) = self.awake.get_mut(place / BITS) {
            *bits |= 1 << (place % BITS);
        }
    }

    /// Marks all groups for checking.
    pub(super) fn wake_all(&mut self) {
        self.awake.fill(u64::MAX);
    }

    /// Removes the mark of an active group until it is woken.
    pub(super) fn rest(&mut self, group: u32) {
        let place = self.places[group as usize] as usize;
        self.awake[place / BITS] &= !(1 << (place % BITS));
    }

    /// Returns true if a group is active and not marked.
    pub(super) fn rests(&self, group: u32) -> bool {
        let place = self.places[group as usize] as usize;
        let bits = self.awake.get(place / BITS);
        bits.is_some_and(|bits| bits & 1 << (place % BITS) == 0)
    }

    /// Returns all active groups in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups.iter().copied().filter(|&group| group != NIL)
    }

    /// Returns the first group from a place on, and the place behind it.
    pub(super) fn next(&self, place: u32) -> Option<(u32, u32)> {
        let mut place = place;
        loop {
            let &group = self.groups.get(place as usize)?;
            place += 1;
            if group != NIL {
                return Some((group, place));
            }
        }
    }

    /// Returns the first marked group from a place on, and the place behind it.
    pub(super) fn next_awake(&self, place: u32) -> Option<(u32, u32)> {
        let mut place = place as usize;
        while place < self.groups.len() {
            let bits = self.awake[place / BITS] >> (place % BITS);
            if bits == 0 {
                // No marked group is left in this word.
                place = (place / BITS + 1) * BITS;
                continue;
            }
            place += bits.trailing_zeros() as usize;
            match self.groups.get(place) {
                Some(&NIL) => place += 1,
                found => return found.map(|&group| (group, place as u32 + 1)),
            }
        }
        None
    }

    /// Removes the empty places. All groups are marked because their bits have moved.
    #[cold]
    fn close_up(&mut self) {
        self.groups.retain(|&group| group != NIL);
        for (place, &group) in (0..).zip(&self.groups) {
            self.places[group as usize] = place;
        }
        self.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use std::vec::Vec as StdVec;

    #[test]
    fn active_groups_agree_with_a_list() {
        const GROUPS: u32 = 100;
        let mut active = Active::new(GROUPS);
        let mut model: StdVec<(u32, bool)> = StdVec::new();
        let mut rng = Rng::new(5);
        for _ in 0..20_000 {
            let state = rng.next_u64();
            let group = (state >> 40) as u32 % GROUPS;
            let known = model.iter().position(|&(other, _)| other == group);
            match (known, state % 4) {
                (None, 0..2) => {
                    active.push(group);
                    model.push((group, true));
                    // After closing up, all groups are marked.
                    if active.groups.len() == model.len() {
                        active.wake_all();
                        for known in &mut model {
                            known.1 = true;
                        }
                    }
                }
                (Some(at), 0) => {
                    active.remove(group);
                    model.remove(at);
                }
                (Some(at), 1) => {
                    active.rest(group);
                    model[at].1 = false;
                }
                (known, _) => {
                    active.wake(group);
                    if let Some(at) = known {
                        model[at].1 = true;
                    }
                }
            }
            let follow = |next: &dyn Fn(u32) -> Option<(u32, u32)>| -> StdVec<u32> {
                let found = core::iter::successors(next(0), |&(_, place)| next(place));
                found.map(|(group, _)| group).collect()
            };
            let all: StdVec<u32> = model.iter().map(|known| known.0).collect();
            assert_eq!(follow(&|place| active.next(place)), all);
            assert!(active.iter().eq(all.iter().copied()));
            assert_eq!(active.len() as usize, all.len());
            let awake = model.iter().filter(|known| known.1).map(|known| known.0);
            let awake: StdVec<u32> = awake.collect();
            assert_eq!(follow(&|place| active.next_awake(place)), awake);
            let rests = |group| model.contains(&(group, false));
            assert!((0..GROUPS).all(|group| active.rests(group) == rests(group)));
        }
    }
}
