//! Where the running server is asked and changed: sockets that listen and are answered by another crate (`weir-manage`).

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use weir_config::{Address, Server};

use crate::acceptor::{self, Listener, Refusal, Sockets};
use crate::created::Created;

/// The sockets of `[manage]`, and that of `listen.metrics`. None of them blocks.
#[derive(Debug, Default)]
pub struct Doors {
    /// For processes of this machine, told apart by their users.
    pub socket: Option<UnixListener>,
    /// For browsers, which have a token.
    pub http: Option<TcpListener>,
    /// For metrics alone, without one.
    pub metrics: Option<TcpListener>,
    /// The socket at its path, which goes with this.
    created: Option<Created>,
}

impl Doors {
    /// Opens them.
    ///
    /// # Errors
    /// The key of the one that cannot be had, and why.
    pub(crate) fn open(config: &Server) -> Result<Self, (&'static str, Refusal)> {
        let mut doors = Self::default();
        let manage = &config.manage;
        if let Some(path) = &manage.socket {
            let sockets = Sockets::of_manage(config);
            let mut listener = Listener::open(&Address::Unix(path.clone()), sockets)
                .map_err(|refusal| (SOCKET_KEY, refusal))?;
            doors.created = listener.created();
            doors.socket = listener.into_unix();
        }
        for (key, address, door) in [
            (HTTP_KEY, manage.http, &mut doors.http),
            (METRICS_KEY, config.listen.metrics, &mut doors.metrics),
        ] {
            let opened = address.map(acceptor::tcp).transpose();
            *door = opened.map_err(|refusal| (key, refusal))?.map(|open| open.0);
        }
        Ok(doors)
    }

    /// Nothing of the start can be refused any more.
    pub(crate) fn settle(&mut self) {
        self.created.iter_mut().for_each(Created::settle);
    }

    /// Where browsers connect, with the port that was free where the configuration says 0.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.local_addr().ok()
    }

    /// Where metrics are answered.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }
}

pub(crate) const SOCKET_KEY: &str = "manage.socket";
pub(crate) const HTTP_KEY: &str = "manage.http";
pub(crate) const METRICS_KEY: &str = "listen.metrics";
