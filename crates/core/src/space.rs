//! Address spaces. Requests are in range, adjacent and mergeable only within one space.

use crate::id::SpaceId;
use crate::request::{Op, Reject, Request};
use alloc::vec;
use alloc::vec::Vec;

/// The sizes of the existing spaces, and which of them stall.
#[derive(Debug)]
pub(crate) struct Spaces {
    /// For each slot, the size within which a request may go directly to the elevator. It is zero
    /// if the space does not exist or stalls, so that no request fits.
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

    /// Returns true if a request is a range inside its space and the space does not stall. A flush
    /// is not a range.
    #[inline]
    pub(crate) fn fits(&self, request: &Request) -> bool {
        if let Some(&size) = self.open.get(request.space.0 as usize) {
            fits(request, size)
        } else {
            false
        }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// Returns the reason if the request is neither a range inside its space nor a flush.
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

    /// Marks a space as stalled, or as no longer stalled.
    pub(crate) fn set_stalled(&mut self, id: SpaceId, stalled: bool) {
        self.stalled[id.0 as usize] = stalled;
        self.update(id);
    }

    fn update(&mut self, id: SpaceId) {
        let at = id.0 as usize;
        // A size of zero sends requests of a stalled space the longer way, without another test on
        // the path of every request.
        let open = self.sizes[at].filter(|_| !self.stalled[at]);
        self.open[at] = open.unwrap_or(0);
    }
}

/// Returns true if a request is a range inside a space of that size. A flush is not a range.
#[inline]
fn fits(request: &Request, size: u64) -> bool {
    if let Some(room) = size.checked_sub(request.offset) {
        // A length of zero wraps to the largest number, which exceeds any size and is refused by
        // the same comparison.
        u64::from(request.length).wrapping_sub(1) < room && request.op != Op::Flush
    } else {
        false
    }
}
