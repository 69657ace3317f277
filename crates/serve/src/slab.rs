//! A table whose slots are numbered and reused.

use std::ops::{Index, IndexMut};

/// A table of entries by number. Numbers are small, and do not change while the entry exists. The
/// number of a removed entry is reused.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.entries[slot as usize] = Some(entry);
            return slot;
        }
        self.entries.push(Some(entry));
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(entry)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns the numbers in use, in ascending order.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let numbered = self.entries.iter().zip(0u32..);
        numbered
            .filter(|(entry, _)| entry.is_some())
            .map(|(_, slot)| slot)
            .collect()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        self.get(slot).expect("the slot is in use")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        self.get_mut(slot).expect("the slot is in use")
    }
}
