//! Reference-counted descriptors on which operations can be queued.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

/// A file, device or socket on which operations can be queued.
///
/// Clones share one descriptor. Every operation in flight holds a clone. The descriptor is
/// therefore closed, and its number reused, only after the last operation on it has completed and
/// the caller has dropped the last clone. Dropping the caller's clone does not end a pending
/// receive. Use [`Ring::cancel`](crate::Ring::cancel) or [`Handle::shutdown`] for that.
///
/// A handle belongs to the thread of its ring and is not `Send`. Pass the `OwnedFd` between threads
/// and create the handle on the thread that uses it.
#[derive(Clone, Debug)]
pub struct Handle(Rc<SharedDescriptor>);

#[derive(Debug)]
struct SharedDescriptor {
    fd: OwnedFd,
    receiving: Cell<bool>,
    sending: Cell<bool>,
    /// True if the last receive left data in the socket, as reported by the kernel.
    more: Cell<bool>,
    /// True if the driver can copy only from and to a process's own memory, not from registered
    /// buffers.
    unregistered: bool,
    /// True if the descriptor had `O_NONBLOCK` when the handle was created.
    nonblocking: bool,
}

impl Handle {
    /// Takes ownership of the descriptor.
    ///
    /// Clears `O_NONBLOCK` on its open file description, which other processes may share. The ring
    /// waits for the socket itself, and some operations of `io_uring` would otherwise fail with
    /// `EAGAIN`.
    ///
    /// # Errors
    ///
    /// Returns the error of fcntl(2). The descriptor is then closed.
    pub fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        if flags.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
        }
        Ok(Self::from_shared(fd))
    }

    /// Takes ownership of a descriptor whose open file description is shared with another process,
    /// such as an event that arrived over a socket. Its flags are not changed. It can be polled and
    /// signalled.
    pub fn from_shared(fd: OwnedFd) -> Self {
        Self::with(fd, false)
    }

    /// Takes ownership of a device's descriptor whose driver accepts commands
    /// ([`Ring::command`](crate::Ring::command)) and copies the data of reads and writes while the
    /// caller waits.
    ///
    /// Its flags are not changed. With `O_NONBLOCK`, which has no other meaning for such a driver,
    /// reads and writes are executed at once instead of by a thread of the kernel.
    pub fn driver(fd: OwnedFd) -> Self {
        Self::with(fd, true)
    }

    fn with(fd: OwnedFd, unregistered: bool) -> Self {
        let flags = rustix::fs::fcntl_getfl(&fd);
        let nonblocking = flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        Self(Rc::new(SharedDescriptor {
            fd,
            receiving: Cell::new(false),
            sending: Cell::new(false),
            more: Cell::new(false),
            unregistered,
            nonblocking,
        }))
    }

    /// Takes the count of an eventfd. Returns false if it was zero. Never blocks, whatever the
    /// descriptor's flags are.
    ///
    /// # Errors
    ///
    /// Returns the error of preadv2(2), which is `EINVAL` or `EOPNOTSUPP` if the descriptor is not
    /// an eventfd.
    pub fn take_event(&self) -> Result<bool, Errno> {
        let mut count = [0; 8];
        let mut into = [std::io::IoSliceMut::new(&mut count)];
        // The offset −1 stands for the current position, which an eventfd does not have.
        let taken = rustix::io::preadv2(&self.0.fd, &mut into, u64::MAX, ReadWriteFlags::NOWAIT);
        match taken {
            Ok(bytes) => Ok(bytes > 0),
            // `NOWAIT` makes an empty eventfd return EAGAIN.
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Shuts down both directions of a socket with shutdown(2). A pending receive completes with 0,
    /// a pending send with `EPIPE`. Does not block.
    ///
    /// # Errors
    ///
    /// Returns the error of shutdown(2): `ENOTCONN` if the peer has already disconnected,
    /// `ENOTSOCK` for a file.
    pub fn shutdown(&self) -> Result<(), Errno> {
        rustix::net::shutdown(&self.0.fd, rustix::net::Shutdown::Both)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.0.fd.as_raw_fd()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.0.more.get()
    }

    pub(crate) fn accepts_registered_buffers(&self) -> bool {
        !self.0.unregistered
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.0.nonblocking
    }

    pub(crate) fn set_more(&self, more: bool) {
        self.0.more.set(more);
    }

    pub(crate) fn direction(&self, direction: SocketDirection) -> &Cell<bool> {
        match direction {
            SocketDirection::Receive => &self.0.receiving,
            SocketDirection::Send => &self.0.sending,
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// A direction of a stream socket, which can carry at most one operation at a time. The bytes of
/// two operations could interleave if one of them is continued after a short transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketDirection {
    Receive,
    Send,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_clears_the_nonblocking_flag() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let handle = Handle::new(socket.into()).unwrap();
        let flags = rustix::fs::fcntl_getfl(&handle).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
    }
}
