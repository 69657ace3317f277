//! The end of an upgrade whose new program does not respond.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;

/// A switch that ends the preparation of every upgrade from then on. A server that is to end does
/// not wait for a program that does not respond.
#[derive(Clone, Debug)]
pub struct UpgradeInterrupt(Arc<OwnedFd>);

impl UpgradeInterrupt {
    /// Creates a switch that does not interrupt yet.
    ///
    /// # Errors
    /// Returns the error of eventfd(2).
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(rustix::event::eventfd(0, flags)?)))
    }

    /// Interrupts the preparation. An upgrade whose clients are already being handed over
    /// continues.
    pub fn interrupt(&self) {
        // A write fails only if the counter would overflow (eventfd(2)).
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
