//! Extents: the parts of a range that hold data, as a look-up ([`weir_core::Op::Extents`]) finds
//! them.

/// The allocation of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// The range holds data, or possibly does.
    Data,
    /// The range is not allocated, and reads as zeroes.
    Hole,
}

/// A range of a volume with a uniform allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The length in bytes, which is never zero.
    pub length: u32,
    /// The allocation of the whole extent.
    pub allocation: Allocation,
}

/// The extents of a range, in order and from its first byte on. Equal neighbours are joined, no
/// extent exceeds the range, and there are at most [`EXTENTS_MAX`] extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extents {
    extents: Vec<Extent>,
    /// The number of bytes of the range that are not covered yet.
    wanted: u32,
    limit: usize,
    full: bool,
}

/// The maximum number of extents of one look-up.
pub const EXTENTS_MAX: usize = 500;

impl Extents {
    /// Creates an empty list for a range of `length` bytes. With `first_only`, it will have at most
    /// one extent.
    pub fn new(length: u32, first_only: bool) -> Self {
        Self::limited(length, if first_only { 1 } else { EXTENTS_MAX })
    }

    fn limited(length: u32, limit: usize) -> Self {
        Self {
            extents: Vec::new(),
            wanted: length,
            limit,
            full: length == 0,
        }
    }

    /// Appends the next `length` bytes, and returns true if more are needed. After it has returned
    /// false, the storage does not need to be queried further, and anything appended is ignored. A
    /// length of zero changes nothing.
    pub fn push(&mut self, length: u64, allocation: Allocation) -> bool {
        if self.full || length == 0 {
            return !self.full;
        }
        // A storage can report more than the range, and more than 32 bits hold.
        let length = u32::try_from(length).unwrap_or(u32::MAX).min(self.wanted);
        match self.extents.last_mut() {
            // This cannot overflow, because all lengths together are at most that of the range.
            Some(last) if last.allocation == allocation => last.length += length,
            _ => {
                if self.extents.len() == self.limit {
                    self.full = true;
                    return false;
                }
                self.extents.push(Extent { length, allocation });
            }
        }
        self.wanted -= length;
        self.full = self.wanted == 0;
        !self.full
    }

    /// Returns the extents so far. The list is empty only if nothing was appended.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

#[cfg(test)]
mod tests {
    use weir_core::random::Rng;

    use super::Allocation::{Data, Hole};
    use super::*;

    fn listed(list: &Extents) -> Vec<(u32, Allocation)> {
        let extents = list.extents().iter();
        extents.map(|e| (e.length, e.allocation)).collect()
    }

    #[test]
    fn equal_neighbours_become_one_and_the_end_is_cut() {
        let mut list = Extents::new(4096, false);
        assert!(list.push(512, Data));
        assert!(list.push(512, Data));
        assert!(list.push(0, Hole));
        assert!(list.push(1024, Hole));
        assert!(!list.push(1 << 40, Data));
        assert!(!list.push(512, Hole));
        assert_eq!(listed(&list), [(1024, Data), (1024, Hole), (2048, Data)]);
    }

    #[test]
    fn the_limit_ends_the_list_but_not_its_last_extent() {
        let mut list = Extents::new(4096, true);
        assert!(list.push(512, Hole));
        assert!(list.push(512, Hole));
        assert!(!list.push(512, Data));
        assert!(!list.push(512, Hole));
        assert_eq!(listed(&list), [(1024, Hole)]);
    }

    #[test]
    fn a_whole_volume_is_one_extent_of_the_range() {
        let mut list = Extents::new(u32::MAX, false);
        assert!(!list.push(u64::MAX, Data));
        assert_eq!(listed(&list), [(u32::MAX, Data)]);
    }

    /// Compares random lists with a model that has one value for each byte.
    #[test]
    fn extent_lists_match_a_model_of_bytes() {
        let mut rng = Rng::new(1);
        let mut below = |n: u64| rng.range(0, n - 1);
        for _ in 0..2_000 {
            let limit = 1 + below(8) as usize;
            let mut list = Extents::limited(1 + below(600) as u32, limit);
            let length = list.wanted as usize;
            let mut bytes = Vec::new();
            let mut wanted = true;
            for _ in 0..below(12) {
                let allocation = [Data, Hole][below(2) as usize];
                let pushed = below(200);
                if wanted {
                    bytes.extend(std::iter::repeat_n(allocation, pushed as usize));
                }
                wanted = list.push(pushed, allocation);
            }
            let extents = list.extents();
            let said: Vec<Allocation> = extents
                .iter()
                .flat_map(|e| std::iter::repeat_n(e.allocation, e.length as usize))
                .collect();
            assert!(said.len() <= length && extents.len() <= limit);
            assert_eq!(said[..], bytes[..said.len()]);
            assert!(extents.iter().all(|e| e.length > 0));
            let pairs = &mut extents.windows(2);
            assert!(pairs.all(|p| p[0].allocation != p[1].allocation));
            let cut = said.len() == length || said.len() < bytes.len();
            assert_eq!(wanted, !cut);
            assert_eq!(extents.is_empty(), bytes.is_empty());
        }
    }
}
