//! A TCP or Unix stream socket with timeouts in nanoseconds.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_wire::nbd::Address;

/// A connected socket. Reading and writing never block. Only [`Socket::wait`] does.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Connects within `timeout`, which applies to each address of a TCP host. A Unix socket has no
    /// timeout: it connects or fails at once, unless the backlog of the server is full.
    pub(crate) fn connect(address: &Address, timeout: Duration) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Unix(socket))
            }
            Address::Tcp(host) => {
                let socket = connect_tcp(host, timeout)?;
                // NBD requests are small, so that Nagle's algorithm would delay each until the
                // previous one is acknowledged.
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Tcp(socket))
            }
        }
    }

    /// Waits for at most `timeout` until the socket is readable, or also writable if `write` is
    /// true. Returns false on timeout.
    pub(crate) fn wait(&self, write: bool, timeout: Duration) -> io::Result<bool> {
        let events = if write {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self, events)], Some(&timeout)) {
            Ok(n) => Ok(n > 0),
            // An interrupted wait counts as an event, because the caller polls without blocking and
            // then waits again.
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// Receives available bytes. Returns `None` if there are none, and zero at the end of the
    /// stream.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(match self {
            Self::Unix(s) => s.read(into),
            Self::Tcp(s) => s.read(into),
        })
    }

    /// Sends as much as the socket accepts now. Returns `None` if it accepts nothing.
    pub(crate) fn send(&mut self, from: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(match self {
            Self::Unix(s) => s.write(from),
            Self::Tcp(s) => s.write(from),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(s) => s.as_fd(),
            Self::Tcp(s) => s.as_fd(),
        }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        match socket {
            Socket::Unix(socket) => socket.into(),
            Socket::Tcp(socket) => socket.into(),
        }
    }
}

/// Connects to the first address of a host name that accepts the connection.
fn connect_tcp(host: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Converts an operation that would block or was interrupted into `None`, so that the caller waits
/// and tries again.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}
