//! The ring of Xen's block devices: requests and responses in the same slots of one or more shared pages.
//!
//! Source: Xen's public headers `io/ring.h` and `io/blkif.h`, as facts. Four free-running 32-bit indices stand at the start of
//! the page; slot = index modulo the number of slots. The front end pushes requests, the back end answers each in a slot that
//! its request has left: never more answers than requests taken.
//!
//! | bytes | what | writer |
//! |---|---|---|
//! | 0 | `req_prod`: requests pushed | front |
//! | 4 | `req_event`: the back end wants an event when `req_prod` reaches it | back |
//! | 8 | `rsp_prod`: responses pushed | back |
//! | 12 | `rsp_event`: the front end wants an event when `rsp_prod` reaches it | front |
//! | 64 | the slots, 112 bytes each | both |
//!
//! A page of 4096 bytes holds 32 slots: the largest power of two that fits.
//!
//! # The back end's turn
//! ```
//! use weir_wire::ring::plain::Memory;
//! use weir_wire::ring::xen::{self, Back, Front, Operation, Rearm, Request, Response, Status};
//!
//! let page = Memory::new(4096);
//! xen::init(&page);
//! let mut front = Front::new(page.clone())?;
//! let mut back = Back::new(page, Rearm::Drained)?;
//!
//! front.push(&Request::flush(7)).expect("there is a free slot");
//! assert!(front.publish(), "the back end sleeps: it is told");
//!
//! loop {
//!     while back.look()? > 0 {
//!         let request = back.take().expect("there is one").expect("it is well formed");
//!         assert_eq!(request.operation, Operation::Flush);
//!         back.answer(&Response::to(&request, Status::Okay));
//!         if back.publish() { /* tell the front end */ }
//!         back.answered()?; // with `Rearm::Drained` only looks
//!     }
//!     if !back.drained()? {
//!         break; // sleeps until there is an event
//!     }
//! }
//! assert_eq!(front.look()?, 1);
//! assert_eq!(front.take().map(|response| response.id), Some(7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod back;
mod front;
mod message;

pub use back::{Back, Rearm};
pub use front::{Front, Full};
pub use message::{
    MAX_SEGMENTS, Operation, Refusal, Refused, Request, Response, SECTOR, SECTORS_IN_PAGE, Segment,
    Status,
};

use super::{Shared, Store};

const REQ_PROD: usize = 0;
const REQ_EVENT: usize = 4;
const RSP_PROD: usize = 8;
const RSP_EVENT: usize = 12;
const SLOTS: usize = 64;

/// How long a slot is in bytes, on 64-bit machines.
pub const SLOT: usize = 112;

/// Puts a new ring in `shared`, as the front end does before it tells the back end of it.
///
/// # Panics
/// If there is no room for the indices.
pub fn init<M: Shared>(shared: &M) {
    init_at(shared, 0);
}

/// [`init`] with all indices at `index`: as a ring stands after `index` requests, for tests of what happens where indices wrap.
///
/// # Panics
/// If there is no room for the indices.
pub fn init_at<M: Shared>(shared: &M, index: u32) {
    for at in [REQ_PROD, RSP_PROD] {
        shared.store32(at, index, Store::Relaxed);
    }
    for at in [REQ_EVENT, RSP_EVENT] {
        shared.store32(at, index.wrapping_add(1), Store::Relaxed);
    }
}

/// How many slots memory of `length` bytes has: a power of two, 32 for a page.
///
/// # Errors
/// [`TooSmall`] if not even one.
pub const fn slots(length: usize) -> Result<u32, TooSmall> {
    let fit = length.saturating_sub(SLOTS) / SLOT;
    if fit == 0 {
        return Err(TooSmall { length });
    }
    // Beyond 2^16 slots nobody goes, and differences of indices stay far below half their range.
    let fit = if fit > 1 << 16 { 1 << 16 } else { fit as u32 };
    Ok(1 << fit.ilog2())
}

/// Where the slot of an index starts.
const fn slot(index: u32, slots: u32) -> usize {
    SLOTS + (index & (slots - 1)) as usize * SLOT
}

/// Memory that is too short for a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{length} bytes are too few for a ring")]
pub struct TooSmall {
    /// How long it is in bytes.
    pub length: usize,
}

/// The other side's index says what cannot be. The ring cannot go on, and says so in every later call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other side's index is {found}, which is not between {least} and {most}")]
pub struct Broken {
    /// The other side's index as read.
    pub found: u32,
    /// The earliest it can be.
    pub least: u32,
    /// The furthest it can be.
    pub most: u32,
}

/// Checks that an index of the other side's is between `least` and `most`, both of which wrap.
fn check(found: u32, least: u32, most: u32) -> Result<(), Broken> {
    if found.wrapping_sub(least) > most.wrapping_sub(least) {
        return Err(Broken { found, least, most });
    }
    Ok(())
}
