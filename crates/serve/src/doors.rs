//! Sockets for managing the running server. They are opened here and served by another crate
//! (`weir-manage`).

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use weir_config::{ListenAddress, Server};

use crate::acceptor::{self, ListenRefusal, Listener, Sockets};
use crate::created::Created;

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
    /// The file of the Unix socket, which is removed when this is dropped.
    created: Option<Created>,
}

impl Doors {
    /// Opens the sockets that the configuration names.
    ///
    /// # Errors
    /// Returns the key of the first socket that cannot be opened, and the reason.
    pub(crate) fn open(config: &Server) -> Result<Self, (&'static str, ListenRefusal)> {
        let mut doors = Self::default();
        let manage = &config.manage;
        if let Some(path) = &manage.socket {
            let sockets = Sockets::of_manage(config);
            let mut listener = Listener::open(&ListenAddress::Unix(path.clone()), sockets)
                .map_err(|refusal| (SOCKET_KEY, refusal))?;
            doors.created = listener.created();
            doors.socket = listener.into_unix();
        }
        for (key, address, door) in [
            (HTTP_KEY, manage.http, &mut doors.http),
            (HTTPS_KEY, manage.https, &mut doors.https),
            (METRICS_KEY, config.listen.metrics, &mut doors.metrics),
        ] {
            let opened = address.map(acceptor::tcp).transpose();
            *door = opened.map_err(|refusal| (key, refusal))?.map(|open| open.0);
        }
        Ok(doors)
    }

    /// Removes the files that were set aside for the sockets, once the start cannot be refused any
    /// more.
    pub(crate) fn settle(&mut self) {
        self.created.iter_mut().for_each(Created::settle);
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

pub(crate) const SOCKET_KEY: &str = "manage.socket";
pub(crate) const HTTP_KEY: &str = "manage.http";
pub(crate) const HTTPS_KEY: &str = "manage.https";
pub(crate) const METRICS_KEY: &str = "listen.metrics";
