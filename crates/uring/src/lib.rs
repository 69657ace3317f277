//! A ring that owns its buffers, and a poll-based twin behind one trait.
//!
//! A [`Ring`] carries a shard's whole traffic: sockets are received from and sent to, files and
//! devices read and written, other threads wake it, and one system call a turn does it all.
//! [`AnyRing::open`] gives one by `io_uring`, or by poll(2) where the system refuses that.
//!
//! The ring takes ownership of what the kernel works on. Buffers come from an [`Arena`] and move
//! into the operation; they return with its [`Completion`]. While the kernel uses a buffer nothing
//! else can reach it, and forgetting or dropping the ring, a buffer or a handle at any moment
//! leaks at worst. Descriptors are counted ([`Handle`]) and stay open until their last operation
//! has completed. Everything is bounded at set-up: arena and operations in flight; full is an
//! answer, not growth.
//!
//! A ring stays on the thread that opened it, as do its buffers and handles; only a [`Waker`] goes to
//! others:
//!
//! ```compile_fail
//! fn send<T: Send>(_: T) {}
//! send(weir_uring::AnyRing::open(&weir_uring::Config::default()));
//! ```
//!
//! This is the workspace's only crate with `unsafe` code.
#![allow(unsafe_code)]

mod any;
mod arena;
mod buddy;
#[cfg(test)]
mod continuation;
pub mod device;
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
pub use handle::Handle;
pub use operation::Operation;
pub use payload::{Header, Payload, Segment};
pub use poll::PollRing;
pub use ring::{
    Completion, Fallocate, Fill, MAX_BYTES, MAX_PIECES, OpId, Reason, Registration, Rejected, Ring,
    Sync,
};
pub use rustix::io::Errno;
pub use uring::UringRing;
pub use waker::Waker;

/// Sets the calling thread's timer slack to 1 ns (prctl(2), `PR_SET_TIMERSLACK`; 50 us by default),
/// so that short timeouts of [`Ring::submit_and_wait`] end on time.
///
/// # Errors
///
/// What prctl(2) answers; timeouts may be late by the old slack then.
pub fn precise_timers() -> Result<(), Errno> {
    rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))
}
