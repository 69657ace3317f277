//! Listening sockets, of TCP and of the file system.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Gid, Uid};
use weir_config::{Id, ListenAddress, Server, SocketOwner};

use super::table::AcceptedClient;
use crate::access::Origin;
use crate::created::{Created, DirectoryEntry, Identity};
use crate::holder::Holder;
use crate::places::Peer;
use weir_config::os_error;

/// The number of clients that can wait to be accepted. By default, the system permits no more
/// (`net.core.somaxconn`). If the queue is full, the system drops the SYN of a further TCP client,
/// which then tries again after a second.
const BACKLOG: i32 = 4096;

/// A listening socket. The file of a Unix socket is removed when this is dropped, unless
/// [`Listener::created`] was called before.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(OwnedFd, PathBuf, Option<Created>),
    Tcp(TcpListener, SocketAddr),
}

/// The mode and the owner of Unix sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sockets<'a> {
    mode: u32,
    owner: &'a SocketOwner,
}

impl<'a> Sockets<'a> {
    /// Returns the mode and the owner of sockets for clients.
    pub(crate) fn of_listen(config: &'a Server) -> Self {
        Self {
            mode: config.listen.socket_mode,
            owner: &config.listen.socket_owner,
        }
    }

    /// Returns the mode and the owner of the socket for management.
    pub(crate) fn of_manage(config: &'a Server) -> Self {
        Self {
            mode: config.manage.socket_mode,
            owner: &config.manage.socket_owner,
        }
    }
}

/// The reason why the server cannot listen on an address.
#[derive(Debug, Default)]
pub(crate) struct ListenRefusal {
    /// True if the problem is the owner of sockets, not the address.
    pub(crate) owner: bool,
    pub(crate) what: String,
    pub(crate) help: String,
    /// True if another process listens on the address. The problem ends together with that process.
    pub(crate) taken: bool,
    /// The process that listens there, if it is visible.
    pub(crate) holder: Option<Holder>,
    /// True if this process lacks the permission. Another user may have it.
    pub(crate) forbidden: bool,
}

/// The listening sockets that another process has handed over, by their keys in the configuration,
/// with the files of Unix sockets.
#[derive(Debug, Default)]
pub(crate) struct InheritedListeners(pub(crate) BTreeMap<String, (OwnedFd, Option<Identity>)>);

impl InheritedListeners {
    /// Takes the socket of an address, or opens one if none was handed over.
    pub(crate) fn open(
        &mut self,
        key: &str,
        address: &ListenAddress,
        sockets: Sockets<'_>,
    ) -> Result<Listener, ListenRefusal> {
        match self.0.remove(key) {
            Some((socket, file)) => Listener::inherit(address, socket, file),
            None => Listener::open(address, sockets),
        }
    }
}

impl Listener {
    /// Opens the socket of an address.
    pub(crate) fn open(
        address: &ListenAddress,
        sockets: Sockets<'_>,
    ) -> Result<Self, ListenRefusal> {
        match address {
            ListenAddress::Unix(path) => {
                let owner = numbers(sockets.owner)?;
                let refused = |error: io::Error| system(address, &error);
                let entry = DirectoryEntry::of(path).map_err(refused)?;
                let dead = occupied(&entry, address)?;
                let (socket, file, made) = bind(entry, dead).map_err(refused)?;
                own(&file, owner).map_err(|errno| not_owned(sockets.owner, path, errno))?;
                let mode = Mode::from_raw_mode(sockets.mode);
                rustix::fs::chmod(by_descriptor(&file), mode)
                    .map_err(|errno| refused(errno.into()))?;
                // Clients can connect only after listen(2), so that none meets the file before it
                // has its owner and mode.
                rustix::net::listen(&socket, BACKLOG).map_err(|errno| refused(errno.into()))?;
                Ok(Self::Unix(socket, path.clone(), Some(made)))
            }
            ListenAddress::Tcp(address) => tcp(*address).map(|(l, a)| Self::Tcp(l, a)),
        }
    }

    /// Uses the listening socket of another process. `file` is the file of a Unix socket.
    ///
    /// # Errors
    /// Returns a refusal if the descriptor is no such socket.
    pub(crate) fn inherit(
        address: &ListenAddress,
        socket: OwnedFd,
        file: Option<Identity>,
    ) -> Result<Self, ListenRefusal> {
        let refused = |error: io::Error| system(address, &error);
        match address {
            ListenAddress::Unix(path) => {
                let entry = DirectoryEntry::of(path).map_err(refused)?;
                let created = file.map(|file| Created::inherit(entry, file));
                Ok(Self::Unix(socket, path.clone(), created))
            }
            ListenAddress::Tcp(_) => {
                let listener = TcpListener::from(socket);
                let address = listener.local_addr().map_err(refused)?;
                Ok(Self::Tcp(listener, address))
            }
        }
    }

    /// Checks whether the server could listen on an address, without changing anything. A returned
    /// listener keeps the TCP address occupied.
    pub(crate) fn look(
        address: &ListenAddress,
        sockets: Sockets<'_>,
    ) -> Result<Option<TcpListener>, ListenRefusal> {
        match address {
            ListenAddress::Unix(path) => {
                let owner = numbers(sockets.owner)?;
                let refused = |errno: Errno| system(address, &errno.into());
                let entry = DirectoryEntry::of(path).map_err(|error| system(address, &error))?;
                occupied(&entry, address)?;
                let parent = path.parent().unwrap_or_else(|| Path::new("/"));
                let access = Access::WRITE_OK | Access::EXEC_OK;
                rustix::fs::accessat(CWD, parent, access, AtFlags::EACCESS).map_err(refused)?;
                let (own, root) = (rustix::process::geteuid(), Uid::ROOT);
                // Only root may give a file to another user (chown(2)).
                if owner.0.is_some_and(|user| user != own.as_raw()) && own != root {
                    return Err(not_owned(sockets.owner, path, Errno::PERM));
                }
                Ok(None)
            }
            ListenAddress::Tcp(address) => tcp(*address).map(|(listener, _)| Some(listener)),
        }
    }

    /// Returns the address for clients, with the actual port.
    pub(crate) fn address(&self) -> ListenAddress {
        match self {
            Self::Unix(_, path, _) => ListenAddress::Unix(path.clone()),
            Self::Tcp(_, address) => ListenAddress::Tcp(*address),
        }
    }

    /// Returns the Unix socket in the standard library's type, or `None` if it is a TCP socket.
    pub(crate) fn into_unix(self) -> Option<UnixListener> {
        match self {
            Self::Unix(socket, ..) => Some(UnixListener::from(socket)),
            Self::Tcp(..) => None,
        }
    }

    /// Returns the TCP socket, or `None` if it is a Unix socket.
    pub(crate) fn into_tcp(self) -> Option<TcpListener> {
        match self {
            Self::Tcp(listener, _) => Some(listener),
            Self::Unix(..) => None,
        }
    }

    /// Takes the file that was created for a Unix socket. It is removed when the returned value is
    /// dropped.
    pub(crate) fn created(&mut self) -> Option<Created> {
        match self {
            Self::Unix(_, _, created) => created.take(),
            Self::Tcp(..) => None,
        }
    }

    /// Accepts the next client. Returns its socket and its identity.
    pub(crate) fn accept(&self) -> Result<(OwnedFd, AcceptedClient), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::accept_with(self, flags)?;
        match self {
            Self::Unix(_, path, _) => {
                let peer = Peer::process(&socket);
                let name = peer.pid().map_or_else(
                    || path.display().to_string(),
                    |pid| format!("{} pid {pid}", path.display()),
                );
                let origin = Origin::of_process(&socket);
                Ok((socket, AcceptedClient { peer, origin, name }))
            }
            Self::Tcp(..) => {
                // Replies are written in one piece, so that Nagle's algorithm could only delay
                // them. Keep-alive ends connections to hosts that have disappeared. A connection
                // works without either option, so errors are ignored.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
                let name = rustix::net::getpeername(&socket).ok().flatten();
                let address = name.and_then(|name| SocketAddr::try_from(name).ok());
                let name = address.map_or_else(|| "tcp".to_owned(), |address| address.to_string());
                let (peer, origin) = (Peer::host(address), Origin::of_host(address));
                Ok((socket, AcceptedClient { peer, origin, name }))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, ..) => listener.as_fd(),
            Self::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

/// Listens on TCP, without restricting clients.
pub(crate) fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenRefusal> {
    let refused = |error: io::Error| system(&ListenAddress::Tcp(address), &error);
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    // The standard library listens with a shorter queue. A second listen(2) changes its length.
    rustix::net::listen(&listener, BACKLOG).map_err(|errno| refused(errno.into()))?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Returns the refusal for an error of the system, with a remedy.
fn system(address: &ListenAddress, error: &io::Error) -> ListenRefusal {
    let taken = error.kind() == io::ErrorKind::AddrInUse;
    let holder = match address {
        ListenAddress::Tcp(address) if taken => Holder::of_port(*address),
        _ => None,
    };
    let directory = match address {
        ListenAddress::Unix(path) => path
            .parent()
            .unwrap_or_else(|| Path::new("/"))
            .display()
            .to_string(),
        ListenAddress::Tcp(_) => String::new(),
    };
    let tcp = matches!(address, ListenAddress::Tcp(_));
    let help = match error.kind() {
        io::ErrorKind::NotFound => format!("create the directory {directory} first"),
        io::ErrorKind::NotADirectory => format!("use another path; {directory} is not a directory"),
        io::ErrorKind::AddrInUse => STOP.to_owned(),
        io::ErrorKind::AddrNotAvailable => "use an address of this machine".to_owned(),
        io::ErrorKind::PermissionDenied if tcp => {
            "use a port from 1024 on; lower ports require CAP_NET_BIND_SERVICE".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("give the server's user write permission for the directory {directory}")
        }
        _ => String::new(),
    };
    let by = holder
        .as_ref()
        .map_or_else(String::new, |h| format!(" by {h}"));
    ListenRefusal {
        owner: false,
        what: format!(
            "cannot listen on {address}: {}{by}",
            os_error::message(error)
        ),
        help,
        taken,
        holder,
        forbidden: error.kind() == io::ErrorKind::PermissionDenied,
    }
}

const STOP: &str = "stop the other program, or use another address";

/// Returns the identity of a socket at an entry on which no process listens any more, as a killed
/// server leaves it. Anything else at the entry is a reason not to listen there.
fn occupied(
    entry: &DirectoryEntry,
    address: &ListenAddress,
) -> Result<Option<Identity>, ListenRefusal> {
    let refused = |errno: Errno| system(address, &errno.into());
    let there = match entry.open() {
        Err(Errno::NOENT) => return Ok(None),
        there => there.map_err(refused)?,
    };
    let refusal = |what: &str, help: &str| ListenRefusal {
        what: format!("cannot listen on {address}: {what}"),
        help: help.to_owned(),
        ..ListenRefusal::default()
    };
    let stat = rustix::fs::fstat(&there).map_err(refused)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let what = "the path exists and is not a socket";
        return Err(refusal(what, "remove it, or use another path"));
    }
    // The client must not block. The socket of another program can have a full queue, and
    // connect(2) would then wait without limit.
    let client = unbound().map_err(refused)?;
    let name = SocketAddrUnix::new(by_descriptor(&there)).map_err(refused)?;
    match rustix::net::connect(&client, &name) {
        Err(Errno::CONNREFUSED) => Ok(Some(Identity::of(&stat))),
        // A full queue (`EAGAIN`) also means that a process listens.
        Ok(()) | Err(Errno::AGAIN) => {
            let peer = rustix::net::sockopt::socket_peercred(&client).ok();
            let pid = peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
            let holder = pid.and_then(Holder::of_pid);
            let by = holder
                .as_ref()
                .map_or_else(|| "another program".to_owned(), Holder::to_string);
            Err(ListenRefusal {
                taken: true,
                holder,
                ..refusal(&format!("{by} already listens there"), STOP)
            })
        }
        Err(errno) => Err(refused(errno)),
    }
}

/// Binds a socket to an entry, after setting aside a socket without a listener that is there.
/// Returns the socket, its file, and a value that removes the file again.
fn bind(entry: DirectoryEntry, dead: Option<Identity>) -> io::Result<(OwnedFd, OwnedFd, Created)> {
    let aside = dead.map(|dead| entry.set_aside(std::process::id(), dead));
    let aside = aside.transpose()?;
    let bound = unbound().map_err(io::Error::from).and_then(|socket| {
        rustix::fs::fchmod(&socket, UNFINISHED)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(entry.path())?)?;
        let (file, is) = bound_file(&entry)?;
        Ok((socket, file, is))
    });
    let (socket, file, is) =
        bound.inspect_err(|_| aside.iter().for_each(|aside| entry.put_back(aside)))?;
    Ok((socket, file, Created::new(entry, is, aside)))
}

/// Opens the file of the socket that was just bound at an entry. Fails if the entry is any other
/// file.
fn bound_file(entry: &DirectoryEntry) -> io::Result<(OwnedFd, Identity)> {
    let file = entry.open()?;
    let stat = rustix::fs::fstat(&file)?;
    let (kind, mode) = (
        FileType::from_raw_mode(stat.st_mode),
        Mode::from_raw_mode(stat.st_mode),
    );
    let user = rustix::process::geteuid().as_raw();
    if (kind, mode, stat.st_uid) == (FileType::Socket, UNFINISHED, user) {
        return Ok((file, Identity::of(&stat)));
    }
    let what = "another user replaced the socket's file; give only the server's user write permission for the directory";
    Err(io::Error::other(what))
}

/// The mode that the file of a socket has from bind(2), which copies it from the socket
/// (`unix_bind_bsd` in `net/unix/af_unix.c`), until it gets its owner and its own mode. No other
/// file of the server's user has this mode. The server can thus recognise its own file even if
/// another user can replace files in the directory, and no client can connect in the meantime. The
/// mode must not contain the bits that systemd's `RestrictSUIDSGID=` forbids, because the packaged
/// service sets that option.
const UNFINISHED: Mode = Mode::SVTX;

/// Returns a path that refers to the open file itself, even if its original path now names another
/// file.
fn by_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn unbound() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Changes the owner of a socket's file.
fn own(file: &OwnedFd, (user, group): (Option<u32>, Option<u32>)) -> Result<(), Errno> {
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
    rustix::fs::chownat(file, "", user, group, AtFlags::EMPTY_PATH)
}

fn not_owned(owner: &SocketOwner, path: &Path, errno: Errno) -> ListenRefusal {
    let path = path.display();
    ListenRefusal {
        owner: true,
        what: format!(
            "cannot change the owner of {path} to {owner}: {}",
            os_error::message(&errno.into())
        ),
        help: "run the server as root, or use its own user and a group to which that user belongs"
            .to_owned(),
        forbidden: errno == Errno::PERM,
        ..ListenRefusal::default()
    }
}

/// Returns the numbers of the user and the group.
fn numbers(owner: &SocketOwner) -> Result<(Option<u32>, Option<u32>), ListenRefusal> {
    let number = |id: &Option<Id>, kind, table| {
        id.as_ref()
            .map(|id| number(id, kind, table))
            .transpose()
            .map_err(|(what, help)| ListenRefusal {
                owner: true,
                what,
                help,
                ..ListenRefusal::default()
            })
    };
    Ok((
        number(&owner.user, "user", "/etc/passwd")?,
        number(&owner.group, "group", "/etc/group")?,
    ))
}

/// Returns the number of a user (`kind`: `user`, `table`: `/etc/passwd`) or of a group, looked up
/// in the system's table.
///
/// # Errors
/// Returns a description of the problem, and the remedy.
pub fn number(id: &Id, kind: &str, table: &str) -> Result<u32, (String, String)> {
    let name = match id {
        Id::Number(number) => return Ok(*number),
        Id::Name(name) => name,
    };
    let lines = std::fs::read_to_string(table).map_err(|error| {
        (
            format!("cannot read {table}: {}", os_error::message(&error)),
            String::new(),
        )
    })?;
    let found = lines.lines().find_map(|line| {
        // Both tables have the name in the first field and the number in the third (passwd(5),
        // group(5)).
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    found.ok_or_else(|| {
        let what = format!("unknown {kind} {name:?}: {table} does not contain it");
        (what, format!("create the {kind}, or write a number"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn only_the_socket_that_was_bound_gets_owner_and_mode() {
        let base = std::env::temp_dir().join(format!("weir-listener-{}", std::process::id()));
        std::fs::create_dir(&base).unwrap();
        let (path, secret) = (base.join("socket"), base.join("secret"));
        std::fs::write(&secret, "").unwrap();
        let mode = |path: &Path| path.symlink_metadata().unwrap().mode() & 0o7777;
        let config = format!(
            "listen.nbd = [\"unix:{}\"]\nlisten.socket_mode = \"0666\"\n[drive.d]\n",
            path.display()
        );
        let config = weir_config::parse("", &config).unwrap();
        let address = ListenAddress::Unix(path.clone());
        let open = || Listener::open(&address, Sockets::of_listen(&config)).unwrap();
        // This does not depend on the umask of the tests.
        let forbidden = Mode::SUID.union(Mode::SGID);
        assert!(!UNFINISHED.intersects(forbidden), "by RestrictSUIDSGID=");
        let listener = open();
        assert_eq!(mode(&path), 0o666);
        // After `open`, the mode is the final one. `bound_file` must therefore not accept this or
        // any other file as one that was just bound.
        let entry = DirectoryEntry::of(&path).unwrap();
        let refused = || bound_file(&entry).unwrap_err().kind();
        assert_eq!(refused(), io::ErrorKind::Other, "a socket of another's");
        drop(listener);
        assert_eq!(refused(), io::ErrorKind::NotFound);
        symlink(&secret, &path).unwrap();
        assert_eq!(refused(), io::ErrorKind::Other, "a link");
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&secret, &path).unwrap();
        assert_eq!(refused(), io::ErrorKind::Other, "a file");
        std::fs::remove_file(&path).unwrap();
        let (_socket, _file, made) = bind(DirectoryEntry::of(&path).unwrap(), None).unwrap();
        bound_file(&entry).unwrap();
        drop(made);
        assert_eq!(std::fs::read_dir(&base).unwrap().count(), 1);
        std::fs::remove_dir_all(base).unwrap();
    }
}
