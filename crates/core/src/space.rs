//! Address spaces: requests are in range, near or mergeable only within one.

use crate::id::SpaceId;
use crate::request::{Op, Reject, Request};
use alloc::vec;
use alloc::vec::Vec;

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

    /// True if a request is a range of its space; a flush is not.
    #[inline]
    pub(crate) fn fits(&self, request: &Request) -> bool {
        if let Some(&size) = self.sizes.get(request.space.0 as usize)
            && let Some(room) = size.checked_sub(request.offset)
        {
            // One less than nothing is more than any room.
            u64::from(request.length).wrapping_sub(1) < room && request.op != Op::Flush
        } else {
            false
        }
    }

    /// Refuses a request that is neither a range of its space nor a flush.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Reject> {
        let exists = self.exist.get(request.space.0 as usize).copied();
        if exists != Some(true) {
            return Err(Reject::UnknownSpace);
        }
        match (request.op, request.length) {
            (Op::Flush, 0) if request.offset == 0 => Ok(()),
            (Op::Flush, _) | (_, 0) => Err(Reject::BadLength),
            _ if self.fits(request) => Ok(()),
            _ => Err(Reject::OutOfRange),
        }
    }

    pub(crate) fn set(&mut self, id: SpaceId, size: Option<u64>) {
        self.sizes[id.0 as usize] = size.unwrap_or(0);
        self.exist[id.0 as usize] = size.is_some();
    }
}
