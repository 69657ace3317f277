//! Sockets for managing the running server. They are opened here and served by another crate
//! (`weir-manage`).

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use weir_config::{ListenAddress, Server};

use crate::acceptor::{InheritedListeners, ListenRefusal, Listener, Sockets};
use crate::created::{Created, Identity};

/// The sockets of `[manage]` and of `listen.metrics`. All of them are non-blocking.
#[derive(Debug, Default)]
pub struct Doors {
    /// The Unix socket, for processes of this machine. Their users are distinguished by peer
    /// credentials.
    pub socket: Option<UnixListener>,
    /// The TCP socket for browsers, which authenticate with a token.
    pub http: Option<TcpListener>,
    /// The TCP socket for clients over TLS, which authenticate with certificates.
    pub https: Option<TcpListener>,
    /// The TCP socket for metrics only, without authentication.
    pub metrics: Option<TcpListener>,
}

/// The parts of the sockets that the server keeps while another crate serves them.
#[derive(Debug, Default)]
pub(crate) struct KeptDoors {
    /// The file of the Unix socket, which is removed when this is dropped.
    created: Option<Created>,
    /// A duplicate of each socket with its key, for a successor of the server.
    sockets: Vec<(&'static str, OwnedFd)>,
}

impl Doors {
    /// Opens the sockets that the configuration names, or takes them over from another process.
    ///
    /// # Errors
    /// Returns the key of the first socket that cannot be opened, and the reason.
    pub(crate) fn open(
        config: &Server,
        inherited: &mut InheritedListeners,
    ) -> Result<(Self, KeptDoors), (&'static str, ListenRefusal)> {
        let (mut doors, mut kept) = (Self::default(), KeptDoors::default());
        let manage = &config.manage;
        if let Some(path) = &manage.socket {
            let address = ListenAddress::Unix(path.clone());
            let sockets = Sockets::of_manage(config);
            let mut listener = inherited
                .open(SOCKET_KEY, &address, sockets)
                .map_err(|refusal| (SOCKET_KEY, refusal))?;
            kept.created = listener.created();
            doors.socket = listener.into_unix();
        }
        for (key, address, door) in [
            (HTTP_KEY, manage.http, &mut doors.http),
            (HTTPS_KEY, manage.https, &mut doors.https),
            (METRICS_KEY, config.listen.metrics, &mut doors.metrics),
        ] {
            let opened = address.map(|address| {
                let address = ListenAddress::Tcp(address);
                inherited.open(key, &address, Sockets::of_manage(config))
            });
            let opened = opened.transpose().map_err(|refusal| (key, refusal))?;
            *door = opened.and_then(Listener::into_tcp);
        }
        kept.sockets = doors.duplicates();
        Ok((doors, kept))
    }

    /// Returns a duplicate of each socket. A socket that cannot be duplicated is left out, so that
    /// a successor of the server opens it itself.
    fn duplicates(&self) -> Vec<(&'static str, OwnedFd)> {
        let all = [
            (SOCKET_KEY, self.socket.as_ref().map(AsFd::as_fd)),
            (HTTP_KEY, self.http.as_ref().map(AsFd::as_fd)),
            (HTTPS_KEY, self.https.as_ref().map(AsFd::as_fd)),
            (METRICS_KEY, self.metrics.as_ref().map(AsFd::as_fd)),
        ];
        let copy =
            |(key, fd): (_, Option<BorrowedFd<'_>>)| Some((key, fd?.try_clone_to_owned().ok()?));
        all.into_iter().filter_map(copy).collect()
    }

    /// Returns the address for browsers. If the configuration specifies port 0, it has the port
    /// that the system chose.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.local_addr().ok()
    }

    /// Returns the address for clients over TLS.
    pub fn https_address(&self) -> Option<SocketAddr> {
        self.https.as_ref()?.local_addr().ok()
    }

    /// Returns the address where metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }
}

impl KeptDoors {
    /// Removes the files that were set aside for the sockets, once the start cannot be refused any
    /// more.
    pub(crate) fn settle(&mut self) {
        self.created.iter_mut().for_each(Created::settle);
    }

    /// Returns the key and a descriptor of each socket, and the file of the Unix socket.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.sockets.iter().map(|(key, fd)| (*key, fd.as_fd()))
    }

    /// Returns the identity of the file of the Unix socket.
    pub(crate) fn file(&self) -> Option<Identity> {
        self.created.as_ref()?.identity()
    }

    /// Keeps the file of the socket, because another process listens there.
    pub(crate) fn abandon(&mut self) {
        if let Some(created) = self.created.take() {
            let _ = created.keep();
        }
    }
}

pub(crate) const SOCKET_KEY: &str = "manage.socket";
pub(crate) const HTTP_KEY: &str = "manage.http";
pub(crate) const HTTPS_KEY: &str = "manage.https";
pub(crate) const METRICS_KEY: &str = "listen.metrics";
