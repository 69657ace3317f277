//! Waker with which another thread ends a ring's wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

/// Makes [`Ring::submit_and_wait`](crate::Ring::submit_and_wait) return: the current wait, or the
/// next one. Several calls before the ring has noticed result in one wake-up.
///
/// Publish the data that the shard must find first, then wake the shard. A waker may outlive its
/// ring.
#[derive(Clone, Debug)]
pub struct RingWaker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    fd: OwnedFd,
    /// True if a wake-up is pending, so that further ones need no system call.
    pending: AtomicBool,
}

impl RingWaker {
    pub(crate) fn new() -> Result<Self, Errno> {
        // The descriptor blocks, because `io_uring` fails with EAGAIN on a non-blocking one.
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(WakerState {
            fd,
            pending: AtomicBool::new(false),
        })))
    }

    /// Wakes the ring's thread from its current or next wait.
    pub fn wake(&self) {
        if self.0.pending.swap(true, Ordering::SeqCst) {
            return;
        }
        // The counter is at most 1 here, so the write neither blocks nor fails. Only a signal can
        // interrupt it.
        while let Err(Errno::INTR) = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes()) {}
    }

    /// Reports that the ring has consumed the event, so that the next `wake` sends another one.
    /// Must be called before the ring's owner looks for the data that was published.
    pub(crate) fn acknowledge(&self) {
        // A swap instead of a store, so that this thread sees everything that was published before
        // a skipped `wake`.
        self.0.pending.swap(false, Ordering::SeqCst);
    }
}

impl AsFd for RingWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
