//! The option that selects the server of a command by its socket.

use crate::api::client::ManagementClient;
use clap::Args;
use std::io;
use std::path::PathBuf;

/// The path of the socket if neither the option nor the variable is set.
const DEFAULT: &str = "/run/weir/manage.sock";
/// The environment variable with the path of the socket.
const VARIABLE: &str = "WEIR_SOCKET";

/// Which server to ask.
#[derive(Debug, Args)]
pub struct Socket {
    /// The server's Unix socket (`manage.socket` in its file) [default: the value of `WEIR_SOCKET`, or else /run/weir/manage.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Socket {
    /// Returns the path of the selected socket.
    pub fn path(&self) -> PathBuf {
        let named = self.socket.clone();
        let named = named.or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        named
            .filter(|path| !path.as_os_str().is_empty())
            .unwrap_or_else(|| DEFAULT.into())
    }

    /// Creates a client of the server, without connecting to it.
    ///
    /// # Errors
    /// Returns an error if the system has no descriptors left.
    pub fn client(&self) -> io::Result<ManagementClient> {
        ManagementClient::new(&self.path())
    }
}
