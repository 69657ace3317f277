//! Pools: tables of reusable slots of fixed size. Each slot has a generation, so that an outdated
//! identifier is recognised.

use crate::list::NIL;
use alloc::vec::Vec;

/// An alignment of two cache lines, because processors often fetch two lines together.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lines;

/// An alignment of half a cache line.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct HalfLine;

/// A slot, aligned as `A` requires. The value is at its beginning.
#[derive(Debug)]
#[repr(C)]
struct Slot<T, A> {
    align: [A; 0],
    value: T,
    /// Odd while the slot is in use.
    generation: u32,
    /// The free slot after this one while it is free itself, or [`NIL`].
    next_free: u32,
}

/// A table of up to `capacity` values. The slot that was freed last is reused first, and slots are
/// written in place. Each slot is aligned as `A` requires, so that a value can be laid out by cache
/// lines.
#[derive(Debug)]
pub(crate) struct Pool<T, A> {
    slots: Vec<Slot<T, A>>,
    /// The first free slot, or [`NIL`].
    free: u32,
}

impl<T: Clone, A> Pool<T, A> {
    /// Creates a pool with slots that hold `empty` until they are used.
    pub(crate) fn new(capacity: u32, empty: T) -> Self {
        let slot = |next| Slot {
            align: [],
            value: empty.clone(),
            // Zero is even, so the slot is free.
            generation: 0,
            // The slots are linked in ascending order at first.
            next_free: if next < capacity { next } else { NIL },
        };
        Self {
            slots: (1..=capacity).map(slot).collect(),
            free: if capacity > 0 { 0 } else { NIL },
        }
    }
}

impl<T, A> Pool<T, A> {
    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Puts `value` into a free slot and returns its index, or `None` if there is no free slot.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        let (index, slot) = self.take()?;
        *slot = value;
        Some(index)
    }

    /// Takes a free slot, whose value the caller then overwrites, or returns `None` if there is no
    /// free slot.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u32, &mut T)> {
        let index = self.free;
        let slot = self.slots.get_mut(index as usize)?;
        debug_assert!(slot.generation & 1 == 0, "slot {index} is in use");
        // Each use and each release adds one, so an odd generation means "in use". After four
        // billion changes of a slot the generation repeats.
        slot.generation = slot.generation.wrapping_add(1);
        self.free = slot.next_free;
        Some((index, &mut slot.value))
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.generation & 1 == 1, "slot {index} is free");
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free;
        self.free = index;
    }

    /// Returns the slots in use and their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = (0..).zip(&self.slots);
        slots
            .filter(|(_, slot)| slot.generation & 1 == 1)
            .map(|(index, slot)| (index, &slot.value))
    }

    /// Returns the number of slots in use, after checking that every other slot is in the list of
    /// free slots once.
    #[cfg(debug_assertions)]
    pub(crate) fn checked_len(&self) -> u32 {
        let used = self.iter().count();
        let (mut free, mut at) = (0, self.free);
        while let Some(slot) = self.slots.get(at as usize) {
            assert!(slot.generation & 1 == 0, "slot {at} is free and in use");
            free += 1;
            assert!(used + free <= self.slots.len(), "a slot is free twice");
            at = slot.next_free;
        }
        assert_eq!(used + free, self.slots.len(), "a slot is lost");
        used as u32
    }

    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.slots[index as usize].generation
    }

    /// Returns the value of slot `index` if the slot is in use.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots
            .get_mut(index as usize)
            .filter(|s| s.generation & 1 == 1)
            .map(|s| &mut s.value)
    }

    /// Returns the value of slot `index` if the slot is in use and still has this `generation`.
    #[inline]
    pub(crate) fn get_named(&self, index: u32, generation: u32) -> Option<&T> {
        let value = self.get_of(index, generation)?;
        (generation & 1 == 1).then_some(value)
    }

    /// Returns the value of slot `index` if it has this `generation`, even if the slot is free. It
    /// is for callers that recognise a free slot by its content, which saves a test.
    #[inline]
    pub(crate) fn get_of(&self, index: u32, generation: u32) -> Option<&T> {
        let slot = self.slots.get(index as usize)?;
        (slot.generation == generation).then_some(&slot.value)
    }
}

impl<T, A> core::ops::Index<u32> for Pool<T, A> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        let slot = &self.slots[index as usize];
        debug_assert!(slot.generation & 1 == 1, "slot {index} is free");
        &slot.value
    }
}

impl<T, A> core::ops::IndexMut<u32> for Pool<T, A> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.generation & 1 == 1, "slot {index} is free");
        &mut slot.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_generation_finds_no_entry() {
        let mut pool: Pool<_, HalfLine> = Pool::new(1, 0);
        let slot = pool.insert(7).unwrap();
        let name = pool.generation(slot);
        assert_eq!(pool.get_named(slot, name), Some(&7));
        assert_eq!(pool.insert(8), None);
        assert_eq!(pool.get_mut(slot), Some(&mut 7));
        pool.remove(slot);
        assert_eq!(pool.get_named(slot, name), None);
        assert_eq!(pool.get_mut(slot), None);
        assert_eq!(
            pool.get_named(slot, pool.generation(slot)),
            None,
            "a free slot has no name"
        );
        assert_eq!(pool.insert(9), Some(slot));
        assert_eq!(pool.get_named(slot, name), None);
        assert_eq!(pool.get_mut(slot), Some(&mut 9));
    }
}
