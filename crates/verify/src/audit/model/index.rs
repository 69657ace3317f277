//! A hash table that maps the name of a request to its slot.

/// The value that stands for no slot.
pub(crate) const NIL: u32 = u32::MAX;

/// The name of a request: the bits of its stream's id, and its cookie.
pub(super) type RequestName = (u64, u64);

/// A hash table of fixed size with linear probing. It is at most half full, so that a look-up is
/// short.
#[derive(Debug)]
pub(super) struct RequestIndex {
    places: Vec<(RequestName, u32)>,
    mask: usize,
}

impl RequestIndex {
    pub(super) fn new(capacity: u32) -> Self {
        // A power of two lets a mask replace the division.
        let size = (capacity as usize * 2).next_power_of_two();
        Self {
            places: vec![((0, 0), NIL); size],
            mask: size - 1,
        }
    }

    #[inline]
    pub(super) fn get(&self, name: RequestName) -> u32 {
        self.places[self.find(name)].1
    }

    /// Adds a name that is not in the table.
    #[inline]
    pub(super) fn insert(&mut self, name: RequestName, slot: u32) {
        let place = self.find(name);
        debug_assert_eq!(self.places[place].1, NIL);
        self.places[place] = (name, slot);
    }

    /// Removes a name, and moves the entries after it up, so that no search ends at the hole.
    #[inline]
    pub(super) fn remove(&mut self, name: RequestName) {
        let mut hole = self.find(name);
        debug_assert_ne!(self.places[hole].1, NIL);
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let (other, slot) = self.places[at];
            if slot == NIL {
                break;
            }
            // An entry may move into the hole if the place of its hash is at the hole or before it.
            let wanted = hash(other) & self.mask;
            if (at.wrapping_sub(wanted) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
        }
        self.places[hole].1 = NIL;
    }

    /// Returns the position of a name, or the position at which it would be inserted.
    #[inline]
    fn find(&self, name: RequestName) -> usize {
        let mut at = hash(name) & self.mask;
        while self.places[at].1 != NIL && self.places[at].0 != name {
            at = (at + 1) & self.mask;
        }
        at
    }
}

#[inline]
fn hash((stream, cookie): RequestName) -> usize {
    // Odd constants of xxHash and the golden ratio spread consecutive cookies. The upper bits are
    // the well mixed ones.
    let mixed = (stream ^ cookie.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ cookie.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)) as usize >> 20
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use weir_core::random::Rng;

    #[test]
    fn agrees_with_a_map_of_the_standard_library() {
        let mut index = RequestIndex::new(64);
        let mut map = HashMap::new();
        let mut random = Rng::new(9);
        for step in 0..50_000u32 {
            // Twelve by twelve names with at most 64 entries make collisions and removals frequent.
            let mut name = || (random.range(0, 11), random.range(0, 11));
            let (name, other) = (name(), name());
            if map.remove(&name).is_some() {
                index.remove(name);
            } else if map.len() < 64 {
                map.insert(name, step);
                index.insert(name, step);
            }
            assert_eq!(index.get(other), map.get(&other).copied().unwrap_or(NIL));
        }
    }
}
