//! A ring that owns its buffers, and a poll-based twin behind one trait.
//!
//! A [`Ring`] carries all I/O of a shard: it receives from and sends to sockets, reads and writes files and devices, and is woken
//! by other threads, with one system call per turn. [`AnyRing::open`] opens one that uses `io_uring`, or poll(2) if the system
//! refuses that.
//!
//! The ring owns the buffers that the kernel works on. Buffers come from an [`Arena`] and move into the operation; they return
//! with its [`Completion`]. While the kernel uses a buffer nothing else can access it, and forgetting or dropping the ring, a
//! buffer or a handle at any time leaks at worst. Descriptors are reference-counted ([`Handle`]) and stay open until their last
//! operation has completed. Everything is bounded at set-up: the arena and the operations in flight; a full ring refuses
//! operations instead of growing.
//!
//! A ring stays on the thread that opened it, as do its buffers and handles; only a [`Waker`] can be passed to other threads:
//!
//! ```compile_fail
//! fn send<T: Send>(_: T) {}
//! send(weir_uring::AnyRing::open(&weir_uring::Config::default()));
//! ```
//!
//! Memory that other processes share with us (a guest's) is mapped here, too ([`Mapping`], [`GuestMemory`]); operations can work on it.
//!
//! This is the workspace's only crate with `unsafe` code.
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
mod table;
mod uring;
mod waker;

pub use any::{AnyRing, Backend, Config, OpenError};
pub use arena::{Arena, Buf, SharedBuf};
pub use control::Control;
pub use driver::DriverMemory;
pub use guest::{GuestMemory, GuestSlice, MapError, Mapped, Mapping, Part};
pub use handle::Handle;
pub use operation::Operation;
pub use payload::{Header, Payload, Segment};
pub use poll::PollRing;
pub use ring::{
    Command, Completion, Fallocate, Fill, MAX_BYTES, MAX_PIECES, OpId, Reason, Registration,
    Rejected, Ring, Sync,
};
pub use rustix::io::Errno;
pub use uring::UringRing;
pub use waker::Waker;

/// Sets the calling thread's timer slack to 1 ns (prctl(2), `PR_SET_TIMERSLACK`; 50 us by default), so that short timeouts of
/// [`Ring::submit_and_wait`] expire on time.
///
/// # Errors
///
/// The error of prctl(2); timeouts may then be late by the old slack.
pub fn precise_timers() -> Result<(), Errno> {
    rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))
}
