//! The ring by io_uring.

use std::io;
use std::time::Duration;

use crate::any::{Config, OpenError};
use crate::arena::Arena;
use crate::operation::Operation;
use crate::ring::{Completion, OpId, Registration, Rejected, Ring};
use crate::waker::Waker;

/// A [`Ring`] by io_uring.
#[derive(Debug)]
pub struct UringRing {}

impl UringRing {
    /// Opens a ring on the thread that is to use it.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        config.parts()?;
        Err(OpenError::Uring(io::ErrorKind::Unsupported.into()))
    }
}

impl Ring for UringRing {
    fn arena(&self) -> &Arena {
        unreachable!()
    }
    fn registration(&self) -> Registration {
        unreachable!()
    }
    fn capacity(&self) -> usize {
        unreachable!()
    }
    fn in_flight(&self) -> usize {
        unreachable!()
    }
    fn queue(&mut self, _: Operation) -> Result<OpId, Rejected> {
        unreachable!()
    }
    fn cancel(&mut self, _: OpId) {
        unreachable!()
    }
    fn submit_and_wait(&mut self, _: Option<Duration>) -> io::Result<()> {
        unreachable!()
    }
    fn pop(&mut self) -> Option<Completion> {
        unreachable!()
    }
    fn waker(&self) -> Waker {
        unreachable!()
    }
    fn take_woken(&mut self) -> bool {
        unreachable!()
    }
}
