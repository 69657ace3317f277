//! Address spaces: requests are in range, near or mergeable only within one.

/// Names an address space (a volume, a whole drive): a slot number the driver picks, below
/// [`Limits::spaces`](crate::Limits::spaces).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct SpaceId(pub u32);

/// No space.
const NONE: u64 = u64::MAX;

/// Sizes of the spaces that exist.
#[derive(Debug)]
pub(crate) struct Spaces {
    /// Sizes by slot; [`NONE`] where there is no space.
    sizes: alloc::vec::Vec<u64>,
}

impl Spaces {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            sizes: alloc::vec![NONE; capacity as usize],
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.sizes.len() as u32
    }

    pub(crate) fn size(&self, id: SpaceId) -> Option<u64> {
        self.sizes
            .get(id.0 as usize)
            .copied()
            .filter(|&size| size != NONE)
    }

    pub(crate) fn set(&mut self, id: SpaceId, size: Option<u64>) {
        self.sizes[id.0 as usize] = size.map_or(NONE, |size| size.min(NONE - 1));
    }
}
