//! The ring of Xen's block devices: requests and responses share the slots of one or more pages.
//!
//! The source of the layout is Xen's public headers `io/ring.h` and `io/blkif.h`. Four free-running
//! 32-bit indices are at the start of the page. The slot of an index is the index modulo the number
//! of slots. The front end pushes requests. The back end writes each response into a slot that a
//! request has left, so there are never more responses than taken requests.
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | `req_prod`: requests pushed | front |
//! | 4 | `req_event`: the back end needs an event when `req_prod` reaches it | back |
//! | 8 | `rsp_prod`: responses pushed | back |
//! | 12 | `rsp_event`: the front end needs an event when `rsp_prod` reaches it | front |
//! | 64 | the slots, 112 bytes each | both |
//!
//! A page of 4096 bytes has 32 slots, which is the largest power of two that fits.
//!
//! # The back end's loop
//! ```
//! use weir_wire::ring::plain::Memory;
//! use weir_wire::ring::xen::{self, Rearm, Response, XenBackEnd, XenFrontEnd};
//! use weir_wire::ring::xen::{XenOperation, XenRequest, XenStatus};
//!
//! let page = Memory::new(4096);
//! xen::init(&page);
//! let mut front = XenFrontEnd::new(page.clone())?;
//! let mut back = XenBackEnd::new(page, Rearm::Drained)?;
//!
//! front.push(&XenRequest::flush(7)).expect("there is a free slot");
//! assert!(front.publish(), "the back end sleeps: it is told");
//!
//! loop {
//!     while back.poll_requests()? > 0 {
//!         let request = back.take().expect("there is one").expect("it is well formed");
//!         assert_eq!(request.operation, XenOperation::Flush);
//!         back.answer(&Response::to(&request, XenStatus::Okay));
//!         if back.publish() { /* tell the front end */ }
//!         back.on_answered()?; // does nothing with `Rearm::Drained`
//!     }
//!     if !back.on_drained()? {
//!         break; // sleeps until there is an event
//!     }
//! }
//! assert_eq!(front.poll_responses()?, 1);
//! assert_eq!(front.take().map(|response| response.id), Some(7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod back;
mod front;
mod message;

pub use back::{Rearm, XenBackEnd};
pub use front::{RingFull, XenFrontEnd};
pub use message::{
    MAX_SEGMENTS, Response, SECTOR, SECTORS_IN_PAGE, XenOperation, XenRefusal, XenRequest,
    XenRequestError, XenSegment, XenStatus,
};

use super::{Shared, Store};

// Positions of the four indices and of the first slot in the page (`io/ring.h`).
const REQ_PROD: usize = 0;
const REQ_EVENT: usize = 4;
const RSP_PROD: usize = 8;
const RSP_EVENT: usize = 12;
const SLOTS: usize = 64;

/// The length of a slot in bytes, in the layout of 64-bit guests.
pub const SLOT: usize = 112;

/// Initialises a new ring in `shared`, as the front end does before it announces the ring to the
/// back end.
///
/// # Panics
/// If the memory has no room for the indices.
pub fn init<M: Shared>(shared: &M) {
    init_at(shared, 0);
}

/// Initialises a ring like [`init`], but in the state after `index` requests, for tests of indices
/// that wrap.
///
/// # Panics
/// If the memory has no room for the indices.
pub fn init_at<M: Shared>(shared: &M, index: u32) {
    for at in [REQ_PROD, RSP_PROD] {
        shared.store32(at, index, Store::Relaxed);
    }
    for at in [REQ_EVENT, RSP_EVENT] {
        // An event at the next request or response, so that the first one of a new ring notifies
        // the other side.
        shared.store32(at, index.wrapping_add(1), Store::Relaxed);
    }
}

/// Returns the number of slots in memory of `length` bytes. It is a power of two, and 32 for a page
/// of 4096 bytes.
///
/// # Errors
/// Returns [`RingTooSmall`] if there is no room for one slot.
pub const fn slots(length: usize) -> Result<u32, RingTooSmall> {
    let fit = length.saturating_sub(SLOTS) / SLOT;
    if fit == 0 {
        return Err(RingTooSmall { length });
    }
    // No ring in use has more than 2^16 slots, and with this limit differences of indices stay far
    // below half of their range.
    let fit = if fit > 1 << 16 { 1 << 16 } else { fit as u32 };
    Ok(1 << fit.ilog2())
}

/// Returns the position of the slot of an index.
const fn slot(index: u32, slots: u32) -> usize {
    SLOTS + (index & (slots - 1)) as usize * SLOT
}

/// The error for memory that is too short for a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{length} bytes are too few for a ring")]
pub struct RingTooSmall {
    /// The length of the memory in bytes.
    pub length: usize,
}

/// The error for an impossible index of the other side. The ring cannot continue, and every later
/// call returns this error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other side's index is {found}, which is not between {least} and {most}")]
pub struct RingError {
    /// The index of the other side, as it was read.
    pub found: u32,
    /// The lowest value that the index could have.
    pub least: u32,
    /// The highest value that the index could have.
    pub most: u32,
}

/// Checks that an index of the other side is between `least` and `most`. All three wrap.
fn check(found: u32, least: u32, most: u32) -> Result<(), RingError> {
    if found.wrapping_sub(least) > most.wrapping_sub(least) {
        return Err(RingError { found, least, most });
    }
    Ok(())
}
