//! A table of reusable slots of fixed size, with generations so that a stale name is recognised.

use alloc::vec::Vec;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Up to `capacity` values; full is an answer. Slots are reused last freed first.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Pool<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        let slots = (0..capacity)
            .map(|_| Slot {
                generation: 0,
                value: None,
            })
            .collect();
        Self {
            slots,
            free: (0..capacity).rev().collect(),
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn len(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Puts `value` into a free slot; `None` when there is none.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.value.is_none());
        slot.value = Some(value);
        Some(index)
    }

    pub(crate) fn remove(&mut self, index: u32) -> T {
        let slot = &mut self.slots[index as usize];
        let value = slot.value.take().expect("the slot was taken");
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        value
    }

    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.slots[index as usize].generation
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    /// The value in `index` if the slot is still of `generation`.
    pub(crate) fn get_named(&self, index: u32, generation: u32) -> Option<&T> {
        let slot = self.slots.get(index as usize)?;
        if slot.generation == generation {
            slot.value.as_ref()
        } else {
            None
        }
    }
}

impl<T> core::ops::Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        self.slots[index as usize]
            .value
            .as_ref()
            .expect("the slot is in use")
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.slots[index as usize]
            .value
            .as_mut()
            .expect("the slot is in use")
    }
}
