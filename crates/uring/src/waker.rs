//! Ending a ring's wait from another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

/// Makes [`Ring::submit_and_wait`](crate::Ring::submit_and_wait) return: the current wait, or the next one. Several calls before
/// the ring has noticed are one wake-up.
///
/// Publish what the shard must find first, then wake it. A waker may outlive its ring.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    /// A wake-up is pending; avoids the system call for further ones.
    pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> Result<Self, Errno> {
        // Blocking on purpose: `io_uring` fails with EAGAIN on a non-blocking descriptor.
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Shared {
            fd,
            pending: AtomicBool::new(false),
        })))
    }

    /// Wakes the ring's thread.
    pub fn wake(&self) {
        if self.0.pending.swap(true, Ordering::SeqCst) {
            return;
        }
        // The counter is at most 1 here, so the write neither blocks nor fails; only a signal can interrupt it.
        while let Err(Errno::INTR) = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes()) {}
    }

    /// The ring has consumed the event: the next `wake` sends another. Called before the ring's owner looks for what it was woken
    /// for.
    pub(crate) fn taken(&self) {
        // A swap, to come after the push that a skipped `wake` announced.
        self.0.pending.swap(false, Ordering::SeqCst);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
