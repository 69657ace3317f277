//! Sockets that listen.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Gid, Uid};
use weir_config::{Address, Id, Owner, Server};

use crate::created::{Created, Entry, Identity};
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
#[derive(Debug, Default)]
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
                let refused = |error: io::Error| system(address, &error);
                let entry = Entry::of(path).map_err(refused)?;
                let dead = occupied(&entry, address)?;
                let (socket, file, made) = bind(entry, dead).map_err(refused)?;
                own(&file, owner).map_err(|errno| not_owned(sockets.owner, path, errno))?;
                let mode = Mode::from_raw_mode(sockets.mode);
                rustix::fs::chmod(by_descriptor(&file), mode)
                    .map_err(|errno| refused(errno.into()))?;
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
                let refused = |errno: Errno| system(address, &errno.into());
                let entry = Entry::of(path).map_err(|error| system(address, &error))?;
                occupied(&entry, address)?;
                let parent = path.parent().unwrap_or_else(|| Path::new("/"));
                let access = Access::WRITE_OK | Access::EXEC_OK;
                rustix::fs::accessat(CWD, parent, access, AtFlags::EACCESS).map_err(refused)?;
                let (own, root) = (rustix::process::geteuid(), Uid::ROOT);
                if owner.0.is_some_and(|user| user != own.as_raw()) && own != root {
                    return Err(not_owned(sockets.owner, path, Errno::PERM));
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

const STOP: &str = "stop the other program, or use another address";

/// The socket at an entry that nobody listens on any more, as a server that was killed leaves it; anything else there is a reason not
/// to listen.
fn occupied(entry: &Entry, address: &Address) -> Result<Option<Identity>, Refusal> {
    let refused = |errno: Errno| system(address, &errno.into());
    let there = match entry.open() {
        Err(Errno::NOENT) => return Ok(None),
        there => there.map_err(refused)?,
    };
    let refusal = |what: &str, help: &str| Refusal {
        what: format!("cannot listen on {address}: {what}"),
        help: help.to_owned(),
        ..Refusal::default()
    };
    let stat = rustix::fs::fstat(&there).map_err(refused)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let what = "the path exists and is not a socket";
        return Err(refusal(what, "remove it, or use another path"));
    }
    // One that does not block: another's socket may have no room for a client, for ever.
    let client = unbound().map_err(refused)?;
    let name = SocketAddrUnix::new(by_descriptor(&there)).map_err(refused)?;
    match rustix::net::connect(&client, &name) {
        Err(Errno::CONNREFUSED) => Ok(Some(Identity::of(&stat))),
        Ok(()) | Err(Errno::AGAIN) => {
            let peer = rustix::net::sockopt::socket_peercred(&client).ok();
            let pid = peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
            let holder = pid.and_then(Holder::of_pid);
            let by = holder
                .as_ref()
                .map_or_else(|| "another program".to_owned(), Holder::to_string);
            Err(Refusal {
                taken: true,
                holder,
                ..refusal(&format!("{by} already listens there"), STOP)
            })
        }
        Err(errno) => Err(refused(errno)),
    }
}

/// Binds a socket to an entry, once a dead one there is out of the way: the socket, its file, and what makes it go again.
fn bind(entry: Entry, dead: Option<Identity>) -> io::Result<(OwnedFd, OwnedFd, Created)> {
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

/// The file of the socket that was bound at an entry just now, and nothing else that is there.
fn bound_file(entry: &Entry) -> io::Result<(OwnedFd, Identity)> {
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

/// Mode of a socket's file from bind(2), which takes it from the socket (Linux, `unix_bind_bsd`), until the file has its owner and its own mode: no other
/// file of the server's user has it, so that a server knows its own where another user can put files in its place; and nobody connects. It must
/// not have the bits that systemd's `RestrictSUIDSGID=` forbids, which the packaged service has.
const UNFINISHED: Mode = Mode::SVTX;

/// A path that leads to what is open, and nowhere else.
fn by_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn unbound() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Gives a socket's file the owner that was looked up.
fn own(file: &OwnedFd, (user, group): (Option<u32>, Option<u32>)) -> Result<(), Errno> {
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
    rustix::fs::chownat(file, "", user, group, AtFlags::EMPTY_PATH)
}

fn not_owned(owner: &Owner, path: &Path, errno: Errno) -> Refusal {
    let path = path.display();
    Refusal {
        owner: true,
        what: format!(
            "cannot change the owner of {path} to {owner}: {}",
            os_error::message(&errno.into())
        ),
        help: "run the server as root, or use its own user and a group to which that user belongs"
            .to_owned(),
        forbidden: errno == Errno::PERM,
        ..Refusal::default()
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
                ..Refusal::default()
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
        let address = Address::Unix(path.clone());
        let open = || Listener::open(&address, Sockets::of_listen(&config)).unwrap();
        // Whatever the umask of tests is.
        let forbidden = Mode::SUID.union(Mode::SGID);
        assert!(!UNFINISHED.intersects(forbidden), "by RestrictSUIDSGID=");
        let listener = open();
        assert_eq!(mode(&path), 0o666);
        let entry = Entry::of(&path).unwrap();
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
        let (_socket, _file, made) = bind(Entry::of(&path).unwrap(), None).unwrap();
        bound_file(&entry).unwrap();
        drop(made);
        assert_eq!(std::fs::read_dir(&base).unwrap().count(), 1);
        std::fs::remove_dir_all(base).unwrap();
    }
}
