//! I/O rings that own their buffers: one that uses `io_uring`, and one that uses poll(2).
//!
//! A [`Ring`] carries all I/O of a shard. It receives from and sends to sockets, reads and writes
//! files and devices, and can be woken by other threads, with one system call for each pass of the
//! shard's loop. [`AnyRing::open`] opens a ring that uses `io_uring`, or poll(2) if the system
//! refuses `io_uring`.
//!
//! The ring owns the buffers that the kernel uses. Buffers come from an [`Arena`], move into an
//! operation and return with its [`RingCompletion`]. While the kernel uses a buffer, no other code
//! can access it. Forgetting or dropping the ring, a buffer or a handle at any time can leak
//! memory, but has no other effect. Descriptors are reference-counted ([`Handle`]) and stay open
//! until their last operation has completed. The arena and the number of operations in flight are
//! fixed when the ring is opened. A full ring refuses operations instead of growing.
//!
//! A ring stays on the thread that opened it, as do its buffers and handles. Only a [`RingWaker`]
//! can be passed to other threads:
//!
//! ```compile_fail
//! fn send<T: Send>(_: T) {}
//! send(weir_uring::AnyRing::open(&weir_uring::IoRingConfig::default()));
//! ```
//!
//! Memory that other processes share with this one (a guest's memory) is mapped here as well
//! ([`Mapping`], [`GuestMemory`]), and operations can use it.
//!
//! This is the only crate of the workspace with `unsafe` code.
#![allow(unsafe_code)]

mod any;
mod arena;
mod buddy;
#[cfg(test)]
mod continuation;
mod control;
pub mod device;
mod driver;
mod guest;
mod handle;
pub mod lock;
mod operation;
mod payload;
mod poll;
mod ring;
mod spin;
mod table;
mod uring;
mod waker;

pub use any::{AnyRing, Backend, IoRingConfig, RingOpenError};
pub use arena::{Arena, Buf, SharedBuf};
pub use control::DriverControl;
pub use driver::DriverMemory;
pub use guest::{GuestMemory, GuestSlice, MapError, MappedRegion, Mapping, MappingPart};
pub use handle::Handle;
pub use operation::Operation;
pub use payload::{Header, Payload, Segment};
pub use poll::PollRing;
pub use ring::{
    DriverCommand, Fallocate, FillMode, MAX_BYTES, MAX_PIECES, OpId, Registration, RejectReason,
    RejectedOperation, Ring, RingCompletion, Sync,
};
pub use rustix::io::Errno;
pub use uring::UringRing;
pub use waker::RingWaker;

/// Sets the calling thread's timer slack to 1 ns, so that short timeouts of
/// [`Ring::submit_and_wait`] expire on time. The default is 50 us (prctl(2), `PR_SET_TIMERSLACK`).
///
/// # Errors
///
/// Returns the error of prctl(2). Timeouts may then be late by the default slack.
pub fn precise_timers() -> Result<(), Errno> {
    rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))
}
