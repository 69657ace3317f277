//! The server that a command asks: by the path of its socket.

use crate::api::client::Client;
use clap::Args;
use std::io;
use std::path::PathBuf;

/// Where a server answers if nothing else is said.
const DEFAULT: &str = "/run/weir/manage.sock";
/// Where else, if it is set.
const VARIABLE: &str = "WEIR_SOCKET";

/// Which server to ask.
#[derive(Debug, Args)]
pub struct Socket {
    /// The server's Unix socket (`manage.socket` in its file) [default: the value of `WEIR_SOCKET`, or else /run/weir/manage.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Socket {
    /// The socket's path.
    pub fn path(&self) -> PathBuf {
        let named = self.socket.clone();
        let named = named.or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        named
            .filter(|path| !path.as_os_str().is_empty())
            .unwrap_or_else(|| DEFAULT.into())
    }

    /// A client of the server. Nothing is asked yet.
    ///
    /// # Errors
    /// If the system gives no descriptors for waiting.
    pub fn client(&self) -> io::Result<Client> {
        Client::new(&self.path())
    }
}
