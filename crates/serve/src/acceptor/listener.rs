//! Sockets that listen.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Uid;
use weir_config::{Address, Id, Owner, Server};

use crate::created::Created;
use crate::holder::Holder;
use crate::places::Peer;
use weir_config::os_error;

/// Clients that may wait to be accepted; the system permits no more by default. Where they are full a client of TCP is not heard
/// before it tries again, a second later.
const BACKLOG: i32 = 4096;

/// A socket that clients connect to. One at a path goes with this, unless [`Listener::created`] was taken.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(OwnedFd, PathBuf, Option<Created>),
    Tcp(TcpListener, SocketAddr),
}

/// How Unix sockets are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sockets<'a> {
    mode: u32,
    owner: &'a Owner,
}

impl<'a> Sockets<'a> {
    /// Those of clients.
    pub(crate) fn of_listen(config: &'a Server) -> Self {
        Self {
            mode: config.listen.socket_mode,
            owner: &config.listen.socket_owner,
        }
    }

    /// That of the management interface.
    pub(crate) fn of_manage(config: &'a Server) -> Self {
        Self {
            mode: config.manage.socket_mode,
            owner: &config.manage.socket_owner,
        }
    }
}

/// Why an address cannot be listened on.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The owner of sockets is what is wrong, not the address.
    pub(crate) owner: bool,
    pub(crate) what: String,
    pub(crate) help: String,
    /// Another process listens there, as long as it does.
    pub(crate) taken: bool,
    /// That process, as far as can be seen.
    pub(crate) holder: Option<Holder>,
    /// This process may not do it; another might.
    pub(crate) forbidden: bool,
}

impl Listener {
    /// Opens the socket of an address.
    pub(crate) fn open(address: &Address, sockets: Sockets<'_>) -> Result<Self, Refusal> {
        match address {
            Address::Unix(path) => {
                let owner = numbers(sockets.owner)?;
                let dead = occupied(path)?;
                let refused = |error: io::Error| system(address, &error);
                let aside = dead.then(|| set_aside(path)).transpose().map_err(refused)?;
                let (socket, made) = bind(path, aside).map_err(refused)?;
                own(path, owner).map_err(|error| not_owned(sockets.owner, path, &error))?;
                let mode = std::fs::Permissions::from_mode(sockets.mode);
                std::fs::set_permissions(path, mode).map_err(refused)?;
                // Only now: before, nobody can connect.
                rustix::net::listen(&socket, BACKLOG).map_err(|errno| refused(errno.into()))?;
                Ok(Self::Unix(socket, path.clone(), Some(made)))
            }
            Address::Tcp(address) => tcp(*address).map(|(l, a)| Self::Tcp(l, a)),
        }
    }

    /// Whether an address could be listened on, by the same questions; changes nothing. What is returned keeps the address taken.
    pub(crate) fn look(
        address: &Address,
        sockets: Sockets<'_>,
    ) -> Result<Option<TcpListener>, Refusal> {
        match address {
            Address::Unix(path) => {
                let owner = numbers(sockets.owner)?;
                occupied(path)?;
                let refused = |errno: Errno| system(address, &errno.into());
                let parent = path.parent().unwrap_or_else(|| Path::new("/"));
                let directory = rustix::fs::stat(parent).map_err(refused)?;
                if FileType::from_raw_mode(directory.st_mode) != FileType::Directory {
                    return Err(refused(Errno::NOTDIR));
                }
                let access = Access::WRITE_OK | Access::EXEC_OK;
                rustix::fs::accessat(CWD, parent, access, AtFlags::EACCESS).map_err(refused)?;
                let (own, root) = (rustix::process::geteuid(), Uid::ROOT);
                if owner.0.is_some_and(|user| user != own.as_raw()) && own != root {
                    let errno = Errno::PERM.into();
                    return Err(not_owned(sockets.owner, path, &errno));
                }
                Ok(None)
            }
            Address::Tcp(address) => tcp(*address).map(|(listener, _)| Some(listener)),
        }
    }

    /// The address as clients need it.
    pub(crate) fn address(&self) -> Address {
        match self {
            Self::Unix(_, path, _) => Address::Unix(path.clone()),
            Self::Tcp(_, address) => Address::Tcp(*address),
        }
    }

    /// It as the standard library has it, if it is a Unix socket.
    pub(crate) fn into_unix(self) -> Option<UnixListener> {
        match self {
            Self::Unix(socket, ..) => Some(UnixListener::from(socket)),
            Self::Tcp(..) => None,
        }
    }

    /// What was made for it at a path; it goes when that is dropped.
    pub(crate) fn created(&mut self) -> Option<Created> {
        match self {
            Self::Unix(_, _, created) => created.take(),
            Self::Tcp(..) => None,
        }
    }

    /// The next client, its peer, and its name in the log.
    pub(crate) fn accept(&self) -> Result<(OwnedFd, Peer, String), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::accept_with(self, flags)?;
        match self {
            Self::Unix(_, path, _) => {
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
            Self::Unix(listener, ..) => listener.as_fd(),
            Self::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

/// Listens on TCP, for any client.
pub(crate) fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Refusal> {
    let refused = |error: io::Error| system(&Address::Tcp(address), &error);
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|errno| refused(errno.into()))?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// What the system said, and what to do.
fn system(address: &Address, error: &io::Error) -> Refusal {
    let taken = error.kind() == io::ErrorKind::AddrInUse;
    let holder = match address {
        Address::Tcp(address) if taken => Holder::of_port(*address),
        _ => None,
    };
    let directory = match address {
        Address::Unix(path) => path
            .parent()
            .unwrap_or_else(|| Path::new("/"))
            .display()
            .to_string(),
        Address::Tcp(_) => String::new(),
    };
    let tcp = matches!(address, Address::Tcp(_));
    let help = match error.kind() {
        io::ErrorKind::NotFound => format!("create the directory {directory} first"),
        io::ErrorKind::NotADirectory => format!("{directory} must be a directory"),
        io::ErrorKind::AddrInUse => STOP.to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        io::ErrorKind::PermissionDenied if tcp => {
            "ports below 1024 take CAP_NET_BIND_SERVICE; choose a higher one".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("let the server's user write to the directory {directory}")
        }
        _ => String::new(),
    };
    let by = holder
        .as_ref()
        .map_or_else(String::new, |h| format!(" by {h}"));
    Refusal {
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

const STOP: &str = "stop the other program, or choose another address";

/// Whether there is a socket at the path that nobody listens on any more, as a server that was killed leaves it; anything else there
/// is a reason not to listen.
fn occupied(path: &Path) -> Result<bool, Refusal> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(false);
    };
    let address = Address::Unix(path.to_owned());
    let refusal = |what: &str, help: &str, taken, holder| Refusal {
        owner: false,
        what: format!("cannot listen on {address}: {what}"),
        help: help.to_owned(),
        taken,
        holder,
        forbidden: false,
    };
    if !metadata.file_type().is_socket() {
        let help = "remove what is there, or choose another path";
        return Err(refusal(
            "something that is not a socket is in its place",
            help,
            false,
            None,
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Ok(stream) => {
            let peer = rustix::net::sockopt::socket_peercred(&stream).ok();
            let pid = peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
            let holder = pid.and_then(Holder::of_pid);
            let by = holder
                .as_ref()
                .map_or_else(|| "another program".to_owned(), Holder::to_string);
            Err(refusal(&format!("{by} listens there"), STOP, true, holder))
        }
        Err(error) => Err(system(&address, &error)),
    }
}

/// Moves a socket that nobody listens on out of the way, until it is clear that this one stays.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(aside);
    std::fs::rename(path, &aside)?;
    Ok(aside)
}

fn bind(path: &Path, aside: Option<PathBuf>) -> io::Result<(OwnedFd, Created)> {
    let back = |aside: &PathBuf| drop(std::fs::rename(aside, path));
    let socket = unbound().and_then(|socket| {
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    });
    let socket = socket.inspect_err(|_| aside.iter().for_each(back))?;
    Ok((socket, Created::at(path, aside)?))
}

fn unbound() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Gives a socket the owner that was looked up.
fn own(path: &Path, (user, group): (Option<u32>, Option<u32>)) -> io::Result<()> {
    if user.is_some() || group.is_some() {
        std::os::unix::fs::chown(path, user, group)?;
    }
    Ok(())
}

fn not_owned(owner: &Owner, path: &Path, error: &io::Error) -> Refusal {
    let path = path.display();
    Refusal {
        owner: true,
        what: format!(
            "cannot give {path} to {owner}: {}",
            os_error::message(error)
        ),
        help: "only root gives files to other users, and to groups that are not its own".to_owned(),
        taken: false,
        holder: None,
        forbidden: error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// The numbers of user and group.
fn numbers(owner: &Owner) -> Result<(Option<u32>, Option<u32>), Refusal> {
    let number = |id: &Option<Id>, kind, table| {
        id.as_ref()
            .map(|id| number(id, kind, table))
            .transpose()
            .map_err(|(what, help)| Refusal {
                owner: true,
                what,
                help,
                taken: false,
                holder: None,
                forbidden: false,
            })
    };
    Ok((
        number(&owner.user, "user", "/etc/passwd")?,
        number(&owner.group, "group", "/etc/group")?,
    ))
}

/// The number of a user (`kind`: `user`, `table`: `/etc/passwd`) or a group, looked up in the system's table.
///
/// # Errors
/// What is wrong with it, and what to do.
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
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    found.ok_or_else(|| {
        let what = format!("there is no {kind} {name:?} in {table}");
        (what, format!("create it, or give the number of a {kind}"))
    })
}
