//! Sockets that listen.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use weir_config::{Address, Id, Listen, Owner};

use super::Peer;

/// Clients that may wait to be accepted; the system permits no more by default. Where they are full a client of TCP is not heard
/// before it tries again, a second later.
const BACKLOG: i32 = 4096;

/// A socket that clients connect to.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(OwnedFd, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    /// Opens the socket of an address, with owner and mode as `listen` says.
    pub(crate) fn open(address: &Address, listen: &Listen) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                remove_dead(path)?;
                Ok(Self::Unix(bind(path, listen)?, path.clone()))
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                rustix::net::listen(&listener, BACKLOG)?;
                let address = listener.local_addr()?;
                Ok(Self::Tcp(listener, address))
            }
        }
    }

    /// The address as clients need it.
    pub(crate) fn address(&self) -> Address {
        match self {
            Self::Unix(_, path) => Address::Unix(path.clone()),
            Self::Tcp(_, address) => Address::Tcp(*address),
        }
    }

    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Unix(_, path) => Some(path.clone()),
            Self::Tcp(..) => None,
        }
    }

    /// The next client, who it is, and what to call it in the log.
    pub(crate) fn accept(&self) -> Result<(OwnedFd, Peer, String), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::accept_with(self, flags)?;
        match self {
            Self::Unix(_, path) => {
                let peer = Peer::process(&socket);
                let name = peer.pid().map_or_else(
                    || path.display().to_string(),
                    |pid| format!("{} pid {pid}", path.display()),
                );
                Ok((socket, peer, name))
            }
            Self::Tcp(..) => {
                // Answers leave as they are made; without this they only wait longer.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
                let name = rustix::net::getpeername(&socket).ok().flatten();
                let address = name.and_then(|name| SocketAddr::try_from(name).ok());
                let name = address.map_or_else(|| "tcp".to_owned(), |address| address.to_string());
                Ok((socket, Peer::host(address), name))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

/// Removes a socket that nobody listens on any more, as a server that was killed leaves it; anything else at the path stays.
fn remove_dead(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        let message = "something that is not a socket is in its place";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server listens there",
        )),
        Err(error) => Err(error),
    }
}

/// Binds, sets owner and mode, and only then listens: before, nobody can connect.
fn bind(path: &Path, listen: &Listen) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    own(path, &listen.socket_owner)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(listen.socket_mode))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn own(path: &Path, owner: &Owner) -> io::Result<()> {
    let user = owner
        .user
        .as_ref()
        .map(|id| number(id, "/etc/passwd"))
        .transpose()?;
    let group = owner
        .group
        .as_ref()
        .map(|id| number(id, "/etc/group"))
        .transpose()?;
    if user.is_some() || group.is_some() {
        std::os::unix::fs::chown(path, user, group)?;
    }
    Ok(())
}

/// The number of a user or group, looked up in the system's table.
fn number(id: &Id, table: &str) -> io::Result<u32> {
    let name = match id {
        Id::Number(number) => return Ok(*number),
        Id::Name(name) => name,
    };
    let lines = std::fs::read_to_string(table)?;
    let found = lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{name} is not in {table}"));
    found.ok_or_else(missing)
}
