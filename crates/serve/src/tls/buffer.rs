//! A buffer for bytes on their way from one socket to another.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;

use rustix::net::RecvFlags;

/// A buffer of a fixed size, which is filled when it is empty.
#[derive(Debug)]
pub(super) struct TransferBuffer {
    bytes: Box<[u8]>,
    /// The range of bytes that wait to be passed on.
    start: usize,
    end: usize,
    /// True if the last receive left nothing in the socket. The next one would only find that out.
    is_drained: bool,
}

impl TransferBuffer {
    pub(super) fn new(size: usize) -> Self {
        Self {
            bytes: vec![0; size].into(),
            start: 0,
            end: 0,
            is_drained: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the bytes that wait to be passed on.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Marks bytes as passed on.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Fills the empty buffer. No bytes are the end of the stream.
    ///
    /// # Errors
    /// Returns the error of `receive`.
    pub(super) fn fill(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        (self.start, self.end) = (0, receive(&mut self.bytes)?);
        Ok(())
    }

    /// Fills the empty buffer from a socket. No bytes are the end of the stream.
    ///
    /// # Errors
    /// Returns `WouldBlock` if there are no bytes yet, and other errors of the socket.
    pub(super) fn fill_from(&mut self, socket: impl AsFd) -> io::Result<()> {
        if std::mem::take(&mut self.is_drained) {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.fill(|into| {
            let received = rustix::io::retry_on_intr(|| {
                rustix::net::recv(&socket, &mut *into, RecvFlags::DONTWAIT)
            });
            Ok(received?.0)
        })?;
        self.is_drained = (1..self.bytes.len()).contains(&self.end);
        Ok(())
    }
}

impl Read for TransferBuffer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.waiting().read(into)?;
        self.consume(count);
        Ok(count)
    }
}
