//! Address spaces: requests are in range, near or mergeable only within one.

use crate::id::SpaceId;
use crate::request::{Op, Reject, Request};
use alloc::vec;
use alloc::vec::Vec;

/// Sizes of the spaces that exist.
#[derive(Debug)]
pub(crate) struct Spaces {
    /// By slot, what requests may lie in that go straight to the elevator: the size; zero where
    /// there is no space, and where the space stalls, so that nothing is inside it.
    open: Vec<u64>,
    sizes: Vec<Option<u64>>,
    stalled: Vec<bool>,
}

impl Spaces {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            open: vec![0; capacity as usize],
            sizes: vec![None; capacity as usize],
            stalled: vec![false; capacity as usize],
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// True if a request is a range of its space, which does not stall; a flush is not.
    #[inline]
    pub(crate) fn fits(&self, request: &Request) -> bool {
        if let Some(&size) = self.open.get(request.space.0 as usize) {
            fits(request, size)
        } else {
            false
        }
    }

    /// Refuses a request that is neither a range of its space nor a flush.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Reject> {
        let size = self.sizes.get(request.space.0 as usize).copied();
        let size = size.flatten().ok_or(Reject::UnknownSpace)?;
        match (request.op, request.length) {
            (Op::Flush, 0) if request.offset == 0 => Ok(()),
            (Op::Flush, _) | (_, 0) => Err(Reject::BadLength),
            _ if fits(request, size) => Ok(()),
            _ => Err(Reject::OutOfRange),
        }
    }

    pub(crate) fn set(&mut self, id: SpaceId, size: Option<u64>) {
        self.sizes[id.0 as usize] = size;
        self.update(id);
    }

    /// A space stalls from now on, or no longer.
    pub(crate) fn set_stalled(&mut self, id: SpaceId, stalled: bool) {
        self.stalled[id.0 as usize] = stalled;
        self.update(id);
    }

    fn update(&mut self, id: SpaceId) {
        let at = id.0 as usize;
        let open = self.sizes[at].filter(|_| !self.stalled[at]);
        self.open[at] = open.unwrap_or(0);
    }
}

/// True if a request is a range of a space of that size; a flush is not.
#[inline]
fn fits(request: &Request, size: u64) -> bool {
    if let Some(room) = size.checked_sub(request.offset) {
        // One less than nothing is more than any room.
        u64::from(request.length).wrapping_sub(1) < room && request.op != Op::Flush
    } else {
        false
    }
}
