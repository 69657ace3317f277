//! Reference-counted descriptors.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

/// A file, device or socket that operations can be queued on.
///
/// Clones share one descriptor. Every operation in flight holds a clone, so the descriptor is closed, and its number free for
/// reuse, only after the last operation on it has completed and the caller has dropped the last clone. Dropping the caller's
/// clone does not end a pending receive: use [`Ring::cancel`](crate::Ring::cancel) or [`Handle::shutdown`].
///
/// A handle belongs to the thread of its ring (it is not `Send`); pass the `OwnedFd` between threads and create the handle where it
/// is used.
#[derive(Clone, Debug)]
pub struct Handle(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    receiving: Cell<bool>,
    sending: Cell<bool>,
    /// The last receive left data in the socket, as far as the kernel reports it.
    more: Cell<bool>,
    /// Its driver copies from and to a process's own memory only, not what is registered of it.
    unregistered: bool,
}

impl Handle {
    /// Takes ownership of the descriptor.
    ///
    /// `O_NONBLOCK` is cleared on its open file description (which other processes may share): the ring waits for the socket, and
    /// some of `io_uring`'s operations would otherwise fail with `EAGAIN`.
    ///
    /// # Errors
    ///
    /// The error of fcntl(2); the descriptor is then closed.
    pub fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        if flags.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
        }
        Ok(Self::foreign(fd))
    }

    /// Takes ownership of a descriptor whose open file description is somebody else's, too: an event that came over a socket. Its
    /// flags stay as they are. It can be polled and signalled.
    pub fn foreign(fd: OwnedFd) -> Self {
        Self::with(fd, false)
    }

    /// Takes ownership of a device's descriptor whose driver takes commands ([`Ring::command`](crate::Ring::command)), and copies what is
    /// read and written while the caller waits. Its flags stay as they are: with `O_NONBLOCK`, which means nothing else to such a driver,
    /// reads and writes are carried out at once instead of by a thread of the kernel.
    pub fn driver(fd: OwnedFd) -> Self {
        Self::with(fd, true)
    }

    fn with(fd: OwnedFd, unregistered: bool) -> Self {
        Self(Rc::new(Shared {
            fd,
            receiving: Cell::new(false),
            sending: Cell::new(false),
            more: Cell::new(false),
            unregistered,
        }))
    }

    /// Takes what an eventfd has counted; false if that was nothing. Does not block, whatever its flags.
    ///
    /// # Errors
    ///
    /// The error of preadv2(2): `EINVAL` or `EOPNOTSUPP` if it is no eventfd.
    pub fn take_event(&self) -> Result<bool, Errno> {
        let mut count = [0; 8];
        let mut into = [std::io::IoSliceMut::new(&mut count)];
        // Where there is no position this one means none.
        let taken = rustix::io::preadv2(&self.0.fd, &mut into, u64::MAX, ReadWriteFlags::NOWAIT);
        match taken {
            Ok(bytes) => Ok(bytes > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Shuts both directions of a socket down, see shutdown(2): a pending receive completes with
    /// 0, a pending send with `EPIPE`. Does not block.
    ///
    /// # Errors
    ///
    /// The error of shutdown(2): `ENOTCONN` if the peer has already disconnected, `ENOTSOCK` on a file.
    pub fn shutdown(&self) -> Result<(), Errno> {
        rustix::net::shutdown(&self.0.fd, rustix::net::Shutdown::Both)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.0.fd.as_raw_fd()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.0.more.get()
    }

    pub(crate) fn takes_registered(&self) -> bool {
        !self.0.unregistered
    }

    pub(crate) fn set_more(&self, more: bool) {
        self.0.more.set(more);
    }

    pub(crate) fn direction(&self, direction: Direction) -> &Cell<bool> {
        match direction {
            Direction::Receive => &self.0.receiving,
            Direction::Send => &self.0.sending,
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// A stream socket carries at most one operation per direction: two could interleave their bytes if one of them is continued after
/// a short transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_does_the_waiting() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let handle = Handle::new(socket.into()).unwrap();
        let flags = rustix::fs::fcntl_getfl(&handle).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
    }
}
