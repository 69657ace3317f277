//! Address spaces: requests are in range, near or mergeable only within one.

use crate::layer::Reject;
use crate::{Op, Request};
use alloc::vec;
use alloc::vec::Vec;

/// Names an address space (a volume, a whole drive): a slot number the driver picks, below
/// [`Limits::spaces`](crate::Limits::spaces).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct SpaceId(pub u32);

/// Sizes of the spaces that exist.
#[derive(Debug)]
pub(crate) struct Spaces {
    /// Sizes by slot; zero where there is no space, so that nothing is inside it.
    sizes: Vec<u64>,
    exist: Vec<bool>,
}

impl Spaces {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            sizes: vec![0; capacity as usize],
            exist: vec![false; capacity as usize],
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// Refuses a request that is no range of its space. Returns whether it has a range: a flush has none.
    #[inline]
    pub(crate) fn check(&self, request: &Request) -> Result<bool, Reject> {
        if let Some(&size) = self.sizes.get(request.space.0 as usize)
            && request.op != Op::Flush
            && request.length > 0
            && let Some(end) = request.offset.checked_add(u64::from(request.length))
            && end <= size
        {
            return Ok(true);
        }
        self.check_closely(request)
    }

    /// A flush, or what is wrong with a request.
    #[cold]
    fn check_closely(&self, request: &Request) -> Result<bool, Reject> {
        let exists = self.exist.get(request.space.0 as usize).copied();
        if exists != Some(true) {
            return Err(Reject::UnknownSpace);
        }
        match (request.op, request.length) {
            (Op::Flush, 0) if request.offset == 0 => Ok(false),
            (Op::Flush, _) | (_, 0) => Err(Reject::BadLength),
            _ => Err(Reject::OutOfRange),
        }
    }

    pub(crate) fn set(&mut self, id: SpaceId, size: Option<u64>) {
        self.sizes[id.0 as usize] = size.unwrap_or(0);
        self.exist[id.0 as usize] = size.is_some();
    }
}
