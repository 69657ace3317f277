//! Address spaces: requests are in range, near or mergeable only within one.

use crate::layer::Reject;
use crate::{Op, Request};

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

    /// Refuses a request that is no range of its space.
    #[inline]
    pub(crate) fn check(&self, request: &Request) -> Result<(), Reject> {
        let size = self.sizes.get(request.space.0 as usize).copied();
        let size = size.unwrap_or(NONE);
        let (offset, length) = (request.offset, u64::from(request.length));
        if size == NONE {
            return Err(Reject::UnknownSpace);
        }
        if request.op == Op::Flush {
            return if offset | length == 0 {
                Ok(())
            } else {
                Err(Reject::BadLength)
            };
        }
        if length == 0 {
            return Err(Reject::BadLength);
        }
        if offset > size || length > size - offset {
            return Err(Reject::OutOfRange);
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, id: SpaceId, size: Option<u64>) {
        self.sizes[id.0 as usize] = size.map_or(NONE, |size| size.min(NONE - 1));
    }
}
